"""If it is not in the type, it cannot be decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cn.protocol.thread_file import (
    Custom,
    Decision,
    Defer,
    Delegate,
    Delete,
    Merge,
    Reply,
    Triage,
    TriageRefused,
    closing,
    find_headings,
    format_decision,
    format_triage,
    parse_decision,
    parse_triage,
)
from cn.values.names import NameRefused, parse_name, parse_topic
from cn.values.text import visible
from cn.values.timestamps import parse_stamp

SIGMA, PI = parse_name("sigma"), parse_name("pi")
AT = parse_stamp("2026-02-05T15:00Z")

GOOD: list[tuple[str, Decision]] = [
    ("delete:stale", Delete("stale")),
    ("delete: stale ", Delete("stale")),
    ("  delete:a:b|c # d ", Delete("a:b|c # d")),
    ("delete:do:merge", Delete("do:merge")),
    ("delete:ünïcödé ✓ 日本 😀", Delete("ünïcödé ✓ 日本 😀")),
    ("defer:next week", Defer("next week")),
    ("delegate:pi", Delegate(PI)),
    ("delegate: pi", Delegate(PI)),
    ("do:merge", Merge()),
    ("do: merge", Merge()),
    ("\tdo:merge\t", Merge()),
    ("do:reply:re-proposal", Reply(parse_topic("re-proposal"))),
    ("do:reply: v1.2_x", Reply(parse_topic("v1.2_x"))),
    ("do:custom:add retry: logic", Custom("add retry: logic")),
    ("do:custom:merge", Custom("merge")),
]


@pytest.mark.parametrize(("text", "decision"), GOOD, ids=ascii)
def test_decisions(text: str, decision: Decision) -> None:
    assert parse_decision(text) == decision
    assert parse_decision(format_decision(decision)) == decision


BAD = [
    "", " ", ":", "do", "do:", "merge", "Merge", "do:Merge", "DO:MERGE", "Do:merge", "do:merge:",
    "do:merge:x",
    "do:merge x", "do:merged", "do :merge", "do;merge", "do:merge\n", "approve", "delete", "delete:",
    "delete: ",
    "Delete:x", "DELETE:x", "delete :x", "deleted:x", "defer", "defer:", "delegate", "delegate:",
    "delegate:Pi",
    "delegate:pi omega", "delegate:pi/x", "delegate:../x", "delegate:-x", "do:reply", "do:reply:",
    "do:reply: ",
    "do:reply:a/b/c", "do:reply:/b", "do:reply:a/",
    "do:reply:A", "do:reply:a b", "do:reply:..", "do:reply:a..b", "do:reply:x.lock",
    "do:reply:.x", "do:reply:" + "a" * 101, "do:custom", "do:custom:", "do:Reply:x", "do:delete:x",
    "do:defer:x", "do:delegate:pi", "reply:x", "custom:x", "do:run:rm -rf", "do:do:merge", "noop", "yes",
    "do:merge # ok", "`do:merge`", "**do:merge**", "\"do:merge\"", "do:merge\u200b", "\ufeffdo:merge",
    "delete:a\nactor: x", "delete:a\rb", "delete:a\u2028b", "delete:a\x85b", "delete:a\x0cb",
    "delete:a\u202eb",
    "delete:a\u200bb", "delete:\ud800x", "delete:a\0b", "dо:merge", "do：merge", "do:merge",
]  # fmt: skip
"""Upper case, missing and spare payloads, other verbs, hidden characters, look-alike letters."""


@pytest.mark.parametrize("text", [t for t in BAD if t not in ("do:merge", "do:merge\n")], ids=ascii)
def test_no_decisions(text: str) -> None:
    with pytest.raises(TriageRefused) as caught:
        parse_decision(text)
    assert caught.value.text
    assert caught.value.hint
    assert caught.value.text.isprintable()


def test_a_refusal_names_the_vocabulary() -> None:
    with pytest.raises(TriageRefused, match="'approve' is not a decision") as caught:
        parse_decision("approve")
    assert "do:merge" in caught.value.hint


def payloads() -> st.SearchStrategy[str]:
    """Text that a decision can hold: visible, on one line, not surrounded by space."""
    kept = st.characters(exclude_categories=("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Cn"))
    return (
        st.text(kept, min_size=1, max_size=60).map(str.strip).filter(lambda text: text != "" and visible(text) == text)
    )


def decisions() -> st.SearchStrategy[Decision]:
    names = st.text("abz019_-", min_size=1, max_size=40).map(lambda n: "a" + n[1:])
    topics = st.text("abz019_-.", max_size=99).map(lambda t: "-" + t)
    return st.one_of(
        payloads().map(Delete),
        payloads().map(Defer),
        payloads().map(Custom),
        st.just(Merge()),
        names.filter(lambda n: n not in ("head", "refs", "heads", "cn", "done")).map(lambda n: Delegate(parse_name(n))),
        topics.filter(lambda t: ".." not in t and not t.endswith((".lock", "."))).map(lambda t: Reply(parse_topic(t))),
    )


@given(decisions())
def test_a_decision_is_read_as_it_is_written(decision: Decision) -> None:
    try:
        text = format_decision(decision)
        found = parse_decision(text)
    except TriageRefused:
        assume(False)  # a payload of default-ignorable characters
    assert found == decision
    assert format_decision(found) == text


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_is_a_decision_or_refused(text: str) -> None:
    try:
        found = parse_decision(text)
    except TriageRefused:
        return
    assert parse_decision(format_decision(found)) == found
    assert len(format_decision(found).splitlines()) == 1


def triages() -> st.SearchStrategy[Triage]:
    minutes = st.datetimes(
        datetime(1, 1, 2), datetime(9998, 12, 30), timezones=st.just(UTC)
    ).map(lambda at: at.replace(second=0, microsecond=0))  # fmt: skip
    line = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
    body = st.lists(line, max_size=6).map(lambda lines: "\n".join(lines).strip())
    found = st.builds(
        Triage,
        decisions(),
        st.sampled_from([SIGMA, PI]),
        minutes,
        body,
        st.sampled_from(["", "3d", "2026-03-01"]),
        st.sampled_from(["", "APPROVED", "REJECTED"]),
        st.sampled_from(["", "3f2a9c1", f"{'3f2a9c1e' * 5}, time 2"]),
    )
    return found.map(lambda one: one if isinstance(one.decision, Defer) else replace(one, until=""))


@given(triages())
def test_a_section_is_read_as_it_is_written(triage: Triage) -> None:
    lines = format_triage(triage).split("\n")
    assume(find_headings(lines) == [0])  # a body with a section of its own is refused: test_thread
    try:
        assert parse_triage(lines, 0, []) == triage
    except TriageRefused as refused:
        assert "hidden" in refused.text  # noqa: PT017


@pytest.mark.parametrize(
    "body",
    [
        "actor: I mean the one on stage",
        "Approval: that is another question",
        "  until: then",
        "decision: do:merge\nactor: pi\ntimestamp: 2026-02-05",
        "# Heading\n\n> quoted\n\n```\ncode\n```",
        "    indented code",
        "---",
        "one\n\n\ntwo",
        "<!-- a note --> text",
        "-->",
        "-->\ntext",
        "text\n-->",
    ],
)
def test_a_body_is_read_back(body: str) -> None:
    triage = Triage(Reply(parse_topic("re-x")), SIGMA, AT, body)
    lines = format_triage(triage).split("\n")
    assert parse_triage(lines, 0, []) == triage


SECTION = "## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n"
PLAIN = Triage(Merge(), SIGMA, AT)


@pytest.mark.parametrize(
    "text",
    [
        SECTION,
        SECTION.replace("\n\n", "\n"),
        SECTION + "\n\n\n",
        SECTION.rstrip("\n"),
        "## Triage\n\ntimestamp: 2026-02-05T15:00Z\nactor: sigma\ndecision: do:merge\n",
        "## Triage\n\nactor: sigma\n\ndecision: do:merge\n\n\ntimestamp: 2026-02-05T15:00Z\n",
        "##  Triage  \n\n  decision :  do:merge  \n\tactor:sigma\t\ntimestamp:2026-02-05T15:00Z \n",
        "## triage\n\nDecision: do:merge\nActor: Sigma\nTimestamp: 2026-02-05T15:00Z\n",
        "## Triage ##\n\nDecision: do:merge\nACTOR: sigma\nTimestamp: 2026-02-05T15:00Z\n",
        "   ## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T16:00+01:00\n",
        "## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05 15:00:00\n",
    ],
    ids=ascii,
)
def test_white_space_case_of_keys_and_order_do_not_matter(text: str) -> None:
    lines = text.split("\n")
    assert parse_triage(lines, find_headings(lines)[0], []) == PLAIN


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ("", "lacks decision and actor and timestamp"),
        ("decision: do:merge", "lacks actor and timestamp"),
        ("decision: do:merge\nactor: sigma", "lacks timestamp"),
        ("decision: do:merge\nactor: sigma\ntimestamp:", "lacks timestamp"),
        ("actor: sigma\ntimestamp: 2026-02-05T15:00Z", "lacks decision"),
        ("decision:\nactor: sigma\ntimestamp: 2026-02-05T15:00Z", "lacks decision"),
        ("so then\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z", "lacks decision"),
        ("- decision: do:merge\n- actor: sigma\n- timestamp: 2026-02-05", "lacks decision"),
        ("decision: do:merge\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05", "decision twice"),
        ("decision: do:merge\nactor: sigma\nActor: pi\ntimestamp: 2026-02-05", "actor twice"),
        ("decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05\n\nuntil: 3d\nuntil: 4d", "until twice"),
        ("decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05\napproval:", "nothing after approval"),
        ("decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05\nhead: -->", "nothing after head"),
        ("decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05\nhead: main", "no id of a commit"),
        ("decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05\nuntil: \t", "nothing after until"),
        ("decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05\nuntil: 3d", "until: is for defer"),
        ("decision: do:merge\nactor: sig ma\ntimestamp: 2026-02-05", "actor 'sig ma' is not valid"),
        ("decision: do:merge\nactor: sigma, pi\ntimestamp: 2026-02-05", "is not valid"),
        ("decision: do:merge\nactor: sigma\ntimestamp: now", "'now' is not a time"),
        ("decision: do:merge\nactor: sigma\ntimestamp: 2026-02-30", "is not a time"),
        ("decision: do:merge\nactor: sigma\ntimestamp: 0001-01-01T00:00+14:00", "out of range"),
        ("decision: merge\nactor: sigma\ntimestamp: 2026-02-05", "'merge' is not a decision"),
    ],
    ids=ascii,
)
def test_unfinished_and_wrong_sections_are_refused(fields: str, what: str) -> None:
    lines = ["## Triage", "", *fields.split("\n")]
    with pytest.raises(TriageRefused, match=what) as caught:
        parse_triage(lines, 0, [])
    assert caught.value.hint


def test_fields_word_for_word_in_the_peers_text_are_the_peers() -> None:
    lines = SECTION.split("\n")
    with pytest.raises(TriageRefused, match="word for word"):
        parse_triage(lines, 0, ["please write:", *lines[2:5]])
    with pytest.raises(TriageRefused, match="word for word"):
        parse_triage([*lines[:5], "approval: APPROVED"], 0, lines[2:5])
    assert parse_triage(lines, 0, lines[2:4]) == PLAIN


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("## Triage", [0]),
        ("x\n## Triage\ny\n## Triage", [1, 3]),
        ("> ## Triage", []),
        (">## Triage", []),
        ("# Triage", []),
        ("### Triage", []),
        ("##Triage", []),
        ("## triage", [0]),
        ("## Triage of it", []),
        ("    ## Triage", []),
        ("\t## Triage", []),
        ("- ## Triage", []),
        ("```\n## Triage\n```", []),
        ("```\n## Triage", []),
        ("~~~\n## Triage\n~~~\n## Triage", [3]),
        ("~~~ md\n```\n## Triage\n~~~\n## Triage", [4]),
        ("````\n```\n## Triage\n````\n## Triage", [4]),
        ("```\n``` x\n## Triage\n```", []),
        ("   ```\n## Triage\n  ```\n## Triage", [3]),
        ("    ```\n## Triage", [1]),
        ("```x``` is inline code\n## Triage", [1]),
        ("> ```\n## Triage", [1]),
        ("<!--\n## Triage\n-->", []),
        ("<!--\n## Triage\n--> x\n## Triage", [3]),
        ("<!-- x --> \n## Triage", [1]),
        ("<!-->\n## Triage", [1]),
        ("a <!-- b --> c <!--\n## Triage", []),
        ("<!--\n--> <!--\n## Triage", []),
        ("> <!--\n## Triage", [1]),
        ("<!--\n> -->\n## Triage", [2]),
        ("```\n<!--\n```\n## Triage", [3]),
        ("<!--\n```\n-->\n## Triage", [3]),
    ],
    ids=ascii,
)
def test_where_a_section_starts(text: str, found: list[int]) -> None:
    assert find_headings(text.split("\n")) == found


@pytest.mark.parametrize(
    ("text", "line"),
    [("x", ""), ("```\nx", "```"), ("~~~~ md\nx\n~~~", "~~~~"), ("<!-- x", "-->"), ("```\nx\n```", "")],
)
def test_what_is_left_open_can_be_closed(text: str, line: str) -> None:
    assert closing(text) == line
    assert closing(f"{text}\n{line}") == ""


@given(st.lists(st.sampled_from(["```", "~~~~", "<!--", "-->", "> ```", "x", "````", "    ```", "``` a"])))
def test_whatever_is_open_can_be_closed(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert find_headings([*text.split("\n"), closing(text), "## Triage"])[-1:] == [len(text.split("\n")) + 1]


def test_a_name_that_is_refused_says_what_is_allowed() -> None:
    with pytest.raises(TriageRefused) as caught:
        parse_decision("delegate:Pi")
    with pytest.raises(NameRefused) as original:
        parse_name("Pi", "actor")
    assert (caught.value.text, caught.value.hint) == (original.value.text, original.value.hint)
