"""Secrets are taken once, whatever they come from; what is wrong with one is told without it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.server import secrets
from cn.server.machine_tools import Secret, read_settings
from cn.server.secrets import Vault, take_secrets
from cn.values.errors import ConfigError

SECRET = "Tr0ub4dor-and-3"


def test_each_source_gives_its_text_and_a_variable_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}3\n")
    env = {"WORD": f"{SECRET}2", "CREDENTIALS_DIRECTORY": str(tmp_path)}
    vault = take_secrets(
        [
            Secret("one", command=("printf", f"{SECRET}1\\n")),
            Secret("two", env="WORD"),
            Secret("three", file="%d/key"),
            Secret("four", file=str(tmp_path / "key")),
        ],
        env,
    )
    filled = vault.fill("{secret:one} {secret:two} {secret:three} {secret:four} {secret:five}")
    assert filled == f"{SECRET}1 {SECRET}2 {SECRET}3 {SECRET}3 {{secret:five}}"
    assert "WORD" not in env
    assert repr(vault) == "Vault(one, two, three, four)"


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        (Secret("key", command=("true",)), "'key' is empty"),
        (Secret("key", command=("sh", "-c", f"echo {SECRET}; exit 3")), "ended with 3"),
        (Secret("key", command=("sh", "-c", f"echo {SECRET} >&2; exit 1")), "ended with 1"),
        (Secret("key", command=("/no/such/program",)), "cannot be started"),
        (Secret("key", command=("printf", "\\377")), "is no text"),
        (Secret("key", command=("head", "-c", "70000", "/dev/zero")), "longer than 64 KiB"),
        (Secret("key", command=("sleep", "60")), "did not end"),
        (Secret("key", env="NOT_SET"), "is empty"),
        (Secret("key", file="/no/such/file"), "cannot be read"),
        (Secret("key", file="%d/key"), "which systemd gives"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told_by_name_and_shows_nothing(
    secret: Secret, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_SECONDS", 2.0)
    with pytest.raises(ConfigError) as refused:
        take_secrets([secret], {})
    assert words in refused.value.text
    assert refused.value.hint
    assert SECRET not in refused.value.text + refused.value.hint


@settings(max_examples=40)
@given(st.text(min_size=4, max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_text_keeps_a_secret_or_its_form_in_base64(secret: str, before: str, after: str) -> None:
    try:
        encoded = base64.b64encode(secret.encode()).decode()
    except UnicodeEncodeError:
        return
    masked = Vault({"key": secret}).mask(f"{before}{secret}{after}{encoded}")
    assert secret not in masked.replace("***", "\0")
    assert encoded not in masked.replace("***", "\0")


@settings(max_examples=60)
@given(st.text(min_size=12, max_size=40), st.text(max_size=9), st.text(max_size=9), st.booleans())
def test_what_is_encoded_with_words_around_the_secret_does_not_show_it(
    secret: str, before: str, after: str, safe: bool
) -> None:
    """As NAME:SECRET in a header of basic authentication."""
    try:
        whole = f"{before}{secret}{after}".encode()
    except UnicodeEncodeError:
        return
    encode = base64.urlsafe_b64encode if safe else base64.b64encode
    masked = Vault({"key": secret}).mask(encode(whole).decode())
    assert masked.count("***") == 1
    assert len(masked) - 3 <= len(encode(whole)) - len(secret.encode()) * 8 // 6 + 1


def test_a_long_secret_is_hidden_line_by_line_and_inside_values() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASCB\n-----END KEY-----"
    vault = Vault({"key": key, "no": "abc"})
    value = {"a": ["so: kiG9w0BAQEFAASCB", 1, None], key: {"b": "abc"}}
    assert vault.mask_all(value) == {"a": ["so: ***", 1, None], "***": {"b": "abc"}}


def test_parts_of_a_secret_under_one_key_of_an_answer_are_hidden() -> None:
    """Also where each is in a block of its own, as a tool's list of texts comes."""
    dsn = "postgres://someone:some-words-of-mine@db.example.org/x"
    parts = [dsn[at : at + 11] for at in range(0, len(dsn), 11)]
    vault = Vault({"dsn": dsn, "pin": "98765"})
    hidden = ["***"] * len(parts)
    assert vault.mask_all({"result": parts, "n": [98765, 5]}) == {"result": hidden, "n": ["***", 5]}
    blocks = [{"type": "text", "text": part} for part in parts]
    assert vault.mask_all(blocks) == [{"type": "text", "text": "***"} for _ in parts]
    assert vault.mask_all({part: {} for part in parts}) == {"***": {}}
    assert vault.mask_all({"a": {"b": ["x", None, True]}, "c": "y"}) == {"a": {"b": ["x", None, True]}, "c": "y"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\nport = 99999", "server.port: it is 99999"),
        ("[server]\nprot = 1", "server.prot: it is not known"),
        ("[server]\nusers = ['no-such-user-here']", "there is no user 'no-such-user-here'"),
        ("[servers.a]\n", "servers.a: one of argv and url is needed"),
        ("[servers.a]\nargv = ['x']\nurl = 'http://x'", "exactly one"),
        ("[servers.a]\nargv = 'x y'", "servers.a.argv: it is a text"),
        ("[servers.A_b]\nargv = ['x']", "is no name"),
        ("[servers.a]\nargv = ['x']\nenv = {K = '{secret:k}'}", "wants the secret 'k'"),
        ("[secrets]\nk = {env = 'K'}\n[servers.a]\nargv=['x']\ndirect=true\nenv={K='{secret:k}'}", "beside an agent"),
        ("[secrets]\nk = {}", "one of command, env and file"),
        ("[secrets]\nk = 'word'", "secrets.k: it is a text"),
        ("[server", "agency.toml"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "agency.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_settings(path)
    assert words in f"{refused.value.text} {refused.value.hint}"
    assert refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "[secrets]\nkey = '{}'",
        "[secrets]\nkey = ['{}']",
        "[secrets]\nkey = {{command = '{}'}}",
        "[secrets]\nkey = {{token = '{}'}}",
        "[servers.a]\nargv = 'x --token {}'",
        "[servers.a]\nargv = ['x']\nenv = 'KEY={}'",
        "[servers.a]\nurl = 'https://x.example'\nheaders = {{Authorization = ['{}']}}",
        "secrets = '{}'",
    ],
)
def test_a_secret_that_stands_in_the_file_itself_is_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "agency.toml"
    path.write_text(text.format(SECRET))
    with pytest.raises(ConfigError) as refused:
        read_settings(path)
    assert SECRET not in f"{refused.value.text} {refused.value.hint}"


def test_what_the_page_shows_is_read_as_it_says(tmp_path: Path) -> None:
    from tests.support.hubs import ROOT

    page = (ROOT / "docs/agency.md").read_text("utf-8")
    blocks = [part.partition("```")[0] for part in page.split("```toml\n")[1:]]
    ours = [block for block in blocks if "[secrets]" in block or "[server]" in block]
    assert len(ours) == 2
    path = tmp_path / "agency.toml"
    path.write_text("\n".join(ours).replace('["agent"]', '["root"]'))
    found = read_settings(path)
    assert (found.port, found.users) == (8787, (0,))
    assert [one.name for one in found.servers] == ["gmail", "wiki"]
    assert [one.name for one in found.secrets] == ["gmail", "slack", "wiki"]
    assert json.dumps(found.servers[1].headers) == '[["Authorization", "Bearer {secret:wiki}"]]'
    assert read_settings(tmp_path / "nothing").servers == ()


ODD = 'tok"en/é\\Zz93kQ\U0001f511pLw7Tf2Vx'


@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("depth", [1, 2])
def test_what_json_escapes_does_not_show_it(ascii: bool, depth: int) -> None:
    text: object = {"key": ODD}
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=ascii)
    assert isinstance(text, str)
    for said in (text, text.replace("/", "\\/"), re.sub(r"(?<=\\u)\w{4}", lambda hex: hex[0].upper(), text)):
        masked = Vault({"key": ODD}).mask(said)
        assert "Zz93" not in masked
        assert masked.count("***") == 1


@pytest.mark.parametrize("between", ["\n", "\r\n", " ", "\\n", "\\r\\n"])
@pytest.mark.parametrize("width", [1, 4, 7, 76])
def test_base64_that_is_broken_into_lines_does_not_show_it(between: str, width: int) -> None:
    whole = base64.b64encode(f"user:{ODD * 2}x".encode()).decode()
    said = between.join(whole[at : at + width] for at in range(0, len(whole), width))
    masked = Vault({"key": ODD}).mask(f"before {said} behind")
    assert masked.startswith("before ")
    assert masked.endswith(" behind")
    assert "***" in masked
    left = masked.replace(between, "").replace(" ", "")
    core = base64.b64encode(ODD.encode()).decode()[8:-8]
    assert core[:12] not in left
    assert len(left) < len(whole) // 2


def test_a_text_without_a_secret_stays_as_it_is() -> None:
    text = "two words\nand C:\\new\\things " + base64.encodebytes(b"nothing" * 40).decode()
    assert Vault({"key": ODD}).mask(text) == text


@pytest.mark.parametrize(
    ("secret", "number"),
    [
        ("482910573829", 482910573829),
        ("482910573829", -482910573829.0),
        ("482910573829", 9482910573829.5),
        ("004829", 4829),
        ("48291057382912345678", float("48291057382912345678")),
        ("12.3450", 12.345),
    ],
)
def test_a_number_that_shows_a_secret_becomes_a_text(secret: str, number: float) -> None:
    vault = Vault({"pin": secret})
    assert vault.mask_all({"a": [number, 7, True, 0.5, None]}) == {"a": ["***", 7, True, 0.5, None]}


def test_a_secret_of_few_digits_hides_no_ordinary_number() -> None:
    assert Vault({"pin": "0001"}).mask_all([1, 1.0, 10001]) == [1, 1.0, "***"]


@pytest.mark.parametrize("show", [repr, ascii, lambda text: repr(text.encode())])
def test_what_python_shows_of_it_does_not_show_it(show: Callable[[str], str]) -> None:
    secret = "tok'en\\Zz93kQ\n\u00e9pLw7Tf2Vx"
    masked = Vault({"key": secret}).mask(f"input_value={show(secret)}, input_type=str")
    assert "Zz93" not in masked
    assert "Tf2Vx" not in masked
