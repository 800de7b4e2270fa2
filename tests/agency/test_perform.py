"""Operations of a principal become one commit, an answer to each, and pages that follow from the events."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

import cn
from cn.agency.events import FileRead, parse_message
from cn.agency.names import Uuid, parse_uuid
from cn.agency.operations import (
    BlockOutcome,
    ByHandler,
    ByUser,
    CloseOutcome,
    CreateFile,
    CreateOutcome,
    Delegate,
    FoundAgency,
    Moment,
    Operation,
    ReadFile,
    StopHandler,
    SubmitAudit,
    UpdateOutcome,
    Wanted,
    WriteFile,
)
from cn.agency.operations import Seen as SeenVersion
from cn.agency.perform import Answer, Asked, Done, found, look_through, new_entropy, perform, read_content
from cn.agency.plan.result import Refused
from cn.agency.store.check import check_records
from cn.agency.store.store import Store, open_store
from cn.system.clock import now
from tests.support.hubs import git
from tests.support.records import WHO, places

ADA = ByUser("ada")
SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made, answer = found(places(tmp_path), WHO, Asked(FoundAgency("Help Ada"), ADA))
    assert isinstance(answer, Done)
    yield made
    assert list(check_records(made.repository, now(), full=True)) == []
    made.close()


def root(store: Store) -> Uuid:
    with store.reading() as facts:
        head = facts.head()
        assert head
        return head.root


def ask(store: Store, *operations: Operation, by: ByUser | ByHandler = ADA, request: str = "") -> list[Answer]:
    return list(perform(store, [Asked(one, by, request) for one in operations]).answers)


def do(store: Store, operation: Operation, by: ByUser | ByHandler = ADA, request: str = "") -> dict[str, object]:
    (answer,) = ask(store, operation, by=by, request=request)
    assert isinstance(answer, Done), answer
    return dict(answer.answer)


def commits(store: Store) -> int:
    return len(list(store.repository.commits()))


def test_several_operations_are_one_commit_and_one_that_is_refused_keeps_no_other_from_it(store: Store) -> None:
    top, before = root(store), commits(store)
    first, bad, second = ask(
        store,
        CreateOutcome("Release 1.0", "", (top,)),
        CloseOutcome(top, "enough"),
        CreateOutcome("Release 2.0", "", (top,)),
    )
    assert isinstance(first, Done)
    assert isinstance(second, Done)
    assert isinstance(bad, Refused)
    assert bad.rule == "perpetual-root"
    assert commits(store) == before + 1
    message = store.repository.tip().message
    assert [event.seq for event in parse_message(message)] == [2, 3]
    assert message.startswith("outcome_created")


def test_an_operation_is_planned_on_what_the_one_before_it_left(store: Store) -> None:
    file = do(store, CreateFile("notes", b"one\n"))
    seen = SeenVersion(1, str(file["hash"]))
    write = WriteFile(Uuid(file["file"]), b"two\n", seen)  # type: ignore[arg-type]
    good, stale = ask(store, write, write)
    assert isinstance(good, Done)
    assert isinstance(stale, Refused)
    assert (stale.rule, "version 2" in stale.reason, hashlib.sha256(b"two\n").hexdigest() in stale.reason) == (
        "stale-version",
        True,
        True,
    )


def test_a_request_that_comes_again_gets_its_answer_again_and_happens_once(store: Store) -> None:
    top = root(store)
    first = do(store, CreateOutcome("Once", "", (top,)), request="r-1")
    before = commits(store)
    assert do(store, CreateOutcome("Once", "", (top,)), request="r-1") == first
    (other,) = ask(store, CreateOutcome("Else", "", (top,)), request="r-1")
    assert isinstance(other, Refused)
    assert other.rule == "same-request"
    assert commits(store) == before


def test_a_reading_gives_the_content_and_is_told_each_time_also_when_its_answer_was_lost(store: Store) -> None:
    made = do(store, CreateFile("notes", b"text\n"))
    file = Uuid(made["file"])  # type: ignore[arg-type]
    for _ in range(2):
        read = do(store, ReadFile(file), request="r-2")
        assert read_content(store, file, str(read["hash"])) == b"text\n"
    with store.reading() as facts:
        events = [event for event in facts.history(file, 2**53, 9) if isinstance(event.change, FileRead)]
    assert [(event.actor, event.request_id) for event in events] == [("user:ada", "r-2"), ("user:ada", "")]


@pytest.mark.parametrize(
    "operation", [CreateFile("key", SECRET), CreateOutcome("Deploy", SECRET.decode(), ())], ids=["file", "outcome"]
)
def test_what_looks_like_a_secret_is_refused_unless_it_is_allowed(store: Store, operation: Operation) -> None:
    before = store.repository.tip()
    (refused,) = ask(store, operation)
    assert isinstance(refused, Refused)
    assert refused.rule == "no-secrets"
    assert store.repository.tip() == before
    marks = re.findall(r'"(\w+)"', refused.remedy)
    if isinstance(operation, CreateFile):
        (allowed,) = perform(store, [Asked(operation, ADA)], allowed=lambda: marks).answers
        assert isinstance(allowed, Done)


def _with_a_secret(kind: type[Any]) -> Iterator[Operation]:
    """The operation with a secret in each of its parts that may hold a text, whatever they are."""
    blank: dict[str, Any] = {part.name: None for part in fields(kind)}
    for part in fields(kind):
        declared = str(part.type)
        if "bytes" in declared:
            yield kind(**blank | {part.name: SECRET})
        elif "Wanted" in declared:
            wanted = Wanted(SECRET.decode(), "read")
            yield kind(**blank | {part.name: (wanted,) if "tuple" in declared else wanted})
        elif any(word in declared for word in ("str", "Uuid", "Party")):
            yield kind(**blank | {part.name: (SECRET.decode(),) if "tuple" in declared else SECRET.decode()})


@pytest.mark.parametrize("operation", [one for kind in get_args(Operation) for one in _with_a_secret(kind)], ids=repr)
def test_each_text_of_each_operation_is_looked_through(operation: Operation) -> None:
    refused = look_through(Asked(operation, ADA)).refused
    assert refused
    assert refused.rule == "no-secrets"


def test_the_name_of_a_request_is_looked_through_too(store: Store) -> None:
    (refused,) = ask(store, CreateOutcome("Deploy", "", (root(store),)), request="AKIA" + "A1B2" * 4)
    assert isinstance(refused, Refused)
    assert refused.rule == "no-secrets"
    assert "the name of the request" in refused.reason


def test_nothing_is_written_but_what_was_looked_through() -> None:
    """Who writes to the records, founds them, and makes what may be written: one module, one function."""
    sources = {path: path.read_text("utf-8") for path in Path(cn.__file__).parent.rglob("*.py")}

    def naming(words: str) -> list[str]:
        return sorted(path.name for path, text in sources.items() for _ in re.finditer(words, text))

    assert naming(r"store\.write\(") == ["perform.py"]
    assert naming(r"(?<!def )\bcreate_store\(") == ["perform.py"]
    agencys = {
        path for path in sources if re.search(r"import .*\bChecked\b", sources[path]) or path.name == "perform.py"
    }
    made = sorted(path.name for path in agencys for _ in re.finditer(r"\bChecked\(", sources[path]))
    assert made == ["perform.py", "perform.py"], "its class, and look_through"


def test_a_rehearsal_answers_and_writes_nothing(store: Store) -> None:
    before, asked = store.repository.tip(), Asked(CreateOutcome("Maybe", "", (root(store),)), ADA)
    (answer,) = perform(store, [asked], rehearse=True).answers
    assert isinstance(answer, Done)
    assert answer.changes
    assert store.repository.tip() == before
    with store.reading() as facts:
        assert facts.outcome(Uuid(answer.answer["outcome"])) is None  # type: ignore[arg-type]


def test_operations_together_are_all_done_or_none(store: Store) -> None:
    top, entropy = root(store), new_entropy()
    made = Moment(now(), entropy).uuid("outcome")
    both = [Asked(CreateOutcome("Group", "", (top,)), ADA, entropy=entropy), Asked(Delegate(made, message="\0"), ADA)]
    before = store.repository.tip()
    first, second = perform(store, both, together=True).answers
    assert isinstance(first, Done)
    assert isinstance(second, Refused)
    assert store.repository.tip() == before
    answers = perform(store, [both[0], Asked(Delegate(made), ADA)], together=True).answers
    assert [one.answer.get("handler") for one in answers if isinstance(one, Done)] == [None, made]
    assert commits(store) == 2


def test_pages_are_written_with_what_they_tell_and_only_then(store: Store) -> None:
    top = root(store)
    page = f"main:kb/{top[0]}/{top[1]}/{top[2]}/{top}/FILE.md"
    first = git(store.repository.folder, "show", page)
    work = Uuid(do(store, CreateOutcome("Work", f"for kb://{top}", (top,)))["outcome"])  # type: ignore[arg-type]
    named = git(store.repository.folder, "show", page)
    assert f"Named by: kb://{work}" in named
    hand = do(store, Delegate(work))["handler"]
    agent = ByHandler(Uuid(hand), 1, "user:ada")  # type: ignore[arg-type]
    child = do(store, CreateOutcome("Part", "", (work,)), by=agent)["outcome"]
    do(store, SubmitAudit("worked"), by=agent)
    do(store, BlockOutcome(Uuid(child), "waits"), by=agent)  # type: ignore[arg-type]
    do(store, ReadFile(work), by=agent)
    do(store, StopHandler(work))
    with store.reading() as facts:
        file = facts.file(work)
        assert file
    seen = SeenVersion(file.version, file.hash)
    do(store, UpdateOutcome(work, text="for nobody", seen=seen))
    assert git(store.repository.folder, "show", page) == first


def test_a_write_under_a_clock_that_was_ahead_holds_up_no_time_that_is_given(tmp_path: Path) -> None:
    ahead = [timedelta(days=3650)]
    made, _ = found(places(tmp_path), WHO, Asked(FoundAgency("Help Ada"), ADA))
    made.close()
    store = open_store(places(tmp_path), WHO, lambda: now() + ahead[0])
    outcome = parse_uuid(str(do(store, CreateOutcome("Wait", "", (root(store),)))["outcome"]))
    ahead[0] = timedelta(0)
    until = now().replace(microsecond=0) + timedelta(hours=1)
    do(store, BlockOutcome(outcome, "waits", until))
    with store.reading() as facts:
        row = facts.outcome(outcome)
        assert row is not None
        assert row.until == until
    (answer,) = ask(store, BlockOutcome(outcome, "waits", until - timedelta(hours=2)))
    assert isinstance(answer, Refused)
    assert answer.rule == "time-to-come"
    store.close()
