"""Title and time of writing, as a list reads them from a thread."""

from __future__ import annotations

from datetime import UTC, datetime

from cn.protocol.thread_summary import Summary, read_summary
from cn.values.text import quote

HEAD = "# pi/x\n\n**From:** pi\n**Head:** 3f2a\n\n---\n\n"
COMMITS = """## Commits

- bbbbbbbbbb Pi <pi@example.org> 2026-02-05T16:00:00+02:00: Mend it
- aaaaaaaaaa Pi <pi@example.org> 2026-02-04T12:00:00+00:00: Say hello: to all

  - cccccccccc Pi <pi@example.org> 2020-01-01T00:00:00+00:00: a line of the message

## Files

- dddddddddd Pi <pi@example.org> 2020-01-01T00:00:00+00:00: no commit
"""


def test_a_proposal_has_the_title_of_its_first_commit_and_the_time_of_its_last() -> None:
    found = read_summary(HEAD + quote(COMMITS) + "\n")
    assert found == Summary("Say hello: to all", datetime(2026, 2, 5, 14, tzinfo=UTC))


def test_a_message_has_the_time_that_it_names() -> None:
    text = "# Licence?\n\nmessage from pi, written 2026-02-05T14:00Z\n\nnotice from pi, written 2020-01-01T00:00Z"
    assert read_summary(HEAD + quote(text)).written == datetime(2026, 2, 5, 14, tzinfo=UTC)


def test_the_head_of_the_thread_counts_before_its_quotation() -> None:
    head = HEAD.replace("**Head:**", "**Written:** 2026-02-01T00:00Z\n**Head:**")
    assert read_summary(head + quote(COMMITS)).written == datetime(2026, 2, 1, tzinfo=UTC)


def test_what_says_neither_has_neither() -> None:
    assert read_summary("") == Summary()
    assert read_summary(HEAD + quote(COMMITS.replace("2026-02-05T16:00:00+02:00", "yesterday"))).written is None
    assert read_summary(f"{HEAD}> hi\n\n> ## Commits\n{quote(COMMITS)}") == Summary()
