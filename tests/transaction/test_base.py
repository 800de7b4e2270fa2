"""Where a run may work, and what it plans on when origin and local main differ."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cn.git.entries import Change, Entry
from cn.git.repository import Hub, open_hub
from cn.transaction.base import Base, observe_base
from cn.transaction.journal import Journal, restore_path, write_journal
from cn.transaction.protected_files import accept
from cn.values.errors import Refused
from cn.values.names import Oid
from tests.support.hubs import (
    bare,
    branches,
    clone,
    commit,
    force_push,
    git,
    paths,
    push,
    read,
    tip,
    try_git,
    work,
    write_commit,
)

INBOX = "threads/inbox/20260101-pi-x.md"
OTHER = "threads/inbox/20260101-pi-y.md"
DONE = "threads/inbox/done/20260101-pi-x.md"
LEDGER = "state/ledger/pi/202601"
EVENT, MINE, NEXT = (f"2026-01-01T00:00:00Z in received {topic} {'1' * 40}\n" for topic in ("x", "mine", "y"))
LOG = "logs/inbox/20260101.md"
FILES = {
    ".cn/hub.yaml": "name: sigma\n",
    "doc.md": "1\n2\n3\n4\n5\n",
    INBOX: "# x\n",
    OTHER: "# y\n",
    LEDGER: EVENT,
    LOG: "| a |\n",
}


class Place:
    """A hub with an origin, and another clone that pushes to it."""

    def __init__(self, folder: Path) -> None:
        self.root = work(folder / "hub", "sigma")
        commit(self.root, FILES, "init")
        self.origin = bare(folder / "origin.git")
        push(self.root, self.origin, "main")
        git(self.root, "remote", "add", "origin", str(self.origin))
        self.other = clone(self.origin, folder / "other", "sigma-two", trusted=True)

    @property
    def hub(self) -> Hub:
        return open_hub(self.root)

    def theirs(self, files: dict[str, str | None], message: str = "theirs") -> Oid:
        oid = Oid(commit(self.other, files, message))
        push(self.other, self.origin, "main")
        return oid

    def ours(self, files: dict[str, str | None], message: str = "ours") -> Oid:
        return Oid(commit(self.root, files, message))

    def observe(self, *, dry_run: bool = False, check_trust: bool = True) -> Base:
        return observe_base(self.hub, dry_run=dry_run, check_trust=check_trust)

    def text(self, oid: str, path: str) -> str:
        return read(self.root, f"{oid}:{path}").decode()

    def aside(self) -> dict[str, str]:
        folder = self.root / ".git/cn/aside"
        return {str(p.relative_to(folder)).split("/", 1)[1]: p.read_text() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    root = work(tmp_path / "alone", "sigma")
    commit(root, FILES, "init")
    return root


class TestWhereARunMayWork:
    def test_without_an_origin_local_main_is_the_base(self, alone: Path) -> None:
        here = Oid(tip(alone))
        assert observe_base(open_hub(alone)) == Base(here, here, None, ())

    def test_not_on_another_branch(self, alone: Path) -> None:
        git(alone, "switch", "-q", "-c", "topic")
        with pytest.raises(Refused, match="HEAD is topic, and cn works on main only") as told:
            observe_base(open_hub(alone))
        assert "git switch main" in told.value.hint

    def test_where_main_is_in_another_work_tree_that_is_named(self, alone: Path) -> None:
        git(alone, "switch", "-q", "-c", "topic")
        there = alone.parent / "there"
        git(alone, "worktree", "add", "-q", str(there), "main")
        with pytest.raises(Refused, match="HEAD is topic") as told:
            observe_base(open_hub(alone))
        assert f"cd {there}" in told.value.hint
        assert "git switch" not in told.value.hint

    def test_not_on_a_detached_head(self, alone: Path) -> None:
        git(alone, "switch", "-q", "--detach")
        with pytest.raises(Refused, match="HEAD is a detached commit"):
            observe_base(open_hub(alone))

    def test_not_before_the_first_commit(self, tmp_path: Path) -> None:
        root = work(tmp_path / "hub")
        (root / ".cn").mkdir()
        (root / ".cn/hub.yaml").write_text("name: sigma\n")
        with pytest.raises(Refused, match="main has no commit yet"):
            observe_base(open_hub(root))

    @pytest.mark.parametrize(
        ("how", "what"),
        [
            ("merge", "a merge"),
            ("rebase", "a rebase"),
            ("cherry-pick", "a cherry-pick"),
            ("revert", "a revert"),
            ("am", "a rebase or am"),
            ("bisect", "a bisect"),
        ],
    )
    def test_not_while_something_is_open(self, alone: Path, how: str, what: str, tmp_path: Path) -> None:
        first = tip(alone)
        side = write_commit(alone, {"doc.md": "side\n"}, "side", [first])
        commit(alone, {"doc.md": "mine\n"}, "mine")
        commit(alone, {"doc.md": "more\n"}, "more")
        match how:
            case "merge" | "cherry-pick" | "rebase":
                assert try_git(alone, how, side).returncode != 0
            case "revert":
                assert try_git(alone, how, "HEAD~1").returncode != 0
            case "am":
                patch = git(alone, "format-patch", "-1", "--stdout", side)
                assert try_git(alone, "am", stdin=patch + "\n").returncode != 0
            case _:
                git(alone, "bisect", "start")
        with pytest.raises(Refused, match=f"^{what} is open"):
            observe_base(open_hub(alone))

    def test_not_while_another_work_tree_is_on_main(self, alone: Path, tmp_path: Path) -> None:
        git(alone, "worktree", "add", "-q", "-f", str(tmp_path / "second"), "main")
        with pytest.raises(Refused, match="more than one work tree is on main"):
            observe_base(open_hub(alone))

    def test_a_linked_work_tree_alone_on_main_is_fine(self, alone: Path, tmp_path: Path) -> None:
        git(alone, "switch", "-q", "-c", "topic")
        git(alone, "worktree", "add", "-q", str(tmp_path / "second"), "main")
        assert observe_base(open_hub(tmp_path / "second")).tip == tip(alone, "main")


class TestOrigin:
    def test_unreachable(self, place: Place) -> None:
        git(place.root, "remote", "set-url", "origin", "/nonexistent/x.git")
        with pytest.raises(Refused, match=r"^origin is unreachable: ") as told:
            place.observe()
        assert "nothing was committed" in told.value.hint

    def test_has_no_main_yet(self, place: Place, tmp_path: Path) -> None:
        git(place.root, "remote", "set-url", "origin", str(bare(tmp_path / "empty.git")))
        base = place.observe()
        assert base.origin is None
        assert base.tip == base.local

    def test_ahead_is_the_base(self, place: Place) -> None:
        theirs = place.theirs({"new": "1\n"})
        base = place.observe()
        assert (base.tip, base.origin, base.local) == (theirs, theirs, tip(place.root))
        assert tip(place.root, "refs/cn/origin/main") == theirs

    def test_nothing_of_the_user_s_is_written(self, place: Place) -> None:
        place.theirs({"new": "1\n"})
        place.ours({"mine": "1\n"})
        before = git(place.root, "for-each-ref", "refs/heads", "refs/tags")
        place.observe()
        assert git(place.root, "for-each-ref", "refs/heads", "refs/tags") == before
        assert git(place.root, "for-each-ref", "--format=%(refname)", "refs/remotes") == "refs/remotes/origin/main"
        assert tip(place.root, "refs/remotes/origin/main") == tip(place.origin, "main"), "as git fetch does it"
        assert not (place.root / ".git/FETCH_HEAD").exists()

    def test_behind_the_people_s_commits_are_the_base(self, place: Place) -> None:
        ours = place.ours({"new": "1\n"})
        base = place.observe()
        assert (base.tip, base.local, base.origin) == (ours, ours, tip(place.other))

    def test_a_dry_run_writes_no_ref_file_or_object(self, place: Place, tmp_path: Path) -> None:
        place.theirs({"new": "1\n", INBOX: "# theirs\n"})
        place.ours({"mine": "1\n", INBOX: "# mine\n"})
        hub = place.hub
        scratch = tmp_path / "objects"
        scratch.mkdir()
        git_ = hub.git.with_env(GIT_OBJECT_DIRECTORY=scratch, GIT_ALTERNATE_OBJECT_DIRECTORIES=hub.git_dir / "objects")
        before = sorted(str(p) for p in (place.root / ".git").rglob("*"))
        base = observe_base(hub.with_git(git_), dry_run=True)
        assert sorted(str(p) for p in (place.root / ".git").rglob("*")) == before
        assert base.tip not in (base.local, base.origin)
        assert len(base.reports) == 2
        assert observe_base(hub).tip == base.tip

    def test_rewound_is_refused_and_what_we_knew_is_kept(self, place: Place) -> None:
        theirs = place.theirs({"new": "1\n"})
        place.observe()
        force_push(place.root, place.origin, "main")
        for _ in range(2):
            with pytest.raises(Refused, match="origin's main was rewound") as told:
                place.observe()
        assert tip(place.root, f"refs/cn/rescue/{theirs[:16]}") == theirs
        assert tip(place.root, "refs/cn/origin/main") == theirs
        assert "refs/cn/rescue/" in told.value.hint
        # Both remedies of the hint work.
        git(place.root, *told.value.hint.split("'")[1].split()[1:])
        assert place.observe().tip == theirs
        force_push(place.root, place.origin, "main")
        for command in told.value.hint.split("'")[3:-2:2]:
            git(place.root, *command.split()[1:])
        git(place.root, "update-ref", "refs/cn/trusted", "main")
        assert place.observe().tip == tip(place.root) == tip(place.origin, "main") != theirs

    def test_what_was_never_taken_over_is_no_loss(self, place: Place) -> None:
        before = place.observe()
        good = tip(place.origin, "main")
        place.theirs({".cn/hub.yaml": "name: mallory\n"})
        with pytest.raises(Refused, match="has not accepted it"):
            place.observe()
        force_push(place.root, place.origin, f"{good}:refs/heads/main")
        assert place.observe() == before
        assert git(place.root, "for-each-ref", "refs/cn/rescue/") == ""

    def test_that_lost_main_is_refused(self, place: Place) -> None:
        place.observe()
        git(place.origin, "update-ref", "-d", "refs/heads/main")
        with pytest.raises(Refused, match="origin has no main any more"):
            place.observe()

    def test_that_has_a_branch_in_the_place_of_main_says_how_that_goes_and_is_kept(self, place: Place) -> None:
        main = place.observe().tip
        git(place.origin, "update-ref", "-d", "refs/heads/main")
        git(place.origin, "update-ref", "refs/heads/main/evil", tip(place.root))
        with pytest.raises(Refused, match="refs/heads/main/evil there leaves no room for it") as told:
            place.observe()
        steps = re.findall("'(git [^']*)'", told.value.hint)
        assert len(steps) == 3
        for step in steps:
            git(place.root, *shlex.split(step)[1:])
        assert place.observe().tip == main == tip(place.origin, "main")
        assert branches(place.origin) == {"main": main}

    def test_that_is_another_repository_is_called_that_and_nothing_tells_to_push_over_it(
        self, place: Place, tmp_path: Path
    ) -> None:
        place.observe()
        other = bare(tmp_path / "other.git")
        git(clone(other, tmp_path / "person"), "commit", "-q", "--allow-empty", "-m", "theirs")
        push(tmp_path / "person", other, "HEAD:refs/heads/main")
        git(place.root, "remote", "set-url", "origin", str(other))
        with pytest.raises(Refused, match="has nothing in common with what it was: that is another repository") as told:
            place.observe()
        steps = told.value.hint
        assert steps.index("git remote set-url") < steps.index("if that is the right one") < steps.index("git push")
        git(place.root, "remote", "set-url", "origin", str(place.origin))
        place.observe()

    @pytest.mark.parametrize("meant", [True, False])
    @pytest.mark.parametrize("ours", [True, False])
    def test_whose_history_was_made_anew_is_told_with_both_ways(self, place: Place, meant: bool, ours: bool) -> None:
        """As by git-filter-repo, or one who made it a single commit."""
        known = place.observe().tip
        if ours:
            commit(place.root, {"ours.md": "1"})
        tree = git(place.origin, "rev-parse", "main^{tree}")
        anew = git(place.origin, "commit-tree", "-m", "all", tree)
        git(place.origin, "update-ref", "refs/heads/main", anew)
        with pytest.raises(Refused, match="its history was made anew; what this clone knew is kept at") as told:
            place.observe()
        assert f"1 commit that this clone did not know ({anew[:7]} all" in told.value.hint
        assert f"kept at refs/cn/rescue/{anew[:16]}" in told.value.hint
        _, _, ways = told.value.hint.partition("made anew, ")
        intended, _, undone = ways.partition("; or, if nobody meant to, ")
        for step in re.findall("'(git [^']*)'", intended if meant else undone):
            git(place.root, *shlex.split(step)[1:])
        assert place.observe().origin == (anew if meant else known)
        assert (place.root / "ours.md").exists() == ours

    @pytest.mark.parametrize("known", [True, False])
    @pytest.mark.parametrize("left", [None, NEXT])
    def test_that_lost_entries_of_the_ledger_is_refused(self, place: Place, known: bool, left: str | None) -> None:
        if known:
            place.observe()
        place.theirs({LEDGER: left})
        with pytest.raises(Refused, match=f"lost entries of the ledger: {LEDGER}"):
            place.observe()
        assert git(place.root, "for-each-ref", "refs/cn/rescue/") != ""

    def test_whose_ledger_grew_is_fine(self, place: Place) -> None:
        place.observe()
        theirs = place.theirs({LEDGER: f"{EVENT}{NEXT}", "state/ledger/pi/202602": MINE})
        assert place.observe().tip == theirs

    def test_unrelated_history_is_refused(self, place: Place, tmp_path: Path) -> None:
        strange = work(tmp_path / "strange", "x")
        commit(strange, {"a": "1"})
        force_push(strange, place.origin, "main")
        with pytest.raises(Refused, match="share no history"):
            place.observe()


class TestIntegration:
    def test_people_s_commits_are_merged_into_origin_s(self, place: Place) -> None:
        theirs = place.theirs({"doc.md": "one\n2\n3\n4\n5\n"})
        ours = place.ours({"doc.md": "1\n2\n3\n4\nfive\n", "new": "1\n"})
        base = place.observe()
        assert git(place.root, "log", "-1", "--format=%P", base.tip) == f"{theirs} {ours}"
        assert place.text(base.tip, "doc.md") == "one\n2\n3\n4\nfive\n"
        assert place.observe() == base
        assert base.reports == (f"1 commit made here on main goes to origin: {ours[:7]} ours",)

    def test_a_conflict_is_refused_and_named(self, place: Place) -> None:
        place.theirs({"doc.md": "theirs\n"})
        place.ours({"doc.md": "ours\n"})
        with pytest.raises(Refused, match=r"your local commits conflict with origin's main in doc\.md$"):
            place.observe()

    @pytest.mark.parametrize("path", [LEDGER, LOG, "threads/mail/outbox/a.md", "threads/mail/sent/a.md"])
    def test_origin_s_side_of_cn_s_records_stands(self, place: Place, path: str) -> None:
        place.theirs({path: "x\ntheirs\n"})
        place.ours({path: "x\nours\n", "new": "1\n"})
        base = place.observe()
        assert place.text(base.tip, path) == "x\ntheirs\n"
        assert place.aside() == {path: "x\nours\n"}
        assert [path in r and "origin's stands" in r for r in base.reports] == [True, False]

    def test_records_changed_or_removed_only_here_are_origin_s_too(self, place: Place) -> None:
        place.theirs({"new": "1\n"})
        place.ours({LOG: "forged\n", LEDGER: None})
        base = place.observe()
        assert place.text(base.tip, LOG) == "| a |\n"
        assert place.text(base.tip, LEDGER) == EVENT

    def test_a_message_that_only_we_have_is_not_lost(self, place: Place) -> None:
        place.theirs({"new": "1\n"})
        place.ours({"threads/mail/outbox/b.md": "hello\n"})
        assert place.text(place.observe().tip, "threads/mail/outbox/b.md") == "hello\n"

    def test_the_ledger_is_restored_if_only_local_commits_cut_it(self, place: Place) -> None:
        place.ours({LEDGER: MINE})
        base = place.observe()
        assert place.text(base.tip, LEDGER) == f"{EVENT}{MINE}"

    @pytest.mark.parametrize(
        "made", [EVENT.replace("received", "got"), EVENT[:-9] + "\n11111111\n", EVENT + "<<<<<<<\n"]
    )
    def test_what_a_program_made_of_entries_does_not_stay_where_they_come_back(self, place: Place, made: str) -> None:
        place.theirs({LEDGER: f"{EVENT}{NEXT}"})
        place.observe()
        git(place.root, "pull", "-q", "--no-rebase", "origin", "main")
        place.ours({LEDGER: made})
        assert place.text(place.observe().tip, LEDGER) == f"{EVENT}{NEXT}"

    @pytest.mark.parametrize("here", [True, False])
    def test_a_line_that_is_no_event_may_be_taken_out_on_either_side(self, place: Place, here: bool) -> None:
        whole = EVENT.replace("\n", " branch=pi/x\n")
        place.theirs({LEDGER: f"garbled\n{EVENT}{whole}"})
        place.observe()
        git(place.root, "pull", "-q", "--no-rebase", "origin", "main")
        made = (place.ours if here else place.theirs)({LEDGER: whole}, "mended")
        assert place.observe().tip == made

    def test_a_thread_done_there_is_done(self, place: Place) -> None:
        place.theirs({INBOX: None, DONE: "# x\ndone\n"})
        place.ours({INBOX: "# x\nedit\n"})
        base = place.observe()
        assert INBOX not in paths(place.root, base.tip)
        assert place.text(base.tip, DONE) == "# x\ndone\n"
        assert place.aside() == {INBOX: "# x\nedit\n"}

    def test_a_thread_done_here_is_done(self, place: Place) -> None:
        place.theirs({INBOX: "# x\nrefreshed\n"})
        place.ours({INBOX: None, DONE: "# x\ndone\n"})
        base = place.observe()
        assert INBOX not in paths(place.root, base.tip)
        assert place.text(base.tip, DONE) == "# x\ndone\n"

    def test_a_thread_done_on_both_sides_is_origin_s_also_when_it_was_archived(self, place: Place) -> None:
        archived = "threads/inbox/done/2026/20260101-pi-x.md"
        place.theirs({INBOX: None, archived: "theirs\n"})
        place.ours({INBOX: None, DONE: "ours\n"})
        base = place.observe()
        found = [p for p in paths(place.root, base.tip) if "pi-x" in p]
        assert found == [archived]
        assert place.aside() == {DONE: "ours\n"}

    def test_of_a_thread_changed_on_both_sides_origin_s_stands_and_ours_is_kept(self, place: Place) -> None:
        place.theirs({INBOX: "# theirs\n"})
        place.ours({INBOX: "# ours\n", OTHER: "# y, edited here only\n"})
        base = place.observe()
        assert place.text(base.tip, INBOX) == "# theirs\n"
        assert place.text(base.tip, OTHER) == "# y, edited here only\n"
        assert place.aside() == {INBOX: "# ours\n"}
        place.observe()
        assert place.aside() == {INBOX: "# ours\n"}

    def test_new_threads_do_not_follow_a_folder_that_seems_renamed(self, place: Place) -> None:
        new = "threads/inbox/20260102-pi-z.md"
        place.theirs({new: "# z\n"})
        place.ours({INBOX: None, OTHER: None, DONE: "# x\n", "threads/inbox/done/20260101-pi-y.md": "# y\n"})
        base = place.observe()
        assert place.text(base.tip, new) == "# z\n"
        assert [p for p in paths(place.root, base.tip) if p.endswith("z.md")] == [new]


class TestTrust:
    def test_an_unaccepted_change_stops_the_run(self, place: Place) -> None:
        place.observe()
        evil = place.theirs({"state/peers.md": "evil\n"})
        for _ in range(2):
            with pytest.raises(Refused, match=rf"state/peers\.md \(commit {evil[:12]}\)") as told:
                place.observe()
        assert "cn trust" in told.value.hint
        shown = place.observe(check_trust=False)
        accept(place.hub, shown.tip)
        assert place.observe().tip == evil

    def test_it_stops_it_too_when_it_has_to_be_integrated(self, place: Place) -> None:
        place.observe()
        place.ours({"new": "1\n"})
        place.theirs({"deep/.gitattributes": "* filter=evil\n"})
        with pytest.raises(Refused, match=r"deep/\.gitattributes"):
            place.observe()
        accept(place.hub, place.observe(check_trust=False).tip)
        place.observe()

    def test_our_own_change_goes_through_also_when_integrated(self, place: Place) -> None:
        place.observe()
        place.theirs({"new": "1\n"})
        place.ours({"state/peers.md": "mine\n"})
        base = place.observe()
        assert place.text(base.tip, "state/peers.md") == "mine\n"
        assert tip(place.root, "refs/cn/trusted") != base.tip, "origin may decline it"
        git(place.root, "reset", "-q", "--hard", base.tip)
        place.observe()
        assert tip(place.root, "refs/cn/trusted") == base.tip

    def test_our_own_change_goes_through_when_several_commits_are_built(self, place: Place) -> None:
        place.observe()
        place.theirs({"new": "1\n", LOG: "| theirs |\n"})
        old = Oid(place.ours({"state/peers.md": "mine\n"}))
        hub = place.hub
        blob = Oid(git(place.root, "rev-parse", f"main:{LOG}"))
        back = Change("logs/inbox/lost.md", None, Entry("100644", blob))
        write_journal(restore_path(hub), Journal("t", old, old, "m", changes=(back,), inputs={}))
        base = place.observe()
        assert place.text(base.tip, "state/peers.md") == "mine\n"
        assert place.text(base.tip, "logs/inbox/lost.md") == "| a |\n"
