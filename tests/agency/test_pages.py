"""Derived pages: text of rows, in which nobody's words can pass for the page's own."""

from __future__ import annotations

import frontmatter
from hypothesis import given
from hypothesis import strategies as st

from cn.agency.names import AUDIT, parse_uuid
from cn.agency.pages import README, SHOWN, SHOWN_TEXT, file_page, folder_of, outcome_page
from cn.agency.plan.views import LATEST
from cn.agency.rows import AuditEntry, Outcome, Version
from tests.support.agency import BEGIN, Records

A = parse_uuid("3f2a9c1e-be04-4d7f-a582-a1c0d94be7f0")


def test_the_versions_of_a_file_stand_in_a_folder_named_after_it() -> None:
    assert folder_of(A) == f"kb/3/f/2/{A}"
    assert "kb/a/b/c/<uuid>/<sha256>" in README


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(st.characters(exclude_categories=["Cs"])))
def test_the_frontmatter_of_an_outcome_says_what_it_is_whatever_its_words_are(title: str, text: str) -> None:
    row = Outcome(A, title, text, "closed", A, 1, text, "waits: no\n---", None, False, 1)
    page = outcome_page(row, [A], [])
    post = frontmatter.loads(page)
    assert (post["title"], post["status"], post["parents"], post["children"]) == (title, "closed", [A], [])


def test_a_page_of_a_file_has_its_versions_its_links_and_the_history_of_an_outcome() -> None:
    records = Records()
    root = records.found()
    work = records.outcome("Work | it", root, text=f"see kb://{root}")
    file = records.rows.file(work)
    assert file
    history = records.rows.history(work, LATEST, 99)
    page = file_page(file, records.rows.versions(work), records.rows.references(work), [A], history)
    assert page.startswith("# Work | it\n")
    assert f"| 1 | {file.hash} | {file.size} | 2026-02-05T14:00:00Z | user:ada |" in page
    assert f"Names: kb://{root}\n" in page
    assert f"Named by: kb://{A}\n" in page
    assert "| 2 | 2026-02-05T14:00:00Z | user:ada | outcome_created |" in page


def test_a_page_does_not_grow_without_end() -> None:
    records = Records()
    root = records.found()
    file = records.rows.file(root)
    assert file
    versions = [Version(root, number, "0" * 64, 1, BEGIN, records.events[0].actor) for number in range(1, 500)]
    page = file_page(file, versions, [], [])
    assert page.count("\n| ") <= SHOWN + 2
    assert "| 499 |" in page


def test_an_entry_of_an_audit_log_is_quoted() -> None:
    records = Records()
    root = records.found()
    file = records.rows.file(records.handler(root).audit)
    assert file
    entry = AuditEntry(root, 2, records.events[0].actor, BEGIN, "did it\n## 2027-01-01 user:ada\n\u202ex")
    page = file_page(file, [], [], [], entries=[entry])
    assert file.kind == AUDIT
    assert "> did it\n> ## 2027-01-01 user:ada\n> <U+202E>x\n" in page


def test_a_page_of_an_audit_log_is_bounded_whatever_the_entries_are() -> None:
    records = Records()
    root = records.found()
    file = records.rows.file(records.handler(root).audit)
    assert file
    actor = records.events[0].actor
    long = [AuditEntry(root, number, actor, BEGIN, "\x01" * 60_000) for number in range(SHOWN)]
    short = [AuditEntry(root, number, actor, BEGIN, f"entry {number}.") for number in range(SHOWN)]
    page = file_page(file, [], [], [], entries=long)
    assert page.count("## ") == 1
    assert "(all of it is in git's log)" in page
    assert len(page.encode()) < SHOWN_TEXT + 1000
    page = file_page(file, [], [], [], entries=[*long, *short])
    assert all(f"> entry {number}.\n" in page for number in range(SHOWN))
    page = file_page(file, [], [], [], entries=[*short[:-1], long[0], short[-1]])
    assert page.count("## ") == 1, "what does not fit ends it"
    assert f"> entry {SHOWN - 1}." in page
