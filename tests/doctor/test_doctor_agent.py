"""``cn doctor`` on the runtime: configuration, key, model, daemon, dead letters, texts of another machine."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cn.agent.daemon_health import write_health
from cn.git.repository import open_hub
from cn.protocol.outbox_entry import Say, format_say
from cn.runtime.daemon_files import write_dead
from cn.system.files import hold
from cn.values.timestamps import format_second
from tests.support.hubs import cn, git
from tests.support.model_server import KEY, MODEL, model_server
from tests.support.runtime import environment
from tests.support.world import Node


def now() -> datetime:
    """To the second; asked each time, for a slow run takes longer than a poll may."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def hub(tmp_path: Path, hub_template: Path) -> Node:
    root = tmp_path / "cn-sigma"
    shutil.copytree(hub_template, root, symlinks=True)
    return Node("sigma", root, root, str(root))


def findings(node: Node, check: str, *args: str, env: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """Level and text of the findings of one check."""
    done = node.cn("doctor", "--json", *args, env=env, check=None)
    assert KEY not in done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert all(one["remedy"] for one in found if one["level"] == "problem")
    return [(one["level"], one["what"]) for one in found if one["check"] == check]


def test_a_hub_that_uses_no_runtime_hears_nothing_of_it(hub: Node) -> None:
    assert findings(hub, "runtime") == [("ok", "nothing speaks against the runtime's configuration")]
    assert findings(hub, "daemon") == [("ok", "no daemon is missing, and it gave up no message")]
    assert findings(hub, "says") == [("ok", "what is to be said in chats waits on this machine")]


def test_key_secrets_and_users_are_looked_at_and_no_value_is_shown(hub: Node) -> None:
    text = (hub.root / ".cn/hub.yaml").read_text().replace("interface: triage", "interface: queue")
    hub.write({".cn/hub.yaml": text}, "queue")
    ((level, what),) = findings(hub, "runtime")
    assert (level, "ANTHROPIC_KEY" in what) == ("info", True)
    ((level, what),) = findings(hub, "runtime", env=environment(None))
    assert (level, what) == ("ok", "a model and a key for its API are configured")
    secret = f"llm:\n  model: {MODEL}\n  api_key: {KEY}\ntelegram:\n  token: ${{TELEGRAM_TOKEN}}\n"
    hub.write({".cn/agent.yaml": secret}, "secret")
    told = [what for level, what in findings(hub, "runtime") if level == "info"]
    assert "a secret stands in the file" in told[0]
    assert told[1] == "Telegram is configured, and nobody is allowed to talk to the agent"
    hub.write({".cn/agent.yaml": "llm:\n  modle: x\n"}, "typo")
    ((level, what),) = [f for f in findings(hub, "configuration") if f[0] == "problem"]
    assert what.startswith(".cn/agent.yaml:2: ")
    assert cn("doctor", hub=hub.root).returncode == 3


def test_the_model_is_looked_up_only_with_full(hub: Node) -> None:
    hub.write({".cn/agent.yaml": f"llm:\n  model: {MODEL}\n"}, "model")
    with model_server() as server:
        env = environment(server)
        findings(hub, "runtime", env=env)
        assert server.requests == []
        assert findings(hub, "runtime", "--full", env=env) == [("ok", f"the API knows the model {MODEL}")]
        server.models = ("other-1",)
        ((level, what),) = findings(hub, "runtime", "--full", env=env)
        assert (level, what) == ("problem", f"there is no model {MODEL}")
    ((level, what),) = findings(hub, "runtime", "--full", env=env)
    assert (level, "was not checked" in what) == ("info", True)


def _health(hub: Node, **changes: object) -> None:
    health = {"pid": 1, "state": "running", "since": format_second(now()), "last_poll": format_second(now()),
              "last_error": None, **changes}  # fmt: skip
    write_health(open_hub(hub.root), health)


def test_a_daemon_that_is_gone_or_silent_is_a_problem(hub: Node) -> None:
    _health(hub, last_error={"at": format_second(now()), "text": "no network"})
    ((level, what),) = findings(hub, "daemon")
    assert (level, "is gone" in what) == ("problem", True)
    _health(hub, state="stopped")
    assert findings(hub, "daemon")[0][0] == "info"
    lock = hold(open_hub(hub.root).state / "daemon.lock")
    assert lock is not None
    _health(hub)
    assert findings(hub, "daemon")[0][0] == "ok"
    _health(hub, last_poll=format_second(now() - timedelta(hours=2)))
    ((level, what),) = findings(hub, "daemon")
    assert (level, "2h ago" in what) == ("problem", True)
    _health(hub, last_poll=None)
    assert findings(hub, "daemon")[0][0] == "info"


def test_dead_letters_have_a_remedy(hub: Node) -> None:
    message = {"message_id": 7, "date": 1_770_300_000, "chat": {"id": 42, "type": "private"},
               "from": {"id": 42, "is_bot": False, "first_name": "A"}, "text": "hello"}  # fmt: skip
    write_dead(open_hub(hub.root), {"update_id": 5, "message": message}, "the disk is full", now())
    ((level, what),) = findings(hub, "daemon")
    assert (level, "telegram:42" in what, "the disk is full" in what) == ("info", True, True)


def test_texts_of_another_machine_and_damaged_ones_are_named(hub: Node) -> None:
    say = Say("20260219-141209-abc123", "other", "telegram:42", "hello", now())
    hub.write({say.path: format_say(say), say.path.replace("abc123", "ffffff"): "nonsense"}, "says")
    levels = [level for level, _ in findings(hub, "says")]
    assert levels == ["problem", "info"]
    git(hub.root, "config", "cn.clone", "other")
    assert [level for level, _ in findings(hub, "says")] == ["problem"]
