"""The index answers as the rows in memory do, whatever was put, dropped and recorded before."""

from __future__ import annotations

import types
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.agency.events import Event, FileRead, MailDone
from cn.agency.names import OPEN, SYSTEM, Party, Uuid
from cn.agency.rows import KEYS, Facts, File, Outcome, Row
from cn.agency.store.index import Index
from tests.support.agency_memory import Memory

_AT = datetime(2026, 2, 5, tzinfo=UTC)
_TIMES = st.integers(0, 4).map(lambda n: _AT + timedelta(seconds=n))
_TEXTS = st.sampled_from(["", "a", "b", "Über", OPEN, "closed"])
_NUMBERS = st.integers(0, 3)
_KEYS = ["a", "ab", "b", "user:ann"]


def _values(hint: Any) -> st.SearchStrategy[Any]:
    parts = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    ids = st.sampled_from(_KEYS)
    found = {datetime: _TIMES, bool: st.booleans(), int: _NUMBERS, type(None): st.none(), Uuid: ids, Party: ids}
    return st.one_of([found.get(part, _TEXTS) for part in parts])


def _rows(kind: type[Row]) -> st.SearchStrategy[Row]:
    hints = get_type_hints(kind)
    return st.tuples(*(_values(hints[field]) for field in kind._fields)).map(kind._make)


_ROW = st.one_of([_rows(kind) for kind in KEYS])
_ACT = st.tuples(st.sampled_from(["put", "put", "put", "drop"]), _ROW)
_QUESTIONS: list[Callable[[Facts, Any, int], object]] = [
    lambda f, k, n: f.head(),
    lambda f, k, n: (f.outcome(k), f.handler(k), f.grant(k), f.file(k), f.mail(k), f.deferred(k), f.agent(k)),
    lambda f, k, n: (f.tenure(k, n), f.version(k, n), f.request(k, "a")),
    lambda f, k, n: (list(f.children(k)), list(f.parents(k)), f.has_open_child(k)),
    lambda f, k, n: (list(f.open_outcomes(k)), f.count_open(k)),
    lambda f, k, n: list(f.underlings(k)),
    lambda f, k, n: (sorted(f.capabilities(k, n, "a")), list(f.grants_of(k, n)), list(f.grants_by(k, n))),
    lambda f, k, n: (list(f.versions(k)), list(f.files_of(k, n)), list(f.left_to(k, n))),
    lambda f, k, n: (list(f.references(k)), list(f.referenced_by(k)), list(f.mail_with(k)), list(f.pending(k))),
    lambda f, k, n: list(f.mail_to(k, n)),
    lambda f, k, n: {f.agent_of(one) for one in ("", "a", "b")} if f.count_live() < 2 else None,
    lambda f, k, n: (list(f.due(_AT + timedelta(seconds=n), 2)), f.count_live()),
    lambda f, k, n: sorted(f.audit(k, n, 9), key=lambda row: row.seq),
    lambda f, k, n: (list(f.history(k, n, 2)), list(f.find(k, 2)), list(f.files_like("ÜBER", n, 2))),
]


def _key(row: Row) -> tuple[object, ...]:
    return row[: KEYS[type(row)]]


@given(st.lists(_ACT, max_size=25))
@settings(max_examples=80)
def test_every_question_has_the_answer_that_memory_gives(acts: list[tuple[str, Row]]) -> None:
    memory, index = Memory(), Index.in_memory()
    there: set[tuple[type[Row], tuple[object, ...]]] = set()
    for act, row in acts:
        name = (type(row), _key(row))
        if act == "put":
            memory.put(row)
            index.put(row)
            there.add(name)
        elif name in there:
            memory.drop(row)
            index.drop(row)
            there.remove(name)
    for question in _QUESTIONS:
        for key in _KEYS:
            for number in range(4):
                assert question(index, key, number) == question(memory, key, number)
    index.close()


def test_events_are_found_by_what_they_name() -> None:
    memory, index = Memory(), Index.in_memory()
    a, b = (Uuid(Party(f"{n}" * 8 + "-0000-4000-8000-" + f"{n}" * 12)) for n in "12")
    for seq in range(1, 9):
        event = Event(seq, _AT, SYSTEM, FileRead(a, seq) if seq % 2 else MailDone((b,)))
        for rows in (memory, index):
            rows.record(event, (a, b) if seq % 3 else (b,))
    for subject in (a, b, "none"):
        for before, limit in ((99, 3), (5, 2), (5, 99), (1, 1)):
            assert list(index.history(subject, before, limit)) == list(memory.history(subject, before, limit))
    index.close()


def _put_and_drop(index: Index, new: Row, *old: Row) -> None:
    index.put(new)
    for row in old:
        index.drop(row)


def test_a_part_that_fails_leaves_nothing_and_what_was_before_it_stays() -> None:
    index = Index.in_memory()
    one, two = (File(Uuid(Party(name)), "file", name, Party("user:ann"), 0, 1, "", 0, 1) for name in ("one", "two"))
    with index.changing():
        index.put(one)
        with pytest.raises(KeyError), index.changing():
            _put_and_drop(index, two, one, one)
    assert index.file(one.id) == one
    assert index.file(two.id) is None
    with pytest.raises(KeyError):
        index.drop(two)
    index.close()


@pytest.mark.parametrize(
    "question",
    [
        "SELECT id FROM outcome WHERE responsible = '' AND NOT inbox AND status = 'open' ORDER BY since, id",
        "SELECT 1 FROM link JOIN outcome ON outcome.id = link.child WHERE link.parent = '' AND status = 'open'",
        "SELECT * FROM \"grant\" WHERE holder = '' AND holder_tenure = 1 AND resource = ''",
        "SELECT * FROM mail WHERE \"to\" = '' AND pending ORDER BY seq, id",
        "SELECT * FROM deferred WHERE due <= 1 ORDER BY due, id",
        "SELECT * FROM agent WHERE handler = '' AND live",
        "SELECT id FROM file WHERE id >= '' AND id < ''",
    ],
)
def test_no_question_of_a_planner_reads_a_whole_table(question: str) -> None:
    index = Index.in_memory()
    plan = [row[3] for row in index.database.execute(f"EXPLAIN QUERY PLAN {question}")]
    assert not [step for step in plan if step.startswith("SCAN")], plan
    index.close()


def test_values_come_back_as_they_were() -> None:
    index = Index.in_memory()
    outcome = Outcome(Uuid(Party("x")), "t\0", "\u2028 é", OPEN, Uuid(Party("h")), 1, "", "why", _AT, True, 7)
    index.put(outcome)
    found = index.outcome(outcome.id)
    assert found == outcome
    assert found is not None
    assert found.inbox is True
    index.close()
