"""Each decision on each route, with and without origin at the receiving hub: the whole life."""

from __future__ import annotations

import re

import pytest

from tests.support.hubs import branches, read
from tests.support.world import Node, Rows, World, content, is_in_main, merge_commit

_CASES = [("mailbox", True), ("mailbox", False), ("pickup", True), ("pickup", False)]
_IDS = [f"{route}-{'origin' if origin else 'alone'}" for route, origin in _CASES]
_FULL = ("mailbox-alone", "pickup-origin")
ROUTES = [
    pytest.param(case, id=name, marks=pytest.mark.full if name in _FULL else ())
    for case, name in zip(_CASES, _IDS, strict=True)
]


@pytest.fixture(params=ROUTES)
def pair(request: pytest.FixtureRequest, world: World) -> tuple[Node, Node]:
    """Receiver and creator."""
    route, origin = request.param
    sigma, pi = world.hub("sigma", origin=origin), world.hub("pi")
    world.link(sigma, pi, route)
    return sigma, pi


def _received(world: World, sigma: Node, pi: Node) -> tuple[str, str]:
    head = world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    assert re.fullmatch(r"\d{8}-pi-proposal\.md", name)
    return head, name


def _ending(world: World, sigma: Node, pi: Node, receiver: Rows, creator: Rows) -> None:
    """From the decision on: only the creator deletes, all is logged, then there is rest."""
    own, _ = world.branch(pi, sigma, "proposal")
    assert world.has_branch(pi, sigma)
    sigma.sync()
    assert world.has_branch(pi, sigma), "the receiver never deletes"
    before = branches(sigma.home), branches(pi.home)
    pi.sync()
    assert not world.has_branch(pi, sigma)
    lost = [set(b) - set(branches(n.home)) for b, n in zip(before, (sigma, pi), strict=True)]
    assert sorted(n for names in lost for n in names) == [own], "the creator deletes its branch, no other"
    world.settle(sigma, pi)
    assert sigma.rows() == receiver
    assert pi.rows() == creator
    assert [set(branches(n.home)) for n in (sigma, pi)] == [{"main"}, {"main"}]
    sigma.idle()
    pi.idle()


def _answered(status: str) -> Rows:
    return [
        ("pi/proposal", f"notice:{status}", "queued"),
        ("pi/proposal", f"notice:{status}", "✓ delivered"),
        ("pi/proposal", "gone", "branch deleted by its creator"),
        ("pi/proposal", "clean up", "queued"),
        ("pi/proposal", "clean up", "✓ deleted"),
    ]


def _creator(said: str, told: str) -> Rows:
    return [
        ("sigma/proposal", said, told),
        ("sigma/proposal", "clean up", "queued"),
        ("sigma/proposal", "clean up", "✓ deleted"),
        ("sigma/notice-proposal", "gone", "branch deleted by its creator"),
    ]


@pytest.mark.sliced(2)
@pytest.mark.quick
def test_a_merge_lands_in_main_and_its_creator_cleans_up(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    head, name = _received(world, sigma, pi)
    assert content(sigma, "docs/proposal.md") is None
    done = sigma.decide("pi/proposal", "do:merge")
    assert "✓ pi/proposal: do:merge by sigma" in done.stdout
    merge = merge_commit(sigma, head)
    assert (sigma.root / "docs/proposal.md").read_text() == "proposal\n"
    assert (sigma.threads(), sigma.done()) == ([], [name])
    assert f"✓ merged {merge[:7]}" in sigma.thread(name)
    assert len(sigma.notices()) == 1
    log = next((sigma.root / "logs/inbox").glob("*.md")).read_text()
    assert f"| pi/proposal | do:merge | ✓ merged {merge[:7]} |" in log
    assert sigma.main
    receiver = [("pi/proposal", "received", "—"), ("pi/proposal", "do:merge", "✓ merged SHA"), *_answered("merged")]
    _ending(world, sigma, pi, receiver, _creator("notice:merged", "merged SHA"))


@pytest.mark.sliced(2)
def test_a_discarded_proposal_is_deleted_by_its_creator(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    head, name = _received(world, sigma, pi)
    sigma.decide("pi/proposal", "delete:stale")
    assert not is_in_main(sigma, head)
    assert (sigma.threads(), sigma.done()) == ([], [name])
    assert len(sigma.notices()) == 1
    receiver = [
        ("pi/proposal", "received", "—"),
        ("pi/proposal", "delete:stale", "✓ discarded"),
        *_answered("discarded"),
    ]
    _ending(world, sigma, pi, receiver, _creator("notice:discarded", 'discarded: "stale"'))


@pytest.mark.sliced(2)
def test_a_concern_is_opened(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    _, name = _received(world, sigma, pi)
    sigma.decide("pi/proposal", "do:custom:Watch the docs", "--body", "They grow.")
    (concern,) = sigma.listing("state/mca")
    text = (sigma.root / "state/mca" / concern).read_text()
    assert "Watch the docs" in text
    assert "They grow." in text
    assert name in text
    assert (sigma.threads(), sigma.done(), len(sigma.notices())) == ([], [name], 1)
    receiver = [
        ("pi/proposal", "received", "—"),
        ("pi/proposal", "do:custom:Watch the docs", "✓ opened"),
        *_answered("opened"),
    ]
    _ending(world, sigma, pi, receiver, _creator("notice:opened", 'opened: "Watch the docs"'))


@pytest.mark.sliced(2)
def test_a_reply_arrives_as_a_thread(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    _, name = _received(world, sigma, pi)
    sigma.decide("pi/proposal", "do:reply:thanks", "--body", "Thank you.\n\n> quoted")
    assert (sigma.threads(), sigma.done(), len(sigma.notices())) == ([], [name], 1)
    own, _ = world.branch(sigma, pi, "thanks")
    place = pi if world.deliver(sigma, pi) == "mailbox" else sigma
    data = read(place.home, f"refs/heads/{own}:message.md")
    assert b"kind: message" in data
    assert b"Thank you." in data
    assert sigma.rows() == [
        ("pi/proposal", "received", "—"),
        ("pi/proposal", "do:reply:thanks", "queued"),
        ("pi/proposal", "do:reply:thanks", "✓ delivered"),
    ]
    assert world.has_branch(pi, sigma)
    pi.sync()
    assert not world.has_branch(pi, sigma)
    thread = pi.only_thread()
    text = pi.thread(thread)
    assert "> Thank you." in text
    assert "> > quoted" in text
    world.settle(sigma, pi)
    assert pi.rows("sigma/proposal") == [
        ("sigma/proposal", "notice:replied", "replied"),
        ("sigma/proposal", "clean up", "queued"),
        ("sigma/proposal", "clean up", "✓ deleted"),
    ]
    assert pi.rows("sigma/thanks") == [
        ("sigma/thanks", "received", "—"),
        ("sigma/thanks", "gone", "branch deleted by its creator"),
    ]
    assert pi.threads() == [thread], "the reply waits to be read, whatever became of its branch"
    pi.decide("sigma/thanks", "delete:read")
    world.settle(sigma, pi)
    assert sigma.rows("pi/thanks") == [("pi/thanks", "notice:discarded", 'discarded: "read"')]
    sigma.idle()
    pi.idle()


@pytest.mark.sliced(2)
def test_a_deferred_thread_stays(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    _, name = _received(world, sigma, pi)
    sigma.decide("pi/proposal", "defer:after the release")
    (told,) = sigma.notices()
    assert "status: deferred" in (sigma.root / "threads/mail/sent" / told).read_text()
    assert (sigma.threads(), sigma.done()) == ([name], [])
    assert "✓ deferred" in sigma.thread(name)
    sigma.idle()
    pi.sync()
    assert world.has_branch(pi, sigma)
    assert [row[1:] for row in sigma.rows()] == [
        ("received", "—"),
        ("defer:after the release", "✓ deferred"),
        ("notice:deferred", "queued"),
        ("notice:deferred", "✓ delivered"),
    ]
    sigma.decide("pi/proposal", "do:merge")
    assert (sigma.threads(), sigma.done()) == ([], [name])
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)


@pytest.mark.sliced(2)
def test_a_delegated_thread_reaches_the_peer(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    omega = world.hub("omega")
    world.link(sigma, omega)
    head, name = _received(world, sigma, pi)
    told = sigma.cn("inbox", "triage", "pi/proposal", "delegate:omega", "--body", "Yours, I think.").stdout
    assert "delegate:omega by sigma (final, the thread ends and its creator deletes the branch); " in told
    sigma.process()
    assert (sigma.threads(), sigma.done()) == ([], [name])
    omega.sync()
    text = omega.thread(omega.only_thread())
    for line in ("> > - from: pi", f"> > - head: {head}", "> > Yours, I think.", "> > >     proposal"):
        assert line in text.split("\n"), text
    pi.sync()
    assert not world.has_branch(pi, sigma)
    world.settle(sigma, pi, omega)
    decided = [row for row in sigma.rows("pi/proposal") if row[1] == "delegate:omega"]
    assert [row[2] for row in decided] == ["queued", "✓ delivered"]
    assert [row[2] for row in sigma.rows() if row[1] == "notice:delegated"] == ["queued", "✓ delivered"]
    assert pi.rows()[0] == ("sigma/proposal", "notice:delegated", 'delegated: "to omega"')
    sigma.idle()
    pi.idle()
    omega.idle()


@pytest.mark.sliced(2)
def test_a_delegated_thread_goes_with_all_that_was_said_in_it(world: World, sigma: Node, pi: Node) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    pi.cn("send", "sigma", "Which port?")
    sigma.sync()
    sigma.cn("comment", "pi/which-port", "On which machine?")
    pi.sync()
    pi.cn("reply", "sigma/re-which-port", "On the blue one.")
    sigma.sync()
    told = sigma.cn("delegate", "pi/which-port", "omega").stdout
    assert "by sigma (final, the thread ends and its creator deletes the branch); head " in " ".join(told.split())
    omega.sync()
    text = omega.thread(omega.only_thread())
    said = [text.index(words) for words in ("Which port?", "> On which machine?", "> On the blue one.")]
    assert said == sorted(said)
    assert "**sigma wrote, " in text
    assert "**pi wrote, " in text


def test_a_thread_assigned_to_a_reviewer_stays_for_the_reviewer(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    sigma.configure("reviewers:\n- name: alice\n  email: alice@example.org\n")
    head, name = _received(world, sigma, pi)
    told = sigma.cn("delegate", "pi/proposal", "alice", "--dry-run").stdout
    assert "final" not in told
    assert "alice' by sigma to" in sigma.cn("inbox", "triage", "pi/proposal", "delegate:alice", "--dry-run").stdout
    assert "delegate:alice by sigma (it stays)" in sigma.cn("inbox", "triage", "pi/proposal", "delegate:alice").stdout
    sigma.process()
    assert (sigma.threads(), sigma.done(), sigma.notices()) == ([name], [], [])
    assert sigma.rows()[-1] == ("pi/proposal", "delegate:alice", "✓ assigned")
    sigma.idle()
    sigma.decide("pi/proposal", "do:merge", "--actor", "alice")
    assert is_in_main(sigma, head)
    assert sigma.done() == [name]
