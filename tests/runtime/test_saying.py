"""Answers into chats when Telegram does not play along: each text once, or told as unknown."""

from __future__ import annotations

import json
import time

import pytest

from cn.runtime import turn
from tests.support.studio import CHAT, OTHER, Studio, write
from tests.support.telegram_server import CUT, CUT_AFTER, SERVER_ERROR, USER, Fault, rate_limit


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second try comes at once."""
    monkeypatch.setattr(turn, "_PAUSES", (0.0, 0.0))


def executed(studio: Studio, chat: str = CHAT) -> list[str]:
    """What the log says of the answers that are out of the outbox."""
    return [row[2] for row in studio.node.rows(chat) if row[2] not in ("—", "queued")]


def test_a_text_that_certainly_did_not_arrive_is_sent_again_after_the_time_asked_for(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.telegram.fault("sendMessage", rate_limit(1))
    studio.receive("a question")
    lines = studio.turn()
    assert any("not sent: " in line and "outbox" in line for line in lines)
    assert studio.said() == []
    time.sleep(2)  # meanwhile others are served
    studio.turn()
    first, second = (call.at for call in studio.telegram.calls if call.method == "sendMessage")
    assert second - first >= 1.0
    assert studio.said() == ["fine"]
    assert len(studio.requests) == 1
    assert executed(studio) == ["✓ delivered"]
    studio.sound()


def test_a_long_wait_keeps_that_chat_in_order_and_lets_the_others_go_on(studio: Studio) -> None:
    studio.model.answer = lambda body: write(f"reply: ID|to {body['messages'][-1]['content'][-4:].strip()}")(body)
    studio.telegram.fault("sendMessage", rate_limit(3600))
    for text, chat in (("one", USER), ("two", USER), ("six", OTHER)):
        studio.receive(text, chat)
    lines = studio.turn(until_idle=True)
    assert studio.said() == []
    assert studio.said(OTHER) == ["to six"]
    assert studio.telegram.count("sendMessage") == 2
    assert any("not sent: " in line and "outbox" in line for line in lines)
    assert len(studio.node.outbox()) == 2
    (note,) = (studio.node.root / ".git/cn/say").iterdir()
    note.write_text(json.dumps(json.loads(note.read_text()) | {"after": "2026-01-01T00:00:00Z"}))
    studio.turn()
    assert studio.said() == ["to one", "to two"]
    assert executed(studio) == ["✓ delivered"] * 2
    studio.sound()


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("fault", "arrived"),
    [(SERVER_ERROR, 0), (CUT, 0), (CUT_AFTER, 1)],
    ids=["500", "cut before", "cut after it was carried out"],
)
def test_a_text_whose_fate_nobody_knows_is_told_and_not_repeated(studio: Studio, fault: Fault, arrived: int) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.telegram.fault("sendMessage", fault)
    studio.receive("a question")
    lines = studio.turn()
    assert studio.said() == ["fine"] * arrived
    assert any("nobody knows whether a text arrived" in line for line in lines), lines
    assert studio.turn() == []
    assert studio.telegram.count("sendMessage") == 1
    assert executed(studio) == ["unknown: 1 of 1 parts"]
    assert "known to have arrived: unknown: 1 of 1 parts" in studio.node.cn("status").stdout
    assert len(studio.requests) == 1
    studio.sound()


@pytest.mark.parametrize(
    "fault", [Fault(302, b""), Fault(200, b"<html>Log in</html>", "text/html")], ids=["redirect", "page"]
)
def test_a_text_that_a_network_took_for_itself_is_sent_again(studio: Studio, fault: Fault) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.telegram.fault("sendMessage", fault)
    studio.receive("a question")
    studio.turn()
    studio.turn()
    assert studio.said() == ["fine"]
    assert studio.telegram.count("sendMessage") == 2
    assert executed(studio) == ["✓ delivered"]
    studio.sound()


def test_a_telegram_that_is_away_keeps_the_text_until_it_is_back(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    url = studio.telegram.url
    studio.env["TELEGRAM_BASE_URL"] = "http://127.0.0.1:9"
    old = (studio.node.root / ".cn/agent.yaml").read_text()
    studio.node.write({".cn/agent.yaml": old.replace(f"  base_url: {url}\n", "")})
    studio.receive("a question")
    lines = studio.turn()
    assert [line for line in lines if "not sent" in line], lines
    assert len(studio.node.outbox()) == 1
    studio.env["TELEGRAM_BASE_URL"] = url
    studio.turn()
    assert studio.said() == ["fine"]
    assert len(studio.requests) == 1
    studio.sound()


def test_a_chat_that_blocked_the_bot_is_given_up_and_the_queue_goes_on(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.telegram.blocked.add(USER)
    studio.receive("a question")
    studio.receive("another", OTHER)
    lines = studio.turn(until_idle=True)
    assert any("refused: " in line and "blocked" in line for line in lines), lines
    assert studio.said(OTHER) == ["fine"]
    assert executed(studio)[0].startswith("refused: ")
    assert "known to have arrived: refused: " in studio.node.cn("status").stdout
    assert studio.node.outbox() == []
    assert studio.turn() == []
    studio.sound()


def test_a_long_answer_goes_out_in_order_and_only_the_part_in_doubt_is_left_out(studio: Studio) -> None:
    text = "\n\n".join(f"paragraph {n}: {'word ' * 150}end" for n in range(15))
    studio.model.answer = write("reply: ID|short", text)
    studio.receive("tell me all")
    studio.turn()
    parts = studio.said()
    assert len(parts) > 2
    assert "\n\n".join(parts) == text
    assert executed(studio) == ["✓ delivered"]
    studio.telegram.fault("sendMessage", Fault(200, b'{"ok":true,"result":{"message_id":7}}'), CUT)
    studio.receive("again")
    studio.turn()
    assert studio.said()[len(parts) :] == parts[2:]
    assert executed(studio)[1:] == [f"unknown: 1 of {len(parts)} parts"]
    studio.sound()


def test_without_body_or_reply_the_chat_is_acknowledged(studio: Studio) -> None:
    studio.model.answer = write("")
    studio.receive("thanks")
    studio.turn()
    assert studio.said() == ["(acknowledged)"]


def test_what_was_said_before_is_not_said_again_when_it_comes_back_into_the_outbox(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.receive("a question")
    studio.turn(until_idle=True)
    (name,) = [name for name in studio.node.sent() if "say" in name or CHAT.replace("/", "-") in name]
    text = (studio.node.root / "threads/mail/sent" / name).read_text()
    studio.node.write({f"threads/mail/outbox/{name}": text})
    studio.receive("another")
    studio.turn(until_idle=True)
    assert studio.said() == ["fine", "fine"], "an answer for each question"
    assert "not said again: it came back into the outbox" in executed(studio)
    assert studio.node.outbox() == []
    studio.sound()
