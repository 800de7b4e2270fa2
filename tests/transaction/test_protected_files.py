"""Which changes of protected files count as made in this clone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.transaction.accepted_history import AcceptedHistory, read_changes_of, read_parents
from cn.transaction.made_here import ACT, AGAIN, CN, parse_reflog
from cn.transaction.protected_files import TrustChange, accept, trusted_commit, untrusted
from cn.values.names import Oid
from tests.support.hubs import (
    add_header,
    bare,
    clone,
    commit,
    git,
    git_bytes,
    make_ssh_key,
    push,
    sign_with,
    tip,
    try_git,
    work,
    write_commit,
)
from tests.support.world import Node, World

PEERS = "state/peers.md"


class Place:
    """A hub, its origin, and another clone of that origin."""

    def __init__(self, folder: Path) -> None:
        self.origin = bare(folder / "origin.git")
        root = work(folder / "hub", "sigma")
        commit(root, {".cn/hub.yaml": "name: sigma\n", PEERS: "pi\n", "doc.md": "1\n"})
        git(root, "remote", "add", "origin", str(self.origin))
        push(root, self.origin, "main")
        git(root, "fetch", "-q", "origin")
        git(root, "branch", "-q", "-u", "origin/main")
        self.root, self.hub = root, open_hub(root)
        self.other = clone(self.origin, folder / "other", "mallory")
        accept(self.hub, Oid(tip(root)))

    def foreign(self, path: str = PEERS, content: str | None = "evil\n", message: str = "evil") -> Oid:
        git(self.other, "pull", "-q", "--ff-only", str(self.origin), "main")
        oid = Oid(commit(self.other, {path: content}, message))
        push(self.other, self.origin, "main")
        return oid

    def here(self, *args: str) -> Oid:
        git(self.root, *args)
        return Oid(tip(self.root))

    def check(self) -> list[str]:
        return [c.path for c in self.untrusted(tip(self.root))]

    def untrusted(self, commit: str) -> list[TrustChange]:
        hub = open_hub(self.root)
        return untrusted(hub, Oid(commit), trusted=trusted_commit(hub))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_nothing_changed(place: Place) -> None:
    assert place.check() == []


def test_an_unprotected_change_from_elsewhere_is_no_matter(place: Place) -> None:
    place.foreign("doc.md")
    place.here("pull", "-q", "--ff-only")
    assert place.check() == []


def test_a_hub_that_was_made_here_needs_no_acceptance(place: Place) -> None:
    git(place.root, "update-ref", "-d", "refs/cn/trusted")
    assert trusted_commit(place.hub) is None
    assert place.check() == []
    evil = place.foreign()
    git(place.root, "fetch", "-q")
    assert [c.path for c in place.untrusted(evil)] == [PEERS]


def test_a_fresh_clone_has_accepted_nothing(place: Place) -> None:
    fresh = open_hub(place.other)
    made = Oid(tip(place.other))
    assert untrusted(fresh, made, trusted=None) == [
        TrustChange(path, None, Oid(git(place.other, "rev-parse", f"main:{path}")), (made,))
        for path in (".cn/hub.yaml", PEERS)
    ]
    commit(place.other, {PEERS: "mine\n"}, "of one file")
    assert [c.path for c in untrusted(fresh, Oid(tip(place.other)), trusted=None)] == [".cn/hub.yaml", PEERS]


@pytest.mark.parametrize(
    "path",
    [
        PEERS,
        ".cn/hub.yaml",
        ".cn/new.yaml",
        "spec/SOUL.md",
        ".gitattributes",
        "deep/er/.gitignore",
        ".GITMODULES",
        "State/Peers.md",
    ],
)
def test_a_pulled_change_is_not_ours(place: Place, path: str) -> None:
    evil = place.foreign(path)
    place.here("pull", "-q", "--ff-only")
    found = place.untrusted(evil)
    assert [(c.path, c.commits) for c in found] == [(path, (evil,))]


def test_what_changed_is_told(place: Place) -> None:
    evil = place.foreign(content=None)
    old = Oid(git(place.root, "rev-parse", f"main:{PEERS}"))
    git(place.root, "fetch", "-q")
    assert place.untrusted(evil) == [TrustChange(PEERS, old, None, (evil,))]


@pytest.mark.parametrize("how", ["merge", "reset", "pull-rebase", "rebase", "update-ref", "switch"])
def test_no_way_of_taking_a_foreign_commit_in_makes_it_ours(place: Place, how: str) -> None:
    evil = place.foreign(message="commit: evil")
    git(place.root, "fetch", "-q")
    match how:
        case "merge":
            commit(place.root, {"mine": "1\n"})
            place.here("merge", "-q", "--no-edit", "origin/main")
        case "reset":
            place.here("reset", "-q", "--hard", "origin/main")
        case "pull-rebase":
            commit(place.root, {"mine": "1\n"})
            place.here("pull", "-q", "--rebase")
        case "rebase":
            place.here("rebase", "-q", "origin/main")
        case "update-ref":
            place.here("update-ref", "refs/heads/main", evil)
        case _:
            place.here("switch", "-q", "-C", "main", "origin/main")
    assert place.check() == [PEERS]


def test_commits_made_here_are_ours(place: Place) -> None:
    commit(place.root, {PEERS: "mine\n"}, "mine")
    assert place.check() == []
    place.here("commit", "-q", "--amend", "-m", "better")
    assert place.check() == []
    commit(place.root, {".gitignore": "x\n"})
    assert place.check() == []


@pytest.mark.parametrize("how", ["rebase", "another branch", "amended", "cherry-pick", "range", "revert"])
def test_what_git_makes_again_asks_once(place: Place, how: str) -> None:
    """git notes that it was made here, and not of what."""
    git(place.root, "switch", "-q", "-c", "topic")
    ours = commit(place.root, {PEERS: "mine\n"}, "mine")
    last = commit(place.root, {"work.md": "1\n"}, "work")
    git(place.root, "switch", "-q", "main")
    place.foreign("doc.md", "2\n")
    place.here("pull", "-q", "--ff-only")
    match how:
        case "cherry-pick":
            place.here("cherry-pick", ours)
        case "range":
            place.here("cherry-pick", f"main..{last}")
        case "revert":
            accept(place.hub, place.here("merge", "-q", "--no-edit", "topic"))
            place.here("revert", "--no-edit", ours)
        case _:
            place.here("rebase", "-q", "main", "topic")
            place.here("switch", "-q", "main")
            place.here("merge", "-q", "--ff-only", "topic")
    if how == "amended":
        (place.root / PEERS).write_text("better\n")
        place.here("commit", "-q", "-a", "--amend", "-m", "better")
    (found,) = place.untrusted(made := tip(place.root))
    assert found.path == PEERS
    accept(place.hub, Oid(made))
    commit(place.root, {PEERS: "more\n"}, "more")
    assert place.check() == []


@pytest.mark.parametrize("how", ["squash", "stash", "reset", "soft", "quit", "apply", "checkout"])
@pytest.mark.parametrize("moved", [False, True], ids=["there", "by another name"])
def test_a_commit_of_ours_that_brings_in_a_line_of_others_asks(place: Place, how: str, *, moved: bool) -> None:
    """Also beside a line of ours, and where git lays upon it what others changed in a file of another name."""
    page, first = "spec/AGENT.md", tip(place.root)
    name = "example.md" if moved else page
    there = write_commit(place.root, {name: LONG}, "example", [] if moved else [first])
    strategy = ["-s", "ours", "--allow-unrelated-histories"] if moved else []
    place.here("merge", "-q", "-m", "joined", *strategy, there)
    if moved:
        commit(place.root, {page: LONG}, "ours")
    accept(place.hub, Oid(tip(place.root)))
    evil = write_commit(place.root, {name: f"{LONG}evil\n", "doc.md": "theirs\n"}, "useful", [there])
    git(place.root, "branch", "theirs", evil)
    commit(place.root, {page: f"ours\n{LONG}"}, "ours")
    assert place.check() == []
    if how == "squash":
        try_git(place.root, "merge", "-q", "--squash", "theirs")
        (place.root / "doc.md").write_text("both\n")
        git(place.root, "add", "-A")
    elif how in ("apply", "checkout") and not moved:
        patch = git(place.root, "diff", there, evil, "--", page) + "\n"
        if how == "apply":
            git(place.root, "apply", "--index", stdin=patch)
        else:
            git(place.root, "checkout", evil, "--", page)
    else:
        (place.root / "doc.md").write_text("ours\n")
        git(place.root, "commit", "-q", "-a", "-m", "doc")
        try_git(place.root, "merge", "theirs")
        (place.root / "doc.md").write_text("both\n")
        git(place.root, "add", "-A")
        match how:
            case "stash":
                git(place.root, "stash", "-q")
                git(place.root, "stash", "pop", "-q")
            case "reset":
                git(place.root, "reset", "-q")
            case "soft":
                git(place.root, "commit", "-q", "-m", "merged")
                git(place.root, "reset", "-q", "--soft", "HEAD~1")
            case _:
                git(place.root, "merge", "--quit")
    place.here("commit", "-q", "-a", "-m", "ours")
    assert "evil" in (place.root / page).read_text()
    assert "commit:" in git(place.root, "reflog", "-1")
    assert place.check() == [page]


def test_a_subject_does_not_speak_of_a_fast_forward_as_git_does(place: Place) -> None:
    commit(place.root, {PEERS: "mine\n"}, "Fast-forward the key of pi")
    assert place.check() == []


def test_a_fast_forwarding_cherry_pick_is_not(place: Place) -> None:
    evil = place.foreign()
    git(place.root, "fetch", "-q")
    place.here("cherry-pick", "--ff", evil)
    assert place.check() == [PEERS]


def test_a_hidden_revert_in_a_merge_is_found(place: Place) -> None:
    old = Oid(tip(place.root))
    commit(place.root, {PEERS: "new key\n"}, "mine")
    new = Oid(tip(place.root))
    accept(place.hub, new)
    side = write_commit(place.root, {"doc.md": "2\n"}, "side", [old])
    # The merge silently takes the old peers.md, which no commit in the range changes.
    evil = write_commit(place.root, {PEERS: "pi\n"}, "merge", [new, side])
    assert [(c.path, c.commits) for c in place.untrusted(evil)] == [(PEERS, (evil,))]


def test_a_change_and_its_undoing_is_no_change(place: Place) -> None:
    place.foreign()
    place.foreign(content="pi\n")
    place.here("pull", "-q", "--ff-only")
    assert place.check() == []


def test_ours_on_top_of_a_foreign_change_does_not_cover_it(place: Place) -> None:
    evil = place.foreign()
    place.here("pull", "-q", "--ff-only")
    commit(place.root, {PEERS: "evil\nand mine\n"}, "mine")
    found = place.untrusted(tip(place.root))
    assert [(c.path, c.commits) for c in found] == [(PEERS, (evil,))]


def test_accept_accepts(place: Place) -> None:
    evil = place.foreign()
    place.here("pull", "-q", "--ff-only")
    accept(place.hub, evil)
    assert place.check() == []
    assert trusted_commit(place.hub) == evil


def test_a_listed_key_signs_for_changes_from_elsewhere(place: Place, tmp_path: Path) -> None:
    private, public = make_ssh_key(tmp_path / "key", "sigma at another machine")
    _, other = make_ssh_key(tmp_path / "another")
    sign_with(place.other, private)
    place.foreign()
    place.here("pull", "-q", "--ff-only")
    assert place.check() == [PEERS]
    git(place.root, "config", "--add", "cn.trustedKey", other)
    assert place.check() == [PEERS]
    git(place.root, "config", "--add", "cn.trustedKey", public)
    assert place.check() == []


def test_an_openpgp_signature_never_counts(place: Place, tmp_path: Path) -> None:
    _, public = make_ssh_key(tmp_path / "key")
    git(place.root, "config", "cn.trustedKey", public)
    fake = tmp_path / "gpg"
    fake.write_text('#!/bin/sh\necho "[GNUPG:] GOODSIG 0123456789ABCDEF trusted0" >&1\nexit 0\n')
    fake.chmod(0o755)
    git(place.root, "config", "gpg.program", str(fake))
    plain = git(place.other, "cat-file", "commit", place.foreign())
    head, _, body = plain.partition("\n\n")
    armor = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----"
    evil = git(place.root, "hash-object", "-w", "-t", "commit", "--stdin", stdin=f"{head}\n{armor}\n\n{body}\n")
    git(place.root, "fetch", "-q")
    assert [c.path for c in place.untrusted(evil)] == [PEERS]


def test_leaving_the_accepted_history_asks(place: Place) -> None:
    commit(place.root, {PEERS: "mine\n"}, "mine")
    accept(place.hub, Oid(tip(place.root)))
    place.here("reset", "-q", "--hard", "HEAD~1")
    assert place.check() == [PEERS]


@pytest.mark.parametrize("accepted", ["before", "at"])
def test_what_a_merge_did_not_take_changed_nothing(place: Place, accepted: str) -> None:
    """A branch that touched a file of ours and took it back, merged by somebody who may."""
    first = tip(place.root)
    ours = commit(place.root, {PEERS: "2\n"}, "ours")
    touched = write_commit(place.root, {PEERS: "pi\nevil\n"}, "touched", [first])
    back = write_commit(place.root, {PEERS: "pi\n", "y": "1"}, "taken back", [touched])
    accept(place.hub, Oid(first if accepted == "before" else ours))
    merge = write_commit(place.root, {"y": "1"}, "merge", [ours, back])
    assert place.untrusted(merge) == []
    accept(place.hub, Oid(merge))
    place.here("reset", "-q", "--hard", merge)
    commit(place.root, {PEERS: "3\n"}, "ours again")
    assert place.check() == []


def test_what_a_merge_took_of_any_side_is_named(place: Place) -> None:
    ours = commit(place.root, {PEERS: "2\n"}, "ours")
    first = trusted_commit(place.hub)
    assert first
    evil = write_commit(place.root, {PEERS: "pi\nevil\n"}, "evil", [first])
    took = write_commit(place.root, {PEERS: "pi\nevil\n"}, "took theirs", [ours, evil])
    assert [(c.path, c.commits) for c in place.untrusted(took)] == [(PEERS, (evil,))]
    mixed = write_commit(place.root, {PEERS: "2\nevil\n"}, "mixed", [ours, evil])
    assert [(c.path, set(c.commits)) for c in place.untrusted(mixed)] == [(PEERS, {mixed, evil})]
    kept = write_commit(place.root, {"y": "1"}, "kept ours", [ours, evil])
    assert place.untrusted(kept) == []


def _revert(root: Path, _first: str, old: str, new: str) -> str:
    return write_commit(root, {PEERS: "old\n"}, "tidy", [new])


def _merge(root: Path, _first: str, old: str, new: str) -> str:
    return write_commit(root, {PEERS: "old\n"}, "merge", [new, old])


def _merge_of_what_adds_nothing(root: Path, _first: str, old: str, new: str) -> str:
    beside = write_commit(root, {"doc.md": "2\n"}, "beside", [old])
    return write_commit(root, {PEERS: "old\n"}, "merge", [new, beside])


def _merge_upon_a_revert(root: Path, _first: str, old: str, new: str) -> str:
    back = write_commit(root, {PEERS: "old\n"}, "tidy", [new])
    return write_commit(root, {"doc.md": "2\n"}, "merge", [back, old])


def _merge_from_before(root: Path, first: str, _old: str, new: str) -> str:
    return write_commit(root, {"doc.md": "2\n"}, "merge", [first, new])


def _merge_of_more(root: Path, first: str, old: str, new: str) -> str:
    beside = write_commit(root, {"doc.md": "2\n"}, "beside", [old])
    return write_commit(root, {PEERS: "old\n"}, "merge", [new, beside, first])


def _merge_of_merges(root: Path, first: str, old: str, new: str) -> str:
    started = write_commit(root, {"doc.md": "2\n"}, "started before", [first])
    beside = write_commit(root, {"doc.md": "2\n"}, "beside", [old])
    side = write_commit(root, {PEERS: "old\n"}, "merge", [started, beside])
    return write_commit(root, {PEERS: "old\n"}, "merge", [new, side])


def _back_and_forth(root: Path, first: str, old: str, new: str) -> str:
    other = write_commit(root, {PEERS: "other\n"}, "other", [new])
    return write_commit(root, {PEERS: "old\n"}, "as it was", [other])


@pytest.mark.parametrize("accepted", ["before", "between"])
@pytest.mark.parametrize(
    "take_back",
    [
        _revert,
        _merge,
        _merge_of_what_adds_nothing,
        _merge_upon_a_revert,
        _merge_from_before,
        _merge_of_more,
        _merge_of_merges,
        _back_and_forth,
    ],
)
def test_what_we_changed_and_others_took_back_is_their_change(
    place: Place, accepted: str, take_back: Callable[[Path, str, str, str], str]
) -> None:
    """We replaced a key that was stolen: by no shape of history the old one counts again."""
    first = tip(place.root)
    old = commit(place.root, {PEERS: "old\n"}, "ours")
    new = commit(place.root, {PEERS: "new\n"}, "ours again")
    accept(place.hub, Oid(first if accepted == "before" else old))
    evil = take_back(place.root, first, old, new)
    (found,) = place.untrusted(evil)
    assert found.path == PEERS
    assert found.commits
    assert not {old, new, first} & set(found.commits)
    place.here("reset", "-q", "--hard", evil)
    commit(place.root, {PEERS: "new\n"}, "ours once more")
    assert place.check() == []


@pytest.mark.parametrize("back", ["pi\n", "pi\nand more\n"])
def test_what_is_taken_back_is_found_where_main_does_not_go_on_from_what_was_accepted(place: Place, back: str) -> None:
    """A merge that a run made and origin declined was accepted; the next run makes another."""
    first = tip(place.root)
    local = commit(place.root, {"doc.md": "2\n"}, "ours, not pushed")
    ahead = write_commit(place.root, {"other.md": "1\n"}, "origin went on", [first])
    accept(place.hub, Oid(write_commit(place.root, {"doc.md": "2\n"}, "cn: integrate local commits", [ahead, local])))
    place.here("reset", "-q", "--hard", ahead)
    ours = commit(place.root, {PEERS: "new\n"}, "ours")
    evil = write_commit(place.root, {PEERS: back}, "evil", [ours])

    def merged(side: str) -> str:
        return write_commit(place.root, {"doc.md": "2\n"}, "merge", [side, local])

    assert [c.path for c in place.untrusted(merged(ours))] == [PEERS]
    (found,) = place.untrusted(merged(evil))
    assert (found.path, found.commits) == (PEERS, (evil,))
    should = [Oid(git(place.root, "rev-parse", f"{ours}:{PEERS}"))] if back == "pi\n" else []
    assert [entry and entry.oid for entry in found.instead] == should


@pytest.mark.parametrize("merge", [True, False])
def test_an_older_change_of_ours_does_not_stand_for_what_was_accepted(
    place: Place, tmp_path: Path, *, merge: bool
) -> None:
    """Main was set back after the acceptance, to a version that was signed once, and amended."""
    private, public = make_ssh_key(tmp_path / "key")
    git(place.root, "config", "cn.trustedKey", public)
    sign_with(place.other, private)
    first = tip(place.other)
    old = commit(place.other, {PEERS: "old\n"}, "signed")
    git(place.other, "reset", "-q", "--hard", first)
    new = commit(place.other, {PEERS: "new\n"}, "signed")
    git(place.root, "fetch", "-q", str(place.other), old)
    git(place.root, "fetch", "-q", str(place.other), new)
    parents = [first, old] if merge else [new]
    accept(place.hub, Oid(write_commit(place.root, {"spec/HUB.md": "1\n", PEERS: "new\n"}, "of others", parents)))
    back = write_commit(place.root, {"spec/HUB.md": "1\n"}, "of others", [old])
    assert PEERS in [c.path for c in place.untrusted(back)]


@pytest.mark.parametrize("again", ["rebase", "amend", "reset-author", "fixup"])
def test_a_commit_of_others_that_is_made_again_here_is_not_ours(place: Place, again: str) -> None:
    """As by the steps that are printed where origin's main was rewound, with what a person has pulled."""
    commit(place.root, {"doc.md": "notes\n"}, "Notes")
    place.here("push", "-q", "origin", "main")
    first = tip(place.root)
    place.foreign(message="fixup! Notes")
    place.here("pull", "-q", "--ff-only")
    if again == "rebase":
        onto = write_commit(place.root, {"other.md": "2\n"}, "rewound", [first])
        made = place.here("rebase", "-q", "--onto", onto, first, "main")
    elif again == "fixup":
        made = place.here("-c", "sequence.editor=true", "rebase", "-q", "-i", "--autosquash", "HEAD~2")
    else:
        author = ["--reset-author"] if again == "reset-author" else []
        made = place.here("commit", "-q", "--amend", *author, "-m", "said otherwise")
    assert [(c.path, c.commits) for c in place.untrusted(made)] == [(PEERS, (made,))]


@pytest.mark.parametrize("how", ["plain", "one parent twice", "an old side", "with a conflict"])
def test_what_a_revert_brings_back_of_others_is_not_ours(place: Place, how: str) -> None:
    """They took it out again, with a line of the ledger: the revert that is printed for that brings it back."""
    first, old = tip(place.root), tip(place.root)
    if how == "an old side":  # what was replaced since
        accept(place.hub, Oid(first := commit(place.root, {PEERS: "new\n"}, "ours")))
    evil = {PEERS: "pi\n"} if how == "an old side" else {PEERS: "evil\n"}
    if how == "with a conflict":
        evil = {PEERS: "pi\nevil\njunk\n", "doc.md": "a\n"}
    parents = {"one parent twice": [first, first], "an old side": [first, old]}.get(how, [first])
    theirs = write_commit(place.root, evil, "evil", parents)
    now = {PEERS: "new\n"} if how == "an old side" else {PEERS: "pi\n"}
    if how == "with a conflict":
        now = {PEERS: "pi\njunk\n", "doc.md": "b\n"}
    last = cleanup = write_commit(place.root, {**now, "other.md": "1\n"}, "cleanup", [theirs])
    if how == "with a conflict":
        last = write_commit(place.root, {PEERS: "pi\n", "doc.md": "c\n"}, "more", [cleanup])
    place.here("reset", "-q", "--hard", last)
    assert place.check() == []
    if how == "with a conflict":
        try_git(place.root, "revert", "--no-edit", cleanup)
        (place.root / "doc.md").write_text("resolved\n")
        if "<<<" in (place.root / PEERS).read_text():
            (place.root / PEERS).write_text("pi\nevil\n")
        git(place.root, "add", "-A")
        made = place.here("commit", "-q", "--no-edit")
    else:
        made = place.here("revert", "--no-edit", cleanup)
    assert [(c.path, c.commits) for c in place.untrusted(made)] == [(PEERS, (made,))]


def test_a_change_that_we_took_back_and_others_made_again_is_not_ours_by_a_rebase(place: Place) -> None:
    """What they brought back is as it was accepted; but one who may had changed it meanwhile."""
    first = tip(place.root)
    commit(place.root, {PEERS: "ours\n"}, "ours")
    evil = write_commit(place.root, {PEERS: "pi\n"}, "as it was", [tip(place.root)])
    place.here("reset", "-q", "--hard", evil)
    onto = write_commit(place.root, {"other.md": "2\n"}, "rewound", [first])
    made = place.here("rebase", "-q", "--onto", onto, first, "main")
    assert [c.path for c in place.untrusted(made)] == [PEERS]


def test_an_accepted_change_of_ours_is_not_gone_by_a_pair_of_others(place: Place) -> None:
    first = tip(place.root)
    accept(place.hub, Oid(commit(place.root, {PEERS: "new\n"}, "ours")))
    there = write_commit(place.root, {PEERS: "x\n"}, "there", [first])
    back = write_commit(place.root, {PEERS: "pi\n"}, "and back", [there])
    place.here("reset", "-q", "--hard", back)
    assert place.check() == [PEERS]


@pytest.mark.parametrize("back", [False, True])
def test_a_file_that_is_just_as_others_made_it_is_not_ours(place: Place, *, back: bool) -> None:
    """As by the step for a conflict, which takes what origin has; but what is as it was accepted is."""
    if back:
        accept(place.hub, Oid(commit(place.root, {PEERS: "new\n"}, "ours")))
    first = tip(place.root)
    evil = write_commit(place.root, {PEERS: "new\n" if back else "evil\n", "y": "1"}, "evil", [first])
    place.here("checkout", "-q", evil, "--", PEERS)
    made = place.here("commit", "-q", "--allow-empty", "-m", "as at origin")
    merge = write_commit(place.root, {"y": "1"}, "merge", [evil, made])
    found = [(c.path, set(c.commits)) for c in place.untrusted(merge)]
    assert found == ([] if back else [(PEERS, {evil, made})])


@pytest.mark.parametrize("paths", [["x\n/.gitignore"], [f"a/{number}/.gitignore" for number in range(502)]], ids=len)
def test_files_of_others_beside_it_make_no_commit_ours(place: Place, paths: list[str]) -> None:
    first = tip(place.root)
    place.foreign()
    place.here("pull", "-q", "--ff-only")
    onto = write_commit(place.root, {"other.md": "2\n"}, "rewound", [first])
    made = place.here("rebase", "-q", "--onto", onto, first, "main")
    more = write_commit(place.root, dict.fromkeys(paths, "1\n"), "more", [made])
    back = git(place.root, "commit-tree", "-p", more, "-m", "back", f"{made}^{{tree}}")
    assert [(c.path, c.commits) for c in place.untrusted(back)] == [(PEERS, (made,))]


def test_what_a_merge_brings_in_by_another_name_of_a_file_is_found(place: Place) -> None:
    """The file was moved to the protected name here; git lays upon that what others changed under the old one."""
    lines = "".join(f"line {number}\n" for number in range(20))
    start = Oid(commit(place.root, {"people.md": lines}, "people"))
    accept(place.hub, start)
    theirs = write_commit(place.root, {"people.md": f"{lines}evil\n"}, "theirs", [start])
    (place.root / "spec").mkdir(exist_ok=True)
    git(place.root, "mv", "people.md", "spec/USER.md")
    ours = place.here("commit", "-q", "-m", "moved")
    merge = Oid(write_commit(place.root, {"spec/USER.md": f"{lines}evil\n", "people.md": None}, "m", [theirs, ours]))
    plain = Oid(write_commit(place.root, {"spec/USER.md": lines, "people.md": None}, "m", [theirs, ours]))
    hub, trusted = open_hub(place.root), trusted_commit(place.hub)
    for one, found in ((merge, ["spec/USER.md"]), (plain, [])):
        assert [c.path for c in untrusted(hub, one, trusted=trusted, built=frozenset({one}))] == found


LONG = "bob\n" + "".join(f"line {number}\n" for number in range(8))


def signed_elsewhere(place: Place, files: dict[str, bytes | str | None], message: str) -> Oid:
    """A commit of a colleague, signed by a key that this clone lists, at origin."""
    private, public = make_ssh_key(place.root.parent / "key")
    git(place.root, "config", "cn.trustedKey", public)
    sign_with(place.other, private)
    git(place.other, "pull", "-q", "--ff-only", str(place.origin), "main")
    made = Oid(commit(place.other, files, message))
    git(place.other, "config", "commit.gpgSign", "false")
    push(place.other, place.origin, "main")
    return made


@pytest.mark.parametrize("how", ["amend", "rebase", "revert"])
def test_an_own_version_from_before_a_rebase_stands_for_no_commit_of_others(place: Place, how: str) -> None:
    """What our rebase left behind has a file without the change of a colleague; anybody can write just that."""
    accept(place.hub, Oid(commit(place.root, {PEERS: LONG}, "peers")))
    push(place.root, place.origin, "main")
    signed_elsewhere(place, {PEERS: LONG.removeprefix("bob\n")}, "bob is out")
    commit(place.root, {PEERS: f"{LONG}ours\n"}, "ours")
    place.here("pull", "-q", "--rebase")
    assert place.check() == [PEERS], "git laid our change upon theirs"
    accept(place.hub, Oid(known := tip(place.root)))
    evil = write_commit(place.root, {PEERS: f"{LONG}ours\n"}, "wording", [known])
    if how == "revert":
        out = write_commit(place.root, {PEERS: git(place.root, "show", f"{known}:{PEERS}") + "\n"}, "out", [evil])
        place.here("merge", "-q", out)
        made = place.here("revert", "--no-edit", out)
    else:
        place.here("merge", "-q", evil)
        onto = write_commit(place.root, {"doc.md": "2\n"}, "rewound", [known])
        words = (
            ["rebase", "-q", "--onto", onto, known, "main"] if how == "rebase" else ["commit", "-q", "--amend", "-mx"]
        )
        made = place.here(*words)
    assert [(c.path, c.commits) for c in place.untrusted(made)] == [(PEERS, (made,))]


def test_what_was_signed_and_is_picked_again_is_taken_back_by_nobody(place: Place) -> None:
    first = tip(place.root)
    out = signed_elsewhere(place, {PEERS: "bob is out\n"}, "bob is out")
    git(place.root, "fetch", "-q")
    evil = write_commit(place.root, {PEERS: "pi\n"}, "wording", [out])
    place.here("merge", "-q", evil)
    assert place.check() == [PEERS]
    onto = write_commit(place.root, {"doc.md": "2\n"}, "rewound", [first])
    made = place.here("rebase", "-q", "--onto", onto, first, "main")
    assert [c.path for c in place.untrusted(made)] == [PEERS]


@pytest.mark.parametrize("merge", [True, False])
def test_a_revert_brings_nothing_of_others_back_that_was_accepted_with_its_undoing(
    place: Place, *, merge: bool
) -> None:
    first = tip(place.root)
    evil = write_commit(place.root, {PEERS: "evil\n"}, "evil", [first])
    back = write_commit(place.root, {PEERS: "pi\n"}, "and back", [evil])
    place.here("merge", "-q", back)
    assert place.check() == []
    accept(place.hub, Oid(back))
    named = ["-m", "1", write_commit(place.root, {PEERS: "pi\n"}, "merge", [evil, back])] if merge else [back]
    place.here("merge", "-q", named[-1])
    assert place.check() == []
    made = place.here("revert", "--no-edit", *named)
    assert [(c.path, c.commits) for c in place.untrusted(made)] == [(PEERS, (made,))]


@pytest.mark.parametrize("beside", [True, False])
def test_an_amended_merge_of_others_is_not_ours(place: Place, *, beside: bool) -> None:
    old, new = tip(place.root), commit(place.root, {PEERS: "new\n"}, "the stolen key is out")
    accept(place.hub, Oid(new))
    side = write_commit(place.root, {PEERS: "newer\n"}, "beside", [new]) if beside else new
    place.here("merge", "-q", write_commit(place.root, {PEERS: "pi\n"}, "merge", [side, old]))
    assert place.check() == [PEERS]
    made = place.here("commit", "-q", "--amend", "-m", "said otherwise")
    assert [(c.path, c.commits) for c in place.untrusted(made)] == [(PEERS, (made,))]


def test_what_git_made_again_upon_a_main_that_was_made_anew_is_not_ours(place: Place) -> None:
    known = tip(place.root)
    place.here("merge", "-q", write_commit(place.root, {"spec/AGENT.md": "evil\n"}, "evil", [known]))
    assert place.check() == ["spec/AGENT.md"]
    anew = write_commit(place.root, {".cn/hub.yaml": "name: sigma\n", PEERS: "pi\n", "doc.md": "1\n"}, "anew", [])
    made = place.here("rebase", "-q", "--onto", anew, known, "main")
    assert [c.path for c in place.untrusted(made)] == ["spec/AGENT.md"]


def test_what_was_taken_out_here_and_comes_back_is_no_less_told_with_a_change_of_ours(place: Place) -> None:
    first = tip(place.root)
    evil = write_commit(place.root, {PEERS: f"evil\n{LONG}"}, "evil", [first])
    place.here("merge", "-q", evil)
    accept(place.hub, Oid(commit(place.root, {PEERS: "pi\n"}, "taken out")))
    place.here("reset", "-q", "--hard", write_commit(place.root, {"doc.md": "2\n"}, "rewound", [evil]))
    assert place.check() == [PEERS]
    commit(place.root, {PEERS: f"evil\n{LONG}ours\n"}, "ours")
    assert place.check() == [PEERS]


def test_a_merge_of_ours_that_stopped_elsewhere_takes_nothing_in_of_others(place: Place) -> None:
    """git's merge takes a side that changed a file; that one has it of a commit which was taken back."""
    first = tip(place.root)
    evil = write_commit(place.root, {PEERS: "evil\n"}, "evil", [first])
    back = write_commit(place.root, {PEERS: "pi\n"}, "and back", [evil])
    place.here("merge", "-q", back)
    ours = commit(place.root, {"doc.md": "ours\n"}, "ours")
    accept(place.hub, Oid(ours))  # by a run whose push origin declined
    beside = write_commit(place.root, {"other.md": "1\n"}, "beside", [evil])
    theirs = write_commit(place.root, {PEERS: "evil\n", "doc.md": "theirs\n"}, "merge", [beside, back])
    assert [c.path for c in place.untrusted(theirs)] == [PEERS]
    try_git(place.root, "merge", "-q", theirs)
    commit(place.root, {"doc.md": "both\n"}, "resolved")
    assert "commit (merge)" in git(place.root, "reflog", "-1")
    assert [(c.path, c.commits) for c in place.untrusted(tip(place.root))] == [(PEERS, (theirs,))]


def test_what_others_take_back_of_what_was_accepted_goes_by_no_merge_that_has_ours(place: Place) -> None:
    """Their side is as it was before, so git takes ours, of which nobody has chosen: what was accepted is not in it."""
    first = tip(place.root)
    ours = commit(place.root, {PEERS: "pi\nours\n", "doc.md": "ours\n"}, "ours")
    key = write_commit(place.root, {PEERS: "a new key\npi\n"}, "the stolen key is out", [first])
    accept(place.hub, Oid(key))
    back = write_commit(place.root, {PEERS: "pi\n", "doc.md": "theirs\n"}, "and in", [key])
    try_git(place.root, "merge", "-q", back)
    commit(place.root, {"doc.md": "both\n"}, "resolved")
    assert "commit (merge)" in git(place.root, "reflog", "-1")
    assert git(place.root, "show", f"HEAD:{PEERS}") == git(place.root, "show", f"{ours}:{PEERS}")
    assert [(c.path, c.commits) for c in place.untrusted(tip(place.root))] == [(PEERS, (back,))]


def test_a_topic_of_others_that_has_merged_main_makes_no_change_of_ours_theirs(place: Place) -> None:
    topic = write_commit(place.root, {"doc.md": "topic\n"}, "topic", [tip(place.root)])
    main = commit(place.root, {PEERS: "ours\n"}, "ours")
    accept(place.hub, Oid(main))
    merged = write_commit(place.root, {PEERS: "ours\n"}, "main into it", [topic, main])
    place.here("merge", "-q", merged)
    commit(place.root, {PEERS: "ours\nmore\n"}, "more")
    assert place.check() == []


def test_what_others_once_had_here_makes_no_later_amend_theirs(place: Place) -> None:
    first = tip(place.root)
    place.here("merge", "-q", write_commit(place.root, {PEERS: "pi\nevil\n"}, "evil", [first]))
    place.here("reset", "-q", "--hard", first)
    commit(place.root, {PEERS: "ours\n"}, "ours")
    (place.root / PEERS).write_text("better\n")
    place.here("commit", "-q", "-a", "--amend", "-m", "ours, better")
    assert place.check() == []


@pytest.mark.parametrize("end", ["continue", "commit"])
def test_what_a_stopped_rebase_made_of_others_is_not_ours(place: Place, end: str) -> None:
    first = tip(place.root)
    evil = write_commit(place.root, {PEERS: "evil\n", "doc.md": "a\n"}, "evil", [first])
    place.here("merge", "-q", evil)
    onto = write_commit(place.root, {"doc.md": "b\n"}, "rewound", [first])
    try_git(place.root, "rebase", "-q", "--onto", onto, first, "main")
    (place.root / "doc.md").write_text("resolved\n")
    git(place.root, "add", "-A")
    if end == "commit":
        git(place.root, "commit", "-q", "-m", "resolved")
    made = place.here("-c", "core.editor=true", "rebase", "--continue")
    assert [(c.path, c.commits) for c in place.untrusted(made)] == [(PEERS, (made,))]


def test_an_old_history_of_ours_upon_nothing_that_was_accepted_asks(place: Place) -> None:
    """The history was made anew here, by which a stolen key went; the old one was made here too."""
    old = tip(place.root)
    git(place.root, "checkout", "-q", "--orphan", "fresh")
    commit(place.root, {PEERS: "new\n"}, "anew")
    place.here("branch", "-q", "-M", "main")
    accept(place.hub, Oid(tip(place.root)))
    place.here("reset", "-q", "--hard", write_commit(place.root, {"doc.md": "2\n"}, "notes", [old]))
    assert place.check() == [PEERS]


def test_what_was_amended_and_thrown_away_stands_for_no_accepted_change(place: Place) -> None:
    first = commit(place.root, {PEERS: LONG}, "peers")
    replaced = commit(place.root, {PEERS: LONG.replace("bob", "new")}, "the stolen key is out")
    (place.root / PEERS).write_text(LONG.replace("bob", "newer"))
    place.here("commit", "-q", "-a", "--amend", "-m", "oops")
    place.here("reset", "-q", "--hard", replaced)
    accept(place.hub, Oid(replaced))
    commit(place.root, {PEERS: f"{LONG.replace('bob', 'new')}ours\n"}, "ours")
    onto = write_commit(place.root, {"doc.md": "2\n"}, "rewound", [first])
    place.here("rebase", "-q", "--onto", onto, replaced, "main")
    assert place.check() == [PEERS]


@pytest.mark.parametrize("before", ["reset", "amend"])
def test_what_we_once_made_stands_for_no_pick_of_others(place: Place, before: str) -> None:
    first = tip(place.root)
    commit(place.root, {PEERS: "bob\n"}, "bob may")
    if before == "reset":
        place.here("reset", "-q", "--soft", first)
        place.here("commit", "-q", "-m", "bob may decide")
    else:
        place.here("commit", "-q", "--amend", "-m", "bob may decide")
    accept(place.hub, Oid(known := commit(place.root, {PEERS: "pi\n"}, "bob may not")))
    place.here("merge", "-q", write_commit(place.root, {PEERS: "bob\n"}, "wording", [known]))
    onto = write_commit(place.root, {"doc.md": "2\n"}, "rewound", [known])
    made = place.here("rebase", "-q", "--onto", onto, known, "main")
    assert [(c.path, c.commits) for c in place.untrusted(made)] == [(PEERS, (made,))]


def test_a_revert_that_stopped_and_was_said_otherwise_asks(place: Place) -> None:
    lines = "".join(f"line {number}\n" for number in range(8))
    known = commit(place.root, {PEERS: lines, "notes.md": "0\n"}, "ours")
    accept(place.hub, Oid(known))
    write = {PEERS: f"evil\n{lines}junk\n", "notes.md": "a\n"}
    evil = write_commit(place.root, write, "wording", [known])
    out = write_commit(place.root, {PEERS: f"{lines}junk\n", "notes.md": "b\n"}, "out", [evil])
    place.here("merge", "-q", write_commit(place.root, {PEERS: lines, "notes.md": "c\n"}, "junk out", [out]))
    assert place.check() == []
    try_git(place.root, "revert", "--no-edit", out)
    assert git(place.root, "diff", "--name-only", "--diff-filter=U") == "notes.md"
    made = commit(place.root, {"notes.md": "c\n"}, "restored")
    assert [(c.path, c.commits) for c in place.untrusted(made)] == [(PEERS, (made,))]


def test_what_was_taken_of_origin_for_a_conflict_is_theirs_amended_too(place: Place) -> None:
    first = tip(place.root)
    evil = write_commit(place.root, {PEERS: "evil\npi\n", "y": "1"}, "evil", [first])
    place.here("checkout", "-q", evil, "--", PEERS)
    place.here("commit", "-q", "-m", "as at origin")
    (place.root / PEERS).write_text("evil\npi\nours\n")
    made = place.here("commit", "-q", "-a", "--amend", "-m", "and what was here")
    merge = write_commit(place.root, {PEERS: "evil\npi\nours\n"}, "merge", [evil, made])
    assert PEERS in [c.path for c in place.untrusted(merge)]


@pytest.mark.parametrize(
    ("actions", "how"),
    [
        (["rebase (pick): Notes (finish): typos", "commit: Wording"], [AGAIN, AGAIN]),
        (["rebase (pick): Notes (abort): typos", "commit: Wording"], [AGAIN, AGAIN]),
        (["rebase (pick): feat(start): x", "rebase (finish): returning to x", "commit: y"], [AGAIN, ACT]),
        (["rebase (edit): x", "commit (amend): y"], [AGAIN, AGAIN]),
        (["rebase (finish): returning to refs/heads/main", "commit: x", "commit (amend): y"], [ACT, ACT]),
        (["rebase (pick): x", "checkout: moving from a to b", "commit: y"], [AGAIN, ACT]),
        (["rebase (finish): returning to refs/heads/main", "merge x: Fast-forward", "commit (amend): y"], [AGAIN]),
        (["rebase (finish): returning to refs/heads/main", "cherry-pick: x", "commit (amend): y"], [AGAIN, AGAIN]),
        (["rebase (finish): returning to refs/heads/main", "cn: x", "commit (amend): y"], [CN, ACT]),
        (["rebase (finish): returning to refs/heads/main", "revert: x", "commit (merge): y"], [AGAIN, ACT]),
    ],
)
def test_what_is_committed_in_a_rebase_is_its_own_until_git_ends_that(actions: list[str], how: list[str]) -> None:
    """Whoever writes the subject of a commit ends no rebase by it."""
    lines = ["rebase (start): checkout origin/main", *actions]
    ids = [Oid(f"{number:040x}") for number in range(len(lines))]
    assert [one for _, one in parse_reflog(f"{oid} {line}" for oid, line in zip(ids, lines, strict=True))] == how


def test_a_branch_that_is_made_in_a_rebase_ends_it_not() -> None:
    lines = ["rebase (start): checkout origin/main", "rebase (pick): x", "checkout: moving from x to save", "commit: y"]
    ids = [f"{number:040x}" for number in (1, 2, 2, 3)]
    made = dict(parse_reflog(f"{oid} {line}" for oid, line in zip(ids, lines, strict=True)))
    assert list(made.values()) == [AGAIN, AGAIN]


def test_an_amended_clone_of_one_commit_has_accepted_nothing(place: Place, tmp_path: Path) -> None:
    fresh = clone(place.origin, tmp_path / "fresh", "sigma")
    git(fresh, "commit", "-q", "--amend", "-m", "said otherwise")
    found = untrusted(open_hub(fresh), Oid(tip(fresh)), trusted=None)
    assert [change.path for change in found] == [".cn/hub.yaml", PEERS]


def test_a_line_that_others_took_out_by_two_commits_asks(place: Place) -> None:
    """The one that took it out brought in another, which the next one took out again."""
    accept(place.hub, Oid(commit(place.root, {PEERS: LONG}, "peers")))
    less = LONG.removeprefix("bob\n")
    first = write_commit(place.root, {PEERS: f"{less}junk\n"}, "one", [tip(place.root)])
    git(place.root, "branch", "theirs", write_commit(place.root, {PEERS: less, "useful.md": "1\n"}, "two", [first]))
    git(place.root, "merge", "-q", "--squash", "theirs")
    place.here("commit", "-q", "-m", "useful")
    assert place.check() == [PEERS]


def test_what_a_run_asked_for_stays_asked_for_until_it_is_accepted(world: World) -> None:
    """Though the branch that it was squashed of is gone, and it was amended."""
    sigma = world.hub("sigma", origin=True)
    sigma.sync()
    theirs = clone(sigma.url, world.folder / "theirs", "mallory")
    commit(theirs, {"spec/USER.md": "evil\n"}, "useful")
    git(theirs, "push", "-q", "origin", "HEAD:useful")
    git(sigma.root, "fetch", "-q", "origin")
    git(sigma.root, "merge", "-q", "--squash", "origin/useful")
    git(sigma.root, "commit", "-qm", "useful")
    sigma.cn("sync", "--dry-run", check=1)
    assert not git(sigma.root, "for-each-ref", "refs/cn/doubt/"), "a dry run writes nothing"
    assert "changed here, with what git may have taken of others" in sigma.cn("sync", check=1).stderr
    git(theirs, "push", "-q", "origin", ":useful")
    git(sigma.root, "fetch", "-q", "--prune", "origin")
    git(sigma.root, "commit", "-q", "--amend", "-m", "said otherwise")
    assert "spec/USER.md" in sigma.cn("sync", check=1).stderr
    assert "git may have brought in" in sigma.cn("trust", check=None).stdout
    sigma.cn("trust", "--yes")
    sigma.sync()
    assert not git(sigma.root, "for-each-ref", "refs/cn/doubt/")


def test_a_line_that_others_write_elsewhere_in_the_file_puts_none_of_ours_in_doubt(place: Place) -> None:
    """A branch that waits, and what was pulled and thrown away."""
    accept(place.hub, Oid(commit(place.root, {PEERS: LONG}, "peers")))
    branch = write_commit(place.root, {PEERS: f"{LONG}theirs\n"}, "branch", [tip(place.root)])
    git(place.root, "branch", "theirs", branch)
    commit(place.root, {PEERS: f"ours\n{LONG}"}, "ours")
    assert place.check() == []
    accept(place.hub, Oid(tip(place.root)))
    commit(place.root, {PEERS: LONG}, "and out")
    assert place.check() == []
    commit(place.root, {PEERS: f"ours\n{LONG}theirs\n"}, "theirs too")
    assert place.check() == [PEERS]
    git(place.root, "branch", "-q", "-D", "theirs")
    git(place.root, "branch", "a-hub-of-its-own", write_commit(place.root, {PEERS: f"{LONG}theirs\n"}, "peers", []))
    assert place.check() == []


def test_a_signature_that_git_made_again_stands_for_nothing(place: Place, tmp_path: Path) -> None:
    """In a second clone, or a linked work tree, whose reflogs are not read here."""
    evil = place.foreign()
    second = clone(place.origin, tmp_path / "second", "sigma")
    key, public = make_ssh_key(tmp_path / "key")
    sign_with(second, key)
    place.here("config", "cn.trustedKey", public)
    onto = write_commit(second, {"doc.md": "2\n"}, "more", [git(second, "rev-parse", f"{evil}^")])
    git(second, "rebase", "-q", "--onto", onto, f"{evil}^", "main")
    assert "BEGIN SSH SIGNATURE" in git(second, "cat-file", "commit", "HEAD")
    again = tip(second)
    commit(second, {".gitignore": "x\n"}, "in one go")
    git(second, "push", "-q", "--force", str(place.origin), "main")
    place.here("fetch", "-q")
    place.here("merge", "-q", "--ff-only", "origin/main")
    assert [(c.path, c.commits) for c in place.untrusted(tip(place.root))] == [(PEERS, (again,))]


def test_who_writes_the_author_and_the_date_of_ours_makes_no_change_of_ours_again(place: Place) -> None:
    """Bob was let in, and taken out again; others do it once more, upon a line of theirs, as if they were we."""
    tail, before = "eve was here\n", LONG.removeprefix("bob\n")
    begun = commit(place.root, {PEERS: before}, "peers")
    with_tail = write_commit(place.root, {PEERS: f"{before}{tail}"}, "a line", [begun])
    first = write_commit(place.root, {PEERS: before}, "out again", [with_tail])
    place.here("merge", "-q", "--ff-only", first)
    accept(place.hub, Oid(first))
    own = [LONG, before]
    dates = ["2026-03-01T12:00:00Z", "2026-03-02T12:00:00Z"]
    for text, date in zip(own, dates, strict=True):
        (place.root / PEERS).write_text(text)
        place.here("commit", "-q", "-a", "-m", "ours", "--date", date)
    known = tip(place.root)
    accept(place.hub, Oid(known))
    author, theirs = git(place.root, "log", "-1", "--format=%an <%ae>"), with_tail
    for text, date in zip([*own, own[0]], [*dates, dates[0]], strict=True):
        theirs = write_commit(place.root, {PEERS: f"{text}{tail}"}, "ours", [theirs], author, date)
    place.here("merge", "-q", "--ff-only", write_commit(place.root, {PEERS: LONG}, "merge", [known, theirs]))
    assert place.check() == [PEERS]
    onto = write_commit(place.root, {"other.md": "2\n"}, "rewound", [first])
    place.here("rebase", "-q", "--onto", onto, known, "main")
    assert (place.root / PEERS).read_text() == LONG
    assert place.check() == [PEERS]


def test_nothing_that_a_rebase_makes_again_is_ours_where_it_began_on_what_nobody_accepted(place: Place) -> None:
    """Ours alone is made again here, which nobody can tell from what is not; once that is accepted, it is ours."""
    commit(place.root, {PEERS: f"{LONG}ours\n"}, "ours")
    push(place.root, place.origin, "main")
    accept(place.hub, Oid(tip(place.root)))
    begun = tip(place.root)
    commit(place.root, {"doc.md": "mine\n", PEERS: f"{LONG}ours\nmine\n"}, "mine")
    foreign = write_commit(place.root, {"spec/USER.md": "evil\n"}, "evil", [tip(place.root)])
    place.here("merge", "-q", "--ff-only", foreign)
    onto = write_commit(place.root, {PEERS: f"first\n{LONG}ours\n"}, "rewound", [begun])
    accept(place.hub, Oid(onto))
    made = place.here("rebase", "-q", "--onto", onto, begun, "main")
    assert [c.path for c in place.untrusted(made)] == ["spec/USER.md", PEERS]


@pytest.mark.parametrize("how", ["a root", "by another name"])
def test_no_commit_of_others_with_the_date_of_ours_is_picked_as_ours(place: Place, how: str) -> None:
    """It changes nothing where it stands, so that nobody is asked; a rebase that drops the merge brings it in."""
    page, author = "spec/AGENT.md", git(place.root, "log", "-1", "--format=%an <%ae>")
    begun = tip(place.root)
    if how == "by another name":
        begun = commit(place.root, {"foo.md": LONG.removeprefix("bob\n")}, "foo")
        (place.root / "spec").mkdir()
        git(place.root, "mv", "foo.md", page)
        commit(place.root, {}, "moved")
    before = None if how == "a root" else LONG.removeprefix("bob\n")
    for text, date in ((LONG, "2026-03-01T12:00:00Z"), (before, "2026-03-02T12:00:00Z")):
        commit(place.root, {page: text})
        place.here("commit", "-q", "--amend", "-m", "ours", "--date", date)
    known = Oid(tip(place.root))
    accept(place.hub, known)
    parents, name = ([], page) if how == "a root" else ([begun], "foo.md")
    evil = write_commit(place.root, {name: LONG}, "wording", parents, author, "2026-03-01T12:00:00Z")
    place.here("merge", "-q", "--ff-only", write_commit(place.root, {}, "merge", [known, evil]))
    assert place.check() == []
    onto = write_commit(place.root, {"other.md": "2\n"}, "more", [known])
    place.here("rebase", "-q", "--onto", onto, known, "main")
    assert (place.root / page).read_text() == LONG
    assert place.check() == [page]


@pytest.mark.parametrize("author", ["{} x1772366400 +0000", "{} 1772366400", "encoding"])
def test_a_date_of_others_that_is_read_otherwise_by_a_rebase_is_that_of_ours(place: Place, author: str) -> None:
    page, who = "spec/AGENT.md", git(place.root, "log", "-1", "--format=%an <%ae>")
    begun = commit(place.root, {"foo.md": LONG.removeprefix("bob\n")}, "foo")
    (place.root / "spec").mkdir()
    git(place.root, "mv", "foo.md", page)
    commit(place.root, {}, "moved")
    for text, date in ((LONG, "2026-03-01T12:00:00Z"), (LONG.removeprefix("bob\n"), "2026-03-02T12:00:00Z")):
        commit(place.root, {page: text})
        place.here("commit", "-q", "--amend", "-m", "ours", "--date", date)
    known = Oid(tip(place.root))
    accept(place.hub, known)
    made = write_commit(place.root, {"foo.md": LONG, "doc.md": "1a\n"}, "wording", [begun], who, "2026-03-01T12:00:00Z")
    if author == "encoding":
        evil = add_header(place.root, made, "encoding UTF-7")
    else:
        lines = git_bytes(place.root, "cat-file", "commit", made).split(b"\n")
        named = [b"author " + author.format(who).encode() if x.startswith(b"author ") else x for x in lines]
        evil = git(place.root, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=b"\n".join(named))
    place.here("merge", "-q", "--ff-only", write_commit(place.root, {"doc.md": "1a\n"}, "merge", [known, evil]))
    onto = write_commit(place.root, {"doc.md": "2\n"}, "more", [known])
    try_git(place.root, "rebase", "-q", "--onto", onto, known, "main")
    (place.root / "doc.md").write_text("2 and 1a\n")
    git(place.root, "add", "doc.md")
    place.here("-c", "core.editor=true", "rebase", "--continue")
    assert (place.root / page).read_text() == LONG
    assert place.check() == [page]


def test_what_origin_had_is_picked_as_ours_from_no_branch(place: Place) -> None:
    """A rebase that is begun elsewhere: where HEAD was is not what is rebased. What others made again of what we took
    out has our author and date, and has left origin's main meanwhile.
    """
    author = git(place.root, "log", "-1", "--format=%an <%ae>")
    for text, date in (("stolen\n", "2026-03-01T12:00:00Z"), ("pi\n", "2026-03-02T12:00:00Z")):
        commit(place.root, {PEERS: text})
        place.here("commit", "-q", "--amend", "-m", "ours", "--date", date)
    known = Oid(tip(place.root))
    push(place.root, place.origin, "main")
    git(place.root, "fetch", "-q", "origin")
    accept(place.hub, known)
    place.here("switch", "-q", "-c", "topic")
    evil = write_commit(place.root, {PEERS: "stolen\n"}, "ours", [known], author, "2026-03-01T12:00:00Z")
    place.here("merge", "-q", "--ff-only", evil)
    commit(place.root, {"work.md": "w\n"}, "work", when="2026-03-03T12:00:00Z")
    place.here("switch", "-q", "main")
    place.here("merge", "-q", "--ff-only", write_commit(place.root, {"other.md": "2\n"}, "more", [known]))
    assert place.check() == []
    place.here("rebase", "-q", "main", "topic")
    place.here("switch", "-q", "main")
    place.here("merge", "-q", "--ff-only", "topic")
    assert (place.root / PEERS).read_text() == "stolen\n"
    assert place.check() == [PEERS]


def test_what_an_own_merge_made_is_lost_with_it(place: Place) -> None:
    """A merge that was solved by hand is made again by nobody: a main without it asks."""
    git(place.root, "switch", "-q", "-c", "topic")
    topic = commit(place.root, {"doc.md": "topic\n"}, "topic")
    git(place.root, "switch", "-q", "main")
    ours = commit(place.root, {"doc.md": "main\n"}, "main")
    try_git(place.root, "merge", "topic")
    merged = Oid(commit(place.root, {"doc.md": "both\n", PEERS: "a new key\n"}, "merged"))
    accept(place.hub, merged)
    again = write_commit(place.root, {"doc.md": "both\n"}, "merged", [ours, topic])
    assert [c.path for c in place.untrusted(again)] == [PEERS]


def test_a_restored_file_shows_what_it_takes_back_of_a_signed_change(place: Place) -> None:
    known = tip(place.root)
    signed_elsewhere(place, {PEERS: "key replaced\n"}, "replaced")
    git(place.root, "pull", "-q", "--ff-only")
    evil = write_commit(place.root, {PEERS: "key replaced\njunk\n"}, "tidy", [tip(place.root)])
    place.here("merge", "-q", "--ff-only", evil)
    place.here("checkout", "-q", known, "--", PEERS)
    made = place.here("commit", "-q", "-m", "restored")
    (change,) = place.untrusted(made)
    (should,) = change.instead
    assert should is not None
    assert git(place.root, "cat-file", "blob", should.oid) == "key replaced"


@pytest.mark.parametrize("more", [True, False])
def test_what_others_took_back_before_it_was_accepted_does_not_come_again(place: Place, *, more: bool) -> None:
    first = tip(place.root)
    evil = write_commit(place.root, {PEERS: "evil\n"}, "evil", [first])
    back = write_commit(place.root, {PEERS: "pi\n"}, "taken back", [evil])
    assert place.untrusted(back) == []
    accept(place.hub, Oid(back))
    good = write_commit(place.root, {"doc.md": "2\n"}, "good", [back])
    beside = write_commit(place.root, {"doc.md": "3\n"}, "beside", [evil])
    parents = [good, beside, first] if more else [good, beside]
    merge = write_commit(place.root, {PEERS: "evil\n"}, "merge", parents)
    assert [(c.path, c.commits) for c in place.untrusted(merge)] == [(PEERS, (merge,))]


def test_what_we_changed_upon_a_change_of_others_is_taken_back_by_nobody(place: Place) -> None:
    """It was accepted in another clone, with the change of others; this one has stopped at that meanwhile."""
    first = tip(place.root)
    blank = write_commit(place.root, {PEERS: "pi\n\n"}, "a blank line", [first])
    place.here("reset", "-q", "--hard", blank)
    ours = commit(place.root, {PEERS: "new\n\n"}, "ours")
    assert [c.commits for c in place.untrusted(ours)] == [(blank,)]
    back = write_commit(place.root, {PEERS: "pi\n"}, "as it was", [ours])
    assert [(c.path, set(c.commits)) for c in place.untrusted(back)] == [(PEERS, {blank, back})]
    accept(place.hub, Oid(ours))
    assert [(c.path, c.commits) for c in place.untrusted(back)] == [(PEERS, (back,))]


def test_a_fresh_clone_asks_whatever_is_signed(place: Place, tmp_path: Path) -> None:
    private, public = make_ssh_key(tmp_path / "key")
    sign_with(place.other, private)
    old = commit(place.other, {PEERS: "old\n"}, "signed")
    new = commit(place.other, {PEERS: "new\n", ".cn/hub.yaml": "name: sigma\n\n"}, "signed")
    push(place.other, place.origin, "main")
    fresh = clone(place.origin, tmp_path / "fresh", "sigma")
    git(fresh, "config", "cn.trustedKey", public)
    merge = write_commit(fresh, {PEERS: "old\n"}, "merge", [new, old])
    for commit_ in (new, merge):
        found = untrusted(open_hub(fresh), Oid(commit_), trusted=None)
        assert [c.path for c in found] == [".cn/hub.yaml", PEERS]


def test_merges_of_others_bring_in_what_was_begun_before_ours(place: Place) -> None:
    """A forge merges branches that were begun before the last change of ours, many of them."""
    place.here("config", "cn.guard", "true")
    start, main = tip(place.root), commit(place.root, {PEERS: "2\n", "logs/x.md": "a log\n"}, "ours")
    accept(place.hub, Oid(start))
    for number in range(220):
        branch = write_commit(place.root, {f"code/{number}": "1"}, "code", [start])
        main = write_commit(place.root, {f"code/{number}": "1"}, "merge", [main, branch])
    assert place.untrusted(main) == []
    log = {"logs/x.md": "evil\n"}
    evil = write_commit(place.root, log, "merge", [main, write_commit(place.root, log, "code", [start])])
    assert [c.path for c in place.untrusted(evil)] == ["logs/x.md"]


def test_a_file_that_goes_and_comes_as_a_link_is_found(place: Place) -> None:
    gone = write_commit(place.root, {PEERS: None}, "gone", [tip(place.root)])
    link = write_commit(place.root, {PEERS: "pi\n"}, "a link", [gone], modes={PEERS: "120000"})
    assert [(c.path, set(c.commits)) for c in place.untrusted(link)] == [(PEERS, {gone, link})]


def test_what_git_lists_beyond_what_is_new_changes_nothing(place: Place) -> None:
    """It goes by the dates of commits, and where these are odd it lists some that were accepted."""
    first = tip(place.root)
    old = commit(place.root, {PEERS: "old\n"}, "ours")
    evil = write_commit(place.root, {PEERS: "evil\n"}, "evil", [old])
    accepted = Oid(write_commit(place.root, {PEERS: "pi\n"}, "accepted by hand", [evil]))
    beside = write_commit(place.root, {"doc.md": "2\n"}, "beside", [old])
    good = write_commit(place.root, {"doc.md": "3\n"}, "good", [accepted])
    for parents, content, by in (([good, beside], "pi\n", set()), ([good, beside, first], "old\n", {"merge"})):
        merge = write_commit(place.root, {PEERS: content}, "merge", parents)
        parents_of = read_parents(place.hub.git, merge)
        changes = read_changes_of(place.hub.git, parents_of)[PEERS]
        foreign = {Oid(one) for one in (evil, accepted, beside, good, merge)}
        judged = AcceptedHistory(place.hub.git, accepted, parents_of, foreign).judge(PEERS, changes)
        assert judged.by == ({merge} if by else set())


def test_a_history_that_was_rewritten_with_the_same_files_changes_nothing(place: Place) -> None:
    tree = git(place.root, "rev-parse", "HEAD^{tree}")
    root = git(place.root, "commit-tree", "-m", "all", tree)
    assert place.untrusted(root) == []
    assert [c.path for c in place.untrusted(write_commit(place.root, {PEERS: "evil\n"}, "evil", [root]))] == [PEERS]


def test_changes_of_ours_side_by_side_need_a_merge_of_ours(place: Place) -> None:
    first = tip(place.root)
    one = commit(place.root, {PEERS: "one\n"}, "one")
    place.here("reset", "-q", "--hard", first)
    two = commit(place.root, {PEERS: "two\n"}, "two")
    evil = write_commit(place.root, {PEERS: "one\n"}, "merge", [one, two])
    assert [(c.path, c.commits) for c in place.untrusted(evil)] == [(PEERS, (evil,))]
    git(place.root, "merge", "-q", "--no-commit", "-s", "ours", one)
    commit(place.root, {PEERS: "one\n"}, "merge")
    assert place.check() == []


def test_a_file_that_others_made_a_program_is_found(place: Place) -> None:
    git(place.other, "update-index", "--chmod=+x", PEERS)
    git(place.other, "commit", "-qm", "evil")
    push(place.other, place.origin, "main")
    place.here("pull", "-q", "--ff-only")
    assert place.check() == [PEERS]


def test_a_tag_that_is_called_as_what_is_accepted_accepts_nothing(world: World, tmp_path: Path) -> None:
    """Whoever may push tags gives it to each clone; git takes it where there is no such ref."""
    sigma = world.hub("sigma", origin=True)
    sigma.sync()
    git(sigma.root, "push", "--quiet", "origin", "HEAD:refs/tags/refs/cn/trusted", "HEAD:refs/tags/main")
    second = tmp_path / "second"
    git(tmp_path, "clone", "--quiet", sigma.url, str(second))
    assert git(second, "rev-parse", "refs/cn/trusted") == tip(sigma.root), "what git makes of it"
    other = Node("sigma", second, sigma.home, sigma.url)
    shown = other.cn("trust", check=None).stdout
    assert "state/peers.md" in shown
    assert ".cn/hub.yaml" in shown
    assert "accepted" in other.cn("sync", check=1).stderr
    other.cn("trust", "--yes")
    other.sync()
    assert "HEAD is" not in other.cn("status").stdout


def test_a_signed_merge_brings_nothing_of_others_in_by_another_name(place: Place, tmp_path: Path) -> None:
    """git follows a file of others that has another name into a protected one, and signs what it makes of it."""
    key, public = make_ssh_key(tmp_path / "key")
    place.here("config", "cn.trustedKey", public)
    commit(place.root, {PEERS: LONG})
    sign_with(place.root, key)
    root = write_commit(place.root, {"docs.md": LONG}, "examples", [])
    accept(place.hub, place.here("merge", "-q", "-s", "ours", "--allow-unrelated-histories", "-m", "none", root))
    place.here("merge", "-q", "--no-edit", write_commit(place.root, {"docs.md": f"{LONG}eve\n"}, "more", [root]))
    assert (place.root / PEERS).read_text() == f"{LONG}eve\n"
    assert place.check() == [PEERS]
