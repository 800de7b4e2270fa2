"""A secret that cn knows is found in every spelling that a library or a host may give it."""

from __future__ import annotations

import base64
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.values.known_secrets import NOTHING_KNOWN, KnownSecrets
from tests.support.growth import assert_cost_grows_as_size

TOKEN = "123456789:AAHk3jdhfkjdhKJHkjhKJHkjhasdkjhqwe12"


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
