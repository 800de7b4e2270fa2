"""One call to the model and what comes of it: answers, failures, attempts."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cn.llm import client
from cn.llm.request import parse_sent, request_json
from cn.llm.usage import read_calls
from cn.loop import process
from cn.runtime import turn
from cn.values.errors import ConfigError
from cn.values.report import Report
from cn.values.timestamps import format_second
from tests.support.desk import archived, current, work_queue
from tests.support.hubs import cn_env, git
from tests.support.model_server import KEY, Reply
from tests.support.studio import CHAT, OTHER, Studio, answer, id_of, write
from tests.support.telegram_server import TOKEN
from tests.support.world import World, content

RESULT = "result of the model"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come at once; a call has three seconds."""
    defaults = client.call.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "pauses", (0.0, 0.0, 0.0))
    monkeypatch.setitem(defaults, "seconds", 3.0)


def test_a_message_is_answered_archived_and_told_once(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|short line", f"{RESULT}\n\n*with* _markdown_ [x](y) `z` <b>\n")
    studio.receive("a question")
    lines = studio.turn()
    assert studio.said() == [f"{RESULT}\n\n*with* _markdown_ [x](y) `z` <b>"], lines
    assert len(studio.requests) == len(studio.archive) == len(studio.calls()) == 1
    assert studio.calls()[0].peer == CHAT
    assert "> a question" in studio.items[0]
    assert "> a question" in shown_archive(studio)
    assert [row[1:] for row in studio.node.rows(CHAT)] == [
        ("received", "—"),
        ("reply:short line", "queued"),
        ("reply:short line", "✓ delivered"),
    ]
    before = studio.node.main
    assert studio.turn() == []
    assert studio.node.main == before
    assert len(studio.requests) == 1
    studio.sound()


def test_an_item_given_a_moment_ago_is_asked_about_at_once(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    studio.model.answer = write("ack: ID|read")
    studio.receive("the first turn looks the model up")
    studio.turn()
    studio.node.cn("adhoc", "Plan the week")
    studio.node.cn("next")
    assert current(studio.node)
    asked_before: list[int] = []

    def process_as_agent(*args: Any, **options: Any) -> Report:
        asked_before.append(len(studio.requests))
        return process.process_as_agent(*args, **options)

    monkeypatch.setattr(turn, "process_as_agent", process_as_agent)
    studio.turn()
    assert asked_before == [2], "the one run of a turn comes after the answer"
    assert "Plan the week" in studio.items[1]
    studio.sound()


def shown_archive(studio: Studio) -> str:
    """The one archived input."""
    (text,) = archived(studio.node, "input").values()
    return text.decode()


@pytest.mark.parametrize("where", ["op", "body"])
def test_an_answer_that_says_our_key_back_in_base64_goes_nowhere(studio: Studio, where: str) -> None:
    coded = base64.encodebytes(f"key: {KEY}{KEY}".encode()).decode()
    said = write(f"reply: ID|{coded.splitlines()[0]}") if where == "op" else write("reply: ID|so", f"\n{coded}")
    studio.model.answer = said
    studio.receive("a question")
    for _ in range(3):
        studio.turn()
    core = base64.b64encode(KEY.encode()).decode()[4:32]
    assert not [text for text in studio.said() if core in text]
    assert not git(studio.node.root, "log", "-p", f"-S{coded.splitlines()[0]}", "main")
    assert "no-secrets" in studio.node.cn("log").stdout
    studio.sound()


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    "first",
    [
        Reply(status=429, headers=(("retry-after", "0"),)),
        Reply(status=529),
        Reply(status=500),
        Reply(cut="read"),
        Reply(cut="head"),
    ],
    ids=["429", "529", "500", "cut after the request", "cut within the answer"],
)
def test_what_passes_is_tried_again_within_the_turn(studio: Studio, first: Reply) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.model.next(first)
    studio.receive("a question")
    studio.turn()
    assert studio.said() == ["fine"]
    (call,) = studio.calls()
    assert call.attempts == 2
    assert len(studio.archive) == 1


NOT_ITS_FAULT = {
    "401": (Reply(status=401, message="invalid x-api-key"), "401"),
    "403": (Reply(status=403, message="not your model"), "403"),
    "404": (Reply(status=404, message="model: claude-9"), "404"),
    "credit": (Reply(status=400, message="Your credit balance is too low to access the API."), "credit balance"),
    "limit": (Reply(status=400, message="You have reached your specified API usage limits."), "usage limits"),
    "no API": (Reply(raw=b'{"error": "no such route"}'), "no message of the Messages API"),
}


@pytest.mark.sliced(3)
@pytest.mark.parametrize("name", NOT_ITS_FAULT)
def test_what_no_item_can_help_takes_no_attempt(studio: Studio, name: str) -> None:
    reply, told = NOT_ITS_FAULT[name]
    studio.model.answer = write("reply: ID|fine")
    studio.receive("a question")
    asked = 1 if name.isdigit() else 2  # a 400 may be the item's fault: a few words are asked to find out
    for _ in range(4):
        studio.model.next(*[reply] * asked)
        lines = studio.turn(until_idle=True)
        assert any(told in line for line in lines), lines
    assert current(studio.node) == ""
    (item,) = studio.waiting
    assert item["attempts"] == 0
    (waits,) = studio.said()
    assert waits == "(your message waits: the agent's model cannot be asked at the moment)", "nothing of our account"
    assert studio.dead == []
    assert len(studio.requests) == len(studio.calls()) == 4 * asked
    assert "the model gave no answer: " in studio.node.cn("status").stdout
    studio.turn()
    assert studio.said()[1:] == ["fine"]
    assert "the model gave no answer: " not in studio.node.cn("status").stdout
    assert list(studio.archive) == [item["id"]]


ITS_FAULT = {
    "400": (Reply(status=400, message="prompt is too long"), "prompt is too long"),
    "413": (Reply(status=413, message="too large"), "too large"),
    "max_tokens": (Reply("---\nid: x\n", stop="max_tokens"), "llm.max_tokens"),
    "refusal": (Reply("", stop="refusal", stop_details={"category": "cyber"}), "cyber"),
    "empty": (Reply(""), "without text"),
    "no message": (Reply(raw=b'{"type": "message"}'), "no message of the Messages API"),
    "no block": (Reply("Sure! Here you are.\n\nreply: ID|fine\n"), "it has no id"),
    "another id": (Reply(answer("ack: 20260101-000000-aaaaaa", id="20260101-000000-aaaaaa")), "its id is"),
    "control characters": (Reply("---\nid: ID\nreply: ID|\x00\x1b[2J\n---\n"), "control character"),
    "half a character": (Reply("---\nid: ID\nreply: ID|\ud800\n---\n"), ""),
    "huge": (Reply("---\nid: ID\nreply: ID|fine\n---\n" + "x" * (1 << 20)), "at most 1048576 are read"),
    "two decisions": (Reply("---\nid: ID\ndefer: ID|3d\ndelete: ID|no\n---\n"), "contradict each other"),
    "nobody's name": (Reply("---\nid: ID\nreply: ID|fine\nsend: nobody|hello\n---\n"), "is no peer"),
}


def test_an_answer_of_which_nothing_can_be_done_ends_that_item_only(studio: Studio) -> None:
    """One attempt each: every kind is given up, told, and the one behind it has its turn in the same run."""
    studio.configure(hub="max_attempts: 1\n")
    kinds = dict(ITS_FAULT)

    def speak(body: dict[str, Any]) -> Reply | str:
        if is_probe(body):
            return "yes"
        kind = next((name for name in kinds if f"> poison: {name}\n" in studio_item(body)), "")
        if not kind:
            return answer("reply: ID|fine", id=id_of(body))
        reply = kinds[kind][0]
        return replace(reply, text=str(reply.text).replace("ID", id_of(body)))

    studio.model.answer = speak
    for name in kinds:
        studio.receive(f"poison: {name}")
    studio.receive("good", OTHER)
    lines = studio.turn(until_idle=True)
    for name, (_, told) in kinds.items():
        assert any(told in line for line in lines), (name, lines)
    assert studio.said(OTHER) == ["fine"], lines
    assert len(studio.dead) == len(kinds) - 1, [d["reason"] for d in studio.dead]
    given_up = [t for t in studio.said() if t.startswith("(no answer: ") and t.endswith("; given up)")]
    assert not any("valid-output" in text or "known-peer" in text for text in given_up), "no rule's name"
    assert len(given_up) == len(kinds) - 1
    assert [t for t in studio.said() if t not in given_up] == ["?"]  # half a character, made whole
    assert not any("status 4" in text or "Messages API" in text for text in given_up), "nor what the API said"
    probes = [body for body in studio.requests if is_probe(body)]
    assert len(studio.requests) - len(probes) == len(kinds) + 1
    assert len(probes) == 2
    studio.sound()


def is_probe(body: dict[str, Any]) -> bool:
    """Is it only asked whether the model answers?"""
    return len(json.dumps(body)) < 400


def test_attempts_that_have_no_answer_are_apart_in_time(studio: Studio) -> None:
    studio.model.answer = lambda body: "yes" if is_probe(body) else Reply(status=400, message="prompt is too long")
    studio.receive("a question")
    for _ in range(4):
        studio.turn(until_idle=True)
    (item,) = studio.waiting
    assert (item["attempts"], studio.dead) == (1, [])
    assert studio.said() == ["(no answer: the agent gave no answer; it is tried again)"]


def studio_item(body: dict[str, Any]) -> str:
    """The item of a request."""
    return str(body["messages"][-1]["content"])


def test_a_rejected_answer_is_told_to_the_model_and_the_third_is_the_last(studio: Studio) -> None:
    studio.model.answer = lambda body: (
        f"ack: {id_of(body)}" if "poison" in studio_item(body) else answer("ack: ID|fine", id=id_of(body))
    )
    studio.receive("poison")
    studio.receive("good", OTHER)
    lines = studio.turn(until_idle=True)
    (dead,) = studio.dead
    assert dead["attempts"] == 3
    assert ["rejected: " in text for text in studio.items] == [False, True, True, False], lines
    assert "attempt: 3\n" in studio.items[2]
    assert sorted(studio.archive) == sorted(
        [dead["id"], f"{dead['id']}-2", f"{dead['id']}-3", id_of(studio.requests[3])]
    )
    assert studio.said(OTHER) == ["(acknowledged)"]
    assert studio.said()[-1].endswith("; given up)")
    studio.sound()


def test_an_item_with_which_a_server_is_down_lets_others_pass(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.receive("first")
    studio.receive("second", OTHER)
    studio.receive("third", OTHER)
    assert [item["from"] for item in studio.waiting] == [f"telegram:{OTHER}"] * 2
    first = current(studio.node)
    studio.model.next(*[Reply(status=529)] * 4)
    lines = studio.turn(until_idle=True)
    assert any("529" in line for line in lines)
    assert len(studio.requests) == 4
    assert [(item["id"] == first, item["attempts"]) for item in studio.waiting] == [(False, 0), (False, 0), (True, 1)]
    studio.turn(until_idle=True)
    assert studio.said(OTHER) == ["fine"] * 2
    assert studio.said() == ["fine"]
    assert ["> second" in studio.items[4], "> first" in studio.items[5], "> third" in studio.items[6]] == [True] * 3
    assert [call.attempts for call in studio.calls()] == [4, 1, 1, 1]


PAGE = b"<html>Log in to the network</html>"


@pytest.mark.parametrize(
    ("reply", "tries"),
    [(Reply(status=503), 4), (Reply(status=403, raw=PAGE), 2), (Reply(raw=PAGE), 2)],
    ids=["503", "page 403", "page 200"],
)
def test_however_long_no_model_is_reached_nothing_is_given_up(studio: Studio, reply: Reply, tries: int) -> None:
    studio.configure(hub="max_attempts: 1\n")
    studio.receive("a question")
    studio.model.next(*[reply] * 3 * tries)
    for _ in range(3):
        studio.turn()
    assert (len(studio.requests), studio.dead) == (3 * tries, [])
    studio.model.answer = write("reply: ID|fine")
    studio.turn()
    waits, said = studio.said()
    assert waits == "(your message waits: the agent's model cannot be asked at the moment)", "told once"
    assert said == "fine"


def test_an_answer_with_the_id_of_an_earlier_item_counts_as_an_attempt(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.receive("first")
    studio.turn()
    old = id_of(studio.requests[0])
    studio.model.answer = lambda body: answer(f"reply: {old}|again", id=old)
    studio.receive("second")
    lines = studio.turn(until_idle=True)
    assert len(studio.requests) == 4, lines
    (dead,) = studio.dead
    assert dead["attempts"] == 3
    assert f"its id is {old}, the input's {dead['id']}" in studio.items[2]
    assert not [name for name in studio.archive if "late" in name]
    assert studio.turn(until_idle=True) == []
    studio.sound()


def test_a_call_whose_process_dies_counts(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.configure("budgets:\n  turns_per_hour: 1\n")
    studio.receive("first")
    studio.model.next(Reply(hang=30.0))
    words = [sys.executable, "-m", "cn", "--hub", str(studio.node.root), "agent", "--process"]
    child = subprocess.Popen(words, env=cn_env(studio.env), stdout=-3, stderr=-3)
    deadline = time.monotonic() + 60
    while not studio.requests and time.monotonic() < deadline:
        time.sleep(0.02)
    child.kill()
    child.wait(60)
    (call,) = read_calls(studio.node.root)
    assert (call.stop, call.unknown, call.usage.input_tokens > 0) == ("asked", True, True)
    lines = studio.turn()
    assert any("turns_per_hour" in line for line in lines), lines
    assert len(studio.requests) == 1
    studio.age_calls(timedelta(hours=1))
    studio.turn()
    assert studio.said()[-1] == "fine"


def test_a_log_that_cannot_be_written_costs_no_call(studio: Studio) -> None:
    studio.receive("first")
    log = studio.node.root / "logs/cn.log"
    log.unlink(missing_ok=True)
    log.mkdir(parents=True)
    studio.agent("--process", check=1)
    assert studio.requests == []


def test_what_was_taken_and_never_asked_is_no_attempt(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.receive("first")
    old = format_second(datetime.now(UTC) - timedelta(hours=1))
    text = (content(studio.node, "state/turn.md") or b"").decode()
    studio.node.write({"state/turn.md": re.sub(r'(?m)^since: ".*"$', f'since: "{old}"', text)}, "time passes")
    studio.receive("second", OTHER)
    studio.turn(until_idle=True)
    assert (studio.said(), studio.said(OTHER)) == (["fine"], ["fine"])
    assert sorted(call.attempts for call in studio.calls() if call.stop != "asked") == [1, 1]
    assert sorted(studio.archive) == sorted({id_of(body) for body in studio.requests})
    studio.sound()


def test_a_model_that_hangs_ends_the_turn_in_time_and_may_have_been_paid(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.model.next(Reply(hang=30.0))
    studio.receive("first")
    studio.turn()
    (call,) = studio.calls()
    assert (call.stop, call.unknown, call.attempts) == ("timeout", True, 1)
    assert [item["attempts"] for item in studio.waiting] == [1]
    monkeypatch.setattr(turn, "rests", lambda asked, at: False)  # its rest is over
    studio.turn()
    assert studio.said()[1:] == ["fine"]


def test_nothing_is_claimed_or_sent_without_keys(studio: Studio) -> None:
    studio.receive("a question")
    for _ in range(2):
        assert "ANTHROPIC_KEY" in studio.agent("--process", check=3, ANTHROPIC_KEY="").stderr
    (waits,) = studio.said()
    assert waits.startswith("(your message waits: the agent's model cannot be asked"), "the chat is told once"
    assert "ANTHROPIC_KEY" in studio.node.cn("status").stdout
    (item,) = studio.waiting
    assert (item["attempts"], studio.requests) == (0, []), "what nobody can be asked about is not in flight"
    studio.model.answer = write("reply: ID|fine")
    studio.turn()
    assert studio.said()[1:] == ["fine"]
    assert "ANTHROPIC_KEY" not in studio.node.cn("status").stdout
    studio.sound()


def test_without_a_token_the_model_answers_and_what_is_for_a_chat_waits(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|fine")
    studio.receive("a question")
    done = studio.agent("--process", TELEGRAM_TOKEN="")
    assert "TELEGRAM_TOKEN" in done.stdout
    assert (len(studio.requests), studio.said()) == (1, [])
    studio.env["TELEGRAM_TOKEN"] = "no-token"
    with pytest.raises(ConfigError, match="has not the form"):
        studio.turn()
    studio.env["TELEGRAM_TOKEN"] = TOKEN
    studio.turn()
    assert studio.said() == ["fine"]
    assert len(studio.requests) == 1
    studio.sound()


def test_a_hub_without_a_queue_takes_no_messages(studio: Studio) -> None:
    work_queue(studio.node, "triage")
    for words in (("--process",), ("--daemon",)):
        assert "interface: queue" in studio.agent(*words, check=3).stderr
    assert studio.telegram.calls == []


def test_all_that_was_sent_is_in_main_and_any_clone_sends_it_again(world: World, studio: Studio) -> None:
    """What the model read then, though the pages of the hub are others now."""
    studio.model.answer = write("reply: ID|fine")
    studio.receive("a question")
    studio.turn()
    (sent,) = studio.requests
    (id,) = studio.archive
    kept = parse_sent(content(studio.node, f"logs/input/{id}.json") or b"")
    assert kept is not None
    assert json.loads(request_json(kept)) == sent
    studio.node.write({"spec/SOUL.md": "Somebody else.\n"}, "another")
    studio.node.cn("push")
    other = world.second(studio.node)
    git(other.root, "pull", "--quiet", "--ff-only", "origin", "main")
    words = ("replay", id, "--json")
    (row,) = json.loads(other.cn(*words, "--as-sent", env=studio.env).stdout)
    assert row["changed"] == "none"
    assert studio.requests[1] == sent
    other.cn(*words, env=studio.env)
    assert "Somebody else." in json.dumps(studio.requests[2])
