"""One run, one transaction: plan, push, publish, and what a killed run left."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.git.entries import read_changes
from cn.git.fast_import import FileChange, build_commit
from cn.git.objects import read_object
from cn.git.remote import Push
from cn.git.repository import Hub, open_hub
from cn.transaction import commit as transaction
from cn.transaction import publish as publishing
from cn.transaction import push as pushing
from cn.transaction.base import Base, list_origin, observe_base
from cn.transaction.commit import Draft, local_changes
from cn.transaction.journal import (
    Journal,
    LocalAppend,
    LocalFile,
    RefUpdate,
    journal_path,
    read_pushes,
    sort_pushes,
    write_journal,
)
from cn.transaction.lock import hub_lock
from cn.transaction.publish import recover
from cn.values.errors import Refused
from cn.values.names import HubPath, Oid
from tests.support.hubs import ROOT, bare, clone, commit, git, paths, push, read, tip, try_git, write_commit

AT = datetime(2026, 2, 5, 14, tzinfo=UTC)
INBOX = "threads/inbox/20260101-pi-x.md"
DONE = "threads/inbox/done/20260101-pi-x.md"
LOG = "logs/inbox/20260101.md"
LEDGER = "state/ledger/pi/202601"
FILES = {".cn/hub.yaml": "name: sigma\n", INBOX: "# x\n", LEDGER: "x\n", "doc.md": "1\n", "other.md": "1\n"}
Plan = Callable[[Base], Draft | None]


class Place:
    """A hub, alone or with an origin and another clone."""

    def __init__(self, folder: Path, *, origin: bool, kind: str = "sha1") -> None:
        self.root = folder / "hub"
        git(folder, "init", "-q", "-b", "main", f"--object-format={kind}", str(self.root))
        git(self.root, "config", "user.name", "sigma")
        git(self.root, "config", "user.email", "sigma@example.org")
        commit(self.root, FILES, "init")
        self.origin = folder / "origin.git"
        if origin:
            git(folder, "clone", "-q", "--bare", str(self.root), str(self.origin))
            git(self.root, "remote", "add", "origin", str(self.origin))
            self.other = clone(self.origin, folder / "other", "sigma-two", trusted=True)

    def theirs(self, files: dict[str, str | None]) -> str:
        git(self.other, "pull", "-q", "--ff-only", str(self.origin), "main")
        oid = commit(self.other, files, "theirs")
        push(self.other, self.origin, "main")
        return oid

    def run(self, plan: Plan, base: Base | None = None) -> transaction.Committed:
        with hub_lock(open_hub(self.root), 5) as hub:
            recover(hub)
            return transaction.commit(hub, plan, base=base)

    def recover(self) -> tuple[str, ...]:
        with hub_lock(open_hub(self.root), 5) as hub:
            return recover(hub)

    def text(self, path: str, ref: str = "main") -> str:
        return read(self.root, f"{ref}:{path}").decode()

    @property
    def status(self) -> str:
        return git(self.root, "status", "--porcelain")

    @property
    def hub(self) -> Hub:
        return open_hub(self.root)


@pytest.fixture(params=[False, True], ids=["alone", "origin"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return Place(tmp_path, origin=request.param)


@pytest.fixture
def alone(tmp_path: Path) -> Place:
    return Place(tmp_path, origin=False)


@pytest.fixture
def two(tmp_path: Path) -> Place:
    return Place(tmp_path, origin=True)


def draft(base: Base, files: dict[str, str | None], **more: object) -> Draft:
    changes = tuple(FileChange(HubPath(p), None if t is None else t.encode()) for p, t in files.items())
    words = {"tip": base.tip, "changes": changes, "message": "do it\n\nbody", "at": AT, "inputs": {}, **more}
    return Draft(**words)  # type: ignore[arg-type]


def once(files: dict[str, str | None], **more: object) -> Plan:
    """A plan that has nothing to do when its first file is there."""

    def plan(base: Base) -> Draft | None:
        return None if first in known(base) else draft(base, files, **more)

    first = next(iter(files))
    known: Callable[[Base], list[str]] = lambda base: paths(Path.cwd(), base.tip)  # noqa: E731
    return plan


@pytest.fixture(autouse=True)
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("place", "alone", "two"):
        if name in request.fixturenames:
            monkeypatch.chdir(request.getfixturevalue(name).root)


class TestCommit:
    def test_a_change_is_committed_published_and_pushed(self, place: Place) -> None:
        before = tip(place.root)
        done = place.run(once({LOG: "| a |\n", INBOX: None, DONE: "done\n"}))
        assert done.changed
        assert done.commit == tip(place.root)
        assert git(place.root, "log", "-1", "--format=%P %s") == f"{before} do it"
        assert git(place.root, "reflog", "-1", "--format=%gs", "main") == "cn: do it"
        assert place.status == ""
        if place.hub.origin:
            assert tip(place.origin, "main") == done.commit
            assert tip(place.root, "refs/cn/origin/main") == done.commit
            assert tip(place.root, "refs/remotes/origin/main") == done.commit, "as git push does it"
        again = place.run(once({LOG: "| a |\n"}))
        assert (again.changed, again.commit) == (False, done.commit)

    def test_nothing_to_do_starts_next_to_nothing(self, alone: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        alone.run(lambda _: None)
        ran = []
        real = subprocess.Popen.__init__

        def note(self: object, args: object, *a: object, **k: object) -> None:
            ran.append(args)
            real(self, args, *a, **k)  # type: ignore[call-overload]

        with hub_lock(alone.hub, 0) as hub:
            monkeypatch.setattr(subprocess.Popen, "__init__", note)
            recover(hub)
            transaction.commit(hub, lambda _: None)
        assert len(ran) == 1

    def test_refs_and_appends_without_a_commit(self, place: Place) -> None:
        here = Oid(tip(place.root))
        log = place.root / "logs/cn.log"
        words = {"refs": (RefUpdate("refs/cn/pins/a", here),), "appends": (LocalAppend("logs/cn.log", "line\n"),)}
        done = place.run(lambda base: draft(base, {}, **words))
        assert not done.changed
        assert tip(place.root, "refs/cn/pins/a") == here
        assert log.read_text() == "line\n"

    def test_a_merge_tip(self, place: Place) -> None:
        head = write_commit(place.root, {"doc.md": "theirs\n"}, "propose", [tip(place.root)])

        def plan(base: Base) -> Draft | None:
            if git(place.root, "branch", "--contains", head, "main"):
                return None
            tip_ = build_commit(
                place.hub,
                base=base.tip,
                parents=(base.tip, Oid(head)),
                changes=(FileChange(HubPath("doc.md"), b"theirs\n"),),
                message="Merge pi/x",
                at=AT,
            )
            return draft(base, {LOG: "| a |\n"}, tip=tip_)

        done = place.run(plan)
        assert git(place.root, "log", "--format=%s", "--first-parent", done.commit).split("\n") == [
            "do it",
            "Merge pi/x",
            "init",
        ]
        assert (place.root / "doc.md").read_text() == "theirs\n"
        assert place.status == ""

    def test_only_the_merge_itself(self, alone: Place) -> None:
        head = write_commit(alone.root, {"new": "1\n"}, "propose", [tip(alone.root)])
        done = alone.run(lambda base: draft(base, {}, tip=Oid(head)))
        assert done.commit == head
        assert (alone.root / "new").read_text() == "1\n"

    def test_user_hooks_never_run(self, place: Place) -> None:
        hooks = place.root / ".git/hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("pre-commit", "post-commit", "reference-transaction", "pre-push", "post-index-change", "update"):
            for folder in (hooks, place.origin / "hooks") if place.origin.exists() else (hooks,):
                (folder / name).write_text(f"#!/bin/sh\ntouch {place.root}/ran-{name}\nexit 1\n")
                (folder / name).chmod(0o755)
        place.run(once({LOG: "| a |\n"}))
        assert place.status == ""

    def test_sha256(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        place = Place(tmp_path, origin=True, kind="sha256")
        monkeypatch.chdir(place.root)
        place.theirs({"new": "1\n"})
        commit(place.root, {"mine": "1\n"})
        edited = place.root / INBOX
        edited.write_text("# edited\n")
        used = Oid(git(place.root, "hash-object", INBOX))
        done = place.run(once({DONE: "done\n", INBOX: None}, inputs={HubPath(INBOX): used}))
        assert tip(place.origin, "main") == done.commit == tip(place.root)
        assert len(done.commit) == 64
        assert place.status == ""

    def test_in_a_linked_work_tree(self, alone: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        git(alone.root, "switch", "-q", "-c", "topic")
        linked = tmp_path / "linked"
        git(alone.root, "worktree", "add", "-q", str(linked), "main")
        before = (alone.root / ".git/index").read_bytes()
        (linked / "staged").write_text("1\n")
        git(linked, "add", "staged")
        monkeypatch.chdir(linked)
        with hub_lock(open_hub(linked), 0) as hub:
            assert hub.work_git_dir != hub.git_dir
            recover(hub)
            transaction.commit(hub, lambda b: draft(b, {LOG: "| a |\n", "doc.md": "2\n"}))
            recover(hub)
        assert git(linked, "status", "--porcelain") == "A  staged"
        assert (linked / "doc.md").read_text() == "2\n"
        assert (linked / LOG).read_text() == "| a |\n"
        assert (alone.root / ".git/index").read_bytes() == before
        assert (alone.root / "doc.md").read_text() == "1\n"


def settle(place: Place) -> None:
    """Of a file that is as old as the index git looks at the bytes (its "racy" entries)."""
    long_ago = time.time() - 60
    os.utime(place.root / "doc.md", (long_ago, long_ago))
    git(place.root, "update-index", "--refresh")


class TestLocalChanges:
    @pytest.mark.parametrize("how", ["edited", "staged", "removed", "mode", "untracked"])
    def test_a_touched_path_with_local_changes_refuses_the_run(self, place: Place, how: str) -> None:
        path = "new.md" if how == "untracked" else "doc.md"
        file = place.root / path
        match how:
            case "removed":
                file.unlink()
            case "mode":
                file.chmod(0o755)
            case _:
                file.write_text("mine\n")
        if how == "staged":
            git(place.root, "add", path)
            file.write_text("1\n")
        before = place.status, tip(place.root)
        told_of = "new.md lies where main has the file new.md, and is untracked"
        words = told_of if how == "untracked" else f"your {path} has local changes"
        with pytest.raises(Refused, match=f"^{words}$") as told:
            place.run(lambda base: draft(base, {path: "new\n"}))
        assert "stash" in told.value.hint
        assert (place.status, tip(place.root)) == before
        if place.hub.origin:
            assert tip(place.origin, "main") == before[1]
        assert local_changes(place.hub, Oid(before[1]), [path, "other.md", "none"]) == [path]

    def test_a_file_that_git_calls_unchanged_is_unchanged_whatever_its_line_ends(self, alone: Place) -> None:
        """As where ``core.autocrlf`` was on when the file was checked out, and is not any more."""
        git(alone.root, "config", "core.autocrlf", "true")
        (alone.root / "doc.md").unlink()
        git(alone.root, "checkout", "doc.md")
        settle(alone)
        git(alone.root, "config", "core.autocrlf", "false")
        assert (alone.root / "doc.md").read_bytes() == b"1\r\n"
        assert alone.status == ""
        alone.run(lambda base: draft(base, {"doc.md": "2\n"}))
        assert (alone.root / "doc.md").read_bytes() == b"2\n"
        assert alone.status == ""
        assert not list(alone.root.glob(".git/cn/aside/**/doc.md"))

    @pytest.mark.parametrize("new", ["2\n", None])
    def test_what_a_filter_drops_of_a_file_is_kept_aside(self, alone: Place, new: str | None) -> None:
        """As what is printed into a notebook, of which git stores the cells alone."""
        (alone.root / ".git/info/attributes").write_text("doc.md filter=strip\n")
        for way, does in (("clean", "sed /OUT/d"), ("smudge", "sed '$aOUT'")):
            git(alone.root, "config", f"filter.strip.{way}", does)
        file = alone.root / "doc.md"
        file.unlink()
        git(alone.root, "checkout", "doc.md")
        settle(alone)
        alone.run(lambda base: draft(base, {"doc.md": "1\n2\n"}))
        assert file.read_text() == "1\n2\nOUT\n"
        assert alone.status == ""
        assert list(alone.root.glob(".git/cn/aside/*/*")) == [], "what git put there is nobody's"
        file.write_text("1\n2\nOUT six hours\n")
        done = alone.run(lambda base: draft(base, {"doc.md": new}))
        (kept,) = alone.root.glob(".git/cn/aside/*/doc.md")
        assert kept.read_text() == "1\n2\nOUT six hours\n"
        assert any("doc.md held what git does not store of it" in told for told in done.reports)
        assert (file.read_text() if new else file.exists()) == ("2\nOUT\n" if new else False)

    @pytest.mark.parametrize("how", ["edited", "--assume-unchanged", "--skip-worktree"])
    def test_what_git_was_told_not_to_look_at_is_looked_at(self, alone: Place, how: str) -> None:
        settle(alone)
        if how != "edited":
            git(alone.root, "update-index", how, "doc.md")
        (alone.root / "doc.md").write_text("1\r\n")
        with pytest.raises(Refused, match=r"doc\.md has local changes") as told:
            alone.run(lambda base: draft(base, {"doc.md": "2\n"}))
        steps = [shlex.split(step) for step in re.findall(r"'(git [^']*)'", told.value.hint)]
        assert len(steps) == (1 if how == "edited" else 2)
        for step in steps:
            git(alone.root, *step[1:])
        alone.run(lambda base: draft(base, {"doc.md": "2\n"}))
        assert git(alone.root, "show", "stash@{0}:doc.md") == "1\r"

    def test_what_a_sparse_checkout_leaves_out_is_taken_in_by_the_step(self, alone: Place) -> None:
        alone.run(lambda base: draft(base, {"docs/a.md": "1\n"}))
        git(alone.root, "sparse-checkout", "set", "--no-cone", "/*", "!/docs/")
        with pytest.raises(Refused, match=r"docs/a\.md has local changes") as told:
            alone.run(lambda base: draft(base, {"docs/a.md": "2\n"}))
        (step, _) = re.findall(r"'(git [^']*)'", told.value.hint)
        git(alone.root, *shlex.split(step)[1:])
        alone.run(lambda base: draft(base, {"docs/a.md": "2\n"}))
        assert (alone.root / "docs/a.md").read_text() == "2\n"

    def test_several_are_counted(self, alone: Place) -> None:
        for name in ("doc.md", "other.md"):
            (alone.root / name).write_text("mine\n")
        with pytest.raises(Refused, match=r"your doc\.md and 1 more have local changes"):
            alone.run(lambda base: draft(base, {"doc.md": "2\n", "other.md": "2\n"}))

    def test_a_change_that_is_already_there_is_no_obstacle(self, alone: Place) -> None:
        (alone.root / "doc.md").write_text("2\n")
        alone.run(lambda base: draft(base, {"doc.md": "2\n"}))
        assert alone.status == ""

    def test_a_protected_file_in_cn_s_folders_is_the_user_s(self, alone: Place) -> None:
        (alone.root / "state/peers.md").write_text("mine\n")
        with pytest.raises(Refused, match=r"state/peers\.md"):
            alone.run(lambda base: draft(base, {"state/peers.md": "new\n"}))

    def test_a_staged_file_where_a_folder_must_be(self, alone: Place) -> None:
        (alone.root / "sub").write_text("mine\n")
        git(alone.root, "add", "sub")
        with pytest.raises(Refused, match="sub/x has local changes"):
            alone.run(lambda base: draft(base, {"sub/x": "1\n"}))

    def test_files_of_cn_never_block(self, place: Place) -> None:
        (place.root / LEDGER).write_text("scribble\n")
        done = place.run(once({LOG: "| a |\n", LEDGER: "x\ny\n"}))
        assert (place.root / LEDGER).read_text() == "x\ny\n"
        assert [LEDGER in r and "kept at" in r for r in done.reports] == [True]

    def test_a_new_thread_over_an_unknown_file_keeps_it(self, alone: Place) -> None:
        new = "threads/inbox/20260102-pi-y.md"
        (alone.root / new).write_text("unknown\n")
        done = alone.run(once({new: "# y\n"}))
        assert (alone.root / new).read_text() == "unknown\n"
        assert alone.text(new) == "# y\n"
        assert "your text stays" in done.reports[0]


class TestOthersAtWork:
    def test_a_user_who_commits_meanwhile_is_planned_on_again(self, place: Place) -> None:
        calls: list[Base] = []

        def plan(base: Base) -> Draft | None:
            calls.append(base)
            if len(calls) == 1:
                commit(place.root, {"mine": "1\n"}, "mine")
            return None if LOG in paths(place.root, base.tip) else draft(base, {LOG: "| a |\n"})

        done = place.run(plan)
        # Where origin had taken the first plan, that is brought here: a second one would do it twice.
        assert len(calls) == (1 if place.hub.origin else 2)
        assert {LOG, "mine"} <= set(paths(place.root, done.commit))
        assert tip(place.root) == done.commit
        assert place.status == ""
        if place.hub.origin:
            assert tip(place.origin, "main") == done.commit

    def test_a_user_who_never_stops_ends_the_run(self, alone: Place) -> None:
        def plan(base: Base) -> Draft | None:
            commit(alone.root, {"mine": f"{base.tip}\n"}, "mine")
            return draft(base, {LOG: "| a |\n"})

        with pytest.raises(Refused, match="main moved 5 times"):
            alone.run(plan)
        assert alone.status == ""

    def test_a_push_that_loses_the_race_is_planned_again_never_merged(self, two: Place) -> None:
        calls: list[Base] = []

        def plan(base: Base) -> Draft | None:
            calls.append(base)
            if len(calls) == 1:
                two.theirs({LOG: "| theirs |\n"})
            text = (read_object(two.hub.git, f"{base.tip}:{LOG}") or b"").decode()
            return draft(base, {LOG: text + "| ours |\n"})

        done = two.run(plan)
        assert len(calls) == 2
        assert two.text(LOG) == "| theirs |\n| ours |\n"
        assert git(two.root, "log", "--merges", "--oneline", done.commit) == ""
        assert tip(two.origin, "main") == done.commit == tip(two.root)
        assert read_pushes(two.hub) == []

    def test_people_s_commits_are_pushed_along(self, two: Place) -> None:
        mine = commit(two.root, {"mine": "1\n"})
        done = two.run(lambda _: None)
        assert done.changed
        assert done.commit == mine == tip(two.origin, "main")

    def test_origin_s_commits_arrive_without_a_plan(self, two: Place) -> None:
        theirs = two.theirs({"doc.md": "2\n", INBOX: None, DONE: "x\n"})
        done = two.run(lambda _: None)
        assert done.commit == theirs == tip(two.root)
        assert (two.root / "doc.md").read_text() == "2\n"
        assert two.status == ""
        assert git(two.root, "reflog", "-1", "--format=%gs", "main") == "cn: fast-forward"

    def test_origin_s_commits_wait_for_local_changes(self, two: Place) -> None:
        two.theirs({"doc.md": "2\n"})
        (two.root / "doc.md").write_text("mine\n")
        with pytest.raises(Refused, match=r"your doc\.md has local changes"):
            two.run(lambda _: None)
        assert (two.root / "doc.md").read_text() == "mine\n"

    def test_diverged_histories_are_integrated_and_pushed(self, two: Place) -> None:
        theirs = two.theirs({"a": "1\n"})
        mine = commit(two.root, {"b": "1\n"})
        done = two.run(once({LOG: "| a |\n"}))
        log = git(two.root, "log", "--format=%s|%P", "--first-parent", "-2", done.commit).split("\n")
        assert log[0].startswith("do it|")
        assert log[1] == f"cn: integrate local commits|{theirs} {mine}"
        assert tip(two.origin, "main") == done.commit

    def test_the_first_push_makes_main(self, two: Place, tmp_path: Path) -> None:
        empty = bare(tmp_path / "empty.git")
        git(two.root, "remote", "set-url", "origin", str(empty))
        done = two.run(once({LOG: "| a |\n"}))
        assert tip(empty, "main") == done.commit

    def test_a_base_seen_before_is_used_first(self, two: Place) -> None:
        base = observe_base(two.hub)
        seen: list[Base] = []
        two.run(lambda b: seen.append(b), base=base)
        assert seen == [base]


class TestPush:
    def test_a_refusing_origin_leaves_everything_as_it_was(self, two: Place) -> None:
        git(two.origin, "config", "receive.denyUpdates", "true")
        git(two.origin, "config", "transfer.hideRefs", "refs/heads/main")
        before = tip(two.root)
        with pytest.raises(Refused):
            two.run(once({LOG: "| a |\n"}))
        assert tip(two.root) == before
        assert two.status == ""

    def test_one_with_a_checked_out_main_is_named(self, two: Place) -> None:
        git(two.root, "remote", "set-url", "origin", str(two.other))
        git(two.other, "reset", "-q", "--hard", tip(two.root))
        with pytest.raises(Refused, match=r"origin did not take main: .*checked out") as told:
            two.run(once({LOG: "| a |\n"}))
        assert "bare" in told.value.hint
        assert read_pushes(two.hub) == []

    def test_unreachable_commits_nothing(self, two: Place) -> None:
        two.origin.rename(two.origin.with_name("gone"))
        before = tip(two.root)
        with pytest.raises(Refused, match="origin is unreachable"):
            two.run(once({LOG: "| a |\n"}))
        assert tip(two.root) == before

    @pytest.mark.parametrize("arrived", [True, False])
    def test_an_unknown_result_is_asked_for(self, two: Place, arrived: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        real = pushing.send
        log = two.root / "logs/cn.log"

        def flaky(hub: Hub, refs: Mapping[str, Oid | None], main: Push | None = None) -> object:
            if arrived:
                real(hub, refs, main)
            return pushing.Answer(pushing.Rejected("the connection was lost", told=False, transient=False), {})

        monkeypatch.setattr(pushing, "send", flaky)
        plan = once({LOG: "| a |\n"}, appends=(LocalAppend("logs/cn.log", "line\n"),))
        if arrived:
            assert two.run(plan).commit == tip(two.origin, "main")
        else:
            with pytest.raises(Refused, match="origin did not take main: the connection was lost"):
                two.run(plan)
            monkeypatch.setattr(pushing, "send", real)
            assert two.run(plan).changed
        assert log.read_text() == "line\n"
        assert read_pushes(two.hub) == []
        assert git(two.root, "rev-list", "--count", "main") == "2"

    def test_one_that_went_through_unseen_is_carried_out_here_once(
        self, two: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = two.root / "logs/cn.log"
        (two.root / INBOX).write_text("# edited\n")
        used = Oid(git(two.root, "hash-object", INBOX))
        here = Oid(tip(two.root))
        plan = once(
            {DONE: "done\n", INBOX: None, "state/peers.md": "new\n"},
            inputs={HubPath(INBOX): used},
            appends=(LocalAppend("logs/cn.log", "line\n"),),
            refs=(RefUpdate("refs/cn/pins/a", here),),
        )

        def lost(*_: object) -> object:
            raise Refused("origin is unreachable: gone")

        real = list_origin
        pushed = pushing.send

        def half(hub: Hub, refs: Mapping[str, Oid | None], main: Push | None = None) -> object:
            pushed(hub, refs, main)
            return pushing.Answer(pushing.Rejected("lost", told=False, transient=False), {})

        monkeypatch.setattr(pushing, "send", half)
        monkeypatch.setattr(pushing, "list_origin", lost)
        with pytest.raises(Refused):
            two.run(plan)
        assert tip(two.root) == here
        monkeypatch.setattr(pushing, "send", pushed)
        monkeypatch.setattr(pushing, "list_origin", real)
        for _ in range(2):
            two.run(plan)
        assert log.read_text() == "line\n"
        assert tip(two.root, "refs/cn/pins/a") == here
        assert not (two.root / INBOX).exists()
        assert two.status == "?? logs/"
        assert git(two.root, "rev-list", "--count", "main") == "2"

    def test_a_killed_run_that_carried_another_one_s_share_is_not_counted_twice(
        self, two: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = two.root / "logs/cn.log"
        real_push, real_ask = pushing.send, list_origin

        def half(hub: Hub, refs: Mapping[str, Oid | None], main: Push | None = None) -> object:
            real_push(hub, refs, main)
            monkeypatch.setattr(pushing, "list_origin", lost)
            return pushing.Answer(pushing.Rejected("lost", told=False, transient=False), {})

        def lost(_: Hub) -> object:
            raise Refused("origin is unreachable: gone")

        monkeypatch.setattr(pushing, "send", half)
        plan = once({"logs/inbox/a.md": "1\n"}, appends=(LocalAppend("logs/cn.log", "a\n"),))
        with pytest.raises(Refused, match="unreachable"):
            two.run(plan)
        monkeypatch.setattr(pushing, "list_origin", real_ask)
        git(two.root, "commit", "--quiet", "--allow-empty", "-m", "by a person: to be pushed with that share")
        with pytest.raises(Refused, match="unreachable"):
            two.run(once({"logs/inbox/b.md": "1\n"}))
        assert len(read_pushes(two.hub)) == 2
        monkeypatch.setattr(pushing, "send", real_push)
        monkeypatch.setattr(pushing, "list_origin", real_ask)
        two.run(lambda _: None)
        two.run(lambda _: None)
        assert log.read_text() == "a\n"
        assert read_pushes(two.hub) == []

    @pytest.mark.parametrize("ref", ["refs/cn/origin/main", "refs/cn/trusted"])
    def test_a_broken_ref_of_ours_is_named_with_what_mends_it(self, two: Place, ref: str) -> None:
        two.run(once({LOG: "| a |\n"}))
        (two.root / ".git" / ref).write_text("")
        with pytest.raises(Refused, match=f"{ref} is broken") as told:
            two.run(once({"b": "1\n"}))
        assert told.value.hint == f"'rm -- {two.root}/.git/{ref}', then run again"
        (two.root / ".git" / ref).unlink()
        assert two.run(once({"b": "1\n"})).changed

    def test_an_old_journal_that_comes_back_is_dropped(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """A backup of ``.git/cn``: what it says was finished, and later runs went on."""
        changes: dict[str, str | None] = {INBOX: None, DONE: "done\n"}
        with monkeypatch.context() as patch:
            patch.setattr(publishing, "_finish", lambda *_: (_ for _ in ()).throw(Refused("killed here")))
            with pytest.raises(Refused, match="killed here"):
                place.run(once({LOG: "| a |\n", **changes}, appends=(LocalAppend("logs/cn.log", "a\n"),)))
        kept = journal_path(place.hub).read_bytes()
        place.recover()
        place.run(lambda base: draft(base, {LEDGER: "x\ny\n", INBOX: "# again\n", DONE: None, LOG: None}))
        before = tip(place.root)
        (place.root / "logs/cn.log").write_text("")  # as after a rotation
        journal_path(place.hub).write_bytes(kept)
        told = place.recover()
        assert told == ("an old journal lay here again, of a run that later ones followed: it was dropped",)
        assert not place.run(lambda _: None).changed
        assert tip(place.root) == before
        assert (place.root / "logs/cn.log").read_text() == ""
        assert place.status == "?? logs/"

    @pytest.mark.parametrize("name", ["{} (conflicted copy)", "{}~", "copy", "0" * 40])
    def test_a_copy_of_a_push_note_is_no_note(self, two: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        log = two.root / "logs/cn.log"
        real_push = pushing.send

        def pushed(hub: Hub, refs: Mapping[str, Oid | None], main: Push | None = None) -> object:
            real_push(hub, refs, main)
            raise Refused("killed here")

        plan = once({"logs/inbox/a.md": "1\n"}, appends=(LocalAppend("logs/cn.log", "a\n"),))
        with monkeypatch.context() as patch:
            patch.setattr(pushing, "send", pushed)
            with pytest.raises(Refused, match="killed here"):
                two.run(plan)
        (note,) = (two.hub.state / "push").iterdir()
        copy = note.with_name(name.format(note.name))
        shutil.copy(note, copy)
        for _ in range(2):
            two.run(plan)
        assert log.read_text() == "a\n"
        assert sort_pushes(two.hub)[1] == [copy]
        assert read_pushes(two.hub) == []

    def test_what_a_note_says_is_appended_once_even_if_the_note_stays(
        self, two: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        main = Oid(tip(two.root))
        note = Journal("t", main, main, "m", appends=(LocalAppend("logs/cn.log", "a\n"),), covers=())
        monkeypatch.setattr(transaction, "arrived_pushes", lambda *_: [note])
        two.run(once({"logs/inbox/a.md": "1\n"}))
        assert (two.root / "logs/cn.log").read_text() == "a\n"

    def test_what_a_killed_run_has_pushed_is_finished_before_anything_is_planned(
        self, two: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real_push = pushing.send
        used_up = two.root / "state/output.md"
        used_up.parent.mkdir(exist_ok=True)
        used_up.write_text("answer\n")
        first = once({"logs/inbox/a.md": "1\n"})

        def planned(base: Base) -> Draft | None:
            draft = first(base)
            return None if draft is None else draft._replace(files=(LocalFile("state/output.md", None),))

        def pushed(hub: Hub, refs: Mapping[str, Oid | None], main: Push | None = None) -> object:
            real_push(hub, refs, main)
            raise Refused("killed here")

        with monkeypatch.context() as patch:
            patch.setattr(pushing, "send", pushed)
            with pytest.raises(Refused, match="killed"):
                two.run(planned)
        seen = []

        def look(base: Base) -> Draft | None:
            seen.append(used_up.exists())
            return None

        two.run(look)
        assert seen == [False]
        assert two.status == ""


class TestInterrupted:
    def test_by_sigterm_it_ends_what_it_began_to_publish(self, alone: Place) -> None:
        script = (
            "import os, signal, sys\n"
            f"sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
            "import crash\n"
            "from cn.transaction import publish\n"
            "real = publish.move_main\n"
            "def move(*a):\n    os.kill(os.getpid(), signal.SIGTERM)\n    real(*a)\n"
            "publish.move_main = move\n"
            "crash.run(crash.Path(sys.argv[1]))\n"
        )
        (alone.root / INBOX).write_text("# x\ndecision\n")
        done = subprocess.run(
            [sys.executable, "-c", script, str(alone.root)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == -signal.SIGTERM, done.stderr
        assert git(alone.root, "log", "-1", "--format=%s") == "process x"
        assert alone.status == "?? logs/cn.log"
        assert not journal_path(alone.hub).exists()
        assert alone.recover() == ()

    @pytest.mark.parametrize("where", ["copy2", "rmtree"])
    def test_by_a_full_disk_it_is_finished_by_the_next_run(
        self, alone: Place, where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        plan = once({LOG: "| a |\n", "doc.md": "2\n"})
        with monkeypatch.context() as patch:
            if where == "copy2":
                patch.setattr(shutil, "copy2", full)
            else:
                patch.setattr(publishing, "check_out", full)
            with pytest.raises(Refused, match="No space left"):
                alone.run(plan)
        assert not (alone.root / ".git/index.lock").exists()
        alone.run(plan)
        assert alone.status == ""
        assert (alone.root / "doc.md").read_text() == "2\n"

    def test_by_an_index_that_cannot_be_replaced_says_that_main_has_it_and_the_next_run_goes_on(
        self, alone: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index, real = alone.root / ".git/index", os.rename

        def broken(source: Path, target: Path) -> None:
            if target == index:
                raise OSError(5, "Input/output error")
            real(source, target)

        plan = once({LOG: "| a |\n", "doc.md": "2\n"})
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", broken)
            with pytest.raises(Refused, match="Input/output error") as told:
                alone.run(plan)
        assert told.value.text.startswith("main has what was asked for, ")
        assert told.value.hint.startswith("do not repeat it; ")
        assert alone.text("doc.md") == "2\n"
        assert alone.recover() == ("a run that was interrupted after its commit was finished",)
        assert not (alone.root / ".git/index.lock").exists()
        assert alone.status == ""


class TestRecover:
    def journal(self, place: Place, files: dict[str, str | None], **more: object) -> Journal:
        old = Oid(tip(place.root))
        new = Oid(write_commit(place.root, files, "new", [old]))
        words = {"token": "t", "old": old, "new": new, "message": "cn: x", **more}
        journal = Journal(changes=tuple(read_changes(place.hub.git, old, new)), **words)  # type: ignore[arg-type]
        write_journal(journal_path(place.hub), journal)
        return journal

    def test_nothing_to_do(self, alone: Place) -> None:
        assert alone.recover() == ()

    def test_a_lock_of_somebody_else_is_left_alone(self, alone: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.journal(alone, {LOG: "| a |\n"})
        lock = alone.root / ".git/index.lock"
        lock.write_bytes(b"DIRC not ours")
        assert "taken back" in alone.recover()[0]
        assert lock.read_bytes() == b"DIRC not ours"
        assert not journal_path(alone.hub).exists()
        monkeypatch.setattr(publishing, "LOCK_WAIT", 0.1)
        with pytest.raises(Refused, match=r"index\.lock exists"):
            alone.run(once({LOG: "| a |\n"}))

    def test_locks_that_a_killed_update_ref_left_are_removed(self, alone: Place) -> None:
        journal = self.journal(alone, {LOG: "| a |\n"})
        (alone.root / ".git/index.lock").write_text(f"cn {journal.token}\n")
        (alone.root / ".git/HEAD.lock").write_bytes(b"")
        (alone.root / ".git/refs/heads/main.lock").write_text(f"{journal.new}\n")
        assert "taken back" in alone.recover()[0]
        assert list((alone.root / ".git").rglob("*.lock")) == []
        assert alone.run(once({LOG: "| a |\n"})).changed

    def test_the_lock_of_a_run_that_was_killed_after_its_commit_point_is_taken_over(self, alone: Place) -> None:
        journal = self.journal(alone, {LOG: "| a |\n", "doc.md": "2\n"})
        git(alone.root, "update-ref", "refs/heads/main", journal.new, journal.old)
        (alone.root / ".git/index.lock").write_text(f"cn {journal.token}\n")
        assert "finished" in alone.recover()[0]
        assert not (alone.root / ".git/index.lock").exists()
        assert (alone.root / "doc.md").read_text() == "2\n"
        assert alone.status == ""

    def test_a_foreign_ref_lock_is_left_alone(self, alone: Place) -> None:
        self.journal(alone, {LOG: "| a |\n"})
        lock = alone.root / ".git/refs/heads/main.lock"
        lock.write_text(f"{'1' * 40}\n")
        alone.recover()
        assert lock.exists()
        with pytest.raises(Refused, match=r"cannot move main: .*main\.lock"):
            alone.run(once({LOG: "| a |\n"}))
        assert alone.status == ""

    def test_it_waits_where_a_run_must_not_work(self, alone: Place) -> None:
        journal = self.journal(alone, {LOG: "| a |\n"})
        git(alone.root, "update-ref", "refs/heads/main", journal.new)
        git(alone.root, "checkout", "-q", "-f", "-b", "topic", journal.old)
        with pytest.raises(Refused, match="HEAD is topic"):
            alone.recover()
        assert journal_path(alone.hub).exists()
        git(alone.root, "switch", "-q", "main")
        assert "finished" in alone.recover()[0]
        assert alone.status == ""

    def test_work_after_our_commit_is_not_undone(self, alone: Place) -> None:
        journal = self.journal(alone, {LOG: "| a |\n", "doc.md": "2\n"})
        git(alone.root, "reset", "-q", "--hard", journal.new)
        commit(alone.root, {"doc.md": "3\n"}, "mine")
        alone.recover()
        assert (alone.root / "doc.md").read_text() == "3\n"
        assert alone.status == ""

    def test_a_commit_of_the_stale_index_is_made_good(self, place: Place) -> None:
        files = {LOG: "| a |\n", LEDGER: "x\ny\n", INBOX: None, DONE: "done\n", "doc.md": "merged\n"}
        journal = self.journal(place, files)
        if place.hub.origin:
            push(place.root, place.origin, f"{journal.new}:main")
        git(place.root, "update-ref", "refs/heads/main", journal.new, journal.old)
        # The index is still the old one: this takes back all that cn did.
        (place.root / "other.md").write_text("2\n")
        git(place.root, "commit", "-qam", "mine")
        told = place.recover()
        assert any("is restored" in t for t in told)
        assert any(t.endswith("took back what was merged: doc.md") for t in told)
        done = place.run(lambda _: None)
        assert place.text(LEDGER) == "x\ny\n"
        assert place.text(LOG) == "| a |\n"
        assert place.text(DONE) == "done\n"
        assert INBOX not in paths(place.root)
        assert place.text("other.md") == "2\n"
        assert place.text("doc.md") == "1\n"
        assert place.status == ""
        assert place.run(lambda _: None).commit == done.commit

    def test_leftovers_of_a_killed_writer_are_swept(self, alone: Place) -> None:
        dead = subprocess.Popen(["true"])
        dead.wait()
        alone.hub.state.mkdir()
        for folder in (alone.hub.state, alone.root / "state", alone.root / "threads/inbox"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f".cn-tmp-{dead.pid}-0").write_bytes(b"")
        alone.recover()
        assert alone.status == ""
        assert sorted(p.name for p in alone.hub.state.iterdir()) == ["lock", "lock.turn"]
        assert not list(alone.root.rglob(".cn-tmp-*"))

    def test_a_damaged_journal_stops_the_run(self, alone: Place) -> None:
        alone.hub.state.mkdir()
        journal_path(alone.hub).write_text("{")
        with pytest.raises(Refused, match="damaged"):
            alone.recover()


def test_ten_thousand_threads(alone: Place) -> None:
    names = [f"threads/inbox/done/2026/{i:05}.md" for i in range(10_000)]
    alone.run(lambda base: draft(base, {n: f"{n}\n" for n in names}))
    alone.run(lambda base: draft(base, {names[0]: "new\n"}))
    assert alone.status == ""
    assert try_git(alone.root, "fsck").returncode == 0


def test_two_clones_at_once_share_one_hub(two: Place, tmp_path: Path) -> None:
    """Each appends its rows to one log; every row of both is there once, in both clones."""
    places = (two.root, two.other)

    def row(root: Path, i: int) -> None:
        def plan(base: Base) -> Draft | None:
            text = (read_object(open_hub(root).git, f"{base.tip}:{LOG}") or b"").decode()
            line = f"| {root.name} {i} |\n"
            return None if line in text else draft(base, {LOG: text + line})

        with hub_lock(open_hub(root), 5) as hub:
            recover(hub)
            transaction.commit(hub, plan)

    for i in range(3):
        for root in places:
            row(root, i)
    row(two.root, 3)
    assert sorted(two.text(LOG).split("\n")[:-1]) == sorted(
        [*(f"| {r.name} {i} |" for r in places for i in range(3)), "| hub 3 |"]
    )
