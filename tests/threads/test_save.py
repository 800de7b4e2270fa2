"""``cn commit``, ``cn push``, ``cn save``: what people edited gets into main, all else stays as it is."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.hubs import bare, cn_env, git, paths, read, tip, try_git
from tests.support.world import Node, World, content, picture

NOTE = "threads/adhoc/note.md"
DAILY = "threads/reflections/daily/20260205.md"
CONCERN = "state/mca/20260205-disk-1a2b3c4d.md"


@pytest.fixture
def alone(world: World) -> Node:
    """A hub without origin and without peers."""
    return world.hub("sigma", origin=False)


def put(node: Node, path: str, data: bytes | str) -> Path:
    file = node.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


def status(node: Node) -> list[str]:
    text = git(node.root, "status", "--porcelain", "--untracked-files=all", "-z")
    return sorted(line for line in text.split("\0") if line)


def changed(node: Node, since: str) -> list[str]:
    """The paths in which main differs from an earlier commit."""
    return git(node.root, "diff", "--name-only", "--no-renames", since, "main").split()


def test_what_people_edit_is_committed_byte_for_byte(alone: Node) -> None:
    before = tip(alone.root)
    files = {
        NOTE: b"\xff\xfe not text \r\n\0 at all",
        "threads/adhoc/sub/plan.txt": b"",
        DAILY: b"with\r\nline ends\r\n",
        CONCERN: b"# disk\n",
        "threads/adhoc/-rf.md": b"x",
        "threads/adhoc/a b\"'$(id).md": b"x",
        "threads/adhoc/family tree": b"git says of it '... tree missing', as long as main has none",
    }
    for path, data in files.items():
        put(alone, path, data).chmod(0o755)
    said = alone.cn("commit").stdout
    assert "✓ committed" in said
    for path, data in files.items():
        assert content(alone, path) == data
    modes = git(alone.root, "diff-tree", "-r", before, "main").splitlines()
    assert {line.split()[1] for line in modes} == {"100644"}
    assert len(modes) == len(files)
    assert status(alone) == []
    assert alone.cn("commit").stdout == "· nothing to commit\n"


def test_the_message(alone: Node) -> None:
    put(alone, NOTE, "one\n")
    alone.cn("commit", "-m", "Ideas for spring\n\nand more")
    assert git(alone.root, "log", "-1", "--format=%B").strip() == "Ideas for spring\n\nand more"
    put(alone, NOTE, "two\n")
    assert alone.cn("commit", "-m", " ", check=2).stderr
    alone.cn("commit")
    assert git(alone.root, "log", "-1", "--format=%an %s") == f"sigma cn: save {NOTE}"


def test_what_is_staged_or_elsewhere_stays_as_it_was(alone: Node) -> None:
    put(alone, "docs/new.md", "staged\n")
    put(alone, "docs/start.md", "staged\n")
    git(alone.root, "add", "docs")
    put(alone, "docs/start.md", "and edited\n")
    put(alone, "docs/other.md", "edited\n")
    put(alone, "loose.txt", "untracked\n")
    git(alone.root, "rm", "--quiet", "--cached", "README.md")
    before, index = status(alone), git(alone.root, "ls-files", "-s")
    put(alone, NOTE, "mine\n")
    alone.cn("commit")
    assert status(alone) == before
    entry = f"100644 {git(alone.root, 'rev-parse', f'main:{NOTE}')} 0\t{NOTE}"
    assert sorted(git(alone.root, "ls-files", "-s").split("\n")) == sorted([*index.split("\n"), entry])
    assert content(alone, "docs/start.md") == b"start\n"


def test_a_deletion_is_committed_as_one(alone: Node) -> None:
    alone.write({NOTE: "x\n", DAILY: "y\n", CONCERN: "# z\n"})
    for path in (NOTE, DAILY, CONCERN):
        (alone.root / path).unlink()
    refused = alone.cn("commit", check=1)
    assert "cn mca done" in refused.stderr
    there = paths(alone.root, "main")
    assert NOTE not in there
    assert DAILY not in there
    assert CONCERN in there
    assert status(alone) == [f" D {CONCERN}"]


def test_staged_as_it_is_or_not_at_all(alone: Node) -> None:
    alone.write({NOTE: "old\n", DAILY: "old\n"})
    put(alone, NOTE, "new\n")
    git(alone.root, "add", NOTE)
    git(alone.root, "rm", "--quiet", DAILY)
    alone.cn("commit")
    assert content(alone, NOTE) == b"new\n"
    assert content(alone, DAILY) is None
    assert status(alone) == []
    put(alone, NOTE, "staged\n")
    git(alone.root, "add", NOTE)
    put(alone, NOTE, "edited\n")
    put(alone, DAILY, "later\n")
    git(alone.root, "add", "-N", DAILY)
    before = status(alone)
    refused = alone.cn("commit", check=1)
    assert refused.stderr.count("git add") == 2
    assert status(alone) == before
    git(alone.root, "add", "threads")
    alone.cn("commit")
    assert (content(alone, NOTE), content(alone, DAILY)) == (b"edited\n", b"later\n")
    assert status(alone) == []


def test_what_was_taken_out_of_the_index_is_not_put_back(alone: Node) -> None:
    alone.write({NOTE: "old\n"})
    git(alone.root, "rm", "--quiet", "--cached", NOTE)
    put(alone, NOTE, "new\n")
    before = status(alone)
    alone.cn("commit", check=1)
    assert status(alone) == before
    assert content(alone, NOTE) == b"old\n"


def test_what_is_not_for_people_is_left(alone: Node) -> None:
    before = tip(alone.root)
    left = ["logs/inbox/20260205.md", "threads/mail/outbox/x.md", "threads/mail/sent/x.md", "state/turn.md"]
    left += ["state/ledger/pi/open", "state/queue/adhoc-x.md", "threads/inbox/done/x.md", "state/mca/done/x.md"]
    quiet = ["state/input.md", "state/output.md", "logs/cn.log.1", "threads/adhoc/.hidden.md"]
    quiet += [f"threads/adhoc/{n}" for n in ("a.md~", ".#a.md", "#a.md#", ".a.swp", "a.orig", "a.rej", "a.tmp")]
    for path in [*left, *quiet, "threads/inbox/stray.md", "skills/new.md"]:
        put(alone, path, "x\n")
    (alone.root / "state/peers.md").write_text("# changed\n")
    put(alone, "threads/adhoc/.gitattributes", "* text\n")
    done = alone.cn("commit", check=1)
    for path in left:
        assert f"not committed: {path} is cn's" in done.stdout, path
    for path in quiet:
        assert path not in done.stdout + done.stderr, path
    assert "git commit -- state/peers.md" in done.stdout
    assert "git add -- threads/adhoc/.gitattributes" in done.stdout
    assert "threads/inbox/stray.md is no thread cn knows" in done.stderr
    assert "skills" not in done.stdout
    assert "nothing to commit" in done.stdout
    assert tip(alone.root) == before


def test_hostile_files(alone: Node) -> None:
    alone.write({NOTE: "a file\n", "threads/adhoc/sub/x.md": "x\n", "threads/adhoc/linked.md": "y\n"})
    before = tip(alone.root)
    folder = alone.root / "threads/adhoc"
    (folder / "passwd.md").symlink_to("/etc/passwd")
    (folder / "linked.md").unlink()
    (folder / "linked.md").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.md")
    for name in ("a\nb.md", "red\x1b[31m.md", "rtl\u202egnp.md", "\udcff.md"):
        (folder / name).write_text("x\n")
    (alone.root / NOTE).unlink()
    put(alone, f"{NOTE}/inside.md", "x\n")
    shutil.rmtree(folder / "sub")
    (folder / "sub").write_text("a file now\n")
    (folder / "big.md").write_bytes(b"x" * (10 << 20))
    git(alone.root, "init", "--quiet", str(folder / "repo"))
    git(folder / "repo", "-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "--allow-empty", "-m", "x")
    there = picture(folder)
    done = alone.cn("commit", check=1)
    assert "nothing to commit" in done.stdout
    assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
    for told in ("passwd.md is a symlink", "linked.md is a symlink", "big.md has 10485760 bytes", "repo is a git"):
        assert told in done.stderr, told
    assert done.stderr.count("characters that do not show") == 4
    assert done.stderr.count("refused: ") == 12, done.stderr
    assert tip(alone.root) == before
    assert picture(folder) == there
    json.loads(alone.cn("commit", "--json", check=1).stdout)


def test_a_folder_behind_a_symlink_is_not_deleted(alone: Node, tmp_path: Path) -> None:
    alone.write({NOTE: "x\n"})
    before = tip(alone.root)
    (alone.root / "threads/adhoc").rename(tmp_path / "elsewhere")
    (alone.root / "threads/adhoc").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/note.md").write_text("changed\n")
    alone.cn("commit", check=1)
    assert tip(alone.root) == before


def test_a_read_only_file(alone: Node) -> None:
    put(alone, NOTE, "mine\n").chmod(0o444)
    alone.cn("commit")
    assert content(alone, NOTE) == b"mine\n"
    assert status(alone) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read(alone: Node) -> None:
    put(alone, NOTE, "mine\n").chmod(0)
    assert "cannot be read" in alone.cn("commit", check=1).stderr


def test_without_a_network(sigma: Node) -> None:
    git(sigma.root, "remote", "set-url", "origin", str(sigma.root / "nowhere.git"))
    put(sigma, NOTE, "mine\n")
    sigma.cn("commit")
    assert content(sigma, NOTE) == b"mine\n"
    assert "nothing was committed" in sigma.cn("push", check=1).stderr
    put(sigma, NOTE, "more\n")
    done = sigma.cn("save", check=1)
    assert "nothing was committed" not in done.stderr
    assert "check the network" in done.stderr
    assert "✓ committed" in done.stdout
    assert "not pushed" in done.stderr
    git(sigma.root, "remote", "set-url", "origin", sigma.url)
    assert "(2 new)" in sigma.cn("push").stdout
    assert content(sigma, NOTE, sigma.main) == b"more\n"
    assert "nothing to push" in sigma.cn("push").stdout


def test_an_origin_that_does_not_take_it(sigma: Node) -> None:
    git(sigma.home, "config", "core.bare", "false")  # main counts as checked out there
    put(sigma, NOTE, "mine\n")
    done = sigma.cn("save", check=1)
    assert "✓ committed" in done.stdout
    assert "origin did not take main" in done.stderr
    assert "nothing was committed" not in done.stderr


def test_the_next_run_pushes_too(sigma: Node) -> None:
    put(sigma, NOTE, "mine\n")
    sigma.cn("commit")
    assert tip(sigma.home, "main") != tip(sigma.root)
    sigma.sync()
    assert read(sigma.home, f"main:{NOTE}") == b"mine\n"


def test_push_needs_an_origin(alone: Node) -> None:
    assert "no origin" in alone.cn("push", check=1).stderr
    put(alone, NOTE, "mine\n")
    done = alone.cn("save", check=1)
    assert "✓ committed" in done.stdout
    assert "no origin" in done.stderr


def test_an_empty_origin_gets_main(alone: Node, tmp_path: Path) -> None:
    home = bare(tmp_path / "new.git")
    git(alone.root, "remote", "add", "origin", str(home))
    assert "✓ pushed main" in alone.cn("push").stdout
    assert tip(home, "main") == tip(alone.root)


def test_a_dry_run_changes_nothing(sigma: Node) -> None:
    put(sigma, NOTE, "mine\n")
    before = sigma.refs(), status(sigma), picture(sigma.home)
    for words in (("commit",), ("save",)):
        said = sigma.cn(*words, "--dry-run").stdout
        assert f"would: {NOTE}: commit its 5 bytes" in said
        assert "✓" not in said
    assert (sigma.refs(), status(sigma), picture(sigma.home)) == before
    sigma.cn("commit")
    said = sigma.cn("push", "--dry-run").stdout
    assert "would push main to origin" in said
    assert tip(sigma.home, "main") == before[0]["refs/heads/main"]


def test_only_on_main(alone: Node) -> None:
    git(alone.root, "switch", "--quiet", "-c", "other")
    put(alone, NOTE, "mine\n")
    for words in (("commit",), ("save",)):
        assert "git switch main" in alone.cn(*words, check=1).stderr
    assert content(alone, NOTE, "other") is None


# Pending threads.


def test_a_triage_that_was_committed_is_executed_once(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.write_triage(name, "do:merge")
    sigma.cn("save")
    assert b"## Triage" in (content(sigma, f"threads/inbox/{name}") or b"")
    assert sigma.threads() == [name], "a commit decides nothing"
    other = world.second(sigma)
    sigma.process()
    other.process()
    sigma.process()
    assert [r for r in sigma.rows("pi/proposal") if r[1] == "do:merge"] == [("pi/proposal", "do:merge", "✓ merged SHA")]
    assert head in git(sigma.root, "rev-list", "main")
    assert sigma.threads() == []
    assert sigma.main == tip(other.root)


def test_a_triage_committed_here_and_executed_elsewhere(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    other = world.second(sigma)
    other.sync()
    name = sigma.only_thread()
    sigma.write_triage(name, "delete:here")
    sigma.cn("commit")
    other.decide("pi/proposal", "delete:there")
    sigma.process()
    sigma.sync()
    assert [r[1] for r in sigma.rows() if r[2] == "✓ discarded"] == ["delete:there"]
    assert sigma.threads() == []
    assert (content(sigma, f"threads/inbox/{name}"), len(sigma.notices())) == (None, 1)


def test_a_pending_thread_that_was_deleted_comes_back(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    (sigma.root / "threads/inbox" / name).unlink()
    assert "stays pending" in sigma.cn("save").stdout
    sigma.sync()
    assert sigma.threads() == [name]


# Two clones.


def test_both_clones_change_other_lines(world: World, sigma: Node) -> None:
    sigma.write({NOTE: "one\ntwo\nthree\nfour\nfive\n"})
    other = world.second(sigma)
    put(sigma, NOTE, "ONE\ntwo\nthree\nfour\nfive\n")
    sigma.cn("save")
    put(other, NOTE, "one\ntwo\nthree\nfour\nFIVE\n")
    other.cn("save")
    assert content(other, NOTE) == b"ONE\ntwo\nthree\nfour\nFIVE\n"
    sigma.sync()
    assert (sigma.root / NOTE).read_text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert status(sigma) == status(other) == []


def test_both_clones_change_the_same_line(world: World, sigma: Node) -> None:
    sigma.write({NOTE: "one\n"})
    other = world.second(sigma)
    put(sigma, NOTE, "mine\n")
    sigma.cn("save")
    put(other, NOTE, "yours\n")
    done = other.cn("save", check=1)
    assert "✓ committed" in done.stdout
    assert f"conflict with origin's main in {NOTE}" in done.stderr
    assert content(other, NOTE) == b"yours\n"
    assert read(sigma.home, f"main:{NOTE}") == b"mine\n"
    assert try_git(other.root, "pull", "--quiet", "--no-rebase").returncode != 0
    put(other, NOTE, "mine\nyours\n")
    git(other.root, "commit", "--quiet", "-am", "both")
    other.cn("push")
    assert read(sigma.home, f"main:{NOTE}") == b"mine\nyours\n"


def overtaken(world: World, sigma: Node, mine: str, yours: str) -> Node:
    """Another clone in which a file was edited, and main got a later version meanwhile."""
    sigma.write({NOTE: "one\ntwo\nthree\nfour\nfive\n"})
    other = world.second(sigma)
    put(other, NOTE, yours)
    put(sigma, NOTE, mine)
    sigma.cn("save")
    assert "your text stays" in other.sync().stdout
    assert (other.root / NOTE).read_text() == yours
    return other


def test_of_two_edits_of_one_line_one_stays_as_is_told(world: World, sigma: Node) -> None:
    other = overtaken(world, sigma, "ONE\n", "one of mine\n")
    refused = other.cn("commit", check=1).stderr
    assert "was changed here and in main, and git cannot merge the two" in refused
    assert f"'git diff HEAD -- {NOTE}'" in refused
    (mine,) = re.findall(r"'(git commit .*)' keeps yours alone", refused)
    git(other.root, "add", NOTE)
    assert mine in other.cn("commit", check=1).stderr, "nothing was taken over, and git add alone says nothing new"
    assert "git cannot merge the two" in other.cn("status").stdout
    git(other.root, *shlex.split(mine)[1:])
    assert "git cannot merge the two" not in other.cn("status").stdout
    other.sync()
    assert read(sigma.home, f"main:{NOTE}") == b"one of mine\n"
    assert "nothing to commit" in other.cn("commit").stdout


def test_an_older_edit_takes_nothing_back(world: World, sigma: Node) -> None:
    other = overtaken(world, sigma, "ONE\ntwo\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour\nFIVE\n")
    assert "was changed here and in main" in other.cn("thread", "close", "note", check=1).stderr
    assert "both are in it" in other.cn("save").stdout
    assert content(other, NOTE) == (other.root / NOTE).read_bytes() == b"ONE\ntwo\nthree\nfour\nFIVE\n"
    assert status(other) == []
    assert not (other.root / ".git/cn/unplaced").exists()
    put(other, NOTE, "again\n")
    other.cn("save")
    assert content(other, NOTE) == b"again\n"


def test_what_git_cannot_merge_is_left_to_people(world: World, sigma: Node) -> None:
    other = overtaken(world, sigma, "mine\n", "yours\n")
    for _ in range(2):
        refused = other.cn("commit", check=1)
        assert "git cannot merge" in refused.stderr
        assert content(other, NOTE) == b"mine\n"
        assert (other.root / NOTE).read_text() == "yours\n"
    put(other, NOTE, "mine\nyours\n")
    other.cn("commit", check=1)
    git(other.root, "add", NOTE)
    other.cn("save")
    assert read(sigma.home, f"main:{NOTE}") == b"mine\nyours\n"
    assert status(other) == []


def test_the_same_name_in_both_clones(world: World, sigma: Node) -> None:
    other = world.second(sigma)
    put(other, NOTE, "yours\n")
    put(sigma, NOTE, "mine\n")
    sigma.cn("save")
    other.sync()
    assert "git cannot merge" in other.cn("commit", check=1).stderr
    assert (other.root / NOTE).read_text() == "yours\n"
    assert content(other, NOTE) == b"mine\n"


def test_what_was_staged_before_is_no_answer(world: World, sigma: Node) -> None:
    sigma.write({NOTE: "one\n"})
    other = world.second(sigma)
    put(other, NOTE, "yours\n")
    git(other.root, "add", NOTE)
    put(sigma, NOTE, "mine\n")
    sigma.cn("save")
    other.sync()
    other.cn("commit", check=1)
    assert content(other, NOTE) == b"mine\n"


# Interrupted.


def test_a_killed_save_is_finished_by_the_next(sigma: Node) -> None:
    for number in range(12):
        put(sigma, NOTE, f"{number}\n")
        child = subprocess.Popen(
            [sys.executable, "-m", "cn", "--hub", str(sigma.root), "save"],
            env=cn_env(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.15 + number * 0.06)
        child.send_signal(signal.SIGKILL)
        child.wait()
    sigma.cn("save")
    assert read(sigma.home, f"main:{NOTE}") == b"11\n"
    assert (sigma.root / NOTE).read_text() == "11\n"
    assert status(sigma) == []
    sigma.cn("doctor")


def test_the_note_of_a_push_survives_a_commit_without_origin(sigma: Node) -> None:
    # A run killed between push and journal has published: its local share is done by one that asks origin.
    note = sigma.root / ".git/cn/push" / ("a" * 40)
    put(sigma, NOTE, "x\n")
    sigma.cn("save")
    note.parent.mkdir(parents=True, exist_ok=True)
    plain = {"format": 1, "token": "t", "old": tip(sigma.root), "new": "a" * 40, "message": "m", "changes": []}
    plain |= {"inputs": {}, "refs": [], "appends": [], "files": [], "sizes": [], "index_hash": "", "covers": []}
    note.write_text(json.dumps({**plain, "expected": "b" * 40}))
    put(sigma, NOTE, "y\n")
    sigma.cn("commit")
    assert note.exists()
    sigma.cn("push")
    assert not note.exists(), "origin went another way"
