"""Files: versions that are never lost, writes that are never stale, and who read what."""

from __future__ import annotations

import hashlib
import uuid
from datetime import timedelta

import pytest

from cn.agency.events import Granted
from cn.agency.names import LEVELS, Uuid, parse_resource, parse_uuid
from cn.agency.operations import (
    ByHandler,
    CloseOutcome,
    CreateFile,
    EndAgent,
    GrantAccess,
    LeaseAgent,
    Limits,
    ReadFile,
    RevokeAccess,
    Seen,
    StopHandler,
    SubmitAudit,
    UseResource,
    Wanted,
    WriteFile,
)
from cn.agency.plan.plan import done_before
from cn.agency.plan.result import Refused
from cn.agency.plan.views import browse, file_audit, file_history, list_files, read_audit
from cn.agency.rows import Request, Written
from tests.support.agency import ADA, SYSTEM, Records, listed

AGENT = parse_uuid("11111111-1111-4111-8111-111111111111")


@pytest.fixture
def boss(records: Records, root: Uuid) -> Uuid:
    return records.handler_for("Boss", root)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_new_file_has_a_description_and_a_version_named_after_its_content(records: Records, boss: Uuid) -> None:
    answer = records.do(CreateFile("Notes on the host", b"one"), records.agent(boss))
    assert (answer["version"], answer["hash"]) == (1, sha(b"one"))
    assert records.contents[sha(b"one")] == b"one"
    file = records.rows.file(parse_uuid(str(answer["file"])))
    assert file
    assert (file.description, file.owner, file.size) == ("Notes on the host", boss, 3)


@pytest.mark.parametrize("content", [b"", bytes(range(256)), b"x" * 1_000_000])
def test_any_bytes_are_a_content(records: Records, boss: Uuid, content: bytes) -> None:
    id = records.file(records.agent(boss), content)
    assert records.do(ReadFile(id), records.agent(boss))["hash"] == sha(content)


def test_overwriting_needs_number_and_hash_of_the_latest_version(records: Records, boss: Uuid) -> None:
    by = records.agent(boss)
    id = records.file(by, b"one")
    for seen in (None, Seen(1, sha(b"other")), Seen(2, sha(b"one")), Seen(0, "")):
        refused = records.no(WriteFile(id, b"two", seen), by)
        assert refused.rule == "stale-version"
        assert f"version 1, {sha(b'one')}" in refused.reason
    assert records.do(WriteFile(id, b"two", Seen(1, sha(b"one"))), by)["version"] == 2
    assert records.no(WriteFile(id, b"three", Seen(1, sha(b"one"))), by).rule == "stale-version"


def test_all_versions_stay_and_are_read_by_number(records: Records, boss: Uuid) -> None:
    by = records.agent(boss)
    id = records.file(by, b"one")
    records.do(WriteFile(id, b"two", Seen(1, sha(b"one"))), by)
    history = listed(file_history(id, by, records.rows), "versions")
    assert [(one["number"], one["hash"]) for one in history] == [(1, sha(b"one")), (2, sha(b"two"))]
    assert records.do(ReadFile(id, 1), by)["hash"] == sha(b"one")
    assert records.do(ReadFile(id), by)["hash"] == sha(b"two")
    assert records.no(ReadFile(id, 3), by).rule == "not-written"


def test_who_read_and_who_wrote_is_told_with_the_agent_and_the_time(records: Records, root: Uuid, boss: Uuid) -> None:
    id = records.file(records.agent(boss))
    records.do(LeaseAgent(AGENT, root, "0" * 64), SYSTEM)
    records.do(GrantAccess(root, Wanted(f"kb:{id}", "write")))
    for operation in (ReadFile(id), WriteFile(id, b"more", Seen(1, sha(b"x")))):
        records.pass_time(hours=1)
        records.do(operation, ByHandler(root, 1, AGENT))
    told = listed(file_audit(id, records.agent(boss), records.rows), "events")
    assert [(one["type"], one["actor"], one["time"]) for one in told] == [
        ("file_created", f"{boss}/user:ada", "2026-02-05T14:00:00Z"),
        ("file_read", f"{root}/{AGENT}", "2026-02-05T15:00:00Z"),
        ("file_written", f"{root}/{AGENT}", "2026-02-05T16:00:00Z"),
    ]
    assert [bool(event.grant) for event in records.events[-2:]] == [False, True], "reading follows from where it stands"


def test_a_changed_permission_holds_at_the_next_call(records: Records, root: Uuid, boss: Uuid) -> None:
    """Of the same agent, which lives on."""
    id = records.file(records.agent(root))
    records.do(LeaseAgent(AGENT, boss, "0" * 64), SYSTEM)
    by = ByHandler(boss, 1, AGENT)
    assert records.no(ReadFile(id), by).ask == root
    records.do(GrantAccess(boss, Wanted(f"kb:{id}", "read")), records.agent(root))
    grant = records.events[-1].change
    assert isinstance(grant, Granted)
    records.do(ReadFile(id), by)
    assert records.events[-1].grant == grant.id
    records.do(RevokeAccess(grant.id), records.agent(root))
    assert records.no(ReadFile(id), by).ask == root


def test_a_state_document_is_empty_first_and_written_by_its_handler(records: Records, boss: Uuid) -> None:
    state, by = records.handler(boss).state, records.agent(boss)
    assert records.no(ReadFile(state), by).rule == "not-written"
    records.do(WriteFile(state, b"I begin."), by)
    assert records.no(WriteFile(state, b"I began."), by).rule == "stale-version"
    records.do(WriteFile(state, b"I began.", Seen(1, sha(b"I begin."))), by)
    assert records.do(ReadFile(state, 1), by)["hash"] == sha(b"I begin.")


def test_an_audit_log_grows_by_entries_of_its_handlers_agents_only(records: Records, root: Uuid, boss: Uuid) -> None:
    records.do(SubmitAudit("Tried the first host."), records.agent(boss))
    records.do(SubmitAudit("Took the second."), records.agent(boss))
    for reader in (boss, root):
        entries = listed(read_audit(boss, records.agent(reader), records.rows), "entries")
        assert [one["text"] for one in entries] == ["Tried the first host.", "Took the second."]
    assert isinstance(read_audit(root, records.agent(boss), records.rows), Refused)
    assert records.no(WriteFile(records.handler(boss).audit, b"x"), records.agent(boss)).rule == "own-tool"
    assert records.no(SubmitAudit("x")).rule == "access"
    assert records.no(SubmitAudit(" "), records.agent(boss)).rule == "words"


def test_an_outcome_is_not_written_as_a_file(records: Records, root: Uuid) -> None:
    assert records.no(WriteFile(root, b"x")).rule == "own-tool"


def test_links_that_lead_nowhere_or_where_one_may_not_read_are_named(records: Records, root: Uuid, boss: Uuid) -> None:
    secret, nothing = records.file(records.agent(root)), "3f2a9c1e-be04-4d7f-a582-a1c0d94be7f0"
    id = records.file(records.agent(boss), f"kb://{secret} kb://{nothing} kb://{boss}".encode())
    answer = records.do(ReadFile(id), records.agent(boss))
    assert (answer["broken"], answer["unreadable"]) == ([nothing], [secret])
    assert records.rows.referenced_by(secret) == [id]
    file = records.rows.file(id)
    assert file
    records.do(WriteFile(id, b"no links", Seen(1, file.hash)), records.agent(boss))
    assert records.rows.referenced_by(secret) == []


def test_a_list_has_what_one_may_read_and_browse_what_there_is(records: Records, root: Uuid, boss: Uuid) -> None:
    mine = records.file(records.agent(boss), description="Notes of the boss")
    theirs = records.file(records.agent(root), description="Notes of the root")
    lists = {who: listed(list_files(records.agent(who), records.rows), "files") for who in (root, boss)}
    ids = {who: {one["file"] for one in found} for who, found in lists.items()}
    state = [records.handler(who).state for who in (root, boss)]
    audit = [records.handler(who).audit for who in (root, boss)]
    assert ids == {root: {mine, theirs, *state, *audit}, boss: {mine, state[1], audit[1]}}
    seen = listed(browse("notes OF", records.agent(boss), records.rows), "files")
    assert [(one["file"], one["access"]) for one in seen] == [(mine, "write"), (theirs, "none")]
    states = listed(browse("state document", records.agent(boss), records.rows), "files")
    assert [one["file"] for one in states] == [state[1]]


def test_a_repeated_request_gets_its_answer_again_and_does_nothing_twice(records: Records, boss: Uuid) -> None:
    by = records.agent(boss)
    operation = CreateFile("Notes", b"x")
    answer = records.do(operation, by, "r1")
    count = len(records.events)
    again = records.ask(operation, by, "r1")
    assert isinstance(again, Request)
    assert f'"file": "{answer["file"]}"' in again.answer
    assert len(records.events) == count
    assert records.no(CreateFile("Notes", b"y"), by, "r1").rule == "same-request"
    assert done_before(operation, ADA, "r1", records.rows) is None


def test_a_name_of_a_request_is_of_one_tenure(records: Records, root: Uuid, boss: Uuid) -> None:
    operation = CreateFile("Notes", b"x")
    before = records.agent(boss)
    records.do(operation, before, "r1")
    records.do(StopHandler(boss), records.agent(root))
    assert isinstance(records.ask(operation, before, "r1"), Request)
    records.delegate(boss, records.agent(root))
    refused = records.no(operation, records.agent(boss), "r1")
    assert (refused.rule, "tenure 1, which is over" in refused.reason) == ("same-request", True)
    records.do(operation, records.agent(boss), "r2")


def test_what_is_only_told_is_asked_for_again_under_the_name_that_it_had(
    records: Records, root: Uuid, boss: Uuid
) -> None:
    file, by = records.file(records.agent(root)), records.agent(boss)
    for operation, resource in (
        (ReadFile(file), f"kb:{file}"),
        (UseResource("mcp:gmail", "use", "calls send"), "mcp:gmail"),
    ):
        level, name = LEVELS[parse_resource(resource).kind][1], f"told {resource}"
        grants = records.do(GrantAccess(boss, Wanted(resource, level)))["grants"]
        for _ in range(2):
            count = len(records.events)
            records.do(operation, by, name)
            assert len(records.events) == count + 1
        assert records.no(CreateFile("Notes", b"x"), by, name).rule == "same-request"
        assert isinstance(grants, list)
        records.do(RevokeAccess(grants[0]))
        assert records.no(operation, by, name).rule == "access"


def test_a_handlers_agents_write_so_much_within_an_hour_and_nobody_else_is_kept() -> None:
    records = Records(limits=Limits(megabytes=1))
    root = records.found()
    boss, other = records.handler_for("Boss", root), records.handler_for("Other", root)
    half = b"x" * (1 << 19)
    for _ in range(2):
        records.do(CreateFile("Notes", half), live(records, boss))
        records.now += timedelta(minutes=25)
    refused = records.no(CreateFile("Notes", b"more"), live(records, boss))
    assert (refused.rule, refused.ask) == ("limit-megabytes", root)
    assert "wrote 1 MB within an hour" in refused.reason
    records.do(CreateFile("Notes", half), live(records, other))
    records.do(CreateFile("Notes", half * 3))
    records.now += timedelta(minutes=11)  # the first is an hour old
    records.do(CreateFile("Notes", b"more"), live(records, boss))


def test_what_it_says_of_its_work_counts_as_what_it_writes() -> None:
    records = Records(limits=Limits(megabytes=1))
    root = records.found()
    boss = records.handler_for("Boss", root)
    entry = SubmitAudit("é" * (1 << 14))  # of two bytes each
    for _ in range(32):
        records.do(entry, live(records, boss))
        records.now += timedelta(minutes=1)
    assert records.no(entry, live(records, boss)).rule == "limit-megabytes"
    assert records.no(CreateFile("Notes", b"more"), live(records, boss)).rule == "limit-megabytes"
    records.do(entry, records.agent(root))
    records.now += timedelta(minutes=30)
    records.do(entry, live(records, boss))


def test_what_is_counted_of_a_handler_is_of_the_last_hour_and_does_not_grow() -> None:
    records = Records(limits=Limits(megabytes=1))
    root = records.found()
    for number in range(200):
        records.do(CreateFile("Notes", b"x" * 9000), live(records, root))
        records.now += timedelta(minutes=1)
        assert records.rows.written(root, records.now - timedelta(hours=1)) <= 60 * 9000
        assert records.rows.written(root, records.now - timedelta(hours=1)) >= min(number, 59) * 9000
    assert len(list(records.rows.of(Written))) <= 64


def live(records: Records, handler: Uuid) -> ByHandler:
    """An agent of it that lives."""
    agent = records.rows.live_agent(handler)
    id = agent.id if agent else parse_uuid(str(uuid.uuid4()))
    if agent is None:
        records.do(LeaseAgent(id, handler, "0" * 64), SYSTEM)
    return ByHandler(handler, records.handler(handler).tenure, id)


def test_where_little_room_is_left_what_ends_something_is_done_and_nothing_else(
    records: Records, root: Uuid, boss: Uuid
) -> None:
    done, handler = records.outcome("Build", root), records.handler_for("Underling", root)
    agent = live(records, handler)
    records.room = 100
    assert records.no(CreateFile("Notes", b"x" * 101)).rule == "room"
    notes = parse_uuid(str(records.do(CreateFile("Notes", b"x" * 100))["file"]))
    records.room = 0
    for refused in (CreateFile("Notes", b""), SubmitAudit("did it"), LeaseAgent(AGENT, boss, "0" * 64)):
        by = SYSTEM if isinstance(refused, LeaseAgent) else agent
        assert records.no(refused, by).rule == "room"
    records.do(ReadFile(notes))
    records.do(ReadFile(handler), ByHandler(handler, 1, "user:ada"))
    assert records.no(ReadFile(notes), agent).rule == "room"
    records.do(EndAgent(parse_uuid(agent.agent), "it ended", "What it said last.", "An agent ended"), SYSTEM)
    records.do(CloseOutcome(done, "not wanted"))
    records.do(StopHandler(boss))
