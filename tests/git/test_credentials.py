"""What a host says back of what it was given to let us in: no password and no token of a URL is shown or kept."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote

import pytest

from cn.git.credentials import known_secrets
from cn.git.process import Git, GitConfig, Setting
from cn.git.repository import read_config
from tests.support.echo_server import echoing
from tests.support.hubs import git
from tests.support.world import World

PASSWORD = "p@ss-w0rd-4711xyz"
PAIR = base64.b64encode(f"sigma:{PASSWORD}".encode()).decode()
URL = f"http://sigma:{quote(PASSWORD)}@127.0.0.1"


def test_a_password_that_a_host_says_back_is_shown_and_kept_nowhere(world: World) -> None:
    sigma = world.hub("sigma")
    with echoing() as port:
        git(sigma.root, "remote", "set-url", "origin", f"{URL}:{port}/hub.git")
        told = ""
        for words in (("sync",), ("send", "sigma-two", "x"), ("status",), ("doctor",)):
            done = sigma.cn(*words, check=None)
            told += done.stdout + done.stderr
    assert "denied for ***" in told
    kept = (sigma.root / ".git/cn/local.json").read_text()
    for secret in (PASSWORD, quote(PASSWORD), PAIR.rstrip("="), "4711xyz"):
        assert secret not in told
        assert secret not in kept


WAYS = {
    "url": lambda host, home: f"http://sigma:{quote(PASSWORD)}@{host}/x.git",
    "insteadOf": lambda host, home: _configured(
        home, f"url.http://sigma:{quote(PASSWORD)}@{host}/.insteadOf", f"http://{host}/"
    ),
    "basic": lambda host, home: _configured(home, "http.extraHeader", f"Authorization: Basic {PAIR}"),
    "bearer": lambda host, home: _configured(
        home, f"http.http://{host}/.extraHeader", f"Authorization: Bearer {PASSWORD}"
    ),
    "cookie": lambda host, home: _configured(home, "http.extraHeader", f"Cookie: a=b; session={PASSWORD}"),
    "netscape": lambda host, home: _with_cookies(host, home, f"127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\t{PASSWORD}\n"),
    "netrc": lambda host, home: _with_netrc(home, f"machine 127.0.0.1 login sigma password {PASSWORD}\n"),
}


def _configured(home: Path, key: str, value: str) -> str:
    git(home, "config", "--global", key, value)
    return ""


def _with_cookies(host: str, home: Path, text: str) -> str:
    (home / "cookies").write_text(text)
    return _configured(home, "http.cookieFile", "~/cookies")


def _with_netrc(home: Path, text: str) -> str:
    (home / ".netrc").write_text(text)
    return ""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("words", ["ls-remote", "fetch", "push", "clone"])
@pytest.mark.parametrize("network", [True, False], ids=["bounded", "plain"])
def test_no_git_shows_what_lets_us_in_wherever_git_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, words: str, network: bool
) -> None:
    """Whoever starts it, and whether or not its configuration was read before."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    git(tmp_path, "init", "-q", "mine")
    with echoing() as port:
        host = f"127.0.0.1:{port}"
        url = WAYS[way](host, tmp_path) or f"http://{host}/x.git"
        more = [":refs/heads/x"] if words == "push" else [str(tmp_path / "new")] if words == "clone" else []
        done = Git(tmp_path / "mine", finds=words == "clone").run(words, "--", url, *more, check=False, network=network)
    said = done.err + done.reason + done.out.decode()
    assert "denied for" in said, said
    assert "***" in said, said
    for secret in (PASSWORD, quote(PASSWORD), PAIR.rstrip("="), "4711xyz"):
        assert secret.lower() not in said.lower()


def test_what_a_host_says_of_a_push_holds_no_token_of_the_configuration(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text(
        "#!/bin/sh\necho '!\\tx:refs/heads/x\\t[remote rejected] (no, ghp_token4711)'; echo no >&2; exit 1\n"
    )
    program.chmod(0o755)
    settings = (
        Setting("local", "url.https://ghp_token4711@host/.insteadof", "https://host/"),
        Setting("local", "http.extraheader", "Authorization: Bearer abcdef123"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=":")
        done = Git(tmp_path, config=GitConfig(settings)).run("push", "--", "https://host/x", check=False, network=True)
    assert b"ghp_token4711" not in done.out
    assert b"(no, ***)" in done.out


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("https://user:secret-word@host/x", ["secret-word", "user:secret-word"]),
        ("https://token-of-mine@host/x", ["token-of-mine"]),
        ("https://u:a%40bcdefg@host/x", ["a%40bcdefg", "a@bcdefg"]),
        ("worker:Pr0xyPassw0rd@127.0.0.1:3128", ["Pr0xyPassw0rd", "worker:Pr0xyPassw0rd"]),
        ("maintainers@host:x", []),
        ("ssh://maintainers@host/x", []),
        ("https://host/a@b", []),
        ("/srv/a@b", []),
    ],
)
def test_the_credentials_of_urls(url: str, hidden: list[str]) -> None:
    secrets = known_secrets([url], [], {})
    for one in hidden:
        coded = base64.b64encode(one.encode()).decode().rstrip("=")
        shown = secrets.mask(f"<{one}> <{coded}>")
        assert shown.startswith("<***> <***")
        assert len(shown) < len("<***> <***>") + 4, "what also another word's letters decide may stay"
    assert bool(secrets) == bool(hidden)


@pytest.mark.parametrize("where", ["http.proxy", "http_proxy", "all_proxy"])
def test_the_password_of_a_proxy_that_says_it_back_is_not_shown(tmp_path: Path, where: str) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho 'remote: no, worker:Pr0xyPassw0rd' >&2; exit 1\n")
    program.chmod(0o755)
    proxy = "http://worker:Pr0xyPassw0rd@127.0.0.1:1"
    settings = (Setting("local", where, proxy),) if "." in where else ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=":")
        if not settings:
            patch.setenv(where, proxy)
        done = Git(tmp_path, config=GitConfig(settings)).run("ls-remote", "http://host/x", check=False, network=True)
    assert "Pr0xyPassw0rd" not in done.err
    assert "***" in done.err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("http.proxy", "http://worker:Pr0xyPassw0rd@127.0.0.1:1"),
        ("http.https://host/.proxy", "worker:Pr0xyPassw0rd@127.0.0.1:1"),
        ("remote.origin.proxy", "http://worker:Pr0xyPassw0rd@127.0.0.1:1"),
        ("http.https://host/.extraHeader", "Authorization: Bearer Pr0xyPassw0rd"),
        ("http.cookieFile", "/home/us/cookies"),
    ],
)
def test_what_git_is_told_to_send_is_known_from_its_configuration(tmp_path: Path, key: str, value: str) -> None:
    """What is masked is what is asked for: a setting that nobody reads would be shown."""
    git(tmp_path, "init", "-q", "mine")
    git(tmp_path / "mine", "config", key, value)
    found = read_config(Git(tmp_path / "mine"))
    assert value in [setting.value for setting in found.settings]
