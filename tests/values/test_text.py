"""Foreign text: no line of it starts anything but a quotation, nothing in it hides."""

from __future__ import annotations

import base64
import re
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cn.values.known_secrets import hide
from cn.values.text import cell, decode, is_text, one_line, quote, redact, slug, uncell, visible, without_commands

BOUNDARIES = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
"""Every line boundary of Unicode and of Python's ``str.splitlines``."""

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
anything = st.text(st.characters(exclude_categories=()), max_size=60)
"""Any code points, lone surrogates too."""


def hides(char: str) -> bool:
    return unicodedata.category(char) in HIDDEN


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=ascii)
def test_no_boundary_leaves_a_quotation_or_hides(boundary: str) -> None:
    shown = "\n> " if boundary in ("\n", "\r\n") else f"<U+{ord(boundary):04X}>"
    assert quote(f"a{boundary}## Triage{boundary}b") == f"> a{shown}## Triage{shown}b"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", ">"),
        ("\n", ">"),
        ("a", "> a"),
        ("a\n", "> a"),
        ("a\n\nb", "> a\n>\n> b"),
        ("> a", "> > a"),
        ("\ta", "> \ta"),
        ("\u202etxt", "> <U+202E>txt"),
        ("a\x1b[31m", "> a<U+001B>[31m"),
        ("a\0b", "> a<U+0000>b"),
        ("\ufeffa", "> <U+FEFF>a"),
        ("\ud800", "> <U+D800>"),
        ("\U000e0041", "> <U+E0041>"),
        ("\U000e0100", "> <U+E0100>"),
        ("\u3164", "> <U+3164>"),
        ("❤\ufe0f", "> ❤\ufe0f"),
        ("1\ufe0f\u20e3", "> 1\ufe0f\u20e3"),
        ("❤\ufe0f\ufe0f", "> ❤\ufe0f<U+FE0F>"),
        ("❤\ufe00", "> ❤<U+FE00>"),
        ("a\ufe0f 1\ufe0f \ufe0f", "> a<U+FE0F> 1<U+FE0F> <U+FE0F>"),
        ("\U00016fe4\U0001d159", "> <U+16FE4><U+1D159>"),
        ("Grüße, 世界 ✓", "> Grüße, 世界 ✓"),
    ],
    ids=ascii,
)
def test_quote(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@given(anything)
@example("## Triage\r\x85---")
def test_every_line_of_a_quotation_is_one(text: str) -> None:
    for line in quote(text).splitlines():
        assert line == ">" or line.startswith("> ")


@given(anything)
def test_nothing_hidden_remains(text: str) -> None:
    assert not {c for c in quote(text) if hides(c)} - {"\n", "\t"}
    assert not {c for c in visible(text) if hides(c)} - {"\n", "\t"}


@given(anything)
def test_a_quotation_says_all_that_was_said(text: str) -> None:
    """As many lines as there were, each with the same visible text."""
    shown = [line[2:] for line in quote(text).split("\n")]
    assert shown == [visible(line) for line in re.sub(r"\r+\n", "\n", text).removesuffix("\n").split("\n")]


@given(anything)
def test_visible_changes_nothing_a_second_time(text: str) -> None:
    assert visible(visible(text)) == visible(text)


IGNORABLE = """
00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8
1BCA0-1BCA3 1D173-1D17A E0000-E0FFF
"""
"""``DerivedCoreProperties.txt`` of Unicode 16, Default_Ignorable_Code_Point."""
DRAWN = {"BLANK SYMBOL", "SYMBOL FOR NULL", "TIFINAGH CONSONANT JOINER"}
NAMED = re.compile(r"(?!.*(?:GAP|LINE) FILLER).*\b(?:BLANK|FILLER|NULL|SELECTOR|JOINER|INVISIBLE|INHERENT)\b")


def test_what_unicode_calls_ignorable_is_shown() -> None:
    for span in IGNORABLE.split():
        first, _, last = span.partition("-")
        for point in range(int(first, 16), int(last or first, 16) + 1):
            assert visible(f"a{chr(point)}b") == f"a<U+{point:04X}>b"


def test_what_unicode_names_as_blank_is_shown() -> None:
    names = {char: unicodedata.name(char, "") for char in map(chr, range(sys.maxunicode + 1))}
    unseen = {char: name for char, name in names.items() if NAMED.match(name) and name not in DRAWN}
    assert len(unseen) > 270
    assert [name for char, name in unseen.items() if visible(f"a{char}b") == f"a{char}b"] == []


def test_visible_leaves_what_can_be_seen() -> None:
    for text in ("plain", "Grüße", "世界", "е́", "✓ – ×", "a\tb", "naïve café", "👍🏽"):
        assert visible(text) == text


def test_accents_that_are_piled_up_are_shown() -> None:
    assert visible("e" + "\u0301" * 6 + "x") == "e" + "\u0301" * 6 + "x"
    assert visible("e" + "\u0301" * 8 + "x" + "\u0301") == "e" + "\u0301" * 6 + "<U+0301><U+0301>x\u0301"
    assert visible("a\u20dd\u0e47" * 60) == "a\u20dd\u0e47" * 60
    assert len(visible("\u0489" * 60)) == 6 + 54 * len("<U+0489>")


@given(anything, st.integers(1, 50))
def test_one_line_is_one_line_and_no_longer(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1


@given(anything, st.integers(1, 50))
def test_one_line_is_the_beginning_of_all_of_it(text: str, limit: int) -> None:
    line = visible(" ".join(text.split()))
    assert one_line(text, limit) == (line if len(line) <= limit else line[: limit - 1] + "…")


def test_of_a_text_of_megabytes_one_line_looks_at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def look(text: str) -> str:
        seen.append(len(text))
        return text

    monkeypatch.setattr("cn.values.text.visible", look)
    for text in ("a\u202e" * 500_000, "a " * 500_000):
        assert len(one_line(text, 60)) == 60
    assert seen == [61, 61]


@pytest.mark.parametrize(
    ("text", "as_cell"),
    [
        ("", "—"),
        ("   ", "—"),
        ("a | b", r"a \| b"),
        ("a \\| b", r"a \\\| b"),
        ("a\n| 10:00 | x | do:merge | ✓ |", r"a \| 10:00 \| x \| do:merge \| ✓ \|"),
        ("a\u2028b", "a b"),
    ],
    ids=ascii,
)
def test_cell(text: str, as_cell: str) -> None:
    assert cell(text) == as_cell


def unescaped_pipes(text: str) -> int:
    return text.replace("\\\\", "").replace("\\|", "").count("|")


@given(anything)
def test_a_cell_ends_neither_itself_nor_its_row(text: str) -> None:
    made = cell(text)
    assert unescaped_pipes(made) == 0
    assert len(made.splitlines()) == 1
    assert not made.replace("\\\\", "").endswith("\\"), "it would escape the next column's bar"
    assert not any(hides(c) for c in made)


@given(anything)
@example("a\\|b\\")
@example("\\\\")
def test_cell_round_trip(text: str) -> None:
    line = one_line(text)
    assert uncell(cell(text)) == (line or "—")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("Grüße".encode(), "Grüße"),
        (b"a\xffb", "a<0xFF>b"),
        (b"\xc3", "<0xC3>"),
        (b"\xed\xa0\x80", "<0xED><0xA0><0x80>"),
        (b"\xe4\xb8\x96\xff", "世<0xFF>"),
        (b"", ""),
    ],
)
def test_decode(data: bytes, text: str) -> None:
    assert decode(data) == text


@given(st.binary(max_size=40))
def test_decode_takes_any_bytes_and_gives_writable_text(data: bytes) -> None:
    decode(data).encode()


@given(st.text(max_size=40))
def test_decode_of_utf8_is_the_text(text: str) -> None:
    assert decode(text.encode()) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://u:secret@host/x", "https://***@host/x"),
        ("https://secret@host/x", "https://***@host/x"),
        ("https://u:se@cret@host/x", "https://***@host/x"),
        ("fatal: unable to access 'http://u:secret@h:80/x/': no", "fatal: unable to access 'http://***@h:80/x/': no"),
        ("ssh://git@host/x and https://a:secret@b/", "ssh://git@host/x and https://***@b/"),
        ("'ssh://git@host:2222/x'", "'ssh://git@host:2222/x'"),
        ("ssh://git:secret@host/x", "ssh://***@host/x"),
        ("ssh://git@secret@host/x", "ssh://***@host/x"),
        ("https://host/a@b", "https://host/a@b"),
        ("mail a@b about https://host", "mail a@b about https://host"),
        ("https://h/x?private_token=s3cret&page=2", "https://h/x?private_token=***&page=2"),
        ("https://h/x.git?a=1&X-Amz-Signature=abc: 403", "https://h/x.git?a=1&X-Amz-Signature=*** 403"),
        ("'https://h/x?access_token=s3cret' failed", "'https://h/x?access_token=***' failed"),
        ("https://h/#key=s3cret", "https://h/#key=***"),
        ("https://h/?q=token&page=2", "https://h/?q=token&page=2"),
        ("is it token=5?", "is it token=5?"),
    ],
)
def test_redact(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("Hello, World!", "hello-world"),
        ("Grüße aus Köln", "grusse-aus-koln"),
        ("世界", "message"),
        ("", "message"),
        ("--a--", "a"),
        ("a" * 100, "a" * 60),
        ("x" * 59 + " y", "x" * 59),
    ],
)
def test_slug(text: str, made: str) -> None:
    assert slug(text) == made


def test_a_name_of_a_branch_holds_no_parameter_of_a_url() -> None:
    assert redact("pi/x&key=abc is at pi/x&key=abd") == "pi/x&key=abc is at pi/x&key=abd"
    assert redact("https://h/?a=1&key=abc and GET /x?token=abc") == "https://h/?a=1&key=*** and GET /x?token=***"


def test_what_is_too_short_to_be_a_secret_masks_nothing() -> None:
    assert hide("an exact answer", "x", "", "an") == "an exact answer"
    assert hide("the key is k-123456", "k-123456") == "the key is ***"


@pytest.mark.parametrize("before", ["", "x", "NAME:"])
def test_a_secret_in_base64_is_hidden_whatever_stands_before_it(before: str) -> None:
    secret = "sk-ant-api03-0123456789?>?>abcdef"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        told = hide(f"wrong key {encode((before + secret).encode()).decode()}", secret)
        assert "***" in told
        assert len(told) < 30


@pytest.mark.parametrize(("text", "told"), [("", True), ("é\U0001f600\0", True), ("a\udc80", False), ("\ud800", False)])
def test_what_cannot_be_written_as_utf8_is_no_text(text: str, told: bool) -> None:
    assert is_text(text) is told


def test_whether_something_is_text_is_not_asked_of_each_character() -> None:
    """A server asks it of megabytes, while it answers nobody else."""
    steps = list[object]()
    sys.setprofile(lambda *event: steps.append(event[1]))
    try:
        is_text("é" * 10_000)
    finally:
        sys.setprofile(None)
    assert len(steps) < 10


def test_a_title_of_others_holds_no_command_to_type() -> None:
    assert without_commands("b): 'git cherry-pick x', then (c") == "b): \u2019git cherry-pick x\u2019, then (c"
