"""What runners say of themselves: whether they began as asked, what they spent, and their last words."""

import json
from pathlib import Path
from typing import Any

import pytest

from cn.agents.machine import Runner
from cn.agents.outputs import last_words, problem_of_start, spent, unanswered
from tests.support.agents import machine_of

SESSION = "11111111-1111-4111-8111-111111111111"
INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": SESSION,
    "permissionMode": "dontAsk",
    "mcp_servers": [{"name": "cn", "status": "connected"}],
    "tools": ["mcp__cn__kb_read"],
}


def claude(more: str = "") -> Runner:
    found = machine_of(f"[runners.claude]\n{more}").runner("claude")
    assert found
    return found


def output(folder: Path, *lines: Any) -> Path:
    path = folder / "output"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"session_id": "other"}, "another session"),
        ({"permissionMode": "default"}, "its permission mode is 'default'"),
        ({"mcp_servers": []}, "its MCP servers are none"),
        ({"mcp_servers": [{"name": "cn"}, {"name": "mail"}]}, "its MCP servers are cn, mail"),
        ({"mcp_servers": [{"name": "cn", "status": "failed"}]}, "could not connect"),
        ({"tools": ["mcp__cn__kb_read", "Bash"]}, "tools that it was not given: Bash"),
    ],
)
def test_a_start_that_is_not_as_it_was_asked_for_is_found(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    problem = problem_of_start(
        claude(), SESSION, output(tmp_path, {"type": "system", "subtype": "other"}, INIT | change)
    )
    assert problem is not None
    assert said in problem
    assert bool(problem) is bool(said)


def test_what_it_was_given_is_no_surprise_and_nothing_is_said_before_it_begins(tmp_path: Path) -> None:
    shell = claude("tools = 'Bash,Read'\nwrap = 'bwrap'")
    assert problem_of_start(shell, SESSION, output(tmp_path, INIT | {"tools": ["Bash", "mcp__cn__kb_read"]})) == ""
    assert problem_of_start(shell, SESSION, tmp_path / "missing") is None
    assert problem_of_start(shell, SESSION, output(tmp_path, '{"type": "system", "subty')) is None
    assert problem_of_start(Runner("own", ("x",)), SESSION, tmp_path / "missing") == ""


def test_what_was_spent_is_told_in_words(tmp_path: Path) -> None:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 7}
    path = output(tmp_path, INIT, "no json", {"type": "result", "usage": usage, "total_cost_usd": 0.25})
    assert spent(claude(), path) == "115 tokens in (100 cached), 7 out, 0.2500 USD"
    assert spent(claude(), output(tmp_path, INIT)) == ""
    assert spent(claude(), output(tmp_path, {"type": "result", "usage": {"input_tokens": "many"}})).startswith(
        "0 tokens"
    )
    assert spent(Runner("own", ("x",)), path) == ""


def test_last_words_are_on_one_line_and_without_credentials(tmp_path: Path) -> None:
    assert last_words(tmp_path) == ""
    output(tmp_path, "first", "I fetch https://ann:word@example.org/x", "")
    assert last_words(tmp_path) == "I fetch https://***@example.org/x"
    (tmp_path / "errors").write_text("it \x1b[31mfailed\n\n")
    assert "failed" in last_words(tmp_path)
    assert "\x1b" not in last_words(tmp_path)


def test_last_words_of_a_transcript_are_what_was_said_and_no_counts(tmp_path: Path) -> None:
    said = {"type": "assistant", "stop": "end_turn", "content": [{"type": "text", "text": "There is nothing to do."}]}
    tool = {"type": "tool", "name": "kb_list", "arguments": {}, "error": False, "said": "done"}
    result = {"type": "result", "why": "done", "turns": 3, "usage": {"input_tokens": 9}}
    output(tmp_path, said, tool, result)
    assert last_words(tmp_path) == "There is nothing to do."
    output(tmp_path, said, result | {"why": "its lease is over"})
    assert last_words(tmp_path) == "its lease is over"
    claude_said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "I look."}]}}
    output(tmp_path, claude_said, {"type": "user", "message": {"content": "x"}}, {"type": "result", "subtype": "x"})
    assert last_words(tmp_path) == "I look."
    output(tmp_path, {"say": "mine"}, "[1]")
    assert last_words(tmp_path) == "[1]"
    output(tmp_path, {"type": "assistant", "content": [3, {"type": "text"}]})
    assert last_words(tmp_path) == ""


def test_that_no_model_answered_is_known_of_programs_that_say_so(tmp_path: Path) -> None:
    own, builtin = Runner("own", ("x",)), Runner("builtin", ("x",), result="builtin")
    error = {"type": "result", "is_error": True, "result": "API Error: Connection error."}
    output(tmp_path, error)
    assert unanswered(claude(), tmp_path, 1) == "no model answered: API Error: Connection error."
    assert unanswered(claude(), tmp_path, 0) == unanswered(own, tmp_path, 69) == unanswered(builtin, tmp_path, 1) == ""
    output(tmp_path, error | {"is_error": False})
    assert unanswered(claude(), tmp_path, 1) == ""
    (tmp_path / "errors").write_text("cn: no model answered: x; look\n")
    assert unanswered(builtin, tmp_path, 69) == "no model answered: x; look"
