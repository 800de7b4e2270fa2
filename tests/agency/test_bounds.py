"""How much one request may say: what is beyond is refused with the number, whoever asks, and old records are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from cn.agency.names import Uuid, parse_uuid
from cn.agency.operations import (
    CloseOutcome,
    CreateFile,
    CreateOutcome,
    Delegate,
    FinishMail,
    Limits,
    Operation,
    ReadFile,
    Seen,
    SendMail,
    TakeBackMail,
    UpdateOutcome,
    Wanted,
    WriteFile,
)
from cn.agency.plan.bounds import MOST_LINKS, MOST_NAME, MOST_NAMED, MOST_WORDS
from cn.agency.plan.result import Refused
from cn.agency.plan.views import browse
from tests.support.agency import ADA, Records, listed


def ids(many: int) -> tuple[Uuid, ...]:
    """Of nothing that there is."""
    return tuple(parse_uuid(f"{number:08x}-0000-4000-8000-000000000000") for number in range(many))


def links(many: int) -> str:
    """A text that names so many files."""
    return "\n".join(f"kb://{id}" for id in ids(many))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (" ".join(f"w{number}" for number in range(MOST_WORDS + 1)), f"{MOST_WORDS + 1} different words"),
        ("a " * MOST_NAME, f"words of {2 * MOST_NAME:,} characters"),
        ("a" * (MOST_NAME + 1), f"words of {MOST_NAME + 1:,} characters"),
    ],
)
def test_few_words_are_looked_for(records: Records, root: Uuid, words: str, said: str) -> None:
    for principal in (ADA, records.agent(root)):
        refused = browse(words, principal, records.rows)
        assert isinstance(refused, Refused)
        assert refused.rule == "limit-words"
        assert said in refused.reason
        assert refused.remedy


def test_a_word_that_is_said_again_counts_once(records: Records, root: Uuid) -> None:
    id = records.file(records.agent(root), description="Notes on the host")
    assert [one["file"] for one in listed(browse("notes HOST " * 90, ADA, records.rows), "files")] == [id]
    every = " ".join(["n", "no", "t", "o", "on", "h", "host", "notes"] * 12)
    assert [one["file"] for one in listed(browse(every, ADA, records.rows), "files")] == [id]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("mail", lambda root, many: TakeBackMail(many)),
        ("mail", lambda root, many: FinishMail(many)),
        ("parents", lambda root, many: CreateOutcome("Build", "", many)),
        ("link", lambda root, many: UpdateOutcome(root, link=many)),
        ("unlink", lambda root, many: UpdateOutcome(root, unlink=many)),
        ("grants", lambda root, many: Delegate(root, grants=tuple(Wanted(f"kb:{id}", "read") for id in many))),
    ],
)
def test_a_list_in_a_request_has_an_end(
    records: Records, root: Uuid, name: str, make: Callable[[Uuid, tuple[Uuid, ...]], Operation]
) -> None:
    for principal in (ADA, records.agent(root)):
        refused = records.no(make(root, ids(MOST_NAMED + 1)), principal)
        assert refused.rule == "limit-named"
        assert f"{MOST_NAMED + 1:,} as {name!r}" in refused.reason
        assert refused.remedy
        assert records.no(make(root, ids(MOST_NAMED)), principal).rule != "limit-named"


def test_a_version_names_no_more_files_than_can_be_kept_track_of(records: Records, root: Uuid) -> None:
    agent, many = records.agent(root), links(MOST_LINKS + 1)
    id = records.file(agent, (links(MOST_LINKS) * 2).encode())
    assert len(records.rows.references(id)) == MOST_LINKS
    work = records.outcome("Build", root)
    seen = Seen(1, hashlib.sha256((links(MOST_LINKS) * 2).encode()).hexdigest())
    for operation in (
        CreateFile("Notes", many.encode()),
        WriteFile(id, many.encode(), seen),
        CreateOutcome("Sell", many, (root,)),
        SendMail(root, text=many),
        Delegate(work, message=many),
    ):
        for principal in (ADA, agent):
            refused = records.no(operation, principal)
            assert refused.rule == "limit-links"
            assert f"{MOST_LINKS + 1:,} files" in refused.reason
            assert refused.remedy
    records.do(CloseOutcome(work, many))  # what ends something is done


def test_older_records_that_name_more_are_read_and_written_over(
    records: Records, root: Uuid, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, data = records.agent(root), links(MOST_LINKS * 2).encode()
    with monkeypatch.context() as before:
        before.setattr("cn.agency.plan.bounds.MOST_LINKS", MOST_LINKS * 2)
        id = records.file(agent, data)
    fresh = records.replayed()
    assert len(fresh.references(id)) == MOST_LINKS * 2
    assert records.do(ReadFile(id), agent)["version"] == 1
    records.do(SendMail(root, file=id), agent)
    records.do(WriteFile(id, b"no links", Seen(1, hashlib.sha256(data).hexdigest())), agent)
    assert not records.rows.references(id)


def test_what_names_many_files_counts_as_more_than_its_bytes() -> None:
    records = Records(limits=Limits(megabytes=1))
    root = records.found()
    boss = records.handler_for("Boss", root)
    agent = records.agent(boss)
    text = links(400).encode()
    for _ in range(2):
        records.do(CreateFile("Notes", text), agent)
    refused = records.no(CreateFile("Notes", text), agent)
    assert (refused.rule, len(text) < 20_000) == ("limit-megabytes", True)
    records.do(CreateFile("Notes", b"x" * 20_000), agent)
