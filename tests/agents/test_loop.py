"""The builtin agent's loop, with a model that is a list of turns: when it ends, and what it is told before that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cn.agents.loop import DONE, OVER, Limits, Loop
from cn.agents.toolkit import Ended, Said
from cn.llm.request import Failure, Kind, Usage
from cn.llm.tool_turns import FULL, MAX_TOKENS, PAUSE, Conversation, Turn

_USUAL = Limits()
_PAGE = 3
"""Letters that one look shows."""


def turn(text: str = "", *calls: str, stop: str = "", tokens: int = 10) -> Turn:
    """What the model says, and the tools that it calls."""
    used = [{"type": "tool_use", "id": f"t{n}", "name": name, "input": {}} for n, name in enumerate(calls)]
    content: list[dict[str, Any]] = [*([{"type": "text", "text": text}] if text else []), *used]
    return Turn(tuple(content), stop or ("tool_use" if calls else "end_turn"), Usage(tokens, 1), "model", "id")


class Office:
    """The tools of an agent: an inbox, with what comes before each look into it, and a lease of so many calls."""

    tools = ()

    def __init__(self, *letters: list[str], lease: int = 1000) -> None:
        self.called: list[str] = []
        self._letters, self._lease, self._inbox = iter(letters), lease, list[str]()

    def call(self, name: str, arguments: Mapping[str, Any]) -> Said:
        """Done, for as long as the lease lasts."""
        self._lease -= 1
        if self._lease < 0:
            raise Ended("the agent has ended; end")
        if name != "mail_inbox":
            self.called.append(name)
            return Said("done", False, {})
        begin = int(arguments.get("cursor", 0))
        self._inbox += next(self._letters, []) if not begin else []
        mail = [{"mail": one, "from": "user:ann", "subject": f"About {one}", "file": "f"} for one in self._inbox]
        more = {"next": str(begin + _PAGE)} if begin + _PAGE < len(mail) else {}
        return Said("", False, {"mail": mail[begin : begin + _PAGE], **more})


class Model:
    """Says what it was given; ``told`` is what it was told last before each turn."""

    def __init__(self, *turns: Turn | Failure) -> None:
        self._turns = iter(turns)
        self.told: list[str] = []

    def __call__(self, asked: Conversation) -> Turn | Failure:
        """The next turn."""
        self.told.append(str(asked.messages[-1]["content"]))
        return next(self._turns)


def run(model: Model, office: Office | None = None, limits: Limits = _USUAL, prompt: str = "Begin.") -> str:
    """Why it ended."""
    return Loop("model", "system", model, office or Office(), lambda value: None, limits).run(prompt)


def test_it_goes_on_for_as_long_as_the_model_wants_something_done() -> None:
    model, office = Model(turn("", "kb_list"), turn("Now this.", "kb_read", "kb_write"), turn("Done.")), Office()
    assert run(model, office) == DONE
    assert office.called == ["kb_list", "kb_read", "kb_write"]


def test_mail_that_comes_meanwhile_keeps_it_and_is_told_once() -> None:
    model = Model(turn("Done."), turn("", "mail_done"), turn("Done."))
    assert run(model, Office([], [], ["letter-1"])) == DONE
    assert ["About letter-1" in told for told in model.told] == [False, True, False]


def test_mail_that_comes_behind_a_long_inbox_is_told() -> None:
    model, before = Model(turn("", "kb_list"), turn("Done.")), [f"letter-{n}" for n in range(2 * _PAGE)]
    assert run(model, Office(before, [], ["stop"]), prompt=f"{before} wait.") == DONE
    assert "About stop" in model.told[1]
    assert "About letter" not in model.told[1]


def test_mail_that_its_prompt_names_is_no_news() -> None:
    model = Model(turn("Done."))
    assert run(model, Office(["letter-1"]), prompt="letter-1 waits.") == DONE
    assert "New mail" not in model.told[0]


@pytest.mark.parametrize(
    ("limits", "tokens"), [(Limits(context=100), 200), (Limits(turns=2), 10)], ids=["context", "turns"]
)
def test_before_its_context_is_full_it_is_told_once_to_save_and_has_a_few_turns_for_it(
    limits: Limits, tokens: int
) -> None:
    """However much it still wants to do."""
    model, office = Model(*(turn("", "kb_read", tokens=tokens) for _ in range(50))), Office()
    assert run(model, office, limits) == DONE
    (at,) = [number for number, told in enumerate(model.told) if "Update the state document" in told]
    assert at == (1 if tokens > 100 else 2)
    assert len(model.told) == at + 8
    assert len(office.called) == len(model.told), "what it wanted last was done"


def test_an_answer_that_was_cut_off_goes_on_and_one_that_pauses_too() -> None:
    model = Model(turn("It is", stop=MAX_TOKENS), turn("wait", stop=PAUSE), turn("Done."))
    assert run(model) == DONE
    assert "cut off" in model.told[1]


def test_what_an_answer_that_was_cut_off_calls_is_not_done_and_the_model_is_told_so() -> None:
    """Its last call may lack a part, and look whole: half a text would be written."""
    model, office = (
        Model(turn("I write", "kb_read", "kb_write", stop=MAX_TOKENS), turn("", "kb_list"), turn("Done.")),
        Office(),
    )
    assert run(model, office) == DONE
    assert office.called == ["kb_list"]
    assert model.told[1].count("not done: your answer was cut off") == 2
    assert model.told[1].count("'is_error': True") == 2


def test_an_api_that_only_pauses_is_asked_as_often_as_there_are_turns() -> None:
    model = Model(*(turn("wait", stop=PAUSE) for _ in range(50)))
    assert "only paused its answers" in run(model, limits=Limits(turns=5))
    assert len(model.told) == 5 + 8


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (turn("", stop=FULL), "its context is full"),
        (Failure(Kind.INVALID, "no such field", "lower llm.context"), "failed: no such field"),
        (Failure(Kind.AUTH, "refused", "see llm.key"), "ANTHROPIC_KEY of the environment of 'cn agency serve'"),
        (Failure(Kind.NETWORK, "it cannot be reached", "see llm.base_url"), "it is tried again in some minutes"),
    ],
    ids=["full", "failure", "key", "network"],
)
def test_what_ends_it_otherwise_is_told(last: Turn | Failure, why: str) -> None:
    assert run(Model(last)).endswith(why)


def test_a_lease_that_is_over_ends_it_in_the_middle() -> None:
    model = Model(*(turn("", "kb_read") for _ in range(50)))
    assert run(model, Office(lease=8)) == OVER
    assert len(model.told) < 6
