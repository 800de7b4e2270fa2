"""Which decisions end a thread."""

from __future__ import annotations

import pytest

from cn.protocol.finality import ENDS, STAYS, is_final, offered
from cn.protocol.hub_config import HubConfig, Reviewer
from cn.protocol.thread_file import VOCABULARY, parse_decision
from cn.values.names import Name

CONFIG = HubConfig(Name("sigma"), reviewers=(Reviewer(Name("rho")),))


@pytest.mark.parametrize(
    ("decision", "final"),
    [
        ("do:merge", True),
        ("do:reply:licence", True),
        ("do:custom:look into it", True),
        ("delete:stale", True),
        ("delegate:omega", True),
        ("delegate:rho", False),
        ("defer:later", False),
    ],
)
def test_all_but_a_deferral_and_an_assignment_end_a_thread(decision: str, final: bool) -> None:
    assert is_final(parse_decision(decision), CONFIG) is final


def test_both_lists_name_every_decision_there_is() -> None:
    def verbs(forms: tuple[str, ...]) -> set[str]:
        return {form.partition("<")[0] for form in forms}

    every = {form.partition("<")[0] for form in VOCABULARY.replace(" or ", ", ").split(", ")}
    assert verbs(STAYS) | verbs(ENDS) == every


@pytest.mark.parametrize(
    ("kind", "withdrawn", "no_peer", "unsigned", "lacks"),
    [
        ("proposal", False, False, False, set()),
        ("message", False, False, False, {"do:merge"}),
        ("proposal", True, False, False, {"do:merge"}),
        ("proposal", False, True, False, {"do:merge", "do:reply", "do:custom", "delegate"}),
        ("message", False, False, True, {"do:merge", "do:reply", "do:custom"}),
    ],
)
def test_what_is_offered_follows_the_state_of_the_thread(
    kind: str, withdrawn: bool, no_peer: bool, unsigned: bool, lacks: set[str]
) -> None:
    found = offered(kind, withdrawn=withdrawn, no_peer=no_peer, unsigned=unsigned)
    every = {form.partition(":<")[0] for form in (*STAYS, *ENDS)}
    assert {verb for verb in every if not found.has(verb)} == lacks
    assert found.words is not no_peer
