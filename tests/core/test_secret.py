"""What looks like a secret is found by form, named without being shown, and loaded for no other text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hubs import ROOT

from cn.core.secret import Text, may_hold, refuse
from cn.shell.secrets import find_secrets

SECRETS = {
    "AWS Access Key": "AKIAIOSFODNN7EXAMPLE",
    "GitHub Token": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "Private Key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "Basic Auth Credentials": "https://user:hunter2pass@git.example.org/x",
    "Anthropic API Key": "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789",
    "Telegram Bot Token": "123456789:AAabcdefghijklmnopqrstuvwxyz0123456",
    "Slack Token": "xoxb-123456789012-123456789012-abcdefghijklmnopqrstuvwx",
    "GitLab Token": "glpat-abcdefghijklmnopqrst",
}
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


def test_an_ordinary_text_does_not_load_the_detector() -> None:
    code = (
        "import sys; from cn.core.secret import Text; from cn.shell.secrets import find_secrets; "
        f"find_secrets([Text('x', ({PLAIN[0]!r}, {PLAIN[1]!r}, 'Hello, how are you?'))]); "
        "sys.exit('detect_secrets' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)
    assert not may_hold(Text("x", ("Hello, how are you?",)))


def test_a_very_long_line_takes_no_time() -> None:
    assert find_secrets([Text("x", ("a1" * 500_000,))]) == []
