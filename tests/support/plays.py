"""Models that act: what an agent's model says is a play, a generator that gets the results of the calls it made.

A play is chosen by the title of the handler's outcome, and begins anew with each agent. The same plays serve every
runner: the names of tools get the prefix that its client gives them.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.support.model_server import Reply

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


class Result(NamedTuple):
    """What a call gave: its text, whether it was refused, and its value."""

    text: str
    refused: bool
    value: dict[str, Any]


class Scene(NamedTuple):
    """What an agent knows at its start: its handler, its outcome's title, all that it was told."""

    handler: str
    title: str
    told: str

    @property
    def mail(self) -> list[str]:
        """The messages that wait for it."""
        part = self.told.partition("## Pending mail")[2]
        return re.findall(rf"^- ({UUID}) from", part, re.MULTILINE)


Call = tuple[str, dict[str, Any]]
Play = Generator["Call | Sequence[Call] | str", list[Result], None]
"""Yields calls, or a text with which it ends its turn; is sent the results of the calls."""


def call(name: str, **given: Any) -> Call:
    """One call of a tool."""
    return name, given


class Stage:
    """Answers a model's server; ``plays`` by title. ``seen`` are the bodies of requests, ``errors`` what went wrong."""

    def __init__(self, plays: Mapping[str, Callable[[Scene], Play]]) -> None:
        self.plays = dict(plays)
        self.seen: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.pause_before: tuple[str, Callable[[], None]] | None = None
        """What happens elsewhere before an agent's call of this tool, once."""
        self._running: dict[str, tuple[Play, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Reply:
        """The next line of the play to which a request belongs."""
        with self._lock:
            self.seen.append(body)
            try:
                return self._answer(body)
            except Exception as bug:
                self.errors.append(repr(bug))
                return Reply(f"the play has a bug: {bug!r}")

    def _answer(self, body: dict[str, Any]) -> Reply:
        messages = [one for one in body["messages"] if one["role"] != "system"]
        told = "\n".join(_texts(messages[0]["content"]))
        system = body["system"] if isinstance(body["system"], str) else "\n".join(_texts(body["system"]))
        found = re.search(rf"Handler responsible for Outcome ({UUID})", system)
        if not found:
            return Reply("I am nobody's agent.")
        title = re.search(rf"^{found[1]} (.*)$", told, re.MULTILINE)
        scene = Scene(found[1], title[1] if title else "", told)
        names = [tool["name"] for tool in body.get("tools", ())]
        results = _results(messages[-1]["content"])
        play, sent = self._running.get(scene.handler, (None, 0))
        if play is None or len(messages) <= sent:  # another agent
            play = self.plays.get(scene.title, nothing)(scene)
            said = next(play, "There is nothing more to do.")
        else:
            try:
                said = play.send(results)
            except StopIteration:
                said = "I am done."
        self._running[scene.handler] = (play, len(messages))
        if isinstance(said, str):
            return Reply(said)
        calls = _calls(said)
        if self.pause_before and self.pause_before[0] in [name for name, _ in calls]:
            (_, meanwhile), self.pause_before = self.pause_before, None
            meanwhile()
        return Reply("", calls=tuple((_full(name, names), given) for name, given in calls))


def _calls(said: Call | Sequence[Call]) -> list[Call]:
    """One call, or several at once."""
    match said:
        case (str(name), dict(given)):
            return [(name, given)]
        case _:
            return [(str(name), dict(given)) for name, given in said]


def nothing(scene: Scene) -> Play:
    """An agent that blocks its root, and ends."""
    yield call("outcome_block", outcome=scene.handler, reason="there is nothing to do")


def _full(name: str, names: Sequence[str]) -> str:
    """The name of a tool as the client has it: those of our server may have a prefix."""
    prefix = next((one.removesuffix("kb_read") for one in names if one.endswith("kb_read")), "")
    return name if name in names or name[:1].isupper() else f"{prefix}{name}"


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]


def _results(content: Any) -> list[Result]:
    if isinstance(content, str):
        return []
    found = []
    for block in content:
        if block.get("type") == "tool_result":
            text = "\n".join(_texts(block.get("content", "")))
            found.append(Result(text, bool(block.get("is_error")), _value(text)))
    return found


def _value(text: str) -> dict[str, Any]:
    for part in (text, text.rpartition("\n")[2]):
        try:
            found = json.loads(part)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}
