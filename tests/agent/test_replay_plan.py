"""Two answers to one item: what is a decision, and what only words."""

from __future__ import annotations

import pytest

from cn.protocol.queue_item import Trigger, parse_trigger
from cn.runtime.replay import Change, compare, read_answer_decision

ID = "20260219-141209-abc123"
THREAD = "20260219-pi-proposal"


def typed(*lines: str, body: str = "", id: str = ID) -> object:
    text = "\n".join(["---", f"id: {id}", *lines, "---", "", body])
    return read_answer_decision(text.encode(), ID, (THREAD, f"{THREAD}.md"))


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ([f"ack: {ID}"], [f"ack: {THREAD}"], Change.NONE),
        ([f"ack: {ID}"], [], Change.WORDING),  # no op is an ack, written otherwise
        ([f"reply: {ID}|Yes"], [f"reply: {ID}|Sure"], Change.WORDING),
        ([f"reply: {ID}|Yes"], [f"ack: {ID}"], Change.DECISION),
        ([f"delegate: {ID}|pi"], [f"delegate: {ID}|omega"], Change.DECISION),
        ([f"defer: {ID}|2d|later"], [f"defer: {ID}|2d|not now"], Change.WORDING),
        ([f"defer: {ID}|2d"], [f"defer: {ID}|3d"], Change.DECISION),
        ([f"reply: {ID}|Yes", "send: pi|hi"], [f"reply: {ID}|Yes"], Change.DECISION),
        ([f"reply: {ID}|Yes", "send: pi|hi"], ["send: pi|ho", f"reply: {ID}|Yes"], Change.WORDING),
        ([f"ack: {ID}"], [f"ack: {ID}", f"delete: {ID}|no"], Change.DECISION),
        ([f"delete: {ID}|a", f"reply: {ID}|b"], [f"ack: {ID}"], Change.DECISION),
    ],
)
def test_what_changed(before: list[str], now: list[str], change: Change) -> None:
    assert compare(typed(*before), typed(*now)) is change  # type: ignore[arg-type]


def test_the_body_is_words() -> None:
    one, two = typed(f"reply: {ID}", body="Yes."), typed(f"reply: {ID}", body="No.")
    assert compare(one, two) is Change.WORDING  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lines", [[f"delete: {ID}|a", f"defer: {ID}|b"], ["ack: 20260219-141209-ffffff"], ["fail: nothing"], ["noop: x"]]
)
def test_what_the_text_alone_shows_to_be_wrong_is_rejected_with_its_rule(lines: list[str]) -> None:
    found = typed(*lines)
    assert found.ending == ""  # type: ignore[attr-defined]
    assert found.rejected[0].startswith("valid-output: ")  # type: ignore[attr-defined]


def test_another_id_is_rejected() -> None:
    found = typed("ack: 20260219-141209-ffffff", id="20260219-141209-ffffff")
    assert len(found.rejected) == 2  # type: ignore[attr-defined]


def test_triggers_sort_by_time_and_attempt() -> None:
    names = [f"{ID}-10", ID, f"{ID}-2", "20260218-000000-ffffff"]
    found = sorted(t for name in names if (t := parse_trigger(name)))
    assert [str(t) for t in found] == ["20260218-000000-ffffff", ID, f"{ID}-2", f"{ID}-10"]
    assert parse_trigger(f"{ID}-late") is parse_trigger(f"{ID}-1") is parse_trigger("../x") is None
    assert parse_trigger(ID) == Trigger(ID, 1)
