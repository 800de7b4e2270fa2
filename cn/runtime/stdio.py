"""``cn agent --stdio``: ask the model one question with the hub's context; nothing is executed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cn.agent.plan.output import parse_output
from cn.agent.plan.prompt import Packed
from cn.git.repository import Hub
from cn.llm.config import AgentConfig, read_agent_config
from cn.llm.request import Failure
from cn.llm.usage import over_budget
from cn.protocol.ops import ACKNOWLEDGED, Reply, format_op
from cn.protocol.queue_item import Cadence, Input, format_input, new_input_id
from cn.run.view import Accepted, View, open_view, require_accepted
from cn.runtime.gather_prompt import ask_packed, asker, is_due, look_up, pack_text
from cn.system.clock import now
from cn.system.extras import require_runtime
from cn.values.errors import Refused
from cn.values.names import HubPath
from cn.values.report import Report
from cn.values.text import quote

SENDER = "stdio"
"""What budgets and the usage call who asks."""


@dataclass(frozen=True)
class SpokenAnswer:
    """What came back: the text a chat would get, the ops beside it, and what cannot be read."""

    text: str
    ops: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class QuestionSession:
    """A conversation of single questions; each is packed as an item of its own."""

    view: View
    config: AgentConfig
    accepted: Accepted

    def pack(self, question: str, at: datetime) -> Packed:
        """The request of a question."""
        asked = Input(new_input_id(at, (secrets.token_hex(8),)), SENDER, Cadence.ADHOC, at, HubPath(""))
        text = format_input(asked, 1, quote(question.strip()))
        return pack_text(self.view, self.config, text, at)

    def ask(self, question: str) -> SpokenAnswer:
        """One question, one call; raises :class:`Refused` when there is no answer."""
        if not question.strip():
            raise Refused("there is no question", "write it on standard input")
        at = now()
        over = over_budget(self.view.hub.root, self.config.budgets, SENDER, at)
        if over:
            raise Refused(f"not asked: {over}", "raise it in agent.yaml, or wait")
        packed = self.pack(question, at)
        answer, _ = ask_packed(self.view, packed, asker(self.config, self.accepted), SENDER)
        if isinstance(answer, Failure):
            raise Refused(answer.text, answer.hint)
        output = parse_output(answer.text.encode("utf-8", "replace"))
        replies = [op.message for op in output.ops if isinstance(op, Reply)]
        text = output.body or next(iter(replies), "") or ACKNOWLEDGED
        problems = list(output.errors)
        if output.id != packed.id:
            problems.append(f"the answer's id is {output.id[:60]!r}, the question's {packed.id}")
        return SpokenAnswer(text, tuple(": ".join(format_op(op)) for op in output.ops), tuple(problems))


def open_session(hub: Hub, path: Path | None, report: Report, *, dry_run: bool = False) -> QuestionSession:
    """Read the hub's configuration, look the model up; raises :class:`ConfigError` where one is missing."""
    view = open_view(hub)
    accepted = require_accepted(view)
    config = read_agent_config(view.snapshot.read, path)
    if not dry_run:
        config.require_llm(accepted)
        require_runtime("anthropic")
        if is_due(view.memory, config):
            look_up(hub, config, report, accepted)
    return QuestionSession(view, config, accepted)
