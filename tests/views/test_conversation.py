"""A thread's file read back as a conversation: nothing is lost, nothing that looks like a part is one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.message_text import FORM as MESSAGE_FORM
from cn.protocol.proposal_text import FORM
from cn.protocol.thread_file import Header, Words, add_form, add_words, append_section, format_thread
from cn.values.names import Branch, Name, Oid
from cn.values.text import quote
from cn.views.conversation import Commit, read_commit, read_conversation, read_proposal

AT = datetime(2026, 2, 5, 14, tzinfo=UTC)
PI, SIGMA = Name("pi"), Name("sigma")
OLD = """\
## Commits

- 0123456789 Pi <pi@x.example> 2026-02-05: Two files
  And why.

## Files

- added new.md (+3 −0)
- changed code.py (+1 −1)

## new.md (added)

# New
## code.py (deleted)
the text

## code.py (changed)

@@ -1,2 +1,2 @@ def a():
 def a():
-    return 1
+    return 2
"""
PROPOSAL = f"""\
{FORM}

## Commits

- 0123456789 Pi <pi@x.example> 2026-02-05: Two files
      And why.

## Files

- added new.md (+3 −0)
- changed code.py (+1 −1)
- added big.bin (binary)

## new.md (added)

    # New
    ## code.py (deleted)
    the text

## code.py (changed)

    @@ -1,2 +1,2 @@ def a():
     def a():
    -    return 1
    +    return 2

## Not shown

- big.bin: binary, 3 bytes
"""


def thread(content: str) -> str:
    header = Header(PI, "topic", Branch("pi/topic"), AT, Oid("1" * 40), "unverified")
    return format_thread(header, content)


def test_a_proposal_has_commits_files_and_differences() -> None:
    text = thread(PROPOSAL)
    text = add_words(text, Words(SIGMA, AT, "comment", "Why?\n## Not a section"))
    text = add_words(
        text, Words(PI, AT, "pi/re-topic at 11", "# Re: it\n\nmessage from pi, written 2026-02-05T14:00Z\n\n> Because.")
    )
    talk = read_conversation(append_section(text, "Executed", ["- ✓ merged"]), "proposal")
    assert talk.proposed is not None
    assert talk.proposed.commits == ("- 0123456789 Pi <pi@x.example> 2026-02-05: Two files", "      And why.")
    assert talk.proposed.listed == ("- added new.md (+3 −0)", "- changed code.py (+1 −1)", "- added big.bin (binary)")
    assert talk.proposed.rest == ("- big.bin: binary, 3 bytes",)
    new, code = talk.proposed.files
    assert (new.path, new.word, new.added, new.removed) == ("new.md", "added", 3, 0)
    assert [line for _, line in new.lines] == ["# New", "## code.py (deleted)", "the text"], "it begins no file"
    assert [kind for kind, _ in code.lines] == ["hunk", "", "removed", "added"]
    assert (code.added, code.removed, code.is_short) == (1, 1, True)
    assert [(one.who, one.text) for one in talk.said] == [
        ("sigma", "Why?\n## Not a section"),
        ("pi", "Because."),
        ("", "- ✓ merged"),
    ]
    assert talk.said[-1].head == "Executed"


def test_a_commit_is_read_from_its_line_and_nothing_else_is_taken_for_one() -> None:
    line = "- 0123456789 Pi the Peer <pi@x.example> 2026-02-05T10:00:00+00:00: fix: <b> & more"
    found = Commit("0123456789", "Pi the Peer", "pi@x.example", "2026-02-05T10:00:00+00:00", "fix: <b> & more")
    assert read_commit(line) == found
    for other in ("  And why.", "- … and more (the last 30 are shown)", "- 0123456789 Pi: no address", ""):
        assert read_commit(other) is None


WRITTEN = "message from pi, written 2026-02-05T14:00Z"


def test_a_message_is_shown_without_what_stands_above_it() -> None:
    content = f"{MESSAGE_FORM}\n\n# Subject\n\n{WRITTEN}\nabout x\n\n> The\n>\n> body"
    assert read_conversation(thread(content), "message") == (None, "The\n\nbody", (), "")


def test_no_line_of_a_message_is_shown_as_somebody_elses() -> None:
    forged = "## Before\n\n**sigma wrote, 2026-02-05T13:00Z** (sigma/fee)\n\n> Yes.\n\n## Attachments\n\n- our.pdf"
    words = f"# Re: it\n\n{WRITTEN}\n\n{quote(forged)}\n\n## Attachments\n\n- its.pdf\n\n… cut here: 3 bytes more"
    before = "**sigma wrote, 2026-02-05T12:00Z** (sigma/it)\n\n> How much?"
    text = thread(f"{MESSAGE_FORM}\n\n## Before\n\n{before}\n\n## Now\n\n{words}")
    talk = read_conversation(add_words(text, Words(PI, AT, "pi/re-it at 11", words)), "message")
    assert (talk.before, talk.text) == (before, forged)
    below = [("", "Attachments", "- its.pdf\n\n… cut here: 3 bytes more")]
    assert [(one.who, one.head, one.text) for one in talk.said] == [*below, ("pi", "", forged), *below]


def test_a_message_of_an_older_cn_is_one_text() -> None:
    forged = f"# Subject\n\n{WRITTEN}\n\n## Before\n\n**sigma wrote, 2026-02-05T13:00Z** (sigma/fee)\n\n> Yes."
    talk = read_conversation(add_words(thread(forged), Words(PI, AT, "pi/re-it at 11", forged)), "message")
    assert talk.text == forged
    assert [(one.who, one.text) for one in talk.said] == [("pi", forged)]


def test_notes_of_people_and_the_form_are_told_apart() -> None:
    text = add_form(thread("# S\n\nmessage\n\nx") + "\nA note.\n", SIGMA)
    (note,) = read_conversation(text, "message").said
    assert (note.who, note.what, note.text) == ("", "note", "A note.")
    assert "Triage" not in str(read_conversation(text, "message"))


@given(st.text(alphabet=st.sampled_from("a#>+-@ \n*()"), max_size=400), st.sampled_from(["proposal", "message"]))
def test_every_word_of_a_file_comes_back_in_some_part(text: str, kind: str) -> None:
    found = str(read_conversation(thread(text), kind))
    assert text.count("a") <= found.count("a")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"{FORM}\n\n", ""),
        ("    the text", "the text"),
        ("- added new.md (+3 −0)\n", ""),
        ("## new.md (added)", "## new.md (changed)"),
        ("## new.md (added)", "## ew.md (added)"),
        ("## new.md (added)", "## zebra.md (added)"),
        ("## new.md (added)", "## code.py (changed)\n\n    x\n\n## new.md (added)"),
        ("## Files", "## File"),
        ("- big.bin: binary", "big.bin: binary"),
        ("- 0123456789", "0123456789"),
        ("## Not shown", "## Not shown\n\n- x: binary\n\n## Not shown"),
    ],
)
def test_a_text_in_another_form_or_at_odds_with_its_list_is_shown_whole(old: str, new: str) -> None:
    assert old in PROPOSAL
    odd = PROPOSAL.replace(old, new, 1)
    talk = read_conversation(thread(odd), "proposal")
    assert (talk.proposed, talk.text) == (None, odd.strip("\n"))
    assert read_conversation(thread(OLD), "proposal").text == OLD.strip("\n")


@given(st.lists(st.sampled_from([*PROPOSAL.split("\n"), "", "## x (added)", "    @@ -1 +1 @@", FORM]), max_size=40))
def test_a_proposal_of_any_shape_loses_no_line(lines: list[str]) -> None:
    read = read_proposal([*PROPOSAL.split("\n"), *lines])
    if read is None:
        return
    kept = [*read.commits, *read.listed, *read.rest, *(note for file in read.files for note in file.notes)]
    kept += [f"    {line}" if line else "" for file in read.files for _, line in file.lines]
    heads = {FORM, "## Commits", "## Files", "## Not shown", *(f"## {file.path} ({file.word})" for file in read.files)}
    assert {line for line in [*PROPOSAL.split("\n"), *lines] if line} - heads <= set(kept)
