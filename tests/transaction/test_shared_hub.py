"""A hub that several users of a machine share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.transaction.journal import Journal, journal_path, push_path, read_journal, write_journal
from cn.values.errors import Blocked
from cn.values.names import Oid
from tests.support.hubs import commit, git, tip
from tests.support.permission import obedient
from tests.support.world import Node

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
