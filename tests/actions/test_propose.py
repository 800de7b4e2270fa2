"""``cn propose`` and ``cn rebase``: commits of a clone become a branch at a peer, move, and come to an end."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.hubs import (
    Content,
    branches,
    checkout,
    clone,
    cn,
    commit,
    fetch,
    git,
    identify,
    make_ssh_key,
    push,
    sign_with,
    tip,
    try_git,
    work,
)
from tests.support.world import MAIN_FILE, Node, World, content, is_in_main


class Desk:
    """Where somebody of pi's works: a clone of sigma's hub, from which pi proposes."""

    def __init__(self, world: World, sigma: Node, pi: Node) -> None:
        self.world, self.sigma, self.pi = world, sigma, pi
        self.root = clone(sigma.url, world.folder / "desk")
        identify(self.root, "Pia", "pia@people.example")
        git(self.root, "config", "cn.hub", str(pi.root))

    def begin(self, files: Mapping[str, Content], name: str = "fix", message: str = "Mend it") -> str:
        """A new branch from sigma's latest main with one commit; its head."""
        fetch(self.root, self.sigma.url, "main")
        checkout(self.root, name, "FETCH_HEAD")
        return commit(self.root, files, message, author="Pia <pia@people.example>")

    def cn(self, *words: str | Path, check: int = 0) -> CompletedProcess[str]:
        """A command in the clone."""
        return cn(*words, cwd=self.root, check=check)

    def there(self, topic: str = "fix") -> str | None:
        """Where the branch is at the place where it belongs."""
        name, url = self.world.branch(self.pi, self.sigma, topic)
        return branches(url).get(name)


@pytest.fixture
def desk(world: World, sigma: Node, pi: Node) -> Desk:
    return Desk(world, sigma, pi)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Desk:
    """One for all that changes nothing at hubs."""
    world = World(tmp_path_factory.mktemp("shared"), template)
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    return Desk(world, sigma, pi)


@pytest.mark.parametrize("upon", [False, True])
@pytest.mark.parametrize("topic", ["fix", "pi/fix"])
def test_a_branch_of_the_topics_name_elsewhere_is_not_replaced_by_what_one_is_on(
    desk: Desk, topic: str, *, upon: bool
) -> None:
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    if upon:
        checkout(desk.root, "other", "fix")
        other = commit(desk.root, {"docs/other.md": "two\n"}, "Not ready")
    else:
        other = desk.begin({"docs/other.md": "two\n"}, "other")
    told = desk.cn("propose", topic, check=2).stderr
    assert f"your branch fix is at {head[:8]}, and you are on other, at {other[:8]}" in told
    assert "'git switch fix'" in told
    assert f"'cn propose {topic} --commit HEAD'" in told
    assert desk.there() == head
    desk.cn("propose", topic, "--commit", "HEAD")
    assert desk.there() == other


def test_what_is_delivered_is_named_by_commit_number_and_title(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    head = commit(desk.root, {"docs/fix.md": "two\n"}, "And more")
    said = f"pi/fix at sigma: {head[:8]}, 2 commits, Mend it"
    assert f"would: deliver {said}" in " ".join(desk.cn("propose", "fix", "--dry-run").stdout.split())
    assert f"✓ delivered {said}" in " ".join(desk.cn("propose", "fix").stdout.split())


def test_the_name_by_which_status_shows_it_is_understood(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    moved = commit(desk.root, {"docs/fix.md": "two\n"})
    for words in (("sigma:fix",), ("sigma:fix", "sigma")):
        desk.cn("propose", *words)
        assert desk.there() == moved
        moved = commit(desk.root, {"docs/fix.md": f"{words}\n"})
    assert "nobody" in desk.cn("propose", "nobody:fix", check=1).stderr
    assert len(branches(desk.sigma.url)) == 2


def test_what_git_lfs_keeps_is_told_not_to_go_with_it(desk: Desk) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"
    desk.begin({"docs/big.bin": pointer, "docs/small.md": "small\n"})
    told = desk.cn("propose", "fix").stdout
    assert "git-lfs keeps the contents of docs/big.bin: no proposal brings them" in told
    assert "'git lfs push --all origin' does" in told


def test_a_project_that_left_cn_is_called_that_by_who_proposes_there_and_by_doctor(desk: Desk) -> None:
    assert "left cn" not in desk.pi.cn("doctor", "--full", check=None).stdout
    git(desk.sigma.root, "rm", "-rq", ".cn", "threads", "logs", "state", "spec", "skills")
    git(desk.sigma.root, "commit", "-qm", "Without cn")
    push(desk.sigma.root, desk.sigma.url, "main")
    desk.begin({"docs/fix.md": "one\n"})
    told = desk.cn("propose", "fix").stdout
    assert "sigma's main has no .cn/hub.yaml: the project left cn, or never used it" in told
    assert "sigma decides" not in told
    assert "pi/fix" in branches(desk.sigma.home)
    (back,) = re.findall(r"'cn (withdraw [^']*)' takes it back", told)
    desk.cn(*shlex.split(back))
    assert "pi/fix" not in branches(desk.sigma.home)
    told = " ".join(desk.pi.cn("doctor", "--full", check=None).stdout.split())
    assert "sigma's main shows no .cn/hub.yaml: the project left cn, or never used it" in told
    assert "'cn peer remove sigma' takes it out here" in told


def test_no_other_hub_is_remembered_where_cn_runs_for_the_one_that_is_here(desk: Desk) -> None:
    git(desk.root, "config", "--unset", "cn.hub")
    cn("trust", "--yes", cwd=desk.root, check=0)
    desk.begin({"docs/a.md": "a\n"})
    assert "noted" not in desk.cn("propose", "fix", "--hub", desk.pi.root).stdout
    assert desk.there() is not None
    checkout(desk.root, "main")
    assert json.loads(desk.cn("status", "--json").stdout)["hub"] == "sigma"


def test_nothing_is_proposed_in_the_middle_of_a_rebase(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    before = desk.there()
    other = desk.begin({"docs/fix.md": "other\n"}, "other")
    checkout(desk.root, "fix")
    assert try_git(desk.root, "rebase", "--quiet", other).returncode != 0
    refused = " ".join(desk.cn("propose", "fix", check=1).stderr.split())
    assert "a rebase is open in" in refused
    assert "finish or abort it, then run it again" in refused
    git(desk.root, "rebase", "--abort")
    assert desk.there() == before
    desk.cn("propose", "fix")


def test_the_hub_that_was_named_is_remembered_where_the_proposal_is_refused(desk: Desk) -> None:
    git(desk.root, "config", "--unset", "cn.hub")
    desk.begin({"state/fix.md": "one\n"})
    assert "protected-paths" in desk.cn("propose", "fix", "--hub", desk.pi.root, check=1).stderr
    desk.begin({"docs/fix.md": "one\n"}, "good")
    assert "✓ delivered pi/good at sigma" in desk.cn("propose", "good").stdout


def test_a_name_that_is_no_topic_is_refused_with_one_that_would_do(shared: Desk) -> None:
    for name, would in {"feature/login": "feature-login", "Feature-X": "feature-x", "issue#4": "issue-4"}.items():
        told = shared.cn("propose", name, check=2).stderr
        assert f"topic '{name}' is not valid" in told
        assert f"'{would}' would do" in told
    assert "would do" not in shared.cn("propose", "", check=2).stderr


def test_what_main_has_by_another_commit_is_not_proposed(desk: Desk) -> None:
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.sigma.write({"docs/fix.md": "one\n"}, "Picked")
    refused = desk.cn("propose", "fix", check=1).stderr
    assert f"sigma's main has all that {head[:8]} changes already" in refused


@pytest.mark.sliced(2)
@pytest.mark.parametrize("route", ["mailbox", "pickup"])
def test_a_proposal_goes_moves_is_merged_and_gone(world: World, route: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    desk = Desk(world, sigma, pi)
    first = desk.begin({"docs/fix.md": "one\n"})
    said = desk.cn("propose", "fix").stdout
    assert "✓ delivered" in said
    assert "sigma decides" in said
    assert desk.there() == first
    second = commit(desk.root, {"docs/fix.md": "two\n"})
    desk.cn("propose", "fix")
    assert desk.there() == second
    assert "waits for a decision" not in sigma.sync().stdout
    assert sigma.threads() == [sigma.only_thread()]
    sigma.decide("pi/fix", "do:merge")
    assert is_in_main(sigma, second)
    world.settle(pi, sigma)
    assert desk.there() is None
    assert [row[1:] for row in pi.rows("sigma/fix")] == [
        *[("propose", "queued"), ("propose", "✓ delivered")] * 2,
        ("notice:merged", "merged SHA"),
        ("clean up", "queued"),
        ("clean up", "✓ deleted"),
    ]
    refused = desk.cn("propose", "fix", check=1).stderr
    assert f"at {second[:8]} was merged as" in refused
    third = commit(desk.root, {"docs/fix.md": "three\n"})
    desk.cn("propose", "fix")
    assert desk.there() == third
    sigma.sync()
    assert "20" in sigma.thread(sigma.only_thread())
    pi.idle()


def test_the_hub_is_named_once_and_a_clone_that_accepted_nothing_is_nobodys(desk: Desk) -> None:
    git(desk.root, "config", "--unset", "cn.hub")
    desk.begin({"docs/fix.md": "one\n"})
    refused = desk.cn("propose", "fix", check=1)
    assert "may be a clone of a peer's hub" in refused.stderr
    assert desk.there() is None
    said = desk.cn("propose", "fix", "--hub", desk.pi.root).stdout
    assert "its proposals are made by the hub pi" in said
    assert git(desk.root, "config", "cn.hub") == str(desk.pi.root)
    assert desk.cn("status").stdout.startswith("pi: ")
    git(desk.root, "config", "cn.hub", "/nowhere")
    assert "there is no hub at /nowhere, which cn.hub names in" in desk.cn("status", check=3).stderr


def test_a_rebase_notes_the_hub_that_is_named_too(desk: Desk, sigma: Node) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    git(desk.root, "config", "--unset", "cn.hub")
    commit(sigma.root, {"docs/other.md": "main goes on\n"})
    sigma.sync()
    refused = desk.cn("rebase", "fix", check=1).stderr
    assert "name your own with '--hub DIR', the clone remembers it" in refused
    said = desk.cn("rebase", "fix", "--hub", desk.pi.root).stdout
    assert "its proposals are made by the hub pi" in said
    assert git(desk.root, "config", "cn.hub") == str(desk.pi.root)
    assert "is on sigma's latest main already" in desk.cn("rebase", "fix").stdout


def test_a_missing_peer_is_named_with_its_place_and_leaves_no_note(desk: Desk) -> None:
    git(desk.root, "config", "--unset", "cn.hub")
    desk.begin({"docs/fix.md": "one\n"})
    git(desk.root, "remote", "set-url", "origin", "/nowhere/project.git")
    refused = desk.cn("propose", "fix", "--hub", desk.pi.root, check=1).stderr
    assert "pi has no peer at /nowhere/project.git" in refused
    assert f"'cn peer add NAME /nowhere/project.git --hub {desk.pi.root}' adds it" in refused
    assert git(desk.root, "config", "--default", "none", "cn.hub") == "none"
    assert "sigma" not in refused.partition("cloned\n")[2], "another project's hub takes nothing of this one"


def test_the_same_head_again_says_where_it_stands(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    before = desk.pi.refs()
    again = desk.cn("propose", "fix").stdout
    assert "already, proposed to sigma: no answer yet" in again
    assert "sigma decides, once" not in again
    assert "moves it to what you committed since" not in again
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", "defer:after the release")
    desk.pi.sync()
    assert 'deferred: "after the release' in desk.cn("propose", "fix").stdout
    assert before["refs/cn/pins/sigma/out/fix"] == desk.pi.refs()["refs/cn/pins/sigma/out/fix"]


@pytest.mark.parametrize("route", ["mailbox", "pickup"])
def test_what_was_taken_back_is_proposed_again_also_before_a_sync(world: World, route: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    desk = Desk(world, sigma, pi)
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    world.withdraw(pi, sigma, "fix")
    would = " ".join(desk.cn("propose", "fix", "--dry-run").stdout.split())
    assert f"fix at sigma: {head[:8]}, 1 commit, Mend it" in would
    assert desk.there() is None
    told = " ".join(desk.cn("propose", "fix", "-m", "Again").stdout.split())
    assert "fix is not there any more: it goes there again" in told
    assert re.search(f"✓ delivered \\w+/fix at .*: {head[:8]}, 1 commit, Mend it", told), told
    assert desk.there() == head
    assert "gone" not in pi.sync().stdout
    assert "no answer yet; nothing to do" in desk.cn("propose", "fix").stdout
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    world.settle(pi, sigma)
    assert desk.there() is None
    assert "merged" in desk.cn("why", "sigma:fix").stdout


def test_what_a_peer_that_pinned_our_key_saw_taken_back_is_refused_until_it_is_a_new_commit(desk: Desk) -> None:
    key, public = make_ssh_key(desk.world.folder / "key")
    sign_with(desk.root, key)
    sign_with(desk.pi.root, key)
    desk.sigma.cn("peer", "key", "pi", public)
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    desk.world.withdraw(desk.pi, desk.sigma, "fix")
    desk.cn("propose", "fix")  # nobody there has seen that
    desk.world.settle(desk.pi, desk.sigma)
    desk.world.withdraw(desk.pi, desk.sigma, "fix")
    desk.world.settle(desk.sigma, desk.pi)
    for words in ((), ("--dry-run",)):
        told = desk.cn("propose", "fix", *words, check=1).stderr
        assert f"merge-needs-approval: sigma has seen {head[:8]} taken back" in told
    (amend,) = re.findall(r"'(git commit [^']*)' makes a new commit", told)
    git(desk.root, *shlex.split(amend)[1:], GIT_COMMITTER_DATE="2026-03-01T12:00:00Z")
    desk.cn("propose", "fix")
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", "do:merge")
    assert desk.sigma.threads() == []


def test_a_strangers_commit_is_not_called_our_proposal_before_a_sync(desk: Desk) -> None:
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    other = clone(desk.sigma.url, desk.world.folder / "other")
    identify(other, "mallory", "mallory@cn.invalid")
    theirs = commit(other, {"docs/fix.md": "theirs\n"}, "Mine")
    git(other, "push", "-qf", "origin", "HEAD:pi/fix")
    told = desk.cn("propose", "fix", check=1).stderr
    assert f"pi/fix is at {theirs[:8]} there, and cn knows {head[:8]}: nothing was proposed" in told
    assert desk.there() == theirs


@pytest.mark.parametrize("decision", ["do:merge", "delete:no"])
def test_a_head_that_was_replaced_by_what_was_decided_is_refused_at_once_and_answered(
    desk: Desk, decision: str
) -> None:
    """Whoever goes on from the old branch is told, by cn here and, where git pushed it, by the peer."""
    old = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    desk.sigma.sync()
    desk.sigma.write({"docs/other.md": "moved\n"})
    desk.cn("rebase", "fix")
    new = desk.there() or ""
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", decision)
    desk.world.settle(desk.pi, desk.sigma)
    became = "merged as [0-9a-f]{12}" if decision == "do:merge" else "discarded"
    was = f"{old[:8]} is an earlier state of pi/fix, which was {became} by sigma \\(.*\\) at {new[:8]}\n"
    for topic in ("fix", "other"):
        refused = desk.cn("propose", topic, "--commit", old, check=1).stderr
        assert re.search(was, refused), refused
        assert "'git pull --rebase origin refs/heads/main' brings your branch to what was decided" in refused
    assert desk.there() is None

    desk.world.settle(desk.pi, desk.sigma)
    git(desk.root, "push", "--quiet", "origin", f"{old}:refs/heads/pi/fix")
    desk.sigma.sync()
    assert desk.sigma.threads() == []
    told = desk.pi.sync().stdout
    assert f"it was replaced by {new[:8]}, which was decided before: {decision}; only a new commit" in told
    assert desk.there() is None, "the answer is final, so its creator has cleaned up"
    desk.world.settle(desk.pi, desk.sigma)
    assert list(branches(desk.sigma.home)) == list(branches(desk.pi.home)) == ["main"]
    assert "discarded" in desk.cn("why", "sigma:fix").stdout


def test_after_a_new_head_an_earlier_refusal_is_no_answer_any_more(desk: Desk) -> None:
    desk.begin({MAIN_FILE: "mine\n"})
    desk.cn("propose", "fix")
    desk.sigma.sync()
    desk.sigma.write({MAIN_FILE: "yours\n"})
    desk.sigma.decide("pi/fix", "do:merge")
    desk.pi.sync()
    assert "is at sigma; refused" in " ".join(desk.cn("thread", "show", "sigma:fix").stdout.split())
    fetch(desk.root, desk.sigma.url, "main")
    checkout(desk.root, "fix", "FETCH_HEAD")
    commit(desk.root, {"docs/fix.md": "new\n"})
    desk.cn("propose", "fix")
    said = desk.cn("why", "sigma:fix").stdout
    assert "is       at sigma; no answer\n" in said
    assert "answered: refused" in said, "what was said before stands in its chain"


def test_a_proposal_has_one_title_at_both_sides(desk: Desk) -> None:
    """That of its first commit, pushed by cn or by hand."""
    for topic in ("fix", "hand"):
        desk.begin({f"docs/{topic}.md": "one\n"}, topic, f"Begin {topic}")
        commit(desk.root, {f"docs/{topic}.md": "two\n"}, f"End {topic}")
        if topic == "fix":
            desk.cn("propose", topic)
        else:
            git(desk.root, "push", "--quiet", "origin", "HEAD:pi/hand")
    desk.sigma.sync()
    desk.pi.sync()
    for told in (desk.sigma.cn("inbox").stdout, desk.pi.cn("status").stdout):
        assert "Begin fix" in told
        assert "Begin hand" in told
        assert "End " not in told


def _strange(desk: Desk) -> None:
    other = work(desk.world.folder / "strange", "Pia")
    commit(other, {"a": "a\n"})
    fetch(desk.root, other, "main")
    checkout(desk.root, "fix", "FETCH_HEAD")


def _nothing(desk: Desk) -> None:
    fetch(desk.root, desk.sigma.url, "main")
    checkout(desk.root, "fix", "FETCH_HEAD")


def _undone(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    commit(desk.root, {"docs/fix.md": None})


def _of_commits(desk: Desk, number: int) -> None:
    """A branch of so many commits (git-fast-import(1))."""
    fetch(desk.root, desk.sigma.url, "main")
    start = git(desk.root, "rev-parse", "FETCH_HEAD")
    made = [f"from {start}\nM 100644 inline docs/0.md\ndata 1\n0\n"]
    made += [f"M 100644 inline docs/{n}.md\ndata 1\n0\n" for n in range(1, number)]
    who = "committer Pia <pia@people.example> 1770000000 +0000"
    stream = "".join(f"commit refs/heads/fix\n{who}\ndata 1\nx\n{one}" for one in made)
    git(desk.root, "fast-import", "--quiet", "--force", stdin=stream)
    git(desk.root, "checkout", "-q", "--force", "--detach", "fix")
    checkout(desk.root, "fix", "HEAD")


def _of_files(desk: Desk, number: int) -> None:
    desk.begin({f"docs/many/{n}.md": f"{n}\n" for n in range(number)})


NEVER: dict[str, Callable[[Desk], object]] = {
    "no history in common": _strange,
    "has .* already": _nothing,
    "changes nothing": _undone,
    "protected-paths: .cn/hub.yaml": lambda desk: desk.begin({".cn/hub.yaml": "name: pi\n"}),
    "protected-paths: logs/x.md": lambda desk: desk.begin({"logs/x.md": "x\n"}),
    "valid-name: the name": lambda desk: desk.begin({"docs/a\u202eb.md": "x\n"}),
    "clean-merge: .* are one name": lambda desk: desk.begin({"docs/START.md": "x\n"}),
    r"clean-merge: it has 501 commits, more than the 500 .* or squash it": lambda desk: _of_commits(desk, 501),
    r"clean-merge: it changes 1,001 files.*\(1,000 at most\)\s+→ propose it in": lambda desk: _of_files(desk, 1001),
    "no-secrets: docs/k.md, line 1": lambda desk: desk.begin({"docs/k.md": "AKIAIOSFODNN7EXAMPLF\n"}),
    "no-secrets: the message of": lambda desk: desk.begin({"docs/k.md": "k\n"}, message="AKIAIOSFODNN7EXAMPLF"),
}


@pytest.mark.parametrize("why", NEVER)
def test_what_can_never_be_merged_is_refused_at_once(shared: Desk, why: str) -> None:
    desk = shared
    NEVER[why](desk)
    before = desk.pi.main
    refused = desk.cn("propose", "fix", check=1).stderr
    assert re.search(why, refused, re.DOTALL), refused
    assert "→ " in refused
    assert "conflict in" not in refused
    assert desk.cn("propose", "fix", "--dry-run", check=1).stderr == refused
    assert desk.there() is None
    assert desk.pi.main == before


def test_files_that_were_moved_are_counted_as_a_thread_names_them(desk: Desk) -> None:
    names = [f"docs/old/{n}.md" for n in range(600)]
    desk.sigma.write({name: f"the text of {name}\n" * 3 for name in names})
    desk.begin({})
    git(desk.root, "mv", "docs/old", "docs/new")
    git(desk.root, "commit", "-qm", "Move them")
    desk.cn("propose", "fix")
    desk.sigma.sync()
    desk.sigma.triage("pi/fix", "do:merge")
    desk.sigma.process()
    assert is_in_main(desk.sigma, desk.there() or tip(desk.root, "fix"))


@pytest.mark.parametrize(
    ("make", "why", "step"),
    [
        (
            lambda desk: _of_files(desk, 1001),
            "it changes 1,001 files, not all of which",
            "propose it in parts (or sigma",
        ),
        (
            lambda desk: _of_commits(desk, 501),
            "it has 501 commits, more than the 500",
            "propose it in parts, or squash it",
        ),
    ],
)
def test_what_is_too_large_goes_in_a_part_by_the_step_its_creator_is_told(
    desk: Desk, make: Callable[[Desk], None], why: str, step: str
) -> None:
    """It came by plain git, as from a peer with an older cn."""
    make(desk)
    push(desk.root, desk.sigma.url, "fix:refs/heads/pi/fix")
    desk.sigma.sync()
    desk.sigma.triage("pi/fix", "do:merge")
    desk.sigma.process()
    desk.pi.sync()
    for words in (("status",), ("why", "sigma:fix")):
        told = " ".join(desk.pi.cn(*words).stdout.split())
        assert why in told, words
        assert step in told, words
        assert "cn rebase" not in told, words
        assert "conflict in" not in told, words
    git(desk.root, "reset", "-q", "--soft", git(desk.root, "merge-base", "fix", "origin/main"))
    git(desk.root, "rm", "-rq", "--cached", "--ignore-unmatch", "docs/many/1*")
    git(desk.root, "commit", "-qm", "In one, a part of the files")
    (again,) = re.findall(r"'cn (propose [^']*)' moves it there", told)
    desk.cn(*shlex.split(again))
    desk.sigma.sync()
    desk.sigma.triage("pi/fix", "do:merge")
    desk.sigma.process()
    assert is_in_main(desk.sigma, tip(desk.root, "fix"))


def test_what_is_not_committed_is_named_and_main_that_moved_is_told(desk: Desk) -> None:
    desk.begin({MAIN_FILE: "mine\n"})
    desk.sigma.write({MAIN_FILE: "yours\n"})
    (desk.root / "docs/other.md").write_text("draft\n")
    said = desk.cn("propose", "fix").stdout
    assert "not part of it: docs/other.md" in said
    assert f"sigma's main changed since: {MAIN_FILE}" in said
    assert "'cn rebase fix' mends that" in said


def test_a_message_goes_beside_it_and_is_shown_in_its_thread(desk: Desk) -> None:
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix", "--message", "Please look at the second line.")
    sent = [name for name in desk.pi.sent() if "about-fix" in name]
    text = (desk.pi.root / "threads/mail/sent" / sent[0]).read_text()
    assert f'in-reply-to: "{head}"' in text
    assert "Please look at the second line." in text

    again = desk.cn("propose", "fix", "--message", "And the third.", check=1).stderr
    assert "the message was not sent" in again
    assert "'cn send sigma MESSAGE' sends it" in again

    told = desk.sigma.sync().stdout
    name = desk.sigma.only_thread()
    assert f"pi/about-fix goes with a proposal, and is shown in threads/inbox/{name}" in told
    shown = desk.sigma.thread(name)
    assert shown.startswith("# pi/fix\n")
    assert shown.index(">     one") < shown.index("> Please look at the second line.") < shown.index("<!-- To decide")
    desk.pi.sync()
    assert "pi/about-fix" not in branches(desk.sigma.home), "what was shown has done its work"

    commit(desk.root, {"docs/fix.md": "two\n"})
    assert "no-secrets: the message" in desk.cn("propose", "fix", "-m", "AKIAIOSFODNN7EXAMPLF", check=1).stderr
    assert desk.there() == head


def test_words_stand_in_the_thread_of_their_proposal_whatever_the_clocks_say(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    late = "2099-01-01T00:00:00Z"
    git(desk.root, "commit", "-q", "--amend", "--no-edit", "--date", late, GIT_COMMITTER_DATE=late)
    desk.cn("propose", "zed", "--message", "Please look at it.")
    desk.sigma.sync()
    assert "> Please look at it." in desk.sigma.thread(desk.sigma.only_thread())


def test_who_is_no_peer_there_is_told_so(desk: Desk) -> None:
    """Its cn leaves the branch alone, and nobody would answer."""
    desk.begin({"docs/fix.md": "one\n"})
    told = desk.cn("propose", "fix").stdout
    assert "lists no peer" not in told
    desk.sigma.cn("peer", "add", "omega", desk.pi.url.replace("pi", "omega"))
    desk.sigma.cn("peer", "remove", "pi", check=None)
    commit(desk.root, {"docs/fix.md": "two\n"})
    told = desk.cn("propose", "fix").stdout
    assert "sigma's main lists no peer pi: its cn leaves pi/fix alone until its people run 'cn peer add pi URL'" in told


def fix_up(desk: Desk) -> str:
    """A maintainer of sigma's commits upon our proposal and pushes to its branch, as forges let them; the commit."""
    ws = desk.world.folder / "maintainer"
    if not ws.is_dir():
        identify(clone(desk.sigma.url, ws), "Sigmund", "sigmund@people.example")
    git(ws, "fetch", "-q", "origin")
    git(ws, "checkout", "-q", "-B", "fix", "origin/pi/fix")
    head = commit(ws, {"docs/fixed.md": "fixed up\n"}, "Fix it up")
    push(ws, desk.sigma.url, "HEAD:refs/heads/pi/fix")
    return head


def test_what_somebody_else_pushed_is_not_overwritten(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    foreign = desk.sigma.write({"docs/foreign.md": "foreign\n"})
    git(desk.sigma.home, "update-ref", "refs/heads/pi/fix", foreign)
    head = commit(desk.root, {"docs/fix.md": "two\n"})
    refused = desk.cn("propose", "fix", check=1).stderr
    assert f"pi/fix is at {foreign[:8]} there" in refused
    assert desk.there() == foreign
    assert not desk.pi.outbox()
    git(desk.sigma.home, "update-ref", "-d", "refs/heads/pi/fix")
    desk.cn("propose", "fix")
    assert desk.there() == head


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("way", ["goes on", "replaces", "same", "ends"])
def test_what_a_maintainer_committed_upon_it_is_gone_on_from_replaced_or_ended(
    desk: Desk, looked: bool, way: str
) -> None:
    """Each step that is told works as it stands; nothing waits in the outbox for what cannot go."""
    sigma, pi = desk.sigma, desk.pi
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    sigma.sync()
    other = fix_up(desk)
    more = commit(desk.root, {"docs/fix.md": "one\ntwo\n"}) if way != "same" else desk.there()
    if looked:
        pi.sync()
    told = " ".join(desk.cn("propose", "fix", check=1).stderr.split())
    assert f"pi/fix is at {other[:8]} there" in told
    assert not pi.outbox()
    fetch_it, again = "git fetch origin refs/heads/pi/fix", "cn propose fix sigma"
    assert f"'{fetch_it}'" in told
    assert f"'git rebase FETCH_HEAD', where fix is checked out, goes on from it, then '{again}'" in told
    if way in ("goes on", "same"):
        git(desk.root, *shlex.split(fetch_it)[1:])
        git(desk.root, "rebase", "-q", "FETCH_HEAD")
        assert "delivered pi/fix" in desk.cn(*shlex.split(again)[1:]).stdout
        there = desk.there()
        assert there == tip(desk.root, "fix")
        git(desk.root, "merge-base", "--is-ancestor", other, str(there))
    elif way == "replaces":
        assert f"'{again} --replace' replaces it" in told
        assert "delivered pi/fix" in desk.cn(*shlex.split(again)[1:], "--replace").stdout
        assert desk.there() == more
    else:
        refused = " ".join(pi.cn("withdraw", "sigma:fix", check=1).stderr.split())
        assert f"is at {other[:8]}" in refused
        assert not pi.outbox(), "a deletion of what is another's cannot go"
        gone, back = re.findall(r"'(git push origin :.*?)', then '(cn withdraw .*?)', ends it", told)[0]
        git(desk.root, *shlex.split(gone)[1:])
        assert "deleted pi/fix" in desk.cn(*shlex.split(back)[1:]).stdout
        assert desk.there() is None
    assert "which we sent" not in pi.cn("status").stdout, "what it was told of is over"
    assert not pi.outbox()
    pi.sync()
    assert "pi/fix at sigma is" not in pi.cn("status").stdout


def test_what_was_replaced_with_words_is_only_what_was_seen(desk: Desk) -> None:
    """The same commit takes its place again, too."""
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    fix_up(desk)
    told = desk.cn("propose", "fix", "--replace").stdout
    assert "which is replaced: it goes there again" in told
    assert desk.there() == head
    assert "delivered" in desk.pi.cn("why", "sigma:fix").stdout


def test_what_waited_while_somebody_pushed_upon_it_names_what_helps(desk: Desk) -> None:
    """It was queued while its host took nothing."""
    sigma, pi = desk.sigma, desk.pi
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    commit(desk.root, {"docs/fix.md": "one\ntwo\n"})
    git(sigma.home, "config", "receive.maxInputSize", "1")
    desk.cn("propose", "fix", check=1)
    git(sigma.home, "config", "--unset", "receive.maxInputSize")
    fix_up(desk)
    told = " ".join(pi.cn("outbox", "flush", check=1).stderr.split())
    assert "which cn did not propose" in told
    assert "'cn propose fix sigma --replace' replaces it" in told
    shown = " ".join(pi.cn("doctor", check=None).stdout.split())
    assert "'cn propose fix sigma', where it is checked out, tells what may be done" in shown
    refused = " ".join(pi.cn("withdraw", "sigma:fix", check=1).stderr.split())
    assert "nothing was taken back" in refused
    assert len(pi.outbox()) == 1
    told = " ".join(desk.cn("propose", "fix", check=1).stderr.split())
    assert "'git fetch origin refs/heads/pi/fix'" in told
    git(sigma.home, "update-ref", "-d", "refs/heads/pi/fix")
    desk.cn("withdraw", "sigma:fix")
    assert not pi.outbox()
    pi.cn("status", "--check")


def test_what_another_clone_proposed_is_not_replaced_unless_that_is_said(desk: Desk) -> None:
    theirs = desk.begin({"docs/fix.md": "one\n"}, message="From the desktop")
    desk.cn("propose", "fix")
    desk.sigma.sync()  # its main has records of its own since, which nobody else may propose
    laptop = clone(desk.sigma.url, desk.world.folder / "laptop")
    identify(laptop, "Pia", "pia@people.example")
    git(laptop, "config", "cn.hub", str(desk.pi.root))
    checkout(laptop, "fix", "origin/main")
    mine = commit(laptop, {"docs/other.md": "two\n"})
    refused = cn("propose", "fix", cwd=laptop, check=1).stderr
    assert f"pi/fix is at {theirs[:8]} (From the desktop), which this clone never had" in refused
    assert "'git fetch origin refs/heads/pi/fix'" in refused
    assert "'cn propose fix --replace' replaces it" in refused
    assert desk.there() == theirs
    fetch(laptop, desk.sigma.url, "pi/fix")
    cn("propose", "fix", cwd=laptop, check=1)
    assert desk.there() == theirs, "what was only fetched is still not part of it"
    (onto,) = re.findall(r"'git (rebase --onto FETCH_HEAD [0-9a-f]+)' puts yours onto it", refused)
    git(laptop, *onto.split(), "--quiet")
    cn("propose", "fix", cwd=laptop)
    assert desk.there() == tip(laptop)
    assert git(laptop, "rev-parse", "HEAD^") == theirs
    commit(desk.root, {"docs/fix.md": "three\n"})
    desk.cn("propose", "fix", check=1)
    said = desk.cn("propose", "fix", "--replace").stdout
    assert f"it replaces {tip(laptop)[:8]} (From the desktop), which is no part of it" in said
    assert desk.there() == tip(desk.root) != mine


def test_what_its_host_set_back_is_shown_with_what_brings_it_there_again(desk: Desk) -> None:
    """A mirror that was restored shows what was proposed first."""
    first = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    last = commit(desk.root, {"docs/fix.md": "two\n"})
    desk.cn("propose", "fix")
    git(desk.sigma.home, "update-ref", "refs/heads/pi/fix", first)
    desk.pi.sync()
    text = f"our pi/fix at sigma is back at {first[:8]}, which we sent before {last[:8]}"
    for shown in (desk.pi.cn("status"), desk.pi.cn("why", "sigma:fix")):
        assert text in " ".join(shown.stdout.split())
    assert "'git push --force-with-lease" in desk.cn("propose", "fix", check=1).stderr
    (step,) = re.findall(r"'git (push --force-with-lease[^']*)' as the same one", desk.pi.cn("status").stdout)
    git(desk.pi.root, *step.split())
    desk.pi.sync()
    assert desk.there() == last
    assert "is back at" not in desk.pi.cn("status").stdout


def test_the_last_commit_of_a_proposal_is_taken_out_as_is_told(desk: Desk) -> None:
    first = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    commit(desk.root, {"docs/more.md": "two\n"})
    desk.cn("propose", "fix")
    desk.sigma.sync()
    git(desk.root, "reset", "--quiet", "--hard", "HEAD~1")
    assert tip(desk.root) == first
    refused = desk.cn("propose", "fix", check=1).stderr
    (steps,) = re.findall(r"to take out what came since, '(git [^']*)', then '(cn [^']*)'", refused)
    for step in steps:
        program, *words = step.split()
        desk.cn(*words) if program == "cn" else git(desk.root, *words, "--date=2026-01-01T00:00:00Z")
    assert desk.there() == tip(desk.root) != first
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", "do:merge")
    assert (desk.sigma.root / "docs/fix.md").exists()
    assert not (desk.sigma.root / "docs/more.md").exists()


def test_a_proposal_that_is_undone_in_full_is_taken_back_as_is_told(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    git(desk.root, "revert", "--no-edit", "HEAD")
    refused = desk.cn("propose", "fix", check=1).stderr
    assert "changes nothing against sigma's main" in refused
    assert "'cn withdraw sigma:fix' takes back what is there" in refused


def test_what_was_set_back_and_merged_so_ends_nothing_that_was_sent_since(desk: Desk) -> None:
    """Somebody pushed the first state over the later one, which sigma never saw."""
    first = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    desk.sigma.sync()
    last = commit(desk.root, {"docs/more.md": "two\n"})
    desk.cn("propose", "fix")
    git(desk.sigma.home, "update-ref", "refs/heads/pi/fix", first)
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", "do:merge")
    told = desk.pi.sync().stdout
    assert "deleted" not in told
    assert f"sigma says pi/fix is merged; that was at {first[:8]}, and it has moved since" in told
    text = f"our pi/fix at sigma is back at {first[:8]}, which we sent before {last[:8]}"
    for shown in (desk.pi.cn("status"), desk.pi.cn("why", "sigma:fix")):
        assert text in " ".join(shown.stdout.split())
    (step,) = re.findall(r"'git (push --force-with-lease[^']*)' as the same one", desk.pi.cn("status").stdout)
    git(desk.pi.root, *step.split())
    desk.pi.sync()
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", "do:merge")
    desk.pi.sync()
    assert (desk.sigma.root / "docs/more.md").exists()
    assert not desk.there(), "that one is over"
    assert "nothing pending" in desk.pi.cn("status").stdout


@pytest.mark.parametrize("decision", ["do:merge", "delete:no"])
@pytest.mark.parametrize("ends", [False, True])
def test_what_was_set_back_and_decided_so_goes_on_or_ends_as_is_told(desk: Desk, decision: str, ends: bool) -> None:
    """The peer reads no commit again that was there before one that it decided about."""
    first = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    desk.sigma.sync()
    last = commit(desk.root, {"docs/more.md": "two\n"})
    desk.cn("propose", "fix")
    desk.sigma.sync()
    git(desk.sigma.home, "update-ref", "refs/heads/pi/fix", first)
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", decision)
    desk.pi.sync()
    status = " ".join(desk.pi.cn("status").stdout.split())
    assert f"is back at {first[:8]}, which we sent before {last[:8]}" in status
    if ends:
        (gone, withdraw) = re.findall(r"; '(git push [^']*)', then '(cn withdraw [^']*)', ends it", status)[0]
        git(desk.pi.root, *gone.split()[1:])
        desk.pi.cn(*withdraw.split()[1:])
    else:
        (steps,) = re.findall(r"where fix is checked out, '(git commit [^']*)', then '(cn [^']*)' brings", status)
        git(desk.root, *steps[0].split()[1:], "--date=2026-01-01T00:00:00Z")
        desk.cn(*steps[1].split()[1:])
        desk.sigma.sync()
        desk.sigma.decide("pi/fix", "do:merge")
        assert (desk.sigma.root / "docs/more.md").exists()
    desk.sigma.sync()
    desk.pi.sync()
    desk.pi.sync()
    status = desk.pi.cn("status").stdout
    assert "nothing pending" in status
    assert "fix" not in status
    assert not desk.there()


def test_what_both_clones_hold_is_not_moved_upon_itself(desk: Desk) -> None:
    """Another clone went on with the branch, in the file that it brings; this one went on elsewhere."""
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    laptop = clone(desk.sigma.url, desk.world.folder / "laptop")
    identify(laptop, "Pia", "pia@people.example")
    git(laptop, "config", "cn.hub", str(desk.pi.root))
    fetch(laptop, desk.sigma.url, "pi/fix")
    checkout(laptop, "fix", "FETCH_HEAD")
    theirs = commit(laptop, {"docs/fix.md": "one\ntwo\n"})
    cn("propose", "fix", cwd=laptop)
    mine = commit(desk.root, {"docs/other.md": "other\n"})
    refused = desk.cn("propose", "fix", check=1).stderr
    steps = re.findall(r"'git (fetch [^']*|rebase --onto [^']*)'", " ".join(refused.split()))
    for step in steps:
        git(desk.root, *step.split())
    desk.cn("propose", "fix")
    assert desk.there() == tip(desk.root) != mine
    assert git(desk.root, "rev-parse", "HEAD^") == theirs


def test_what_was_amended_or_rebased_here_is_replaced_without_asking(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    git(desk.root, "commit", "--quiet", "--amend", "-m", "Better words")
    desk.cn("propose", "fix")
    assert desk.there() == tip(desk.root)
    desk.sigma.write({"docs/yours.md": "yours\n"})
    fetch(desk.root, desk.sigma.url, "main")
    git(desk.root, "rebase", "--quiet", "FETCH_HEAD")
    desk.cn("propose", "fix")
    assert desk.there() == tip(desk.root)
    checkout(desk.root, "main")
    git(desk.root, "branch", "--quiet", "-D", "fix")
    new = desk.begin({"docs/fix.md": "anew\n"})
    desk.cn("propose", "fix")
    assert desk.there() == new


def test_a_head_that_was_pushed_by_hand_meanwhile_moves_on(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    commit(desk.root, {"docs/fix.md": "two\n"})
    git(desk.root, "push", "--quiet", "origin", "HEAD:pi/fix")
    head = commit(desk.root, {"docs/fix.md": "three\n"})
    desk.cn("propose", "fix")
    assert desk.there() == head


def test_another_revision_and_a_dry_run(desk: Desk) -> None:
    head = desk.begin({"docs/fix.md": "one\n"})
    checkout(desk.root, "main")
    before = desk.pi.refs(), branches(desk.sigma.home)
    assert (
        f"would: sigma/fix: push {head[:8]} to sigma as pi/fix"
        in desk.cn("propose", "fix", "--commit", "fix", "--dry-run").stdout
    )
    assert (desk.pi.refs(), branches(desk.sigma.home)) == before
    desk.cn("propose", "pi/fix", "sigma", "--commit", "fix")
    assert desk.there() == head
    assert desk.cn("propose", "Fix me", check=2).stderr
    assert "there is no commit 'nope'" in desk.cn("propose", "fix", "--commit", "nope", check=1).stderr


@pytest.mark.full
def test_while_a_move_waits_an_answer_to_the_old_head_ends_nothing(desk: Desk) -> None:
    old = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", "do:merge")
    foreign = desk.sigma.write({"docs/foreign.md": "foreign\n"})
    git(desk.sigma.home, "update-ref", "refs/heads/pi/fix", foreign)
    head = commit(desk.root, {"docs/more.md": "more\n"})
    desk.cn("propose", "fix", check=1)  # somebody moved it: it waits
    git(desk.sigma.home, "update-ref", "refs/heads/pi/fix", old)
    desk.pi.sync()
    assert desk.there() == head
    desk.sigma.sync()
    assert desk.sigma.only_thread().endswith("pi-fix.md") or "pi-fix-" in desk.sigma.only_thread()


# cn rebase


def test_a_rebase_keeps_authors_and_messages_and_touches_no_branch_of_ours(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"}, message="Mend it\n\nWith a reason.")
    mine = commit(desk.root, {MAIN_FILE: "start\nmine\n"}, "Second", author="Öl <o@x.example>")
    desk.cn("propose", "fix")
    desk.sigma.write({"docs/other.md": "moved\n", MAIN_FILE: "yours\nstart\n"})
    desk.sigma.sync()
    said = desk.cn("rebase", "fix").stdout
    assert "your own branch is as it was; on it, 'git pull --rebase origin refs/heads/pi/fix' brings it there" in said
    assert tip(desk.root) == mine
    fetch(desk.root, desk.sigma.url, "pi/fix", "main")
    new = desk.there() or ""
    form = "--format=%an <%ae> %ad %cn %B"
    told = git(desk.root, "log", "--reverse", form, f"FETCH_HEAD~2..{new}")
    was = git(desk.root, "log", "--reverse", form.replace("%cn", "pi"), f"{mine}~2..{mine}")
    assert told == was
    assert git(desk.root, "show", f"{new}:{MAIN_FILE}") == "yours\nstart\nmine"
    assert "is on sigma's latest main already" in desk.cn("rebase", "fix").stdout
    assert "is an earlier state of pi/fix" in desk.cn("propose", "fix", check=1).stderr
    git(desk.root, "pull", "--quiet", "--rebase", "origin", "pi/fix")
    assert tip(desk.root) == new
    desk.sigma.sync()
    desk.sigma.decide("pi/fix", "do:merge")
    assert content(desk.sigma, MAIN_FILE) == b"yours\nstart\nmine\n"


@pytest.mark.parametrize("way", ["propose", "rebase"])
def test_a_clone_at_an_earlier_state_comes_to_the_later_one_as_told_and_brings_nothing_back(
    desk: Desk, way: str
) -> None:
    """A colleague, or the same person's laptop, took something out of the proposal by an amend."""
    desk.begin({"docs/fix.md": "one\n", "docs/debug.md": "debug\n"})
    desk.cn("propose", "fix")
    laptop = clone(desk.sigma.url, desk.world.folder / "laptop", "pia")
    git(laptop, "config", "cn.hub", str(desk.pi.root))
    git(laptop, "switch", "-q", "-c", "fix", "origin/pi/fix")
    git(laptop, "rm", "-q", "docs/debug.md")
    git(laptop, "commit", "-q", "--amend", "--no-edit")
    cn("propose", "fix", cwd=laptop)
    if way == "rebase":
        desk.sigma.write({"docs/other.md": "moved\n"})
        desk.sigma.sync()
        told = desk.cn("rebase", "fix").stdout
    else:
        told = desk.cn("propose", "fix", check=1).stderr
    steps = re.findall(r"'(git (?:fetch|reset) [^']*)'", told)
    assert len(steps) == 2, told
    for step in steps:
        git(desk.root, *shlex.split(step)[1:])
    assert tip(desk.root) == desk.there()
    assert not (desk.root / "docs/debug.md").exists()
    assert "nothing to do" in desk.cn("propose", "fix").stdout


def test_records_of_the_peers_hub_call_for_no_rebase(desk: Desk) -> None:
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    desk.sigma.sync()
    assert "pi/fix needs no rebase: in sigma's main only the hub's own records" in desk.cn("rebase", "fix").stdout
    assert desk.there() == head


def test_a_rebase_that_conflicts_names_the_path_and_changes_nothing(desk: Desk) -> None:
    head = desk.begin({MAIN_FILE: "mine\n"})
    desk.cn("propose", "fix")
    desk.sigma.write({MAIN_FILE: "yours\n"})
    before = desk.pi.refs()
    refused = desk.cn("rebase", "fix", check=1).stderr
    assert f"{head[:8]} conflicts with sigma's main in {MAIN_FILE}; nothing was changed" in refused
    assert "on your branch 'git fetch origin refs/heads/main', then 'git rebase FETCH_HEAD'" in refused
    git(desk.root, "remote", "remove", "origin")
    assert f"'git fetch {desk.sigma.url} refs/heads/main'" in desk.cn("rebase", "fix", check=1).stderr
    after = {name: oid for name, oid in desk.pi.refs().items() if name != "refs/cn/mains/sigma"}
    before.pop("refs/cn/mains/sigma", None)  # where sigma's main was seen last
    assert (desk.there(), after) == (head, before)


def test_a_rebase_leaves_out_what_main_has_and_signs_again(desk: Desk, tmp_path: Path) -> None:
    private, _ = make_ssh_key(tmp_path / "key")
    sign_with(desk.pi.root, private)
    desk.begin({"docs/fix.md": "one\n"})
    commit(desk.root, {"docs/more.md": "more\n"}, "More")
    desk.cn("propose", "fix")
    desk.sigma.write({"docs/fix.md": "one\n"}, "The same")
    desk.cn("rebase", "fix")
    fetch(desk.root, desk.sigma.url, "pi/fix")
    assert git(desk.root, "log", "--format=%s", "FETCH_HEAD", "-2") == "More\nThe same"
    assert "\ngpgsig " in git(desk.root, "cat-file", "commit", "FETCH_HEAD")
    desk.sigma.write({"docs/more.md": "more\n"})
    assert "has all that pi/fix changes" in desk.cn("rebase", "fix", check=1).stderr


def test_a_rebase_of_what_is_no_proposal_of_ours_is_refused(shared: Desk) -> None:
    desk = shared
    desk.cn("send", "sigma", "hello")
    for name in ("hello", "nothing", "sigma:nothing"):
        assert "no proposal of ours is called" in desk.cn("rebase", name, check=1).stderr


def test_a_main_that_was_replaced_is_called_that_and_nothing_damaged(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    before = desk.there()
    apart = git(desk.sigma.home, "commit-tree", "-m", "another", "main^{tree}")
    git(desk.sigma.home, "update-ref", "refs/heads/main", apart)
    refused = desk.cn("rebase", "fix", check=1).stderr
    assert "pi/fix has no history in common with sigma's main now: that was replaced" in refused
    assert "damaged" not in refused
    assert "no run can work" not in desk.pi.cn("doctor", check=None).stdout
    assert desk.there() == before


def test_a_history_that_began_apart_is_named_where_it_cannot_be_rebased(desk: Desk) -> None:
    desk.begin({"docs/fix.md": "one\n"})
    apart = git(desk.root, "commit-tree", "-m", "apart", git(desk.root, "mktree", stdin=""))
    git(desk.root, "merge", "--quiet", "--allow-unrelated-histories", "-m", "Take it in", apart)
    desk.cn("propose", "fix")
    desk.sigma.write({"docs/else.md": "else\n"}, "main moves")
    refused = desk.cn("rebase", "fix", check=1).stderr
    assert f"takes in a history that began apart, with {apart[:8]}" in refused


def test_a_main_of_more_files_than_can_be_compared_is_named(desk: Desk) -> None:
    """A few objects name any number of files."""
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    home = desk.sigma.home
    blob = git(home, "hash-object", "-w", "--stdin", stdin="x\n")
    bomb = git(home, "mktree", stdin="".join(f"100644 blob {blob}\tf{n}\n" for n in range(10)))
    for _ in range(7):
        bomb = git(home, "mktree", stdin="".join(f"040000 tree {bomb}\td{n}\n" for n in range(10)))
    tree = git(home, "mktree", stdin=f"{git(home, 'ls-tree', 'main')}\n040000 tree {bomb}\tbomb\n")
    git(home, "update-ref", "refs/heads/main", git(home, "commit-tree", "-p", "main", "-m", "more", tree))
    commit(desk.root, {"docs/second.md": "two\n"}, "Second", author="Pia <pia@people.example>")
    for words in ("rebase", "fix"), ("propose", "second"):
        refused = desk.cn(*words, check=1).stderr
        assert "sigma's main has more or larger files, or more that changed" in refused
        assert "'cn send sigma MESSAGE' asks whether that is meant" in refused


def test_a_text_too_large_to_be_merged_is_named_as_the_peers(desk: Desk) -> None:
    """A merge of texts takes many times their size."""
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    desk.sigma.write({"docs/fix.md": "a\n" * (40 << 20)})
    refused = desk.cn("rebase", "fix", check=1).stderr
    assert "sigma's main has more or larger files" in refused
    assert "doctor" not in refused


def test_a_rebase_leaves_out_no_change_that_a_merge_holds(desk: Desk) -> None:
    first = desk.begin({"docs/fix.md": "one\n"})
    checkout(desk.root, "side", f"{first}~1")
    commit(desk.root, {"docs/bad.md": "a bad idea\n"}, "Bad", author="Pia <pia@people.example>")
    git(desk.root, "switch", "--quiet", "fix")
    git(desk.root, "merge", "--quiet", "-s", "ours", "-m", "Without that", "side")
    desk.cn("propose", "fix")
    before = desk.there()
    desk.sigma.write({"docs/else.md": "else\n"}, "main moves")
    refused = desk.cn("rebase", "fix", check=1).stderr
    assert "a merge in pi/fix changes something itself" in refused
    assert desk.there() == before


def test_who_renames_a_branch_takes_the_old_name_back_first(desk: Desk, sigma: Node, pi: Node) -> None:
    desk.begin({"docs/new.md": "new\n"}, "old")
    desk.cn("propose", "old")
    sigma.sync()
    git(desk.root, "branch", "--quiet", "-m", "new")
    desk.cn("propose", "new", check=1)
    desk.cn("withdraw", "sigma:old")
    desk.cn("propose", "new")
    sigma.sync()
    assert "gone" not in pi.sync().stdout + pi.cn("status").stdout
    sigma.decide("pi/new", "do:merge")
    pi.sync()
    assert desk.there("new") is None


def test_a_proposal_under_a_second_name_is_told_by_both_sides_what_makes_it_the_only_one(
    desk: Desk, sigma: Node, pi: Node
) -> None:
    """Its creator renames the branch: the new name is there, and so is the old one."""
    desk.begin({"docs/new.md": "new\n"}, "old")
    desk.cn("propose", "old")
    sigma.sync()
    git(desk.root, "branch", "--quiet", "-m", "new")
    refused = desk.cn("propose", "new", check=1).stderr
    assert (
        "is pi/old, which waits at sigma: as pi/new it gives no thread of its own, and nothing was proposed" in refused
    )
    assert "'cn withdraw sigma:old', then 'cn propose new'" in " ".join(refused.split())
    assert desk.there("new") is None
    # With git it gets there.
    git(desk.root, "push", "--quiet", "origin", "new:pi/new")
    pi.sync()
    goes_on = "and its thread goes on as pi/new, if nothing else refuses that"
    helps = f"if somebody here renamed it, 'cn withdraw sigma:old' deletes pi/old, {goes_on}"
    refused = sigma.sync().stderr
    there = f"'git push URL :refs/heads/pi/old', with the URL where it lies, deletes pi/old, {goes_on}"
    assert there in refused
    assert "its creator deletes pi/old where it shall be called pi/new; whichever" in " ".join(refused.split())
    assert there in pi.sync().stdout
    shown = " ".join(pi.cn("status").stdout.split())
    assert f"{helps}; if not, 'cn withdraw sigma:new' deletes pi/new, and pi/old stays" in shown
    again = desk.cn("propose", "new").stdout
    assert helps in again
    assert "nothing to do" not in again
    # And it is so.
    desk.cn("withdraw", "sigma:old")
    assert "goes on as pi/new" in sigma.sync().stdout
    pi.sync()
    shown = pi.cn("status").stdout
    assert "refused" not in shown
    assert "it was let in after all" in shown
    # Whoever can push there could have named it so, and waited.
    assert "pi/new at sigma is what we took back as sigma:old" in shown
    assert "where nobody here wants it there, 'cn withdraw sigma:new' deletes it" in " ".join(shown.split())
    assert "nothing to do" in desk.cn("propose", "new").stdout
    sigma.decide("pi/old", "do:merge")
    pi.sync()
    assert desk.there("new") is None
    sigma.sync()
    assert "seen-before" not in sigma.cn("status").stdout


def test_a_message_of_cns_that_a_rebase_took_in_is_no_part_of_a_proposal(desk: Desk, sigma: Node, pi: Node) -> None:
    """'git fetch' without a name brings all branches, and FETCH_HEAD may be a notice."""
    pi.cn("send", "sigma", "Hello")
    desk.begin({"docs/new.md": "new\n"}, "fix")
    git(desk.root, "fetch", "--quiet", "origin", "pi/hello")
    git(desk.root, "cherry-pick", "FETCH_HEAD")
    refused = desk.cn("propose", "fix", check=1).stderr
    assert "message.md is what a message of cn's holds" in refused
    assert desk.there("fix") is None
    git(desk.root, "push", "--quiet", "origin", "HEAD:pi/fix")
    sigma.sync()
    assert "protected-paths: message.md" in sigma.decide("pi/fix", "do:merge").stderr
    assert not (sigma.root / "message.md").exists()
    pi.sync()
    git(desk.root, "reset", "--quiet", "--hard", "HEAD~1")  # leaves it out
    desk.cn("propose", "fix")
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    assert (sigma.root / "docs/new.md").exists()


@pytest.mark.parametrize("seen", [False, True])
def test_a_strangers_commit_in_the_place_of_a_proposal_is_not_recorded_as_ours(desk: Desk, *, seen: bool) -> None:
    """Somebody who may push at sigma pushes over it; sigma reads and merges what it sees."""
    sigma, pi = desk.sigma, desk.pi
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    if seen:
        sigma.sync()
    stranger = clone(sigma.url, desk.world.folder / "stranger")
    identify(stranger, "Omega", "omega@people.example")
    other = commit(stranger, {"docs/fix.md": "two\n"}, "Mend it")
    push(stranger, sigma.url, "+HEAD:refs/heads/pi/fix")
    told = pi.cn("sync", check=1).stderr
    said = f"our pi/fix at sigma is not what we sent: {other[:8]} stands there, and cn saw nobody here make it; "
    said += f"ours is {head[:8]}"
    assert said in told
    assert pi.cn("sync").stderr == "", "it is told once"
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    told = pi.cn("sync").stdout
    assert f"sigma says pi/fix is merged at {other[:8]}; ours is {head[:8]}" in told
    assert "nothing follows" in told
    assert "deleted" not in told
    for shown in (pi.cn("status"), pi.cn("doctor", check=None), pi.cn("why", "sigma:fix")):
        assert said in " ".join(shown.stdout.split())
    assert "no answer about our commit yet" in pi.cn("status").stdout
    why = " ".join(pi.cn("why", "sigma:fix").stdout.split())
    assert f"is at sigma; no answer about our commit, but merged about another there head {head}" in why
    assert f"that is about {other[:8]}, and ours is {head[:8]}" in why
    page = " ".join(pi.cn("thread", "show", "sigma:fix").stdout.split())
    assert "is at sigma; no answer about our commit, but merged about another there" in page
    assert json.loads(pi.cn("thread", "show", "sigma:fix", "--json").stdout)["of_another"].startswith("merged")
    assert desk.there() == other, "nobody's branch is deleted as if ours were done"
    refused = " ".join(pi.cn("withdraw", "sigma:fix", check=1).stderr.split())
    assert said in refused
    keep = f"'git -C {pi.root} branch ours-{other[:8]} {other}'"
    held = f"sigma's main holds it: if somebody here pushed the other, {keep} says so, and it is merged"
    anew = "where fix is checked out, 'git commit --amend --no-edit', then 'cn propose fix sigma --replace' brings ours"
    assert f"{held}; else {anew} there, as a new commit; " in refused
    assert "force-with-lease" not in refused, "who read it there, or decided the other, reads ours no more"
    assert "fix" not in pi.cn("outbox").stdout
    git(desk.root, "commit", "--quiet", "--amend", "--no-edit", GIT_COMMITTER_DATE="2030-01-01T00:00:00Z")
    desk.cn("propose", "fix", "sigma", "--replace")
    assert desk.there() == tip(desk.root) != head
    pi.sync()
    assert "not what we sent" not in pi.cn("status").stdout
    sigma.sync()
    assert [name for name in sigma.threads() if "pi-fix" in name], "it is read as what it is"


def test_what_stands_in_the_place_of_a_proposal_is_replaced_by_it_while_it_is_not_merged(desk: Desk) -> None:
    sigma, pi = desk.sigma, desk.pi
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    stranger = clone(sigma.url, desk.world.folder / "stranger")
    identify(stranger, "Omega", "omega@people.example")
    push(stranger, sigma.url, f"+{commit(stranger, {'docs/fix.md': 'two'}, 'Mend it')}:refs/heads/pi/fix")
    pi.cn("sync", check=1)
    (lease,) = set(re.findall(r"'(git push --force-with-lease.*?)' brings ours back", pi.cn("status").stdout))
    git(pi.root, *shlex.split(lease)[1:])
    assert desk.there() == head
    pi.sync()
    assert "not what we sent" not in pi.cn("status").stdout
    sigma.sync()
    assert [name for name in sigma.threads() if "pi-fix" in name], "it is read as what it is"


def amend(desk: Desk) -> str:
    """Other words in what was proposed, pushed over it by git; the commit."""
    (desk.root / "docs/fix.md").write_text("one, well\n")
    git(desk.root, "commit", "--quiet", "--all", "--amend", "--message", "Mend it well")
    push(desk.root, desk.sigma.url, "+HEAD:refs/heads/pi/fix")
    return tip(desk.root)


@pytest.mark.parametrize("answered", [False, True])
def test_the_step_that_says_who_moved_a_proposal_is_typed_where_one_works(desk: Desk, *, answered: bool) -> None:
    """The clone in which one works is not the hub, and a branch there says nothing to it."""
    sigma, pi = desk.sigma, desk.pi
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    sigma.sync()
    amended = amend(desk)
    if answered:
        sigma.sync()
        sigma.decide("pi/fix", "do:merge")
    pi.cn("sync", check=1)
    shown = " ".join(desk.cn("status").stdout.split())
    assert ("so does 'cn propose fix sigma', where that is checked out" in shown) is not answered
    assert ("brings ours back" in shown) is not answered, "what is merged needs nothing of what it replaced"
    (keep,) = re.findall(r"'(git -C \S+ branch .*?)' says so", shown)
    git(desk.root, *shlex.split(keep)[1:])
    told = desk.cn("sync").stdout
    assert "not what we sent" not in desk.cn("status").stdout
    if not answered:
        sigma.sync()
        sigma.decide("pi/fix", "do:merge")
        told = pi.sync().stdout
    assert f"sigma says pi/fix is merged; that is about {amended[:8]}, and ours was at {head[:8]}" in told
    assert desk.there() is None
    assert "is cleaned up; merged as" in " ".join(pi.cn("why", "sigma:fix").stdout.split())
    pi.cn("status", "--check")
    desk.world.settle(sigma, pi)


def test_who_proposes_what_was_pushed_by_git_and_merged_since_is_told_how_it_counts(desk: Desk) -> None:
    sigma, pi = desk.sigma, desk.pi
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    amended = amend(desk)
    pi.cn("sync", check=1)
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    refused = " ".join(desk.cn("propose", "fix", check=1).stderr.split())
    assert f"sigma's main has {amended[:8]} already" in refused
    assert "brings ours back" not in refused, "what was known before it was merged"
    (keep,) = re.findall(r"'(git -C \S+ branch .*?)' says so", refused)
    git(desk.root, *shlex.split(keep)[1:])
    assert "sigma says pi/fix is merged" in desk.cn("sync").stdout
    assert desk.there() is None
    desk.world.settle(sigma, pi)


def test_what_was_taken_back_beside_a_merge_of_another_is_told_as_that(desk: Desk) -> None:
    sigma, pi = desk.sigma, desk.pi
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    amend(desk)
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    pi.cn("sync", check=1)
    (away,) = set(re.findall(r"'(git push \S+ :refs/heads/pi/fix)'", pi.cn("status").stdout))
    git(desk.root, *shlex.split(away)[1:])
    pi.cn("withdraw", "sigma:fix")
    why = " ".join(pi.cn("why", "sigma:fix").stdout.split())
    assert "is taken back by us, cleaned up; no answer about our commit, but merged about another there" in why
    assert "not what we sent" not in why
    pi.cn("status", "--check")
    desk.world.settle(sigma, pi)


def test_a_commit_upon_our_proposal_is_told_as_long_as_it_stands_there(desk: Desk) -> None:
    """It may be a person's of this hub, from another clone, or anybody's who can push there."""
    sigma, pi = desk.sigma, desk.pi
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    stranger = clone(sigma.url, desk.root.parent / "stranger")
    git(stranger, "checkout", "-q", "-b", "fix", "origin/pi/fix")
    identify(stranger, "Omega", "omega@people.example")
    other = commit(stranger, {"docs/more.md": "two\n"}, "And more")
    push(stranger, sigma.url, "+HEAD:refs/heads/pi/fix")
    said = f"our pi/fix at sigma is at {other[:8]}, upon {head[:8]}, which we sent"
    pi.sync()
    pi.sync()
    for shown in (pi.cn("status"), pi.cn("doctor", check=None), pi.cn("why", "sigma:fix")):
        assert said in " ".join(shown.stdout.split())
    assert "no answer about our commit yet" in pi.cn("status").stdout
    refused = " ".join(pi.cn("withdraw", "sigma:fix", check=1).stderr.split())
    assert said in refused
    for again in ("propose", "rebase"):
        told = " ".join(desk.cn(again, "fix", check=1).stderr.split())
        assert "'git rebase FETCH_HEAD', where fix is checked out, goes on from it, then 'cn propose fix sigma'" in told
    (lease,) = set(re.findall(r"'(git push --force-with-lease.*?)' brings back what we sent", refused))
    git(pi.root, *shlex.split(lease)[1:])
    assert desk.there() == head
    pi.sync()
    assert "which we sent" not in pi.cn("status").stdout
    push(stranger, sigma.url, "+HEAD:refs/heads/pi/fix")
    pi.sync()
    git(desk.root, "fetch", "-q", sigma.url, "pi/fix")
    git(desk.root, "merge", "-q", "--ff-only", "FETCH_HEAD")
    desk.cn("propose", "fix", "sigma")
    pi.sync()
    assert "which we sent" not in pi.cn("status").stdout


def test_what_was_merged_with_a_commit_upon_it_before_we_looked_is_merged(desk: Desk) -> None:
    sigma, pi = desk.sigma, desk.pi
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    sigma.sync()
    other = fix_up(desk)
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    told = pi.sync().stdout
    assert f"sigma says pi/fix is merged; that is about {other[:8]}, and ours was at {head[:8]}" in told
    assert "deleted pi/fix at sigma" in told
    assert desk.there() is None
    assert "merged as" in pi.cn("why", "sigma:fix").stdout
    pi.cn("status", "--check")
    desk.world.settle(sigma, pi)


@pytest.mark.parametrize("told", [True, False])
def test_what_was_merged_as_somebody_rebased_it_before_we_looked_is_merged(desk: Desk, told: bool) -> None:
    """As by a forge's "Rebase branch"; ``told``: by a notice, else the peer's main alone shows it."""
    sigma, pi = desk.sigma, desk.pi
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    sigma.sync()
    sigma.write({"docs/other.md": "other\n"})
    stranger = clone(sigma.url, desk.world.folder / "stranger", "omega")
    git(stranger, "switch", "-q", "-c", "fix", "origin/pi/fix")
    git(stranger, "rebase", "-q", "origin/main")
    push(stranger, sigma.url, "+HEAD:refs/heads/pi/fix")
    if told:
        sigma.sync()
        sigma.decide("pi/fix", "do:merge")
    else:
        push(stranger, sigma.url, "HEAD:refs/heads/main")
    said = pi.cn("sync").stdout
    assert "merged" in said
    shown = " ".join(pi.cn("status").stdout.split())
    assert "force-with-lease" not in shown
    assert "no answer" not in shown
    assert "merged" in pi.cn("why", "sigma:fix").stdout
    if told:
        assert desk.there() is None
        desk.world.settle(sigma, pi)
    else:
        assert "sigma's main has all that it changes" in shown


def test_what_the_peers_main_holds_is_merged_whatever_stands_in_its_place(desk: Desk) -> None:
    """As where its host merges what somebody fixed up, keeps the branch, and no cn says so."""
    sigma, pi = desk.sigma, desk.pi
    head = desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    other = fix_up(desk)
    git(sigma.home, "update-ref", "refs/heads/main", other)
    told = pi.sync().stdout
    assert "pi/fix is merged, by sigma's main" in told
    shown = " ".join(pi.cn("status").stdout.split())
    assert f"is not what we sent: {other[:8]} stands there; sigma's main holds it, {head[:8]}" in shown
    assert "force-with-lease" not in shown
    assert "no answer" not in shown
    assert "merged" in pi.cn("why", "sigma:fix").stdout
    pi.idle()
    (gone,) = set(re.findall(r"'(git push .*?)'", shown))
    git(pi.root, *shlex.split(gone)[1:])
    pi.sync()
    assert "pi/fix" not in pi.cn("status").stdout
    pi.cn("status", "--check")


def test_what_was_merged_is_not_ours_to_be_moved_by_whoever_builds_upon_that_main(desk: Desk) -> None:
    """Every commit upon the peer's main holds what it merged."""
    sigma, pi = desk.sigma, desk.pi
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    stranger = clone(sigma.url, desk.root.parent / "stranger")
    identify(stranger, "Omega", "omega@people.example")
    other = commit(stranger, {"docs/more.md": "two\n"}, "Upon main")
    push(stranger, sigma.url, "+HEAD:refs/heads/pi/fix")
    sigma.sync()
    sigma.decide("pi/fix", "delete:no")
    pi.cn("sync", check=None)
    shown = " ".join(pi.cn("status").stdout.split())
    assert f"{other[:8]} stands there; sigma's main holds it" in shown
    assert "force-with-lease" not in shown, "what is merged needs not to be brought back"
    assert "adopted" not in pi.cn("why", "sigma:fix").stdout
    assert "merged" in pi.cn("why", "sigma:fix").stdout
    assert "; discarded" not in pi.cn("why", "sigma:fix").stdout
    assert desk.there() == other
    git(sigma.home, "update-ref", "-d", "refs/heads/pi/fix")
    pi.cn("sync", check=None)
    pi.cn("status", "--check")
    assert "merged" in pi.cn("why", "sigma:fix").stdout


def test_what_a_person_here_holds_may_stand_in_the_place_of_a_proposal(desk: Desk) -> None:
    """Pushed over it with git, from another clone: this hub is told that it is ours."""
    sigma, pi = desk.sigma, desk.pi
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    other = desk.begin({"docs/fix.md": "two\n"}, "anew")
    push(desk.root, sigma.url, f"+{other}:refs/heads/pi/fix")
    told = pi.cn("sync", check=1).stderr
    (keep,) = re.findall(r"'(git -C \S+ branch .*?)' says so", told)
    git(pi.root, *shlex.split(keep)[1:])
    pi.sync()
    assert "not what we sent" not in pi.cn("status").stdout
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    assert "sigma says pi/fix is merged" in pi.sync().stdout
    assert desk.there() is None


@pytest.mark.parametrize("route", ["mailbox", "pickup"])
def test_another_message_in_the_place_of_ours_is_told_while_it_stands_there(world: World, route: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    pi.cn("send", "sigma", "lunch")
    name, url = world.branch(pi, sigma, "lunch")
    place = sigma if route == "mailbox" else pi
    there = branches(url)[name]
    forged = git(place.home, "commit-tree", "-m", "Lunch", f"{there}^{{tree}}")
    git(place.home, "update-ref", f"refs/heads/{name}", forged)
    told = pi.cn("sync", check=1).stderr
    assert f"our {name} at sigma is not what we sent: {forged[:8]} stands there" in told
    git(place.home, "update-ref", f"refs/heads/{name}", there)
    pi.sync()
    assert "not what we sent" not in pi.cn("status").stdout


@pytest.mark.parametrize(
    ("decision", "again"), [("do:merge", "branch"), ("delete:no", "branch"), ("delete:no", "propose")]
)
def test_what_was_answered_before_a_branch_moved_by_hand_was_ours_counts_once_it_is(
    desk: Desk, decision: str, again: str
) -> None:
    """Amended and pushed over it with git, and answered, before this hub is told that it is ours."""
    sigma, pi = desk.sigma, desk.pi
    desk.begin({"docs/fix.md": "one\n"})
    desk.cn("propose", "fix")
    pi.sync()
    amended = amend(desk)
    sigma.sync()
    sigma.cn("defer", "pi/fix", "--reason", "later")
    sigma.process()
    sigma.decide("pi/fix", decision)
    said = pi.cn("sync", check=1).stdout
    assert "nobody here made the other: nothing follows" in " ".join(said.split())
    assert "no answer" in pi.cn("why", "sigma:fix").stdout
    (keep,) = re.findall(r"'(git -C \S+ branch .*?)' says so", pi.cn("status").stdout)
    if again == "branch":
        git(pi.root, *shlex.split(keep)[1:])
    else:
        desk.cn("propose", "fix", "--commit", amended)
    told = pi.sync().stdout
    status = "merged" if decision == "do:merge" else "discarded"
    assert f"sigma says pi/fix is {status}" in told
    assert desk.there() is None
    assert pi.sync().stdout == ""
    assert status in pi.cn("why", "sigma:fix").stdout
    assert "not what we sent" not in pi.cn("status").stdout
    assert [row[1] for row in pi.rows("sigma/fix")].count(f"notice:{status}") == 2, "as it came, and as it counts"
