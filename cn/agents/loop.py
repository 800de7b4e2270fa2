"""The builtin agent's loop: ask the model, do what it calls, tell it what is new, until there is nothing to do.

Between turns it looks at its lease and its inbox. When its context is nearly full, or it has taken many turns, it is
told to save what it knows, and ends soon: another agent goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from cn.agents.toolkit import Ended, Said
from cn.agents.unanswered import told_failure
from cn.llm.request import Block, Failure, Usage
from cn.llm.tool_turns import FULL, MAX_TOKENS, PAUSE, Conversation, ToolCall, Turn, tool_result

Ask = Callable[[Conversation], Turn | Failure]
Say = Callable[[Mapping[str, Any]], None]

DONE: Final = "done"
FAILED: Final = "failed"
OVER: Final = "its lease is over"
_PAGES: Final = 8
"""Of its inbox, each look: more mail than that waits for nobody who works."""
_LAST_TURNS: Final = 8
"""How many turns it has to save what it knows."""
_CUT_OFF: Final = "Your last answer was cut off. Go on, in smaller steps."
_NOT_DONE: Final = (
    "not done: your answer was cut off, so it may lack what you meant to ask; ask again, in smaller steps"
)
_SAVE: Final = (
    "You have to end soon: your context is nearly full. Update the state document so that the next agent can go on, "
    "submit your entry for the audit log, and stop."
)


_PAUSED: Final = "the API only paused its answers, again and again"


class Tools(Protocol):
    """What the loop needs of :class:`cn.agents.toolkit.Toolkit`."""

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """As the Messages API takes them."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> Said:
        """Call one; raises :class:`Ended`."""


@dataclass(frozen=True)
class Limits:
    """``context``: tokens of a prompt after which it is told to end. ``turns``: so many of them at most."""

    max_tokens: int = 8192
    context: int = 150_000
    turns: int = 200


@dataclass
class Loop:
    """One agent's conversation. ``say`` writes the transcript, a value at a time."""

    model: str
    system: str
    ask: Ask
    tools: Tools
    say: Say
    limits: Limits = Limits()
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    _messages: list[dict[str, Any]] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)
    _last: int | None = None
    """The turn after which it ends, once it was told to."""

    def run(self, prompt: str) -> str:
        """Work; why it ended is :data:`DONE`, :data:`OVER`, or begins with :data:`FAILED` or ``UNANSWERED``."""
        try:
            self._known = {str(one["mail"]) for one in self._inbox() if str(one["mail"]) in prompt}
            self._messages = [{"role": "user", "content": "\n\n".join(filter(None, [prompt, self._news()]))}]
            while True:
                turn = self._turn()
                if isinstance(turn, Failure):
                    return told_failure(turn)
                if why := self._go_on(turn):
                    return why
        except Ended as ended:
            self.say({"type": "ended", "why": str(ended)})
            return OVER

    def _turn(self) -> Turn | Failure:
        system = (Block(self.system, cached=True),)
        asked = Conversation(self.model, self.limits.max_tokens, system, self.tools.tools, tuple(self._messages))
        turn = self.ask(asked)
        self.turns += 1
        self.usage = _sum(self.usage, turn.usage)
        if isinstance(turn, Turn):
            self.say({"type": "assistant", "stop": turn.stop, "content": list(turn.content)})
        return turn

    def _go_on(self, turn: Turn) -> str:
        """Do what the model wants, and prepare the next turn; why there is none, else."""
        if turn.content:
            self._messages.append({"role": "assistant", "content": list(turn.content)})
        if turn.stop == FULL:
            return f"{FAILED}: its context is full"
        if turn.stop == PAUSE:
            return "" if self.turns < self.limits.turns + _LAST_TURNS else f"{FAILED}: {_PAUSED}"
        blocks = [self._do(call) if turn.is_whole else self._leave(call) for call in turn.calls]
        if turn.stop == MAX_TOKENS and not blocks:
            blocks.append(_text(_CUT_OFF))
        if news := self._news():
            blocks.append(_text(news))
        if blocks and self._last is None and self._is_full(turn):
            self._last = self.turns + _LAST_TURNS
            blocks.append(_text(_SAVE))
        if not blocks or (self._last is not None and self.turns >= self._last):
            return DONE
        self._messages.append({"role": "user", "content": blocks})
        return ""

    def _is_full(self, turn: Turn) -> bool:
        return turn.usage.prompt_tokens > self.limits.context or self.turns >= self.limits.turns

    def _do(self, call: ToolCall) -> dict[str, Any]:
        said = self.tools.call(call.name, call.arguments)
        told = {"name": call.name, "arguments": dict(call.arguments), "error": said.is_error, "said": said.text}
        self.say({"type": "tool"} | told)
        return dict(tool_result(call, said.text or "done", is_error=said.is_error))

    def _leave(self, call: ToolCall) -> dict[str, Any]:
        """What it wanted in an answer that does not end where it meant to is not done, and it is told so."""
        self.say({"type": "tool", "name": call.name, "error": True, "said": _NOT_DONE})
        return dict(tool_result(call, _NOT_DONE, is_error=True))

    def _inbox(self) -> list[dict[str, Any]]:
        """What waits, oldest first: new mail is on the last page."""
        mail: list[dict[str, Any]] = []
        asked: dict[str, Any] = {}
        for _ in range(_PAGES):
            value = self.tools.call("mail_inbox", asked).value
            found = value.get("mail")
            mail += [one for one in found if isinstance(one, dict) and "mail" in one] if isinstance(found, list) else []
            if not value.get("next"):
                break
            asked = {"cursor": value["next"]}
        return mail

    def _news(self) -> str:
        """What came into the inbox since the last look. Raises :class:`Ended`."""
        new = [one for one in self._inbox() if str(one["mail"]) not in self._known]
        self._known |= {str(one["mail"]) for one in new}
        if not new:
            return ""
        return "\n".join(["New mail has arrived:", *map(_line, new)])


def _line(mail: Mapping[str, Any]) -> str:
    sender = f"{mail.get('from')}, about {mail['about']}" if mail.get("about") else mail.get("from")
    what = f"kb://{mail.get('file')}, version {mail.get('version')}"
    return f"- {mail.get('mail')} from {sender}: {mail.get('subject')} ({what})"


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cache_read_tokens + other.cache_read_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
    )
