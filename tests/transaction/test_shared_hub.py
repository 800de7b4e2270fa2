"""A hub that several users of a machine share."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cn.git.repository import open_hub, shared_mask
from cn.transaction.journal import Journal, journal_path, push_path, read_journal, write_journal
from cn.values.errors import Blocked
from cn.values.names import Oid
from tests.support.hubs import commit, git, tip
from tests.support.permission import obedient
from tests.support.world import Node, World

OTHER = 4_000_002
"""The id of a user that nobody is."""


@pytest.mark.parametrize(
    ("setting", "mode"),
    [("", 0o600), ("umask", 0o600), ("0640", 0o600), ("0", 0o600), ("false", 0o600)]
    + [(word, 0o660) for word in ("group", "true", "1", "all", "world", "2", "0660")],
)
def test_the_notes_of_a_run_are_for_the_group_with_which_a_repository_is_shared(
    sigma: Node, setting: str, mode: int
) -> None:
    if setting:
        git(sigma.root, "config", "core.sharedRepository", setting)
    hub = open_hub(sigma.root)
    before = os.umask(0o002)
    try:
        write_journal(journal_path(hub), Journal("t", Oid("1" * 40), Oid("2" * 40), "cn: x"), hub.private_mode)
    finally:
        os.umask(before)
    assert journal_path(hub).stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("is_push", [False, True])
def test_a_note_that_only_its_owner_may_read_names_the_owner(sigma: Node, is_push: bool) -> None:
    hub, main = open_hub(sigma.root), Oid(tip(sigma.root))
    path = push_path(hub, main) if is_push else journal_path(hub)
    write_journal(path, Journal("t", main, main, "cn: x"))
    os.chown(path, OTHER, OTHER)
    done = obedient(sigma, "inbox", "process")
    assert done.returncode == 1
    assert f"let user {OTHER} run 'cn sync' here" in done.stderr
    assert "move it away" not in done.stderr
    assert f"a run of user {OTHER}'s was interrupted" in obedient(sigma, "doctor").stdout


def test_what_is_no_file_is_no_note_of_anybodys(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    with pytest.raises(Blocked, match="it is no file"):
        read_journal(tmp_path / "journal")


def test_an_index_that_takes_back_what_came_to_main_is_a_problem(sigma: Node) -> None:
    commit(sigma.root, {"mine.md": "of a person\n"})
    before = tip(sigma.root)
    (sigma.root / "late.md").write_text("x\n")
    git(sigma.root, "add", "late.md")
    tree = git(sigma.root, "write-tree").strip()
    new = git(sigma.root, "commit-tree", tree, "-p", before, "-m", "Merge pi/late").strip()
    git(sigma.root, "update-ref", "-m", "cn: pi/late do:merge by sigma", "refs/heads/main", new)
    git(sigma.root, "rm", "-q", "--cached", "mine.md")
    assert "the index has" not in sigma.cn("doctor", check=None).stdout
    git(sigma.root, "rm", "-q", "--cached", "late.md")
    found = sigma.cn("doctor", check=1).stdout
    assert "the index has late.md as main had it before a commit of cn" in found
    git(sigma.root, "restore", "--source=HEAD", "--staged", "--worktree", "--", "late.md")
    assert "the index has" not in sigma.cn("doctor", check=None).stdout


def test_no_file_of_ours_may_be_written_by_others_whatever_the_umask(tmp_path: Path, template: Path) -> None:
    world = World(tmp_path, template)
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "first")
    before = set(sigma.root.rglob("*"))
    mask = os.umask(0)
    try:
        sigma.sync()
    finally:
        os.umask(mask)
    made = {path: path.lstat().st_mode for path in set(sigma.root.rglob("*")) - before}
    assert any(path.parent.name == "inbox" for path in made)
    assert not [path for path, mode in made.items() if mode & stat.S_IWOTH and not stat.S_ISLNK(mode)]
    assert any(mode & stat.S_IWGRP for path, mode in made.items() if path.parent.name == "inbox")
    assert "every user of this machine may write" not in sigma.cn("doctor").stdout


@pytest.mark.parametrize("place", [".", ".git", "threads", "threads/inbox"])
def test_what_others_may_write_in_a_hub_is_named(sigma: Node, place: str) -> None:
    (sigma.root / "threads/inbox").mkdir(parents=True, exist_ok=True)
    (sigma.root / place).chmod(0o757)
    done = sigma.cn("doctor", check=1)
    assert f"every user of this machine may write {place}" in done.stdout
    assert "chmod -R o-w" in done.stdout


MASKS = {"group": (0o077, 0o007), "true": (0o022, 0o002), "all": (0o077, 0o002), "0660": (0o022, 0o007)}
MASKS |= {"0640": (0o002, 0o027), "umask": (0o077, 0o077), "": (0o022, 0o022)}


@pytest.mark.parametrize(("setting", "mask", "then"), [(word, *masks) for word, masks in MASKS.items()])
def test_the_umask_of_a_shared_repository(setting: str, mask: int, then: int) -> None:
    assert shared_mask(setting, mask) == then


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_all_that_a_run_makes_in_a_shared_hub_is_its_groups_whatever_the_umask(
    tmp_path: Path, template: Path, mask: int
) -> None:
    world = World(tmp_path, template)
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "first")
    git(sigma.root, "config", "core.sharedRepository", "group")
    before = set(sigma.root.rglob("*"))
    old = os.umask(mask)
    try:
        sigma.sync()
        sigma.decide("pi/first", "do:merge")
        sigma.cn("send", "pi", "hello")
    finally:
        os.umask(old)
    made = {path: path.lstat().st_mode for path in set(sigma.root.rglob("*")) - before}
    assert {"cn.log", "local.json", "lock"} <= {path.name for path in made}
    objects = sigma.root / ".git/objects"
    closed = [
        (str(path), oct(mode))
        for path, mode in made.items()
        if (mode & 0o060 != 0o060 or (stat.S_ISDIR(mode) and not mode & 0o010)) and objects not in path.parents
    ]
    assert closed == []
    assert not [path for path, mode in made.items() if mode & 0o007 and mask == 0o077]


def test_what_of_ours_is_closed_to_the_group_is_named_and_repaired(sigma: Node) -> None:
    sigma.sync()
    assert "which is shared" not in sigma.cn("doctor").stdout
    git(sigma.root, "config", "core.sharedRepository", "group")
    for path in (sigma.root, *sigma.root.rglob("*")):
        path.chmod(path.lstat().st_mode & ~0o022)
    secret = sigma.root / ".git/cn/web.json"
    secret.write_text("{}")
    secret.chmod(0o600)
    said = sigma.cn("doctor", check=1).stdout
    assert "of yours in this hub, which is shared, cannot be written by its group" in said
    assert "'cn doctor --fix' does" in said
    sigma.cn("doctor", "--fix")
    assert (sigma.root / "threads/inbox").stat().st_mode & 0o2070 == 0o2070
    assert (sigma.root / ".git/cn/local.json").stat().st_mode & 0o060 == 0o060
    assert secret.stat().st_mode & 0o777 == 0o600
    assert "which is shared" not in sigma.cn("doctor").stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_others_closed_to_the_group_is_named_with_what_they_have_to_run(sigma: Node) -> None:
    sigma.sync()
    git(sigma.root, "config", "core.sharedRepository", "group")
    sigma.cn("doctor", "--fix", check=None)
    log = sigma.root / "logs/cn.log"
    log.touch()
    log.chmod(0o644)
    os.chown(log, OTHER, log.stat().st_gid)
    said = obedient(sigma, "doctor").stdout
    assert (
        f"1 place of user {OTHER}'s in this hub, which is shared, cannot be written by its group: logs/cn.log" in said
    )
    assert f"let user {OTHER} run 'chmod g+rwX -- {log}'" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_decision_that_we_may_not_read_is_not_overlooked_in_silence(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "delete:no")
    thread = sigma.root / "threads/inbox" / sigma.only_thread()
    thread.chmod(0o600)
    os.chown(thread, OTHER, OTHER)
    told = f"{thread.relative_to(sigma.root)} cannot be read: Permission denied; it is user {OTHER}'s"
    remedy = f"let user {OTHER} run 'chgrp {os.getegid()} -- {thread}', then 'chmod g+rw -- {thread}'"
    for words in (("status",), ("inbox", "process"), ("doctor",), ("status",)):
        done = obedient(sigma, *words)
        said = done.stdout + done.stderr
        assert said.count(told) == 1, (words, said)
        assert remedy in said
    thread.chmod(0o644)
    assert "delete:no" in obedient(sigma, "inbox", "process").stdout
    assert told not in obedient(sigma, "status").stdout


HER_WORDS = "\nNOTE: an hour of somebody's work\n"


@pytest.mark.parametrize(
    "words",
    [
        ("inbox", "triage", "pi/proposal", "delete:no"),
        ("inbox", "triage", "--dry-run", "pi/proposal", "delete:no"),
        ("delete", "pi/proposal", "--reason", "no"),
        ("done", "pi/proposal"),
        ("defer", "pi/proposal", "--reason", "later"),
        ("comment", "pi/proposal", "Why?"),
    ],
)
def test_what_we_may_not_read_is_not_written_over(world: World, sigma: Node, pi: Node, words: tuple[str, ...]) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    thread = sigma.root / "threads/inbox" / sigma.only_thread()
    hers = thread.read_text() + HER_WORDS
    thread.write_text(hers)
    thread.chmod(0)
    before = tip(sigma.root)
    done = obedient(sigma, *words)
    assert done.returncode == 1, done.stdout
    assert "cannot be read: Permission denied; it is yours" in done.stderr
    assert f"run 'chmod u+rw -- {thread}'" in done.stderr
    assert thread.stat().st_mode & 0o777 == 0
    assert thread.read_text() == hers
    assert "✓" not in done.stdout
    assert tip(sigma.root) == before or words[0] == "comment"  # the draft of what was said is kept
    assert "nobody else can decide it" in obedient(sigma, "doctor").stdout


def test_a_run_that_writes_a_thread_anew_leaves_what_it_may_not_read(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    thread = sigma.root / "threads/inbox" / sigma.only_thread()
    hers = thread.read_text() + HER_WORDS
    thread.write_text(hers)
    thread.chmod(0)
    world.propose(pi, sigma, files={"more.md": "more\n"}, force=True)
    obedient(sigma, "sync")
    obedient(sigma, "inbox", "process")
    assert thread.read_text() == hers


def test_a_thread_of_our_own_that_we_may_not_read_is_not_decided(sigma: Node) -> None:
    sigma.cn("adhoc", "Plan")
    (thread,) = (sigma.root / "threads/adhoc").glob("*.md")
    thread.write_text(hers := thread.read_text() + HER_WORDS)
    thread.chmod(0)
    done = obedient(sigma, "done", f"adhoc/{thread.stem}")
    assert done.returncode == 1
    assert "cannot be read: Permission denied; it is yours" in done.stderr
    assert thread.read_text() == hers
