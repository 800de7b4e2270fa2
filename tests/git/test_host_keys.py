"""A host whose key is another: the useful half of what ssh says is told, and what to type."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cn.git.host_keys import remedy_of_changed_key, told_of_changed_key
from tests.support.hubs import bare, make_ssh_key
from tests.support.servers import serve
from tests.support.world import World


def test_a_changed_host_key_is_told_with_what_to_ask_and_to_type(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve("ssh", tmp_path / "host", tmp_path / "scratch") as served:
        for name, value in served.env.items():
            monkeypatch.setenv(name, value)
        sigma = world.hub("sigma", url=served.url("sigma"), home=bare(served.path("sigma")))
        known = tmp_path / "scratch/known_hosts"
        good = known.read_text()
        _, public = make_ssh_key(tmp_path / "another")
        host = good.split(" ")[0]
        known.write_text(f"{host} {' '.join(public.split(' ')[:2])}\n")
        for command in ("sync", "status", "doctor"):
            done = sigma.cn(command, check=None)
            told = " ".join((done.stdout + done.stderr).split())
            assert "@@@" not in told
            assert f"the key of the host {host} has changed: its ED25519 key is now SHA256:" in told
            assert "ask who runs it whether its fingerprint is SHA256:" in told
        (words,) = set(re.findall(r"'(ssh-keygen .*?)' forgets the old key", told))
        subprocess.run(shlex.split(words), check=True, capture_output=True)
        known.write_text(known.read_text() + good)
        sigma.sync()


def test_no_words_of_a_host_become_a_command() -> None:
    said = [
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
        "SHA256:abc.",
        "Offending ED25519 key in /tmp/a b;touch x:3",
        "Host key for $(touch,y) has changed and you have requested strict checking.",
    ]
    remedy = remedy_of_changed_key(told_of_changed_key(said))
    (words,) = re.findall(r"'(ssh-keygen .*)' forgets", remedy)
    assert shlex.split(words) == ["ssh-keygen", "-f", "/tmp/a b;touch x", "-R", "$(touch,y)"]


@pytest.mark.parametrize("lost", range(4))
def test_what_ssh_says_otherwise_is_told_as_it_is(lost: int) -> None:
    said = [
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
        "SHA256:abc.",
        "Offending ED25519 key in /h/known_hosts:3",
        "Host key for h has changed and you have requested strict checking.",
    ]
    assert told_of_changed_key(said[:lost] + said[lost + 1 :]) == ""
    assert remedy_of_changed_key("it does not answer") == ""
