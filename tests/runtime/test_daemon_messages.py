"""From a Telegram update to its answer through the daemon: every op, every kind of message."""

from __future__ import annotations

import re

from tests.support.desk import queue
from tests.support.hubs import branches
from tests.support.model_server import KEY
from tests.support.studio import CHAT, OTHER, Studio, answer, id_of, write
from tests.support.telegram_server import USER
from tests.support.world import Node, World, content

LONG = "\n\n".join(f"## {n}\n*bold* _x_ [a](b) `c` <i> & \\* {'word ' * 200}end" for n in range(9))
OPS = {
    "ack": "ack: ID|seen it in the log",
    "done": "done: ID",
    "fail": "fail: ID|there is no such file",
    "reply": "reply: ID|short\nsend: pi|look|the whole text\nsurface: Watch it\ncommit: ID|docs/start.md",
    "delegate pi": "delegate: ID|pi",
    "delegate alice": "delegate: ID|alice",
    "defer": "defer: ID|12h|not today",
    "delete": "delete: ID|spam",
    "noop": "noop: ID|nothing follows of it",
}


def speak(body: dict[str, object]) -> str:
    """Do what the message says."""
    item = str(body["messages"][-1]["content"])  # type: ignore[index]
    said = re.findall(r"(?m)^> (.*)$", item)
    text = next((line for line in said if line in OPS), "ack")
    return answer(OPS[text], LONG if text == "reply" else "", id_of(body))


def test_every_op_and_every_kind_of_message_goes_through_the_daemon(world: World, studio: Studio, pi: Node) -> None:
    node = studio.node
    old = (node.root / ".cn/hub.yaml").read_text().replace("reviewers: []\n", "")
    node.write({".cn/hub.yaml": f"{old}reviewers:\n- name: alice\n  email: alice@example.org\n"})
    studio.model.answer = speak
    server = studio.telegram
    server.chats.add(666)
    with studio.daemon() as daemon:
        server.say("let me in", 666)
        server.update("message", {"text": None, "photo": [{"file_id": "x"}]})
        server.update("message", {"text": None, "voice": {"file_id": "x"}})
        server.update("edited_message", {"text": "changed"})
        server.say("/status")
        server.say("/inbox")
        early = daemon.until_said(5)
        assert ["photo" in early[0], "voice" in early[1], "changes" in early[2]] == [True] * 3
        assert ["0 pending" in early[3], "nothing pending" in early[4]] == [True] * 2
        assert studio.requests == []
        for text in OPS:
            server.say(text)
        parts = 3
        said = daemon.until_said(5 + len(OPS) - 1 + parts, USER)[5:]
        first = list(OPS).index("reply")
        texts = [*said[:first], "\n\n".join(said[first : first + parts]), *said[first + parts :]]
        assert texts == [LONG if name == "reply" else "(acknowledged)" for name in OPS]
        daemon.until(lambda: server.waits() == [] and not list((node.root / "threads/mail/outbox").glob("*.md")))
    assert server.texts().count("let me in") == 0
    assert not [m for m in server.sent if m.chat_id == 666]
    assert "user 666: dropped" in daemon.log
    assert len(studio.archive) == len(OPS)
    delivered = [row[1] for row in node.rows(CHAT) if row[2] == "✓ delivered"]
    for word in ("ack:seen", "done", "fail:", "reply:short", "delegate:pi", "delegate:alice", "defer:", "delete:spam"):
        assert any(row.startswith(word) for row in delivered), (word, delivered)
    mail = [name for name in branches(pi.home) if name.startswith("sigma/")]
    assert sorted(mail) == ["sigma/fwd-delegate-pi", "sigma/look"]
    adhoc = [content(node, f"threads/adhoc/{name}") or b"" for name in node.listing("threads/adhoc")]
    assert sorted(b"alice" in text for text in adhoc) == [False, True]
    concerns = node.listing("state/mca")
    assert len([name for name in concerns if name != ".gitkeep"]) == 1
    (path,) = (p for p in (node.root / "threads/adhoc").glob("*.md") if "12h" in p.name or "defer" in p.name)
    over, count = re.subn(r"(?m)^(.*Until.*)20\d\d-\d\d-\d\dT", r"\g<1>2026-01-01T", path.read_text())
    assert count == 1, path.read_text()
    node.write({str(path.relative_to(node.root)): over}, "time passes")
    (node.root / ".git/cn/local.json").unlink()  # the agenda is looked at once an hour
    studio.turn(until_idle=True)
    assert any("defer" in item for item in studio.items[len(OPS) :]), queue(node)
    assert len(studio.requests) == len(OPS) + 1
    studio.sound()


def test_a_daemon_that_starts_again_queues_no_update_twice_and_goes_on_where_it_was(studio: Studio) -> None:
    studio.model.answer = lambda body: answer("reply: ID|fine", id=id_of(body))
    studio.telegram.repeat = True
    studio.telegram.say("one")
    with studio.daemon() as daemon:
        daemon.until_said(1)
    (studio.node.root / "state/telegram.offset").unlink()
    studio.telegram.say("two", OTHER)
    with studio.daemon() as daemon:
        daemon.until_said(1, OTHER)
        daemon.until(lambda: "was queued before" in daemon.log)
    assert (studio.said(), studio.said(OTHER)) == (["fine"], ["fine"])
    assert len(studio.requests) == 2
    studio.sound()


def test_what_is_wrong_with_the_model_is_said_when_the_daemon_starts(studio: Studio) -> None:
    """Nobody wrote yet; whoever does is told, once, and answered when it is mended."""
    studio.model.key = "another"
    with studio.daemon() as daemon:
        daemon.until(lambda: "ANTHROPIC_KEY" in daemon.log)
        assert studio.said() == []
        assert "ANTHROPIC_KEY" in studio.node.cn("status").stdout
        studio.telegram.say("hello?")
        (waits,) = daemon.until_said(1)
        assert waits.startswith("(your message waits: ")
        studio.model.key = KEY
        studio.model.answer = write("reply: ID|fine")
        studio.telegram.say("and now?")
        assert daemon.until_said(3)[1:] == ["fine", "fine"]


def test_a_poison_message_does_not_hold_up_the_daemon(studio: Studio) -> None:
    """Its three attempts follow each other at once, and the next message has its answer."""
    studio.model.answer = lambda body: (
        f"ack: {id_of(body)}" if "poison" in str(body["messages"][-1]) else answer("reply: ID|fine", id=id_of(body))
    )
    studio.telegram.say("poison")
    studio.telegram.say("good", OTHER)
    with studio.daemon() as daemon:
        assert daemon.until_said(1, OTHER) == ["fine"]
        daemon.until(lambda: any(text.endswith("; given up)") for text in studio.said()))
    assert [item["attempts"] for item in studio.dead] == [3]
    assert len(studio.requests) == 4
