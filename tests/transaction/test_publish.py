"""Steps 4 to 10 one by one: index, work tree, refs, appended text."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.git.entries import read_changes
from cn.git.repository import Hub, open_hub
from cn.run.run import find_unplaced
from cn.system import files
from cn.system.files import append_once
from cn.transaction import checkout, publish
from cn.transaction.checkout import sweep_asides
from cn.transaction.journal import Journal, LocalAppend, LocalFile, RefUpdate, read_journal
from cn.transaction.publish import MainMoved, lock_path, write_refs
from cn.transaction.unplaced import read_unplaced
from cn.values.errors import Blocked, Refused
from cn.values.names import Oid
from tests.support.hubs import commit, git, tip, work, write_commit

INBOX = "threads/inbox/20260101-pi-x.md"


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    root = work(tmp_path / "hub", "sigma")
    first = {".cn/hub.yaml": "name: sigma\n", INBOX: "# x\n", "docs/d.md": "old\n", "docs/e.md": "old\n"}
    commit(root, first, "init")
    return open_hub(root)


def go(hub: Hub, wanted: dict[str, str | None], modes: dict[str, str] | None = None, **more: object) -> list[str]:
    old = Oid(tip(hub.root, "main"))
    new = Oid(write_commit(hub.root, wanted, "new", [old], modes=modes))
    words = {"token": os.urandom(4).hex(), "old": old, "new": new, "message": "cn: test", **more}
    journal = Journal(changes=tuple(read_changes(hub.git, old, new)), **words)  # type: ignore[arg-type]
    return publish.publish(hub, journal)


def status(hub: Hub) -> str:
    return git(hub.root, "status", "--porcelain")


def at_move(monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]) -> None:
    """Do something at the last instant before a working file is moved aside."""
    real = files.move

    def move(source: str, target: str) -> None:
        act(Path(source))
        real(source, target)

    monkeypatch.setattr(files, "move", move)


def test_main_index_and_files_follow(hub: Hub) -> None:
    assert go(hub, {"docs/d.md": "new\n", "docs/e.md": None, "a/b/c": "1\n"}) == []
    assert status(hub) == ""
    assert (hub.root / "docs/d.md").read_text() == "new\n"
    assert (hub.root / "a/b/c").read_text() == "1\n"
    assert not (hub.root / "docs/e.md").exists()
    assert git(hub.root, "reflog", "-1", "--format=%gs", "main") == "cn: test"
    assert git(hub.root, "reflog", "-1", "--format=%gs", "HEAD") == "cn: test"
    assert not lock_path(hub).exists()
    assert read_journal(hub.state / "journal") is None
    # The index knows the new files: git need not read them again.
    assert git(hub.root, "diff-files") == ""


def test_an_index_that_is_not_there_is_made_as_git_reset_makes_it(hub: Hub) -> None:
    """An empty one would stage all that main has as deleted, and the next ``git commit`` of a person carry that out."""
    (hub.root / ".git/index").unlink()
    assert go(hub, {"docs/d.md": "new\n", "a": "1\n"}) == []
    assert status(hub) == ""


def test_emptied_folders_go_but_the_layout_stays(hub: Hub) -> None:
    go(hub, {"docs/d.md": None, "docs/e.md": None, INBOX: None})
    assert not (hub.root / "docs").exists()
    assert (hub.root / "threads/inbox").is_dir()


def test_executable_bits_links_and_folders_for_files(hub: Hub) -> None:
    go(
        hub,
        {"run": "#!/bin/sh\n", "link": "docs/d.md", "docs/e.md": None, "docs/e.md/x": "deep\n"},
        {"run": "100755", "link": "120000"},
    )
    assert (hub.root / "run").stat().st_mode & stat.S_IXUSR
    assert os.readlink(hub.root / "link") == "docs/d.md"
    assert (hub.root / "docs/e.md/x").read_text() == "deep\n"
    go(hub, {"docs/e.md/x": None, "docs/e.md": "file again\n", "run": "#!/bin/sh\n"}, {"run": "100644"})
    assert status(hub) == ""
    assert (hub.root / "docs/e.md").read_text() == "file again\n"
    assert not (hub.root / "run").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("name", ['q"uote', "new\nline", " space ", "ümlaut", "-dash", "back\\slash", "*"])
def test_odd_names(hub: Hub, name: str) -> None:
    assert go(hub, {name: "1\n", "docs/" + name: "2\n"}) == []
    assert go(hub, {name: "3\n", "docs/" + name: None}) == []
    assert (hub.root / name).read_text() == "3\n"
    assert status(hub) == ""


def test_line_ends_and_filters_are_git_s(hub: Hub) -> None:
    git(hub.root, "config", "filter.shout.smudge", "tr a-z A-Z")
    git(hub.root, "config", "filter.shout.clean", "tr A-Z a-z")
    commit(hub.root, {".gitattributes": "*.bat eol=crlf\n*.up filter=shout\n", "x.bat": "1\r\n", "y.up": "OLD\n"})
    assert status(hub) == ""
    assert go(hub, {"x.bat": "2\n", "y.up": "new\n", "z.bat": "3\n"}) == []
    assert (hub.root / "x.bat").read_bytes() == b"2\r\n"
    assert (hub.root / "y.up").read_bytes() == b"NEW\n"
    assert (hub.root / "z.bat").read_bytes() == b"3\r\n"
    assert status(hub) == ""


_SPEAKS = "echo Downloading b >&2; echo Error: no such object >&2; exit 3"


@pytest.mark.parametrize("kind", ["hangs", "fails", "speaks"])
def test_a_filter_keeps_no_other_file_away_and_is_tried_again(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    git(hub.root, "config", "filter.fetch.smudge", {"hangs": "sleep 600", "fails": "exit 3", "speaks": _SPEAKS}[kind])
    git(hub.root, "config", "filter.fetch.clean", "cat")
    git(hub.root, "config", "filter.fetch.required", "true")
    commit(hub.root, {".gitattributes": "*.big filter=fetch\n*.up filter=shout\n"})
    git(hub.root, "config", "filter.shout.smudge", "tr a-z A-Z")
    git(hub.root, "config", "filter.shout.clean", "tr A-Z a-z")
    hub = open_hub(hub.root)
    monkeypatch.setattr(checkout, "FILTER_SECONDS", 1.5)
    go(hub, {"a.up": "a\n", "b.big": "b\n", "c.up": "c\n", "docs/d.md": "d\n", "e.big": "e\n", "z.up": "z\n"})
    here = {name: (hub.root / name).read_text() for name in ("a.up", "c.up", "docs/d.md", "z.up")}
    assert here == {"a.up": "A\n", "c.up": "C\n", "docs/d.md": "d\n", "z.up": "Z\n"}
    left = read_unplaced(hub).left
    assert set(left) == {"b.big", "e.big"}
    assert status(hub) == ""
    (told,) = find_unplaced(hub).values()
    assert "b.big and 1 more" in told.text
    said = {"fails": "external filter 'exit 3' failed", "speaks": "exit 3' failed 3: Error: no such object"}
    assert said.get(kind, "gave no answer within 1.5 s") in told.text
    assert "git check-attr filter -- b.big" in told.remedy
    git(hub.root, "config", "filter.fetch.smudge", "cat")
    assert checkout.place_again(open_hub(hub.root), Oid(tip(hub.root, "main")))
    assert (hub.root / "e.big").read_text() == "e\n"
    assert not read_unplaced(hub).left


def test_more_filters_that_hang_leave_the_rest_to_the_next_run(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    git(hub.root, "config", "filter.fetch.smudge", "sleep 600")
    commit(hub.root, {".gitattributes": "*.big filter=fetch\n"})
    monkeypatch.setattr(checkout, "FILTER_SECONDS", 0.5)
    names = {f"{n}.big": "b\n" for n in range(9)}
    go(open_hub(hub.root), {**names, "docs/d.md": "d\n"})
    assert (hub.root / "docs/d.md").read_text() == "d\n"
    reasons = [one.reason for one in read_unplaced(hub).left.values()]
    assert len(reasons) == 9
    assert len([reason for reason in reasons if "filter" in reason]) == 2


def test_staged_and_unstaged_edits_elsewhere_stay(hub: Hub) -> None:
    commit(hub.root, {"both": "1\n", "gone": "1\n"})
    (hub.root / "both").write_text("2\n")
    (hub.root / "added").write_text("a\n")
    git(hub.root, "add", "both", "added")
    git(hub.root, "rm", "-q", "--cached", "gone")
    git(hub.root, "add", "-N", "--", "docs/e.md")
    (hub.root / "both").write_text("3\n")
    before = git(hub.root, "ls-files", "-s", "both", "added", "gone"), status(hub)
    assert go(hub, {"docs/d.md": "new\n"}) == []
    assert (git(hub.root, "ls-files", "-s", "both", "added", "gone"), status(hub)) == before
    assert (hub.root / "both").read_text() == "3\n"


def test_a_moved_main_publishes_nothing(hub: Hub) -> None:
    old = Oid(tip(hub.root))
    new = Oid(write_commit(hub.root, {"docs/d.md": "new\n"}, "new", [old]))
    theirs = commit(hub.root, {"mine": "1\n"})
    journal = Journal("t", old, new, "cn: x", tuple(read_changes(hub.git, old, new)))
    with pytest.raises(MainMoved):
        publish.publish(hub, journal)
    assert tip(hub.root) == theirs
    assert status(hub) == ""
    assert not lock_path(hub).exists()
    assert read_journal(hub.state / "journal") is None


def test_a_commit_that_was_pruned_before_main_moved_is_no_stale_lock(hub: Hub) -> None:
    before = tip(hub.root)
    with pytest.raises(Blocked) as caught:
        publish.move_main(hub, Journal("t", Oid(before), Oid("1" * len(before)), "cn: x"))
    assert "nonexistent object" in caught.value.text
    assert caught.value.hint.startswith("if 'git prune' or 'git gc --prune=now' ran meanwhile")
    assert caught.value.hint.endswith("run again, main here is as it was")
    assert tip(hub.root) == before


def test_a_held_index_is_waited_for_then_refused(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tip(hub.root)
    lock_path(hub).write_text("somebody's")
    monkeypatch.setattr(publish, "LOCK_WAIT", 0.1)
    with pytest.raises(Refused, match=r"index\.lock exists") as told:
        publish.publish(hub, Journal("t", Oid(before), Oid(before[::-1]), "cn: x"))
    assert "removed" in told.value.hint
    assert lock_path(hub).read_text() == "somebody's"
    assert tip(hub.root) == before
    assert read_journal(hub.state / "journal") is None


def test_split_index_and_version_4(hub: Hub) -> None:
    git(hub.root, "update-index", "--index-version", "4")
    git(hub.root, "update-index", "--split-index")
    (hub.root / "staged").write_text("1\n")
    git(hub.root, "add", "staged")
    assert go(hub, {"docs/d.md": "new\n"}) == []
    assert status(hub) == "A  staged"


class TestWhatIsInTheWay:
    def test_an_editor_that_saves_at_the_last_instant_keeps_its_text(
        self, hub: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at_move(monkeypatch, lambda path: files.write_file(path, b"saved just now\n"))
        told = go(hub, {INBOX: "# new\n"})
        assert (hub.root / INBOX).read_text() == "saved just now\n"
        assert [INBOX in t and "your text stays" in t for t in told] == [True]

    def test_an_editor_that_renames_its_own_over_it(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        real = files.place

        def place(source: str, target: str) -> None:
            if target.endswith("/d.md"):
                Path(target).write_text("mine\n")
            real(source, target)

        monkeypatch.setattr(files, "place", place)
        told = go(hub, {"docs/d.md": "new\n"})
        assert (hub.root / "docs/d.md").read_text() == "mine\n"
        assert told == ["docs/d.md was changed at this moment: your text stays in the work tree, main has another"]

    def test_an_editor_that_writes_to_the_old_file_later_is_found_at_the_next_run(self, hub: Hub) -> None:
        with (hub.root / "docs/d.md").open("a") as editor:
            go(hub, {"docs/d.md": "new\n"})
            editor.write("late\n")
        told = sweep_asides(hub)
        assert len(told) == 1
        assert "docs/d.md was written to while cn replaced it" in told[0]
        kept = hub.root / told[0].partition("kept at ")[2]
        assert kept.read_text() == "old\nlate\n"
        assert sweep_asides(hub) == []
        assert list((hub.state / "old").iterdir()) == []

    def test_an_edit_of_what_main_took_away_stays_and_is_told(self, hub: Hub) -> None:
        path = "threads/adhoc/20260101-x.md"
        go(hub, {path: "# x\n"})
        (hub.root / path).write_text("# edited\n")
        (told,) = go(hub, {path: None})
        assert (hub.root / path).read_text() == "# edited\n"
        assert told == f"{path} was changed here meanwhile: your text stays in the work tree, main has it no more"

    def test_a_pending_thread_edited_meanwhile_stays(self, hub: Hub) -> None:
        (hub.root / INBOX).write_text("# edited\n")
        told = go(hub, {INBOX: None, "threads/inbox/done/20260101-pi-x.md": "done\n"})
        assert (hub.root / INBOX).read_text() == "# edited\n"
        assert told == []  # cn.inbox.superseded, which takes it away, says what becomes of it

    def test_an_input_is_replaced(self, hub: Hub) -> None:
        (hub.root / INBOX).write_text("# edited\n")
        git(hub.root, "add", INBOX)
        used = Oid(git(hub.root, "hash-object", INBOX))
        assert go(hub, {INBOX: None}, inputs={INBOX: used}) == []
        assert not (hub.root / INBOX).exists()
        assert status(hub) == ""

    @pytest.mark.parametrize("staged", [False, True])
    def test_where_main_decides_the_other_copy_is_set_aside(self, hub: Hub, staged: bool) -> None:
        log = "logs/inbox/20260101.md"
        commit(hub.root, {log: "| a |\n"})
        (hub.root / log).write_text("scribble\n")
        if staged:
            git(hub.root, "add", log)
        told = go(hub, {log: "| a |\n| b |\n"})
        assert (hub.root / log).read_text() == "| a |\n| b |\n"
        assert status(hub) == ""
        kept = [hub.root / t.partition("kept at ")[2] for t in told]
        assert {k.read_text() for k in kept} == {"scribble\n"}
        assert len(kept) == (2 if staged else 1)

    def test_a_staged_edit_of_a_pending_thread_stays_staged(self, hub: Hub) -> None:
        (hub.root / INBOX).write_text("# staged\n")
        git(hub.root, "add", INBOX)
        told = go(hub, {INBOX: "# new\n"})
        assert git(hub.root, "show", f":{INBOX}") == "# staged"
        assert (hub.root / INBOX).read_text() == "# staged\n"
        assert any("stays staged" in t for t in told)

    @pytest.mark.parametrize("what", ["link", "file", "dangling"])
    def test_nothing_is_written_through_a_parent_that_is_no_folder(self, hub: Hub, tmp_path: Path, what: str) -> None:
        (tmp_path / "outside").mkdir()
        match what:
            case "link":
                (hub.root / "logs").symlink_to(tmp_path / "outside")
            case "dangling":
                (hub.root / "logs").symlink_to(tmp_path / "nowhere")
            case _:
                (hub.root / "logs").write_text("a file\n")
        assert go(hub, {"logs/inbox/20260101.md": "| a |\n"}) == []
        assert read_unplaced(hub).left["logs/inbox/20260101.md"].reason == "logs is something else here"
        assert os.listdir(tmp_path / "outside") == []
        assert not (tmp_path / "nowhere").exists()

    def test_a_name_that_the_file_system_refuses_takes_no_other_with_it(self, hub: Hub) -> None:
        long = [f"docs/{'x' * 300}.md", f"docs/{'y' * 300}.md"]
        names = [long[0], "docs/a.md", long[1], "docs/z.md"]
        assert go(hub, dict.fromkeys(names, "new\n")) == []
        assert [(hub.root / name).read_text() for name in names[1::2]] == ["new\n", "new\n"]
        assert {path: one.reason for path, one in read_unplaced(hub).left.items()} == dict.fromkeys(
            long, "File name too long"
        )

    def test_a_missing_thread_is_restored_a_removed_document_is_not(self, hub: Hub) -> None:
        (hub.root / INBOX).unlink()
        (hub.root / "docs/d.md").unlink()
        told = go(hub, {INBOX: "# new\n", "docs/d.md": "new\n"})
        assert (hub.root / INBOX).read_text() == "# new\n"
        assert not (hub.root / "docs/d.md").exists()
        assert "docs/d.md was removed here meanwhile" in told[0]


class TestRefs:
    def test_set_delete_and_swap_for_a_folder(self, hub: Hub) -> None:
        here = Oid(tip(hub.root))
        assert write_refs(hub, [RefUpdate("refs/cn/a", here), RefUpdate("refs/cn/none", None)]) == []
        git(hub.root, "pack-refs", "--all")
        assert write_refs(hub, [RefUpdate("refs/cn/a/b", here), RefUpdate("refs/cn/a", None)]) == []
        assert git(hub.root, "for-each-ref", "--format=%(refname)", "refs/cn") == "refs/cn/a/b"

    def test_one_that_fails_is_told_and_the_others_are_written(self, hub: Hub) -> None:
        here = Oid(tip(hub.root))
        told = write_refs(hub, [RefUpdate("refs/cn/a", Oid("1" * 40)), RefUpdate("refs/cn/b", here)])
        assert len(told) == 1
        assert "refs/cn/a cannot be written" in told[0]
        assert tip(hub.root, "refs/cn/b") == here

    def test_a_pin_that_fails_names_the_next_step(self, hub: Hub) -> None:
        (told,) = write_refs(hub, [RefUpdate("refs/cn/pins/pi/in/x", Oid("1" * 40))])
        assert told.endswith("; the next 'cn sync' tries it again")

    @pytest.mark.parametrize("ref", ["refs/cn/a", "refs/remotes/origin/main"])
    @pytest.mark.parametrize("content", ["", "same"])
    def test_a_lock_that_a_killed_git_left_is_removed(
        self, hub: Hub, content: str, ref: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publish, "_STALE_LOOKS", 2)
        monkeypatch.setattr(publish, "_REF_WAIT", 0.1)
        here = Oid(tip(hub.root))
        lock = hub.git_dir / f"{ref}.lock"
        lock.parent.mkdir(parents=True)
        lock.write_text(content and f"{here}\n")
        assert write_refs(hub, [RefUpdate(ref, here)]) == []
        assert tip(hub.root, ref) == here

    def test_a_lock_of_another_git_on_what_is_not_ours_stays(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publish, "_REF_WAIT", 0.1)
        lock = hub.git_dir / "refs/remotes/origin/main.lock"
        lock.parent.mkdir(parents=True)
        lock.write_text(f"{'1' * 40}\n")
        assert write_refs(hub, [RefUpdate("refs/remotes/origin/main", Oid(tip(hub.root)))]) == []
        assert lock.exists()


class TestAppend:
    @pytest.mark.parametrize("since", ["", "li", "line\n"])
    def test_text_comes_exactly_once_whatever_a_killed_run_wrote(self, tmp_path: Path, since: str) -> None:
        log = tmp_path / "logs/cn.log"
        log.parent.mkdir()
        log.write_text("line\n" + since)
        append_once(log, "line\n", 5)
        assert log.read_text() == "line\nline\n"

    def test_others_may_have_written_meanwhile(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        log.write_text("a\nother\nline\nmore\n")
        append_once(log, "line\n", 2)
        assert log.read_text() == "a\nother\nline\nmore\n"

    def test_a_rotated_file_starts_anew(self, tmp_path: Path) -> None:
        append_once(tmp_path / "log", "line\n", 500)
        assert (tmp_path / "log").read_text() == "line\n"

    def test_no_symlink_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "log").symlink_to("precious")
        with pytest.raises(Refused, match="cannot append"):
            append_once(tmp_path / "log", "line\n", 0)
        assert not (tmp_path / "precious").exists()

    def test_no_symlinked_folder_is_followed(self, hub: Hub, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (hub.root / "logs").symlink_to(elsewhere)
        here = Oid(tip(hub.root))
        appends = (LocalAppend("logs/cn.log", "line\n"),)
        with pytest.raises(Refused, match="is not a real folder"):
            publish.publish(hub, Journal("t", here, here, "m", appends=appends))
        assert list(elsewhere.iterdir()) == []

    def test_nothing_is_removed_behind_a_symlinked_folder(self, hub: Hub, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "input.md").write_text("theirs\n")
        (hub.root / "state").symlink_to(elsewhere)
        here = Oid(tip(hub.root))
        files = (LocalFile("state/input.md", None), LocalFile(str(elsewhere / "input.md"), None))
        told = publish.publish(hub, Journal("t", here, here, "m", files=files))
        assert (elsewhere / "input.md").read_text() == "theirs\n"
        assert [line.partition(" is ")[2] for line in told] == [
            "not in this hub: what an interrupted run had to do there is left out"
        ]

    def test_several_to_one_file_in_order(self, hub: Hub) -> None:
        log = hub.root / "logs/cn.log"
        here = Oid(tip(hub.root))
        appends = (LocalAppend("logs/cn.log", "1\n"), LocalAppend("logs/cn.log", "2\n"))
        publish.publish(hub, Journal("t", here, here, "m", appends=appends))
        assert log.read_text() == "1\n2\n"
