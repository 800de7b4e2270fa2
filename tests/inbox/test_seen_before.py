"""A commit that came before under another name of its peer is no new thread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.hubs import branches, checkout, cn, commit, fetch, git, make_ssh_key, push, sign_with
from tests.support.world import Node, World, is_in_main


def push_as(world: World, pi: Node, sigma: Node, head: str, *names: str) -> None:
    push(world.person(pi, sigma), sigma.home, *(f"{head}:refs/heads/{name}" for name in names))


def rename(world: World, pi: Node, sigma: Node, old: str, new: str) -> None:
    push_as(world, pi, sigma, git(sigma.home, "rev-parse", old), new)
    push(world.person(pi, sigma), sigma.home, f":refs/heads/{old}")


def test_a_deleted_proposal_under_another_name_is_refused_once_and_its_creator_told(
    world: World, sigma: Node, pi: Node
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    world.settle(pi, sigma)
    assert "pi/proposal" not in branches(sigma.home)
    push_as(world, pi, sigma, head, "pi/urgent")
    done = sigma.cn("sync", check=None)
    assert "pi/urgent is refused: seen-before" in done.stderr
    assert "came before as pi/proposal, which is discarded" in done.stderr
    assert "a new commit" in done.stderr
    assert sigma.threads() == []
    again = sigma.cn("sync", check=None)
    assert "seen-before" not in again.stdout + again.stderr, "told once"
    assert "pi/urgent is refused: seen-before" in sigma.cn("status", check=None).stdout
    assert [r[1] for r in sigma.rows() if r[0] == "pi/urgent"].count("refused") == 1
    told = pi.sync()
    assert "pi/urgent" in told.stdout
    assert "came before as pi/proposal" in told.stdout
    assert "adopted" not in told.stdout
    assert branches(sigma.home)["pi/urgent"] == head, "nobody deletes it but its creator"
    push(world.person(pi, sigma), sigma.home, ":refs/heads/pi/urgent")
    world.propose(pi, sigma, "urgent")
    sigma.sync()
    assert [n for n in sigma.threads() if "urgent" in n], "a new commit becomes a thread"


def test_two_names_of_one_commit_give_one_thread(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma, "first")
    push_as(world, pi, sigma, head, "pi/second", "pi/third")
    done = sigma.cn("sync", check=None)
    (name,) = sigma.threads()
    assert "first" in name
    assert done.stderr.count("seen-before") == 2
    sigma.decide("pi/first", "do:merge")
    assert [r[2] for r in sigma.rows()].count("✓ merged SHA") == 1
    pi.sync()
    assert "pi/first" not in branches(sigma.home)
    sigma.cn("sync", check=None)
    assert sigma.threads() == []


def test_the_thread_of_a_renamed_branch_goes_on_and_says_what_happened(world: World, sigma: Node, pi: Node) -> None:
    """Who pushed the same commit under another name is not known, as where it comes again under the same one."""
    head = world.propose(pi, sigma)
    sigma.sync()
    (name,) = sigma.threads()
    sigma.triage("pi/proposal", "do:merge")
    rename(world, pi, sigma, "pi/proposal", "pi/renamed")
    done = sigma.cn("sync", check=None)
    assert f"{name} goes on as pi/renamed, at the same commit" in done.stdout
    assert sigma.threads() == [name]
    assert "**Caution:** gone at " in sigma.thread(name)
    assert sigma.cn("sync", check=None).stdout == ""
    assert not is_in_main(sigma, head)
    sigma.process()
    assert not is_in_main(sigma, head), "what was decided before is void"
    rename(world, pi, sigma, "pi/renamed", "pi/third")
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert [r[2] for r in sigma.rows()].count("✓ merged SHA") == 1
    pi.sync()
    assert "pi/third" not in branches(sigma.home), "the notice is about the name that is there"


@pytest.mark.parametrize("when", ["before a sync", "before the decision is carried out"])
@pytest.mark.parametrize("kind", ["proposal", "message"])
def test_nobody_takes_a_branch_away_by_another_name_of_its_commit(
    world: World, sigma: Node, pi: Node, kind: str, when: str
) -> None:
    """Somebody pushes the commit under a name that comes first, and deletes that when the thread is made."""
    if kind == "proposal":
        world.propose(pi, sigma, "fix")
    else:
        pi.cn("send", "sigma", "fix", check=0)
    head = branches(sigma.home)["pi/fix"]
    push_as(world, pi, sigma, head, "pi/aaa")
    sigma.cn("sync", check=None)
    (name,) = sigma.threads()
    assert "pi-aaa" in name
    words = ["do:merge"] if kind == "proposal" else ["do:reply:yes", "--body", "Yes."]
    person = world.person(pi, sigma)
    if when == "before a sync":
        push(person, sigma.home, ":refs/heads/pi/aaa")
        done = sigma.sync()
        assert f"{name} goes on as pi/fix" in done.stdout
        assert "pi/fix" not in sigma.cn("status").stdout.partition("pending")[0], "nothing stands against it any more"
        assert sigma.cn("sync").stdout == ""
        sigma.triage("pi/aaa", *words)
    else:
        sigma.triage("pi/aaa", *words)
        push(person, sigma.home, ":refs/heads/pi/aaa")
        done = sigma.process()
        assert f"what was decided is void; read threads/inbox/{name}, then decide again" in done.stdout
        assert "went on as pi/fix: pi/aaa was at the same commit, and was taken back by" in sigma.thread(name)
        sigma.triage("pi/fix", *words)
    sigma.process()
    assert sigma.threads() == []
    assert is_in_main(sigma, head) == (kind == "proposal")
    pi.sync()
    sigma.cn("sync", check=None)
    pi.sync()
    assert "pi/fix" not in branches(sigma.home), "its creator knows what became of it, and cleans up"
    view = json.loads(sigma.cn("inbox", "list", "--all", "--json").stdout)
    assert [thread["branch"] for thread in view] == ["pi/fix"]


@pytest.mark.parametrize("deliver", ["mailbox", "pickup"])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("went", ["moved on", "withdrawn"])
@pytest.mark.parametrize("other", ["zz", "aa"])
def test_another_name_of_a_commit_keeps_no_decision_when_its_creator_replaces_or_withdraws_it(
    world: World, tmp_path: Path, other: str, went: str, pinned: bool, deliver: str
) -> None:
    """Somebody pushes the commit under a second name, which stays where it is: while it waits, or before it was looked
    at, by a name that comes first, so that the thread has that.
    """
    sigma, pi = world.hub("sigma"), world.hub("pi")
    private, public = make_ssh_key(tmp_path / "key")
    world.link(sigma, pi, deliver, b_key=public if pinned else "")
    person = world.person(pi, sigma)
    sign_with(person, private)
    git(person, "config", "commit.gpgsign", "true")
    head = world.propose(pi, sigma, "fix")
    if other == "zz":
        sigma.sync()
    world.offer(pi, sigma, other, head)
    sigma.cn("sync", check=None)
    if pinned and other == "zz":
        pi.cn("sync", check=None)  # notices have whole seconds: what comes in one second is in no order
    name, shown = sigma.only_thread(), "fix" if other == "zz" else "aa"
    sigma.triage(f"pi/{shown}", "do:merge")
    if went == "moved on":
        git(person, "commit", "--quiet", "--amend", "-m", "Better")
        world.offer(pi, sigma, "fix", "HEAD", force=True)
    else:
        world.withdraw(pi, sigma, "fix")
    said = sigma.cn("inbox", "process", check=None).stdout
    assert not is_in_main(sigma, head)
    assert f"what was decided is void; read threads/inbox/{name}, then decide again" in said
    stays, fix = world.branch(pi, sigma, other)[0], world.branch(pi, sigma, "fix")[0]
    became = "moved on from it" if went == "moved on" else "was taken back by 20"
    if other == "zz":
        assert f"{name} goes on as {stays}, at the same commit" in said
        caution = f"went on as {stays}: {fix} was at the same commit, and {became}"
    else:
        caution = f"stays as {stays}: {fix} was at the same commit, and {became}"
    assert f"**Caution:** {caution}" in sigma.thread(name)
    again = sigma.cn("inbox", "triage", f"pi/{shown}", "do:merge", check=None).stderr
    if went == "moved on" and other == "zz":
        assert f"means 2 threads: {name} ({stays} at {head[:8]}), " in again
    elif pinned:
        assert f"merge-needs-approval: the branch {caution}" in again
    else:
        assert again == ""
    assert sigma.cn("inbox", "triage", name, "do:merge", check=None).returncode == pinned
    before = sigma.thread(name)
    sigma.cn("inbox", "process", check=None)
    assert is_in_main(sigma, head) is not pinned, "who read that it went on decides, where no key says whose it is"
    sigma.cn("sync", check=None)
    assert not pinned or sigma.thread(name) == before, "said once"
    if pinned and other == "zz":
        pi.cn("sync", check=None)
        shown = " ".join(pi.cn("status").stdout.split())
        assert f'refused: "merge-needs-approval: the branch {caution}' in shown, "and not that it was let in"


def test_each_time_that_another_name_of_a_commit_leaves_it_what_was_decided_is_void(
    world: World, sigma: Node, pi: Node
) -> None:
    head = world.propose(pi, sigma, "fix")
    world.offer(pi, sigma, "aa", head)
    for _ in range(2):
        sigma.cn("sync", check=None)
        sigma.cn("inbox", "show", "pi/aa")
        sigma.triage("pi/aa", "do:merge")
        world.withdraw(pi, sigma, "fix")
        sigma.cn("sync", check=None)
        sigma.cn("inbox", "process", check=None)
        assert not is_in_main(sigma, head)
        world.offer(pi, sigma, "fix", head)
    assert [row[1] for row in sigma.rows() if row[0] == "pi/aa"].count("received again") == 2
    pi.cn("sync", check=None)
    told = [name for name in branches(pi.home) if "notice" in name]
    assert len(told) == 1, "its creator is told once that it is refused"


def test_no_number_of_names_hides_that_one_of_them_is_taken_back(world: World, sigma: Node, pi: Node) -> None:
    """More than a run takes, which all come first."""
    sigma.configure("limits: {branches_per_peer: 4}\n")
    head = world.propose(pi, sigma, "fix")
    push_as(world, pi, sigma, head, *(f"pi/aa{n}" for n in range(6)))
    for _ in range(3):
        sigma.cn("sync", check=None)
    sigma.triage("pi/aa0", "do:merge")
    world.withdraw(pi, sigma, "fix")
    sigma.cn("inbox", "process", check=None)
    assert not is_in_main(sigma, head)
    assert "pi/fix was at the same commit, and was taken back by" in sigma.thread(sigma.only_thread())


@pytest.mark.parametrize("decision", ["do:merge", "delete:no"])
def test_the_name_under_which_a_thread_began_is_told_what_became_of_it_too(
    world: World, sigma: Node, pi: Node, decision: str
) -> None:
    """It was renamed, and the old name came back at the same commit, as by an old ``git push --all``."""
    head = world.propose(pi, sigma, "fix")
    sigma.sync()
    name = sigma.only_thread()
    pi.sync()
    push_as(world, pi, sigma, head, "pi/other")
    push(world.person(pi, sigma), sigma.home, ":refs/heads/pi/fix")
    sigma.cn("sync", check=None)
    push_as(world, pi, sigma, head, "pi/fix")
    sigma.cn("sync", check=None)
    sigma.cn("inbox", "show", name)
    sigma.triage(name, decision)
    sigma.process()
    assert is_in_main(sigma, head) == (decision == "do:merge")
    for _ in range(3):
        pi.cn("sync", check=None)
        sigma.cn("sync", check=None)
    assert not [one for one in branches(sigma.home) if one.startswith("pi/")], "its creator knows, and cleans up"
    assert "nothing pending" in sigma.cn("status").stdout
    assert "refused" not in pi.cn("status").stdout
    before = len(sigma.rows())
    sigma.sync()
    sigma.sync()
    assert len(sigma.rows()) == before, "told once"


def test_who_renames_a_signed_branch_and_takes_that_back_is_told_each_time(world: World, tmp_path: Path) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    private, public = make_ssh_key(tmp_path / "key")
    world.link(sigma, pi, b_key=public)
    person = world.person(pi, sigma)
    sign_with(person, private)
    git(person, "config", "commit.gpgsign", "true")
    head = world.propose(pi, sigma, "fix")
    sigma.sync()
    pi.sync()
    for there, gone in (("pi/other", "pi/fix"), ("pi/fix", "pi/other")):
        push_as(world, pi, sigma, head, there)
        sigma.cn("sync", check=None)
        push(person, sigma.home, f":refs/heads/{gone}")
        sigma.cn("sync", check=None)
        told = pi.cn("sync", check=None).stdout
        assert f'sigma says {there} is refused: "merge-needs-approval: the branch went on as {there}' in told


def test_what_was_shown_before_its_branch_moved_is_not_what_goes_on_as_another(
    world: World, sigma: Node, pi: Node
) -> None:
    head = world.propose(pi, sigma, "fix")
    sigma.sync()
    name = sigma.only_thread()
    push_as(world, pi, sigma, head, "pi/zz")
    sigma.cn("sync", check=None)
    sigma.cn("inbox", "show", name)
    world.propose(pi, sigma, "fix", {"docs/better.md": "better\n"}, force=True)
    sigma.cn("sync", check=None)
    refused = sigma.cn("inbox", "triage", name, "do:merge", check=1).stderr
    assert "pi/fix was shown anew since, at the same head; nothing was decided" in refused
    sigma.cn("inbox", "show", name)
    sigma.triage(name, "do:merge")


def test_what_is_decided_of_one_name_counts_for_the_other_that_stood_there(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "lunch", check=0)
    head = branches(sigma.home)["pi/lunch"]
    push_as(world, pi, sigma, head, "pi/aaa")
    sigma.cn("sync", check=None)
    assert "pi/lunch is refused: seen-before" in sigma.cn("status", check=None).stdout
    sigma.cn("reply", "pi/aaa", "At noon.", check=0)
    done = sigma.cn("sync", check=0)
    assert "pi/lunch is at the same commit: what became of pi/aaa counts for it" in done.stdout
    assert "seen-before" not in sigma.cn("status").stdout
    pi.sync()
    assert "pi/lunch" not in branches(sigma.home)
    before = len(sigma.rows())
    sigma.sync()
    sigma.sync()
    assert [row[1] for row in sigma.rows()[before:]].count("received again") == 0, "told once"


def test_a_branch_that_went_on_moves_and_goes_like_any_other(world: World, sigma: Node, pi: Node) -> None:
    """Whoever pushes the first name again gets a thread of its own; it does not come between."""
    head = world.propose(pi, sigma, "fix")
    push_as(world, pi, sigma, head, "pi/aaa")
    sigma.cn("sync", check=None)
    (name,) = sigma.threads()
    person = world.person(pi, sigma)
    push(person, sigma.home, ":refs/heads/pi/aaa")
    sigma.sync()
    other = world.propose(pi, sigma, "aaa", {"docs/other.md": "other\n"})
    sigma.sync()
    assert len(sigma.threads()) == 2
    newer = world.propose(pi, sigma, "fix", {"docs/newer.md": "newer\n"}, force=True)
    done = sigma.sync()
    assert f"{name} is refreshed" in done.stdout
    assert newer in sigma.thread(name)
    assert other not in sigma.thread(name)
    push(person, sigma.home, ":refs/heads/pi/fix")
    sigma.sync()
    assert "withdrawn" in sigma.cn("inbox").stdout


def test_a_pending_branch_does_not_move_to_a_commit_that_was_decided(world: World, sigma: Node, pi: Node) -> None:
    old = world.propose(pi, sigma, "old")
    world.propose(pi, sigma, "pending")
    sigma.sync()
    sigma.decide("pi/old", "delete:no")
    push(world.person(pi, sigma), sigma.home, f"+{old}:refs/heads/pi/pending")
    done = sigma.cn("sync", check=None)
    assert "pi/pending is refused: seen-before" in done.stderr
    (name,) = sigma.threads()
    assert "moved" not in [r[1] for r in sigma.rows() if r[0] == "pi/pending"]
    assert old not in sigma.thread(name)


@pytest.mark.parametrize("comes_in", [True, False])
def test_a_thread_stays_with_the_name_that_stands_at_its_head_when_another_moves_on(
    world: World, tmp_path: Path, comes_in: bool
) -> None:
    """Somebody pushes the commit under a name that comes first, and moves that on when the thread is made."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    private, public = make_ssh_key(tmp_path / "key")
    world.link(sigma, pi, b_key="" if comes_in else public)
    person = world.person(pi, sigma)
    sign_with(person, private)
    git(person, "config", "commit.gpgsign", "true")
    head = world.propose(pi, sigma, "fix")
    push_as(world, pi, sigma, head, "pi/aaa")
    sigma.cn("sync", check=None)
    (name,) = sigma.threads()
    git(person, "config", "commit.gpgsign", "false")
    commit(person, {"junk": "junk\n"}, "Junk")
    push_as(world, pi, sigma, "HEAD", "pi/aaa")
    done = sigma.cn("sync", check=None)
    assert f"{name} goes on as pi/fix, at the same commit: pi/aaa has moved away from it" in done.stdout
    if comes_in:
        said = sigma.cn("inbox", "triage", "pi/aaa", "do:merge", check=1).stderr
        assert f"'pi/aaa' means 2 threads: {name} (pi/fix at {head[:8]}), " in said
        (other,) = set(sigma.threads()) - {name}  # no name of it says that it is pi/fix
        assert "-pi-aaa-" in other
        assert f"received pi/aaa as threads/inbox/{other}" in done.stdout
        assert sigma.thread(other).startswith("# pi/aaa\n")
        sigma.triage(name, "do:merge")
    else:  # nobody knows which of the two its creator meant, but who has the key
        assert "pi/aaa is refused: signature-policy" in done.stderr
        assert "pi/fix is refused" not in done.stderr
        assert "went on as pi/fix" in sigma.cn("inbox", "triage", name, "do:merge", check=1).stderr
        git(person, "switch", "-q", "--detach", head)
        git(person, "commit", "--quiet", "--amend", "-S", "-m", "Fix anew")
        head = git(person, "rev-parse", "HEAD")
        push(person, sigma.home, "+HEAD:refs/heads/pi/fix")
        sigma.cn("sync", check=None)
        sigma.triage(name, "do:merge")
    sigma.process()
    assert is_in_main(sigma, head)
    assert not is_in_main(sigma, branches(sigma.home)["pi/aaa"])
    assert name not in sigma.threads()
    told = pi.cn("sync", check=None).stdout
    assert "sigma says pi/fix is merged" in told
    assert "pi/fix" not in branches(sigma.home)
    assert "pi/aaa" in branches(sigma.home)
    again = sigma.cn("sync", check=None)
    assert "received" not in again.stdout
    assert "goes on as" not in again.stdout


@pytest.mark.parametrize("deliver", ["mailbox", "pickup"])
def test_a_renamed_branch_names_its_thread_and_stands_in_its_file(world: World, deliver: str) -> None:
    """Both names stood there for a while; the thread is called by the old one too."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, deliver)
    head = world.propose(pi, sigma, "old")
    sigma.sync()
    name = sigma.only_thread()
    path = sigma.root / "threads/inbox" / name
    path.write_text(path.read_text().replace("<!-- To decide", "A note of mine.\n\n<!-- To decide"))
    world.offer(pi, sigma, "new", head)
    assert "seen-before" in sigma.cn("sync", check=None).stderr
    world.withdraw(pi, sigma, "old")
    sigma.sync()
    branch, _ = world.branch(pi, sigma, "new")
    assert f"\n**Branch:** {branch}\n" in sigma.thread(name)
    assert "A note of mine." in sigma.thread(name)
    assert f"**Branch:** {branch}" in sigma.cn("inbox", "show", "pi/new").stdout
    assert sigma.cn("inbox", "show", "pi/old").stdout == sigma.cn("inbox", "show", "pi/new").stdout
    sigma.decide("pi/new", "do:merge")
    assert is_in_main(sigma, head)


def test_proposals_upon_each_other_are_called_by_what_is_their_own(world: World, sigma: Node, pi: Node) -> None:
    """At both sides, whether they come one by one or together."""
    person = world.person(pi, sigma)
    git(person, "config", "cn.hub", str(pi.root))
    for number in "123":
        checkout(person, f"s{number}", "HEAD")
        commit(person, {f"docs/{number}.md": "x\n"}, f"Part {number}")
        commit(person, {f"docs/{number}.md": "y\n"}, f"More of {number}")
        cn("propose", f"s{number}", cwd=person, check=0)
        if number != "2":  # the last two come together
            sigma.sync()
    found = {one["topic"]: one["subject"] for one in json.loads(sigma.cn("inbox", "--json").stdout)}
    assert found == {"s1": "Part 1", "s2": "Part 2", "s3": "Part 3"}
    waiting = pi.cn("status").stdout
    assert [f"Part {number}" in waiting for number in "123"] == [True] * 3
    sigma.configure("reviewers:\n  - name: rev\n    email: pi@people.example\n")
    sigma.write_refused_triage("pi/s1", "do:merge", "--actor", "rev")
    sigma.process(check=1)
    sigma.decide("pi/s3", "do:merge")
    refused = sigma.cn("status").stdout.partition("\nrefused\n")[2]
    assert "no-self-merge" in refused
    assert "main already holds this" in refused


def test_a_proposal_upon_another_peers_is_called_by_what_is_its_own(world: World, sigma: Node, pi: Node) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    theirs = world.propose(omega, sigma, "below", {"docs/below.md": "x\n"}, message="Theirs")
    sigma.sync()
    person = world.person(pi, sigma)
    fetch(person, sigma.url, "refs/heads/omega/below")
    world.propose(pi, sigma, "above", {"docs/above.md": "x\n"}, message="Ours", start=theirs)
    world.propose(pi, sigma, "top", {"docs/top.md": "x\n"}, message="Our second", start="HEAD")
    sigma.sync()
    found = {one["topic"]: one["subject"] for one in json.loads(sigma.cn("inbox", "--json").stdout)}
    assert found == {"below": "Theirs", "above": "Ours", "top": "Our second"}


def test_who_points_a_branch_into_anothers_in_the_same_run_does_not_rename_it(
    world: World, sigma: Node, pi: Node
) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    first = world.propose(pi, sigma, "work", {"docs/one.md": "x\n"}, message="First")
    world.propose(pi, sigma, "work", {"docs/two.md": "x\n"}, message="Second", start=first, force=True)
    push(world.person(pi, sigma), sigma.url, f"{first}:refs/heads/omega/claim")
    sigma.sync()
    found = {one["topic"]: one["subject"] for one in json.loads(sigma.cn("inbox", "--json").stdout)}
    assert found == {"work": "First", "claim": "First"}
