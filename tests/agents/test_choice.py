"""Which runner an agent may give to an underling: a table."""

from __future__ import annotations

import pytest

from cn.agency.names import Party, Uuid
from cn.agency.plan.result import Refused
from cn.agency.rows import Handler
from cn.agents.choice import RULE, runner_for_underling
from cn.values.errors import ConfigError
from tests.support.agents import machine_of

MACHINE = machine_of("""
[agents]
runner = "plain"
[runners.plain]
like = "builtin"
[runners.lead]
like = "builtin"
underlings = ["coder", "plain"]
[runners.coder]
argv = ["coder"]
wrap = "bwrap"
""")
ID = Uuid(Party("00000000-0000-4000-8000-000000000001"))


def handler(runner: str) -> Handler:
    return Handler(ID, 1, True, ID, Party("user:ann"), runner, ID, ID)


@pytest.mark.parametrize(
    ("own", "wanted", "given"),
    [
        ("", "", ""),
        ("", "plain", ""),
        ("plain", "", "plain"),
        ("lead", "", "lead"),
        ("", "person", "person"),
        ("lead", "coder", "coder"),
        ("lead", "lead", "lead"),
        ("gone", "", "gone"),
        ("gone", "gone", "gone"),
    ],
)
def test_an_underling_gets_the_runner_of_who_delegates_or_one_that_it_may_name(
    own: str, wanted: str, given: str
) -> None:
    assert runner_for_underling(MACHINE, handler(own), wanted) == given


@pytest.mark.parametrize(
    ("own", "wanted"), [("", "coder"), ("plain", "lead"), ("lead", "claude"), ("coder", "plain"), ("gone", "plain")]
)
def test_another_runner_is_refused_and_what_may_be_named_is_said(own: str, wanted: str) -> None:
    refused = runner_for_underling(MACHINE, handler(own), wanted)
    assert isinstance(refused, Refused)
    assert (refused.rule, refused.ask) == (RULE, "user:ann")
    assert f"may name {own or 'plain'}, person" in refused.reason


def test_a_runner_that_is_not_there_cannot_be_named() -> None:
    with pytest.raises(ConfigError) as wrong:
        machine_of("[runners.builtin]\nunderlings = ['nosuch']")
    assert "runners.builtin.underlings: there is no runner 'nosuch'" in wrong.value.text
