"""What a runner says of itself: whether it began as it was asked to, and what it spent.

Claude Code's stream of JSON lines begins with ``init`` and ends with ``result`` (its documentation, "Headless mode").
It ignores settings that it does not understand without a word, so ``init`` is compared with what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from cn.agents.machine import Runner
from cn.agents.unanswered import EXIT_UNANSWERED, UNANSWERED
from cn.values.text import one_line, redact

_MOST = 4 << 20
_LAST = 200
_API_ERROR = "API Error"
"""How Claude Code's result begins where the API gave none."""
_TAIL = 1 << 17
_TRANSCRIPT = ("assistant", "user", "system", "tool", "ended", "result")
"""Kinds of lines in transcripts: ours (:mod:`cn.agents.builtin`), and Claude Code's."""


def problem_of_start(runner: Runner, session: str, output: Path, servers: Collection[str] = ("cn",)) -> str | None:
    """What is not as it was asked for; empty where all is well, None while nothing has been said of it.

    ``servers`` are those of MCP that it was given.
    """
    if runner.result != "claude":
        return ""
    init = next((one for one in _lines(_read(output, 0, 1 << 18)) if one.get("subtype") == "init"), None)
    return None if init is None else _unlike(runner, session, init, servers)


def _unlike(runner: Runner, session: str, init: Mapping[str, object], expected: Collection[str]) -> str:
    if init.get("session_id") != session:
        return "it has another session"
    if init.get("permissionMode") != "dontAsk" and "dontAsk" in runner.argv:
        return f"its permission mode is {one_line(str(init.get('permissionMode')), 40)!r}"
    listed = init.get("mcp_servers")
    found = {one.get("name"): one.get("status") for one in listed} if isinstance(listed, list) else {}
    if found.keys() != {*expected}:
        return f"its MCP servers are {', '.join(sorted(map(str, found))) or 'none'}, not {', '.join(sorted(expected))}"
    if found["cn"] == "failed":
        return "it could not connect to the server"
    tools = init.get("tools")
    ours = tuple(f"mcp__{name}__" for name in expected)
    own = {str(one) for one in tools if not str(one).startswith(ours)} if isinstance(tools, list) else set()
    if more := own - set(runner.tools.replace(",", " ").split()):
        return f"it has tools that it was not given: {', '.join(sorted(more))}"
    return ""


def spent(runner: Runner, output: Path) -> str:
    """What an agent says that it used, in a few words; empty where it does not say."""
    if runner.result == "none":
        return ""
    last = _results(output)
    usage = last[-1].get("usage") if last else None
    if not isinstance(usage, dict):
        return ""
    counts = {name: value for name, value in usage.items() if isinstance(value, int)}
    cached = counts.get("cache_read_input_tokens", 0)
    read = counts.get("input_tokens", 0) + counts.get("cache_creation_input_tokens", 0) + cached
    text = f"{read} tokens in ({cached} cached), {counts.get('output_tokens', 0)} out"
    cost = last[-1].get("total_cost_usd")
    return f"{text}, {cost:.4f} USD" if isinstance(cost, float) and cost > 0 else text


def unanswered(runner: Runner, folder: Path, code: int | None) -> str:
    """The reason of an agent's end where it says that no model answered it; empty where it does not."""
    if runner.result == "builtin" and code == EXIT_UNANSWERED:
        words = last_words(folder)
        return f"{UNANSWERED}: {words.partition(f'{UNANSWERED}: ')[2] or words}"
    last = _results(folder / "output") if runner.result == "claude" and code else []
    said = str(last[-1].get("result")) if last and last[-1].get("is_error") is True else ""
    return f"{UNANSWERED}: {one_line(redact(said), _LAST)}" if said.startswith(_API_ERROR) else ""


def _results(output: Path) -> list[dict[str, object]]:
    """The lines in which a transcript ends."""
    size = output.stat().st_size if output.exists() else 0
    return [one for one in _lines(_read(output, max(0, size - _MOST), _MOST)) if one.get("type") == "result"]


def last_words(folder: Path) -> str:
    """The last line that an agent complained with, else said, without what looks like a secret.

    Of a transcript in JSON it is the text of what was said last, and not a line that only counts tokens.
    """
    for name in ("errors", "output"):
        path = folder / name
        size = path.stat().st_size if path.exists() else 0
        lines = _read(path, max(0, size - _TAIL), _TAIL).decode("utf-8", "replace").split("\n") if size else []
        if said := next((words for line in reversed(lines) if (words := _words(line).strip())), ""):
            return one_line(redact(said), _LAST)
    return ""


def _words(line: str) -> str:
    """What a line says to people: itself, or of a line of our transcript or Claude Code's the texts in it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(found, dict) or found.get("type") not in _TRANSCRIPT:
        return line
    message = found.get("message")
    content = message.get("content") if isinstance(message, dict) else found.get("content")
    blocks = content if found["type"] == "assistant" and isinstance(content, list) else []
    texts = [
        str(one["text"]) for one in blocks if isinstance(one, dict) and one.get("type") == "text" and "text" in one
    ]
    last = [str(found[name]) for name in ("result", "why") if isinstance(found.get(name), str)]
    return " ".join(texts) if found["type"] == "assistant" else last[0] if last and last != ["done"] else ""


def _read(path: Path, start: int, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(most)
    except OSError:
        return b""


def _lines(data: bytes) -> Iterator[dict[str, object]]:
    """The objects of whole lines."""
    for line in data.split(b"\n")[:-1]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # an agent may say anything
            continue
        if isinstance(found, dict):
            yield found


def servers_of(config: Path) -> list[str]:
    """The servers of MCP that an agent's configuration names; none where it is gone."""
    try:
        return [*json.loads(config.read_text("utf-8"))["mcpServers"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
