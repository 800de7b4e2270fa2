"""Where texts may go: to allowed users, and to groups in which one of them wrote."""

from __future__ import annotations

from datetime import UTC, datetime

from cn.git.repository import open_hub
from cn.protocol.outbox_entry import Say, format_say
from cn.transaction.push import clone_id
from tests.support.hubs import clone, commit, identify, push
from tests.support.studio import Studio, write
from tests.support.telegram_server import USER

STRANGER, GROUP = 4711, -1001


def plant(studio: Studio, chat: int) -> Say:
    """Somebody who can push to origin puts a text into the outbox, well made."""
    node = studio.node
    machine = clone_id(open_hub(node.root), make=True) or ""
    at = datetime(2026, 2, 5, tzinfo=UTC)
    say = Say("20260205-120000-aaaaaa", machine, f"telegram:{chat}", "your code is 1234", at)
    path = node.root.parent / "pusher"
    identify(clone(node.url, path), "mallory")
    commit(path, {str(say.path): format_say(say)}, "harmless")
    push(path, node.url, "main")
    studio.telegram.chats |= {STRANGER, GROUP}
    return say


def test_a_planted_text_for_a_stranger_is_not_sent(studio: Studio) -> None:
    say = plant(studio, STRANGER)
    (line,) = [line for line in studio.turn() if line.startswith("failed: ")]
    assert f"{say.name} is not sent: telegram:{STRANGER} is no allowed user's" in line
    assert "telegram.allowed_users" in line
    assert studio.turn() == [], "told once"
    assert studio.telegram.count("sendMessage") == 0
    shown = studio.node.cn("outbox").stdout
    assert f"telegram:{STRANGER} is no allowed user's" in shown
    studio.model.answer = write("reply: ID|fine")
    studio.receive("a question")
    studio.turn()
    assert studio.said() == ["fine"], "it keeps nobody waiting"
    assert studio.said(STRANGER) == []


def test_a_group_is_answered_as_long_as_who_wrote_there_is_allowed(studio: Studio) -> None:
    studio.telegram.chats.add(GROUP)
    studio.model.answer = write("reply: ID|fine")
    studio.receive("a question", GROUP, user=USER)
    studio.turn()
    assert studio.said(GROUP) == ["fine"]
    old = (studio.node.root / ".cn/agent.yaml").read_text()
    studio.receive("another", GROUP, user=USER)
    studio.node.write({".cn/agent.yaml": old.replace(str(USER), "5")}, "not any more")
    assert any("is not sent" in line for line in studio.turn())
    assert studio.said(GROUP) == ["fine"]
