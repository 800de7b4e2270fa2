"""A secret that cn knows is found in every spelling that a library or a host may give it."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.values.known_secrets import NOTHING_KNOWN, KnownSecrets
from tests.support.growth import assert_cost_grows_as_size

TOKEN = "123456789:AAHk3jdhfkjdhKJHkjhKJHkjhasdkjhqwe12"


def _random(length: int, signs: str = "-_") -> str:
    return "".join(random.Random(length).choices(string.ascii_letters + string.digits + signs, k=length))


LONG = {
    "jwt": f"eyJ{_random(100)}.{_random(700)}.{_random(86)}",
    "bearer": f"Bearer ghp_{_random(36, '')}",
    "sentence": "correct horse battery staple, and some 9 more",
    "dsn": f"postgres://u:{_random(24)}@db.example.org/x",
    "key": "\n".join(["-----BEGIN PRIVATE KEY-----", *(_random(64 + n, "+/")[:64] for n in range(20)), "-----END---"]),
    "json": json.dumps(
        {"type": "service_account", "private_key": _random(1200), "uri": "https://accounts.example.com"}
    ),
    "signs": "¿añ$x!9)Qw#7zT%k&2Lp»ß-",
    "large": _random(20_000),
}
"""Secrets that are no short words: what people keep."""


def _lines(before: str, after: str = "", width: int = 40) -> Callable[[str], str]:
    return lambda text: "\n".join(f"{before}{text[at : at + width]}{after}" for at in range(0, len(text), width))


BROKEN: dict[str, Callable[[str], str]] = {
    "quoted": _lines("> "),
    "a comment": _lines("# "),
    "a table": _lines("| ", " |"),
    "a table within JSON": lambda text: json.dumps(_lines("│ ", " │")(text)),
    "strings of Python": _lines("'", "'"),
    "colours": lambda text: json.dumps(_lines("\x1b[1;31m", "\x1b[0m")(text)),
    "a list of JSON": lambda text: json.dumps([text[at : at + 20] for at in range(0, len(text), 20)]),
    "small parts": _lines("+ ", width=7),
}


@pytest.mark.parametrize("write", [str, str.lower, str.upper, str.capitalize, str.swapcase])
def test_the_case_of_letters_hides_nothing(write: object) -> None:
    assert callable(write)
    assert KnownSecrets([TOKEN]).mask(f"İ no {write(TOKEN)}, ς") == "İ no ***, ς"
    encoded = base64.b64encode(TOKEN.encode()).decode()
    assert write(encoded)[2:-2].lower() not in KnownSecrets([TOKEN]).mask(f"no {write(encoded)}").lower()


@given(st.text(), st.text(min_size=6), st.text())
def test_a_text_stays_what_it_is_around_a_secret(before: str, secret: str, after: str) -> None:
    places = KnownSecrets([secret]).places(before + secret + after)
    text = before + secret + after
    assert places
    shown, upto = "", 0
    for start, stop in places:
        shown, upto = f"{shown}{text[upto:start]}\0\0\0", stop
    assert secret not in shown + text[upto:] or "\0" in secret
    assert all(one[1] <= other[0] for one, other in pairwise(places))


def test_a_line_shows_no_part_of_one_that_was_broken() -> None:
    """As a log that draws a table at eighty columns has it."""
    known = KnownSecrets([TOKEN, f"-----BEGIN KEY-----\n{'q' * 20}\n-----END KEY-----"])
    lines = (f"ERROR  bad {TOKEN[:21]} │ tool.py:12", f"       {TOKEN[21:]} │")
    assert [known.mask_parts(line) for line in lines] == ["ERROR  bad *** │ tool.py:12", "       *** │"]
    assert [known.mask(line) for line in lines] == list(lines), "each alone shows none"
    ruler = "-" * 30
    assert known.mask_parts(f"{ruler} of 123456 lines {ruler}") == f"{ruler} of 123456 lines {ruler}"
    assert NOTHING_KNOWN.mask_parts("anything") == "anything"


@pytest.mark.parametrize("between", ["|\n| ", "\n> ", "\\\n", "\x1b[0m\n2026-11-30 ERROR ", '" "'])
@pytest.mark.parametrize("encode", [str.encode, base64.b64encode, bytes.hex])
def test_a_token_that_is_broken_by_anything_is_hidden(between: str, encode: object) -> None:
    assert callable(encode)
    shown = encode(TOKEN.encode() if encode is not str.encode else TOKEN)
    text = shown if isinstance(shown, str) else shown.decode()
    known = KnownSecrets(
        [TOKEN, "-----BEGIN KEY-----\nqqq words of a key\n-----END KEY-----", "https://host.example/path"]
    )
    masked = known.mask_broken(f"bad {text[:20]}{between}{text[20:]} here")
    assert not any(text[at : at + 8] in masked for at in range(len(text) - 7))
    assert known.mask_broken("words of a key at https://host.example/x") == "words of a key at https://host.example/x"


@pytest.mark.parametrize("secret", LONG)
@pytest.mark.parametrize("way", BROKEN)
@pytest.mark.parametrize("encode", [str, lambda text: base64.b64encode(text.encode()).decode()], ids=["", "base64"])
def test_any_secret_that_is_broken_is_hidden(secret: str, way: str, encode: Callable[[str], str]) -> None:
    """However long it is, with spaces, a URL, or lines of its own."""
    shown = encode(LONG[secret])
    masked = KnownSecrets([LONG[secret]]).mask_broken(f"before\n{BROKEN[way](shown)}\nafter")
    assert masked.startswith("before\n")
    assert masked.endswith("\nafter")
    left = [shown[at : at + 7] for at in range(len(shown) - 6) if shown[at : at + 7] in masked]
    assert not left


@pytest.mark.parametrize("secret", ["jwt", "bearer", "key", "json", "large"])
def test_a_long_part_of_a_token_is_hidden_alone(secret: str) -> None:
    """Words stand between them, or nothing follows."""
    known, text = KnownSecrets([LONG[secret]]), LONG[secret].replace("\n", "")
    masked = [known.mask_broken(f"line {at}: {text[at : at + 30]}") for at in range(30, len(text) - 30, 30)]
    assert all(text[at + 5 : at + 25] not in line for at, line in zip(range(30, len(text), 30), masked, strict=False))
    assert sum("***" in line for line in masked) >= len(masked) - 2, "but the words of a key's file"


def test_a_secret_in_elements_of_a_list_is_hidden_in_each() -> None:
    known = KnownSecrets(LONG.values())
    parts = ["before", "", "correct ho", "rse batt", "", "ery staple, and", " some 9 more", "after"]
    assert known.mask_all_broken(parts) == ["before", "", "***", "***", "", "***", "***", "after"]
    assert known.mask_all_broken(["a correct horse", "no battery"]) == ["a correct horse", "no battery"]
    assert NOTHING_KNOWN.mask_all_broken(["a", ""]) == ["a", ""]


@pytest.mark.parametrize(
    "text",
    [
        "a correct horse has a battery, and a staple too",
        "type: service_account, with a private_key, see https://accounts.example.com/docs",
        "postgres://somebody@db.example.org/y",
        "a private key, in PEM",
        "Authorization: Bearer is meant",
        "-" * 80,
        "A" * 80,
    ],
)
def test_words_that_a_secret_has_too_stay(text: str) -> None:
    assert KnownSecrets(LONG.values()).mask_broken(text) == text


@pytest.mark.parametrize("between", ["\n", "\r\n  ", " │\n│ ", "\\n", " "])
def test_a_secret_that_is_broken_in_two_is_hidden_whole(between: str) -> None:
    known = KnownSecrets([TOKEN])
    assert known.mask(f"bad {TOKEN[:20]}{between}{TOKEN[20:]} here") == "bad *** here"


@pytest.mark.parametrize("sign", [":", r"\x"])
def test_hexadecimal_digits_between_signs_and_a_form_of_a_browser_show_none(sign: str) -> None:
    known = KnownSecrets(["pass phrase/1"])
    assert known.mask("a=pass+phrase%2F1&b=2") == "a=***&b=2"
    digits = sign.join(f"{byte:02x}" for byte in b"pass phrase/1")
    assert "70" not in known.mask(f"got {sign if sign != ':' else ''}{digits}.")


def test_what_is_short_or_empty_hides_nothing() -> None:
    assert KnownSecrets(["", "abc"]).mask("abc") == "abc"
    assert not KnownSecrets(["", "abc"])
    assert NOTHING_KNOWN.mask("anything") == "anything"
    assert TOKEN not in repr(KnownSecrets([TOKEN]))


def test_a_long_text_is_searched_in_time_linear_in_its_length() -> None:
    known = KnownSecrets([TOKEN])
    coded = base64.b64encode(TOKEN.encode()).decode()
    assert_cost_grows_as_size(lambda size: known.mask_parts(f"{TOKEN} {coded[:20]} word\n" * size), 500)
    assert_cost_grows_as_size(lambda size: known.mask(f"{TOKEN} {coded[:20]}\n{coded[20:]} word\n" * size), 500)
    known = KnownSecrets(LONG.values())
    for text in ("a|", "\n", "\\", "\x1b[", LONG["jwt"][:11], f"{LONG['key'][70:90]}\n", "A", "correct horse "):
        assert_cost_grows_as_size(lambda size, text=text: known.mask_broken(text * size), 5_000)  # type: ignore[misc]
    part = LONG["jwt"][:20]
    assert_cost_grows_as_size(lambda size: known.mask_all_broken([part, LONG["jwt"][20:40], "no"] * size), 1_000)
