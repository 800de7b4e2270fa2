"""``cn out``: each verb from the command line to the creator's hub, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.desk import answer, archived, asked, clean, current, events, queue, shown, work_queue
from tests.support.hubs import branches, git, read
from tests.support.world import Node, World, content

REVIEWER = 'reviewers:\n  - name: rhea\n    email: "rhea@example.org"\n'


@pytest.fixture
def omega(world: World, sigma: Node, pi: Node) -> Node:
    """A third hub, of sigma's community; sigma works a queue and has a reviewer."""
    node = world.hub("omega")
    world.link(sigma, node)
    text = (sigma.root / "state/peers.md").read_text()
    text = text.replace("- name: omega\n", "- name: omega\n  community: yes\n")
    sigma.write({"state/peers.md": text}, "community")
    work_queue(sigma)
    sigma.configure(REVIEWER)
    return node


@dataclass(frozen=True)
class Verb:
    """``words`` of ``cn out``, the rows that follow, what the creator gets, and where the thread ends."""

    words: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    told: str = ""
    said: str = ""
    state: str = "decided"
    beside: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return self.state == "decided"


def notice(status: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (f"notice:{status}", "queued"), (f"notice:{status}", "✓ delivered")


VERBS = {
    "reply": Verb(
        ("do", "reply", "--message", "fine | by me\nsecond | line"),
        (("comment", "queued"), ("defer:answered by sigma", "✓ deferred"), ("comment", "✓ delivered")),
        "sigma/re-reply",
        "fine | by me\nsecond | line",
        state="deferred",
    ),
    "send": Verb(
        ("do", "send", "--to", "omega", "--message", "look at this", "--body", "the | whole\ntext"),
        (
            ("send:look-at-this", "queued"),
            ("ack", "✓ acked"),
            ("notice:acked", "queued"),
            ("send:look-at-this", "✓ delivered"),
            ("notice:acked", "✓ delivered"),
        ),
        "sigma/notice-send",
        "status: acked",
        beside=("sigma/look-at-this", "the | whole\ntext"),
    ),
    "send-short": Verb(
        ("do", "send", "--to", "omega", "--message", "only this"),
        (
            ("send:only-this", "queued"),
            ("ack", "✓ acked"),
            ("notice:acked", "queued"),
            ("send:only-this", "✓ delivered"),
            ("notice:acked", "✓ delivered"),
        ),
        "sigma/notice-send-short",
        "status: acked",
        beside=("sigma/only-this", "only this"),
    ),
    "noop": Verb(
        ("do", "noop", "--reason", "duplicate of pi/reply"),
        (("noop:duplicate of pi/reply", "✓ acked"), *notice("acked")),
        "sigma/notice-noop",
        "duplicate of pi/reply",
    ),
    "ack": Verb(
        ("do", "ack", "--reason", "the cache numbers belong to milestone seven"),
        (("ack:the cache numbers belong to milestone seven", "✓ acked"), *notice("acked")),
        "sigma/notice-ack",
        "the cache numbers belong to milestone seven",
    ),
    "surface": Verb(
        ("do", "surface", "--desc", "Watch the retries"),
        (
            ("send:concern-watch-the-retries", "queued"),
            ("surface:Watch the retries", "✓ opened"),
            ("notice:opened", "queued"),
            ("send:concern-watch-the-retries", "✓ delivered"),
            ("notice:opened", "✓ delivered"),
        ),
        "sigma/notice-surface",
        "status: opened",
        beside=("sigma/concern-watch-the-retries", "kind: concern"),
    ),
    "commit": Verb(
        ("do", "commit", "--artifact", "docs/start.md"),
        (("commit:docs/start.md", "✓ recorded OID"), *notice("done")),
        "sigma/notice-commit",
        "recorded docs/start.md",
    ),
    "commit-id": Verb(
        ("do", "commit", "--artifact", "OBJECT"),
        (("commit:OBJECT", "✓ recorded OID"), *notice("done")),
        "sigma/notice-commit-id",
        "recorded OBJECT",
    ),
    "defer": Verb(
        ("defer", "--reason", "waiting for the release", "--until", "3d"),
        (("defer:waiting for the release", "✓ deferred"), *notice("deferred")),
        "sigma/notice-defer",
        "waiting for the release",
        state="deferred",
    ),
    "delegate": Verb(
        ("delegate", "--to", "omega"),
        (
            ("delegate:omega", "queued"),
            ("notice:delegated", "queued"),
            ("delegate:omega", "✓ delivered"),
            ("notice:delegated", "✓ delivered"),
        ),
        "sigma/notice-delegate",
        "status: delegated",
        beside=("sigma/fwd-pi-delegate", "pi/delegate"),
    ),
    "assign": Verb(("delegate", "--to", "rhea"), (("delegate:rhea", "✓ assigned"),), state="assigned"),
    "delete": Verb(
        ("delete", "--reason", "we do not do this"),
        (("delete:we do not do this", "✓ discarded"), *notice("discarded")),
        "sigma/notice-delete",
        "we do not do this",
    ),
}


def ours(peer: Node) -> set[str]:
    """What sigma has at a peer."""
    return {name for name in branches(peer.home) if name.startswith("sigma/")}


def test_each_verb_comes_to_its_end_and_the_creator_gets_exactly_one_message(
    world: World, sigma: Node, pi: Node, omega: Node
) -> None:
    for topic in VERBS:
        world.propose(pi, sigma, topic)
    sigma.sync()
    assert len(queue(sigma)["waiting"]) == len(VERBS) - 1
    start = git(sigma.root, "rev-parse", "main:docs/start.md")
    while current(sigma):
        topic = asked(sigma).partition("-pi-")[2]
        verb = VERBS[topic]
        trigger, given = current(sigma), (sigma.root / "state/input.md").read_bytes()
        sigma.cn("input")
        before, others = ours(pi), ours(omega)
        sigma.cn("out", *(start if word == "OBJECT" else word for word in verb.words))
        wrote = (sigma.root / "state/output.md").read_bytes()
        sigma.process()
        # the archive is what was given and written, byte for byte
        assert archived(sigma, "input")[trigger] == given, topic
        assert archived(sigma, "output")[trigger] == wrote, topic
        assert not (sigma.root / "state/output.md").exists()
        # the thread
        name = next(n for n in [*sigma.threads(), *sigma.done()] if n.endswith(f"-pi-{topic}.md"))
        assert (name in sigma.done()) == verb.done, topic
        assert f"input {trigger}" in sigma.thread(name) or not verb.done
        # the ledger and the log
        kinds = events(sigma, "pi", topic=topic)
        assert kinds == ["received", "enqueued", "claimed", "shown", verb.state], topic
        masked = [(d.replace(start, "OBJECT"), e.replace(start, "OID")) for _, d, e in sigma.rows(f"pi/{topic}")]
        assert sorted(masked[1:]) == sorted(verb.rows), topic
        # the creator
        fresh = ours(pi) - before
        assert fresh == ({verb.told} if verb.told else set()), topic
        if verb.told:
            message = read(pi.home, f"{verb.told}:message.md").decode()
            assert verb.said.replace("OBJECT", start) in message, topic
            assert f"pi/{topic}" in message
        more = ours(omega) - others
        assert more == ({verb.beside[0]} if verb.beside else set()), topic
        if verb.beside:
            assert verb.beside[1] in read(omega.home, f"{verb.beside[0]}:message.md").decode(), topic
        clean(sigma)
    sigma.idle()
    assert queue(sigma) == {
        "actor": "idle",
        "in_flight": None,
        "waiting": [],
        "dead": [],
        "damaged": [],
        "held": [],
        "bursts": [],
    }
    world.settle(pi, sigma)
    left = {f"pi/{topic}" for topic, verb in VERBS.items() if not verb.done}
    assert {b for b in branches(sigma.home) if b.startswith("pi/")} == left
    (concern,) = [p.name for p in (sigma.root / "state/mca").glob("*.md")]
    assert "watch-the-retries" in concern
    assert "until: 3d" in sigma.thread(next(n for n in sigma.threads() if n.endswith("-defer.md")))


def test_one_input_gets_one_answer_and_no_input_none(world: World, sigma: Node, pi: Node) -> None:
    work_queue(sigma)
    sigma.sync()
    done = sigma.cn("out", "do", "reply", "--message", "to whom?", check=1)
    assert "nothing waits for an answer" in done.stderr
    assert not (sigma.root / "state/output.md").exists()
    assert sigma.cn("input").stdout == "nothing waits for an answer\n"
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("out", "do", "reply", "--message", "the first")
    first = (sigma.root / "state/output.md").read_bytes()
    done = sigma.cn("out", "delete", "--reason", "the second", check=1)
    assert "has its answer already" in done.stderr
    assert (sigma.root / "state/output.md").read_bytes() == first
    assert "it has its answer" in sigma.cn("input").stderr
    assert sigma.cn("input", "--quiet").stderr == ""


@pytest.mark.parametrize("verb", ["ack", "noop"])
def test_a_reason_is_not_blank_and_not_judged(world: World, sigma: Node, pi: Node, verb: str) -> None:
    work_queue(sigma)
    world.propose(pi, sigma)
    sigma.sync()
    for reason in ("", " ", " \n\t"):
        done = sigma.cn("out", "do", verb, "--reason", reason, check=2)
        assert "--reason is empty" in done.stderr
        assert not (sigma.root / "state/output.md").exists(), reason
    sigma.cn("out", "do", verb, "--reason", "acknowledged")
    assert f"{verb}: " in (sigma.root / "state/output.md").read_text()
    sigma.process()
    assert sigma.threads() == []


def test_words_that_cannot_be_an_answer_are_refused_at_once(world: World, sigma: Node, pi: Node) -> None:
    work_queue(sigma)
    world.propose(pi, sigma)
    sigma.sync()
    for words, said in (
        (("do", "reply", "--message", "  \n"), "--message is empty"),
        (("defer", "--reason", "later", "--until", "some day"), "--until"),
        (("do", "surface", "--desc", ""), "--desc is empty"),
        (("do", "reply"), "--message"),
        (("undo",), "undo"),
    ):
        assert said in sigma.cn("out", *words, check=2).stderr
    assert not (sigma.root / "state/output.md").exists()
    assert "write state/output.md" in sigma.cn("out", "do", "reply", "--message", "hi", "--dry-run").stdout
    assert not (sigma.root / "state/output.md").exists()


ARTIFACTS = {
    ".cn/hub.yaml": "protected",
    "./.cn/hub.yaml": "",
    ".CN/Hub.YAML": "protected",
    ".cn//hub.yaml": "",
    "docs/../.cn/hub.yaml": "",
    "state/peers.md": "protected",
    "State/Peers.md": "protected",
    ".gitattributes": "protected",
    "docs/.gitignore": "protected",
    ".git/config": "",
    "/etc/passwd": "",
    "../pi/README.md": "",
    "state/input.md": "belongs to this machine",
    "docs/missing.md": "is not in main",
    "0" * 40: "is not in main",
    "docs/start.md\u202e": "",
    ":docs/start.md": "",
    "HEAD": "is not in main",
}


def test_no_op_can_name_a_file_that_is_protected_or_outside_in_any_spelling(
    world: World, sigma: Node, pi: Node
) -> None:
    work_queue(sigma)
    world.propose(pi, sigma)
    sigma.sync()
    ops = "".join(f'commit: ID|"{name}"\n' if name.startswith(":") else f"commit: ID|{name}\n" for name in ARTIFACTS)
    answer(sigma, f"---\nid: ID\n{ops}---\n")
    done = sigma.cn("inbox", "process", check=1)
    for name, why in ARTIFACTS.items():
        shown_name = name.removesuffix("\u202e")
        assert any(shown_name in line and why in line for line in done.stderr.split("\n")), (name, done.stderr)
    assert len(sigma.threads()) == 1
    assert "attempt: 2" in shown(sigma)
    assert content(sigma, ".cn/hub.yaml") == (sigma.root / ".cn/hub.yaml").read_bytes()


NOT_TAKEN = {
    ("delegate", "--to", "pi"): "pi sent it",
    ("delegate", "--to", "nobody"): "nobody is neither a peer nor a reviewer",
    ("do", "send", "--to", "nobody", "--message", "hello"): "'nobody' is no peer",
    ("do", "send", "--to", "sigma", "--message", "hello"): "sigma is this hub",
    ("do", "commit", "--artifact", ".cn/agent.yaml"): "protected",
    ("do", "commit", "--artifact", "docs/missing.md"): "is not in main",
    ("do", "commit", "--artifact", "0000000"): "is not in main",
    ("defer", "--reason", "later", "--until", "2020-01-01"): "is over",
}


def test_what_would_not_be_executed_is_refused_when_it_is_written_and_costs_no_attempt(
    world: World, sigma: Node, pi: Node
) -> None:
    work_queue(sigma)
    world.propose(pi, sigma)
    sigma.sync()
    for words, why in NOT_TAKEN.items():
        done = sigma.cn("out", *words, check=1)
        assert why in done.stderr, words
        assert not (sigma.root / "state/output.md").exists(), words
    sigma.process()
    assert "attempt: " not in shown(sigma)
    short = git(sigma.root, "rev-parse", "--short", "main")
    sigma.cn("out", "do", "commit", "--artifact", short)
    sigma.process()
    whole = git(sigma.root, "rev-parse", short)
    assert (f"commit:{short}", f"✓ recorded {whole}") in [row[1:] for row in sigma.rows("pi/proposal")]


def test_a_hub_without_a_queue_says_how_to_get_one(sigma: Node) -> None:
    for words in (("input",), ("input", "--json"), ("out", "do", "ack", "--reason", "seen")):
        done = sigma.cn(*words, check=1)
        assert "this hub has no queue" in done.stderr
        assert "interface: queue" in done.stderr
