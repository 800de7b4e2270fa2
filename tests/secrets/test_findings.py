"""What looks like a secret is found by form, named without being shown, and loaded for no other text."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.protocol.hub_config import HubConfig, parse_config
from cn.run.secret_gate import mask_file
from cn.run.settings import Settings
from cn.secrets import scanner
from cn.secrets.findings import quoted_here, refuse, texts_of_change
from cn.secrets.scanner import MASK, OUR_KEY, Text, find_secrets, mask_secrets, mask_typed, may_hold, text_of
from cn.values.known_secrets import NOTHING_KNOWN
from cn.values.names import HubPath, Name
from tests.support.growth import assert_cost_grows_as_size
from tests.support.hubs import ROOT

SECRETS = {
    "AWS Access Key": "AKIAIOSFODNN7EXAMPLE",
    "GitHub Token": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "Private Key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "Basic Auth Credentials": "https://user:hunter2pass@git.example.org/x",
    "Anthropic API Key": "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789",
    "Telegram Bot Token": "123456789:AAabcdefghijklmnopqrstuvwxyz0123456",
    "Slack Token": "xoxb-123456789012-123456789012-abcdefghijklmnopqrstuvwx",
    "GitLab Token": "glpat-abcdefghijklmnopqrst",
    "AWS Secret Key": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "NPM tokens": "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "DigitalOcean Token": "dop_v1_" + "3b9f2c8e7d6a5b4c" * 4,
    "OpenAI Token": "sk-proj-" + "aB3dE5fG7hJ9kL1mN2pQ" * 5,
    "Age Secret Key": "AGE-SECRET-KEY-1" + "QPZRY9X8GF" * 5 + "2TVDW0S3",
    "Hugging Face Token": "hf_" + "aBcDeFgHiJkLmNoPq" * 2,
    "JSON Web Token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9Pl",
}
OPENED = "-----BEGIN OPENSSH PRIVATE KEY-----"
CLOSED = "-----END OPENSSH PRIVATE KEY-----"
ONE, TWO = (f"{OPENED}\n{body}\n{CLOSED}" for body in ("AAAA", "BBBB"))
OLD_OPENAI = "sk-" + "aB3dE5fG7hJ9" * 4
TEXTS = (".md", ".py", ".yaml", ".toml", ".sh")
PLAIN = [
    "commit 3f2a9c1be04d7f6582a1c0d94be7f0386d5512aa in 20260205-pi-proposal.md",
    "**Signature:** verified SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGp0YmFyAAAAC3NzaC1lZDI1NTE5AAAA pi@example.org",
    "password: hunter2, see https://git.example.org/pi/hub.git?ref=main#L12",
    "the branch grüße-日本-feature-2026 at https://***@git.example.org/x",
]


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_found_in_its_line_and_not_shown(kind: str) -> None:
    secret = SECRETS[kind]
    found = find_secrets([Text("a.md", ("first", f"it is {secret} here", "last"))])
    assert [(one.where, one.line, one.kind) for one in found] == [("a.md", 2, kind)]
    refusal = refuse(found, ())
    assert refusal is not None
    assert secret not in f"{refusal}{found}"
    assert refuse(found, {found[0].fingerprint}) is None


def test_the_remedy_is_the_line_that_hub_yaml_gets() -> None:
    found = find_secrets([Text("a.md", (SECRETS["GitHub Token"],))])
    refusal = refuse(found, ("1a5d44a2dca19669",))
    assert refusal is not None
    line = refusal.remedy.split("'")[1]
    config = parse_config(f"name: sigma\n{line}\n")
    assert config.allowed_secrets == ("1a5d44a2dca19669", found[0].fingerprint)


@pytest.mark.parametrize(
    "line",
    [
        "AKIAIOSFODNN7EXAMPLE  # pragma: allowlist secret",
        "aws_access_key_id: AKIAIOSFODNN7EXAMPLE",
        "key = connect(AKIAIOSFODNN7EXAMPLE)",
    ],
)
def test_what_stands_beside_a_secret_does_not_let_it_pass(line: str) -> None:
    assert [one.kind for one in find_secrets([Text("a.md", (line,))])] == ["AWS Access Key"]


@pytest.mark.parametrize("line", PLAIN)
def test_what_people_write_is_no_secret(line: str) -> None:
    assert find_secrets([Text("a.md", (line,))]) == []


def test_a_key_of_this_hub_is_one_whatever_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_KEY", "correct horse battery")
    found = find_secrets([Text("a.md", ("it is correct horse battery",))])
    assert [one.kind for one in found] == ["a key of this hub"]


@pytest.mark.parametrize("before", ["", "a", "ab"])
@pytest.mark.parametrize(
    "write",
    [
        str.lower,
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
        lambda text: base64.encodebytes(text.encode()).decode(),
        lambda text: quote(text, safe=""),
        json.dumps,
    ],
    ids=["lower", "hex", "HEX", "base64", "urlsafe", "broken", "url", "json"],
)
def test_a_key_of_this_hub_is_found_and_masked_however_it_is_written(
    monkeypatch: pytest.MonkeyPatch, before: str, write: Callable[[str], str]
) -> None:
    key = "Gateway?7f31\\C9a2:b8D4/e6f0~" * 4
    monkeypatch.setenv("ANTHROPIC_KEY", key)
    text = Text("a.md", ("first", *write(before + key).split("\n")))
    found = find_secrets([text])
    assert {one.kind for one in found} == {OUR_KEY}
    masked, _ = mask_secrets(text, ())
    assert masked[:2] == ["first", MASK]
    assert not [line for line in masked[1:] if len(line) > 8 and line != MASK]
    assert find_secrets([Text("a.md", tuple(masked))]) == []


def test_an_ordinary_text_does_not_load_the_detector() -> None:
    code = (
        "import sys; from cn.secrets.scanner import Text, find_secrets; "
        f"find_secrets([Text('x', ({PLAIN[0]!r}, {PLAIN[1]!r}, 'Hello, how are you?'))]); "
        "sys.exit('detect_secrets' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)
    assert not may_hold(Text("x", ("Hello, how are you?",)))


def test_a_very_long_line_takes_no_time() -> None:
    assert find_secrets([Text("x", ("a1" * 500_000,))]) == []


@pytest.mark.parametrize(
    "line",
    [
        "git clone https://USER:TOKEN@host/x.git",
        "git clone https://user:YOUR-TOKEN@host/x.git",
        "git clone https://user:<token>@host/x.git",
        "git clone https://user:…@host/x.git",
        "git clone https://user:xxx@host/x.git",
        "git clone https://***:***@host/x.git",
        "export ANTHROPIC_KEY=sk-ant-…",
        "export OPENAI_API_KEY=sk-" + "x" * 48,
        "export OPENAI_API_KEY=" + OLD_OPENAI[:30] + "…",
        "export ANTHROPIC_KEY=sk-ant-api03-1a2B3c4D5e6F7g8H9i0J…",
        "export ANTHROPIC_KEY=sk-ant-your-key-goes-here-please",
        "export ANTHROPIC_KEY=sk-ant-api03-xxxxxxxxxxxxxxxxxxxxxxxx",
        "AKIAXXXXXXXXXXXXXXXX",
        "export OPENAI_API_KEY=sk-proj-your-key-goes-here-please",
        "export OPENAI_API_KEY=sk-proj-1a2B3c4D5e6F7g8H9i0J1k2L…",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        '"ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",',
    ],
)
def test_what_shows_where_a_secret_would_stand_is_none(line: str) -> None:
    assert find_secrets([Text("a.md", (line,))]) == []


@pytest.mark.parametrize(
    "line",
    [
        "https://USER:T0KEN@host/x.git",
        "https://USER:Token@host/x.git",
        "https://USER:TOKEN@host https://bob:hunter2@host",
        "https://user:xxy@host/x.git",
        "sk-ant-api03-" + "1a2B3c4D5e" * 9 + "…",
        "sk-ant-api03-1a2B3c4D5e6F7g8H9i0J",
        "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
        "AKIAXXXXXXXX7EXAMPLE",
        "AKIAQWERTYUIOPASDFGH",
        "the key ASIAQWERTYUIOPASDFGH.",
        "sk-svcacct-" + "aB3dE5fG7hJ9kL1mN2pQ" * 5,
        "doo_v1_" + "3b9f2c8e" * 8,
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx or ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789...",
    ],
)
def test_what_only_resembles_a_placeholder_is_a_secret(line: str) -> None:
    assert find_secrets([Text("a.md", (line,))]) != []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS Secret Key"),
        ('"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"', "AWS Secret Key"),
        (r"aws\_secret\_access\_key: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS Secret Key"),
        (r"ghp\_abcdefghijklmnopqrstuvwxyz0123456789", "GitHub Token"),
        (r"glpat\-abcdefghij\_klmnopqrs", "GitLab Token"),
        (r"sk\-ant\-api03\-abcdefghijklmnopqrstuvwxyz0123456789", "Anthropic API Key"),
        (f"Authorization: Bearer {SECRETS['JSON Web Token']}", "JSON Web Token"),
        (f"OPENAI_API_KEY={OLD_OPENAI}", "OpenAI Token"),
        (f"it was {OLD_OPENAI}...", "OpenAI Token"),
        (f"it was sk-{OLD_OPENAI[3:23]}T3BlbkFJ{OLD_OPENAI[3:23]}…", "OpenAI Token"),
        ("PuTTY-User-Key-File-3: ssh-ed25519", "Private Key"),
        ("Private-Lines: 1", "Private Key"),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "Private Key"),
    ],
)
def test_other_spellings_are_found_too(line: str, kind: str) -> None:
    assert kind in [one.kind for one in find_secrets([Text("a.md", (line,))])]


@pytest.mark.sliced(3)
@pytest.mark.parametrize("folder", ["docs", "README.md", "CHANGELOG.md", "hub-template", "cn", "demo"])
def test_our_own_pages_and_programs_hold_none(folder: str) -> None:
    place = ROOT / folder
    files = [place] if place.is_file() else [p for p in place.rglob("*") if p.suffix in TEXTS]
    assert files
    texts = [Text(str(p), tuple(p.read_text("utf-8").split("\n"))) for p in files]
    assert find_secrets(texts) == []


def masked(text: str, allowed: tuple[str, ...] = ()) -> str:
    return "\n".join(mask_secrets(Text("a.md", tuple(text.split("\n"))), allowed)[0])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"r: ID|{SECRETS['GitHub Token']}, twice: {SECRETS['GitHub Token']}.", "r: ***"),
        (f'{{"text": "one\\n{SECRETS["AWS Access Key"]}\\ntwo"}}', "***"),
        (f"before\nsee {SECRETS['Basic Auth Credentials']} there\nafter", "before\n***\nafter"),
        ("a\n-----BEGIN PRIVATE KEY-----\nMI\n\n-----END PRIVATE KEY-----\nb", "a\n***\n***\n***\n***\nb"),
        ("a -----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY----- b\nc", "***\nc"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nMIIE\nno end", "***\n***\n***"),
        (f"two {SECRETS['AWS Access Key']}{SECRETS['GitHub Token']}", "***"),
        (f"{SECRETS['GitHub Token']}: x", "***"),
        (f"{SECRETS['AWS Access Key']}: x", "***"),
        (f"# {SECRETS['GitHub Token']}\n\n**Head:** {SECRETS['GitHub Token']}", "# ***\n\n**Head:** ***"),
        (f"## on {SECRETS['GitHub Token']}\n- x {SECRETS['GitHub Token']}", "## ***\n- ***"),
        (f"refused: valid-name: x {SECRETS['GitHub Token']}", "refused: valid-name: ***"),
        (f"Why: {SECRETS['GitHub Token']}\nrefused: {SECRETS['GitHub Token']}", "Why: ***\nrefused: ***"),
        ("nothing\nhere", "nothing\nhere"),
        (r"it is ghp\_abcdefghijklmnopqrstuvwxyz0123456789, see", "***"),
        ("a\nPrivate-Lines: 1\nAAAA\nPrivate-MAC: 00ff\nb", "a\n***\n***\n***\nb"),
        (f"{ONE}, {TWO} c\nd", "***\n***\n***\n***\n***\nd"),
        (f"{ONE.replace(chr(10), ' ')}, {TWO} c\nd", "***\n***\n***\nd"),
    ],
)  # fmt: skip
def test_what_is_found_is_masked_and_nothing_else(text: str, left: str) -> None:
    left = left.replace("***", MASK)
    assert masked(text) == left
    assert masked(left) == left


def test_what_an_error_quotes_of_typed_words_is_masked_word_by_word() -> None:
    token = SECRETS["GitHub Token"]
    assert mask_typed(f"no such command: {token[:12]}", ["x", token]) == f"no such command: {MASK}"
    assert mask_typed("no such command: x", ["x", token]) == "no such command: x"
    key = "-----BEGIN PRIVATE KEY-----\nMIIE\nAAAA"
    assert "MIIE" not in mask_typed(f"what is\n{key}", [key])


def test_what_is_allowed_is_not_masked() -> None:
    text = f"one {SECRETS['GitHub Token']}\ntwo {SECRETS['AWS Access Key']}"
    first, second = find_secrets([Text("a.md", tuple(text.split("\n")))])
    assert masked(text, (first.fingerprint,)) == f"one {SECRETS['GitHub Token']}\n{MASK}"
    assert masked(text, (first.fingerprint, second.fingerprint)) == text


@settings(max_examples=40)
@given(st.lists(st.sampled_from([*SECRETS.values(), *PLAIN, " ", "\n", '"', "\\", "x", "\udcff", "-----END"])))
def test_after_masking_nothing_is_found(pieces: list[str]) -> None:
    left = masked("".join(pieces))
    assert find_secrets([Text("a.md", tuple(left.split("\n")))]) == []


def test_a_secret_with_a_byte_that_is_no_utf8_is_found() -> None:
    line = "see https://user:\udc80hunter2pass@git.example.org/x"  # as a word of the command line has it
    assert [one.kind for one in find_secrets([Text("a.md", (line,))])] == ["Basic Auth Credentials"]
    assert "hunter2pass" not in masked(line)


PUTTY = "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\nAAAA\nPrivate-MAC: 00ff"


def marks(*texts: str) -> set[str]:
    return {one.fingerprint for one in find_secrets([Text("a.md", tuple(t.split("\n"))) for t in texts])}


@pytest.mark.parametrize(
    "texts",
    [
        *((f"it is {s} here", f"delete:{s}") for kind, s in SECRETS.items() if kind != "Private Key"),
        (SECRETS["GitHub Token"], r"ghp\_abcdefghijklmnopqrstuvwxyz0123456789"),
        (SECRETS["GitHub Token"], f"https://oauth2:{SECRETS['GitHub Token']}@host/x.git"),
        (f"https://{SECRETS['Telegram Bot Token']}@host/x",),
        (f"{OPENED}\nb3Bl\nAAAA\n{CLOSED}\n", f"{OPENED} b3Bl AAAA {CLOSED}"),
        (f"{OPENED}\nb3Bl\nAAAA\n{CLOSED}\n", rf"{OPENED}\nb3Bl\nAAAA\n{CLOSED}"),
        (f"{CLOSED} {OPENED}\nb3Bl", f"x {OPENED}\nb3Bl\nmore"),
        (PUTTY,),
        ("x" * 1_990 + " " + SECRETS["Anthropic API Key"] * 3,),
    ],
)  # fmt: skip
def test_one_secret_has_one_fingerprint_wherever_it_stands(texts: tuple[str, ...]) -> None:
    assert len(marks(*texts)) == 1, find_secrets([Text("", (t,)) for t in texts])
    assert all(marks(text) for text in texts)


def test_two_secrets_have_two() -> None:
    keys = [f"{OPENED}\nb3Bl\n{body}\n{CLOSED}" for body in ("AAAA", "BBBB")]
    assert len(marks(*keys)) == 2
    assert len(marks(f"{OPENED}\nb3Bl", f"{OPENED}\nb3Bm")) == 2
    blocks = [f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{body}" for body in ("AAAA", "BBBB")]
    assert len(marks(*blocks)) == 2
    assert len(marks("https://bob:hunter2pass@a.example.org", "https://bob:hunter2pass@b.example.org")) == 2
    assert len(marks(f"{SECRETS['AWS Access Key']} {SECRETS['GitHub Token']}")) == 2


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}\n{TWO}",
        f'["{ONE}", "{TWO}"]',
        f"{ONE} {TWO}".replace("\n", " "),
        f"{ONE}, ".replace("\n", " ") + TWO,
        f"It begins with {OPENED}\n\nand is:\n{TWO}",
        f"It begins with {OPENED} and is {TWO}",
        f"{PUTTY}\n{PUTTY.replace('AAAA', 'BBBB')}",
    ],
)
def test_each_private_key_is_a_finding_of_its_own(text: str) -> None:
    found = find_secrets([Text("a.md", tuple(text.split("\n")))])
    assert len({one.fingerprint for one in found}) == len(found) == 2


@pytest.mark.parametrize("old", [ONE, f"see {OPENED}\n", f"{OPENED}\n", f"{ONE}\nmore\n{CLOSED}"])
@pytest.mark.parametrize("path", ["threads/adhoc/20260101-a.md", "threads/inbox/20260101-pi-a.md"])
def test_a_key_is_new_though_main_has_its_first_line(path: str, old: str) -> None:
    def found(new: str, *, quoted: bool) -> int:
        if not quoted:
            texts = texts_of_change(HubPath(path), new, old)
        else:
            new, was = (f"> {text}".replace("\n", "\n> ") for text in (new, old))
            texts = [quoted_here(path, new, was)]
        return len(find_secrets(texts))

    for quoted in (False, *([True] if "inbox" in path else [])):
        assert found(f"{old}\nand another line", quoted=quoted) == 0
        assert found(f"{old}\n{TWO}", quoted=quoted) == 1
        assert found(f"{TWO}\n{old}\nand another line", quoted=quoted) == 1


def test_many_keys_in_one_line_cost_what_their_number_is() -> None:
    def find(count: int) -> None:
        text = f"{OPENED} x " * count + CLOSED
        assert len({one.fingerprint for one in find_secrets([Text("x", (text,))])}) == 2
        assert masked(text) == MASK

    assert_cost_grows_as_size(find, 2_000)


def test_many_keys_without_an_end_cost_what_their_number_is() -> None:
    def find(count: int) -> None:
        assert len(find_secrets([Text("x", (OPENED,) * count)])) == count

    assert_cost_grows_as_size(find, 500)


@pytest.mark.parametrize("path", ["state/turn.md", "state/queue/inbox-1.md"])
def test_a_record_keeps_its_values_whatever_a_branch_is_called(path: str) -> None:
    """Masked it would be damaged, and its attempts would never count; its body is masked as ever."""
    key = SECRETS["Anthropic API Key"]
    head = f'---\ncn: turn/1\ntopic: "{key}"\nattempt: "2"\n---\n'
    settings_of_hub = Settings(HubConfig(Name("sigma")), {}, "", False)
    masked, found = mask_file(HubPath(path), f"{head}my key is {key}\n".encode(), settings_of_hub)
    assert masked.decode().startswith(head)
    assert key not in masked.decode().removeprefix(head)
    assert [one.line for one in found] == [6]


@pytest.mark.parametrize("name", ["", "proj-", "my_project-"])
def test_an_older_key_of_openais_is_found_whole_and_what_stands_beside_it_is_not(name: str) -> None:
    key = f"sk-{name}aB3dE5fG7hJ9kL1mN2pQT3BlbkFJQp2Nm1Lk9Jh7Gf5Ed3Ba"
    for text in (key, f"OPENAI={key}.", f"x {key} sk-", f"T3BlbkFJ {key}"):
        found = scanner._search(text_of("a", text), NOTHING_KNOWN)
        hits = [hit for one, hit in found if one.kind == "OpenAI Token"]
        assert key in hits
        assert all(one in key for one in hits)
