"""An organisation works by itself for a while, its process is killed again and again, and every operation is looked at:
nothing is lost, nothing is done twice, no capability outlives its outcome, nobody with something to do is forgotten.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cn.agency import events as ev
from cn.agency import operations as ops
from cn.agency.events import Change, Event, format_message
from cn.agency.names import Party, Uuid, user
from cn.agency.operations import Wanted, actor_of
from cn.agency.store.check import check_records
from cn.agency.store.repository import Places
from cn.agency.store.store import Store, open_store
from cn.system.clock import now
from tests.support.agency import ADA, Records
from tests.support.agency_watch import Watch
from tests.support.figures import observed
from tests.support.hubs import ROOT
from tests.support.records import WHO


def live(folder: Path, handlers: int, days: float, pauses: Callable[[], float]) -> int:
    """Let it work, and kill it after each pause (seconds; 0: never again); how many kills met it."""
    words = [sys.executable, "-m", "tests.support.agency_week", str(folder), str(handlers), str(days)]
    kills = 0
    while True:
        with subprocess.Popen(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as child:
            try:
                code = child.wait(pauses() or None)
            except subprocess.TimeoutExpired:
                child.kill()
                code = child.wait()
        if code == 0:
            return kills
        assert code == -signal.SIGKILL
        kills += 1


def judge(folder: Path) -> tuple[Watch, int, int]:
    """All that happened, looked at operation by operation; how much of what was answered is lost, and how much is not
    what was answered.
    """
    store = open_store(Places(folder / "cn"), WHO)
    watch = Watch()
    for commit in store.repository.commits():
        watch.read(commit.message)
    watch.check_all()
    answers = dict(json.loads(line) for line in (folder / "answers").read_text().splitlines())
    done = {request for request, said in answers.items() if said == "done"}
    lost, other = len(done - watch.requests), len(watch.requests - done - {"0.0"})
    flaws = [flaw.what for flaw in check_records(store.repository, now()) if "ahead of the clock" not in flaw.what]
    assert flaws == []
    _check_end(store, watch)
    store.close()
    return watch, lost, other


def _check_end(store: Store, watch: Watch) -> None:
    """The index says what the rows in dictionaries say."""
    with store.reading() as facts:
        head = facts.head()
        assert head == watch.rows.head()
        for id, person in watch.people.items():
            assert facts.handler(Uuid(Party(id))) == watch.rows.handler(Uuid(Party(id))), person


def test_an_organisation_works_half_a_day_and_is_killed_in_between(tmp_path: Path) -> None:
    chance = random.Random(1)
    pauses = iter([1.2 + chance.random(), 0.9 + chance.random(), 0.0])
    kills = live(tmp_path, 25, 0.5, lambda: next(pauses))
    watch, lost, other = judge(tmp_path)
    assert watch.wrong == []
    assert (lost, other) == (0, 0)
    assert kills > 0
    assert watch.operations > 500
    assert watch.longest_wait < timedelta(hours=5)


@pytest.mark.full
def test_a_thousand_handlers_work_a_week_and_are_killed_again_and_again(tmp_path: Path) -> None:
    handlers, days = int(os.environ.get("TEST_HANDLERS", "1000")), float(os.environ.get("TEST_DAYS", "7"))
    chance, begun = random.Random(2), time.monotonic()
    kills = live(tmp_path, handlers, days, lambda: chance.uniform(2.0, 8.0))
    worked = time.monotonic() - begun
    watch, lost, other = judge(tmp_path)
    late = watch.longest_wait > timedelta(days=2)
    zombies = sum("capability" in one or "allows" in one for one in watch.wrong)
    observed(
        "simulation",
        f"{handlers} handlers, {days:g} days",
        handlers=handlers,
        days=days,
        operations=watch.operations,
        kills=kills,
        lost=lost,
        doubled=other + sum("twice" in one for one in watch.wrong),
        zombie_grants=zombies,
        lost_wake_ups=int(late),
        longest_wait_hours=round(watch.longest_wait / timedelta(hours=1), 1),
        wrong=len(watch.wrong),
        seconds=round(worked, 1),
    )
    assert (watch.wrong, lost, other, late) == ([], 0, 0, False)


# Whoever looks has to see: histories in which something is wrong


def _history() -> tuple[Records, dict[str, Any]]:
    records = Records()
    top = records.found()
    work = records.outcome("Work", top)
    hand = records.delegate(work)
    file = records.file(records.agent(top))
    records.do(ops.GrantAccess(hand, Wanted(f"kb:{file}", "read")), records.agent(top))
    return records, {"top": top, "hand": hand, "file": file, "grant": records.events[-1].change.id}  # type: ignore[union-attr]


def _watched(records: Records, *more: tuple[Change, Event | None]) -> list[str]:
    watch = Watch()
    for number, message in enumerate(records.messages):
        watch.read(message)
        watch.requests.discard("")
        assert watch.wrong == [], number
    seq = records.events[-1].seq
    for change, like in more:
        seq += 1
        who = like or Event(0, records.now, actor_of(ADA), change)
        watch.read(format_message("subject", [who._replace(seq=seq, time=records.now, change=change)]))
        watch.requests.discard("")
    watch.check_all()
    return watch.wrong


def test_who_looks_sees_what_does_not_hold() -> None:
    records, ids = _history()
    top, hand, file = ids["top"], ids["hand"], ids["file"]
    acting = Event(0, records.now, actor_of(records.agent(hand)), ev.FileRead(file, 1), 1)
    ended = ev.HandlerEnded(hand, 1, "stopped", top)
    mail = ev.MailDelivered(Uuid(Party(str(file))), file, user("ada"), 0, hand, 1)
    more = ev.Granted(file, hand, 1, hand, 1, f"kb:{file}", "write", hand)
    assert _watched(records) == []
    assert "nobody active is responsible" in " ".join(_watched(records, (ended, None)))
    passed = (ev.OutcomesPassed(top, (hand,)), None)
    assert "which is over" in " ".join(_watched(records, passed, (ended, None), (ev.FileRead(file, 1), acting)))
    assert "messages and 0 outcomes" in " ".join(_watched(records, (mail, None)))
    assert "grants write" in " ".join(_watched(records, (more, acting)))
    assert "stands below itself" in " ".join(_watched(records, (ev.OutcomeLinked(top, hand), None)))
    named = acting._replace(request_id="r1", digest="0" * 16)
    twice = _watched(
        records, (ev.FileRead(file, 1), named), (ev.FileRead(file, 1), acting), (ev.FileRead(file, 1), named)
    )
    assert "done twice" in " ".join(twice)
    unheld = acting._replace(grant=ids["grant"])
    gone = (ev.OutcomeClosed(hand, "no", 2, "0" * 64, 1), None)
    assert "is not effective" in " ".join(_watched(records, gone, (ev.FileRead(file, 1), unheld)))
