"""``docs/words.md``: the help leads there, and whatever has two names has both in one row, and in the help."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from cn.cli.main import cli
from cn.protocol import ops, thread_file
from tests.support.hubs import ROOT

PAGE = (ROOT / "docs/words.md").read_text("utf-8")
FIRST = ("hub", "thread", "decision", "notice", "item", "concern", "ledger", "pin")
"""Words of which the page says what they are, in the order in which one meets them."""
PAIRS = [
    # the help of a command, and what it calls the same act of the other side
    ("out do reply", "do:reply"),
    ("out do surface", "do:custom"),
    ("out do surface", "cn mca"),
    ("out do ack", "noop"),
    ("out do noop", "ack"),
    ("mca", "do:custom"),
    ("mca", "surface"),
    ("inbox triage", "surface"),
]


def help_of(name: str) -> str:
    """The text, on one line."""
    return " ".join(CliRunner().invoke(cli, [*name.split(), "--help"]).output.split())


def test_the_help_leads_to_the_page() -> None:
    assert "docs/words.md" in help_of("")


def test_the_words_are_told_in_the_order_in_which_one_meets_them() -> None:
    places = [found.start() for word in FIRST if (found := re.search(rf"^\| {word} \\|", PAGE, re.M))]
    assert len(places) == len(FIRST)
    assert places == sorted(places)


def test_every_decision_and_every_op_about_an_item_has_a_row() -> None:
    table = PAGE.partition("## Two words for one act")[2]
    for word in re.findall(r"do:[a-z]+|(?:delete|defer|delegate)(?=:)", thread_file.VOCABULARY):
        assert f"`{word}" in table, word
    for op in {"reply", "surface", "mca", "delegate", "defer", "delete", "done", "ack", "noop"}:
        assert op in ops.USAGE or op == "mca"
        assert f"`{op}`" in table, op


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_the_help_names_what_the_other_side_calls_the_same_act(name: str, other: str) -> None:
    assert other in help_of(name)
