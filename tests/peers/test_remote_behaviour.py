"""What remotes answer, and what they do behind our back: told apart in any locale, never believed twice."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.hubs import bare, branches, clone, commit, git, identify, push, tip, try_git
from tests.support.proxy import NONE, Fault, proxy
from tests.support.servers import git_daemon, http_backend, stalled_server
from tests.support.world import Node, World, is_in_main

LOCALES: dict[str, dict[str, str]] = {
    "plain": {},
    "german": {"LC_ALL": "C.UTF-8", "LANG": "de_DE.UTF-8", "LANGUAGE": "de"},
}


def refuse_pushes(repo: Path) -> Path:
    """A host that says no to main: a hook, in words of its own."""
    hook = repo / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'Regel 7: nein' >&2\nexit 1\n")
    hook.chmod(0o755)
    return hook


@pytest.mark.sliced(2)
@pytest.mark.parametrize("locale", LOCALES)
def test_rejected_and_unknown_are_told_apart_in_any_locale(
    world: World, tmp_path: Path, locale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LOCALES[locale].items():
        monkeypatch.setenv(name, value)
    said = try_git(tmp_path, "rev-parse", "--verify", "nothing").stderr.decode()
    if locale == "german" and "fatal" in said:
        pytest.skip("git's translations are not installed, or the locale C.UTF-8 is not there")
    with ExitStack() as stack:
        served = stack.enter_context(http_backend(tmp_path / "host"))
        before = stack.enter_context(proxy(urlsplit(served.base).port or 0))
        home = bare(served.path("sigma"))
        sigma = world.hub("sigma", url=f"http://127.0.0.1:{before.port}/sigma.git", home=home)
        notes = sigma.root / ".git/cn/push"
        was = tip(home, "main")

        hook = refuse_pushes(home)
        rejected = sigma.cn("daily", check=1)
        assert "did not take main" in rejected.stderr
        assert tip(home, "main") == tip(sigma.root, "main") == was
        assert list(notes.glob("*")) == [], "it was told no: nothing can arrive any more"
        hook.unlink()

        before.fault = Fault("cut", push=0)
        unknown = sigma.cn("daily", check=1)
        assert "✓" not in unknown.stdout + unknown.stderr
        assert tip(home, "main") == tip(sigma.root, "main") == was
        assert len(list(notes.glob("*"))) == 1, "nobody knows: the note stays until origin was asked"

        before.fault = Fault("deaf", deaf=True)
        done = sigma.cn("daily")
        assert "✓" in done.stderr
        assert tip(home, "main") == tip(sigma.root, "main") != was
        before.fault = NONE
        sigma.sync()
        names = git(home, "ls-tree", "--name-only", "main", "threads/reflections/daily/").splitlines()
        assert len([n for n in names if n.endswith(".md")]) == 1, names


def test_twenty_peers_of_which_six_hang_and_the_rest_arrives_in_time(world: World, tmp_path: Path) -> None:
    seconds, silent = 4, 6
    with ExitStack() as stack:
        (tmp_path / "peers").mkdir()
        served = stack.enter_context(git_daemon(tmp_path / "peers", tmp_path))
        port, connected = stack.enter_context(stalled_server())
        sigma = world.hub("sigma", config=f"mailbox_trusted: true\nlimits:\n  peer_seconds: {seconds}\n")
        seed = clone(sigma.home, tmp_path / "seed")
        identify(seed, "peer")
        text = (sigma.root / "state/peers.md").read_text()
        at = text.rindex("```")
        rows = ""
        for number in range(20):
            name = f"peer{number:02}"
            url = f"git://127.0.0.1:{port}/{name}.git" if number % 3 == 1 and number < 18 else served.repo(name)
            if not url.startswith(f"git://127.0.0.1:{port}/"):
                git(seed, "checkout", "-q", "-B", "offer", "origin/main")
                commit(seed, {f"docs/{name}.md": name}, name)
                push(seed, served.path(name), "origin/main:refs/heads/main", "HEAD:refs/heads/sigma/offer")
            rows += f'- name: {name}\n  hub: "{url}"\n  deliver: pickup\n'
        sigma.write({"state/peers.md": text[:at] + rows + text[at:]}, "twenty peers")
        sigma.cn("status")
        done = sigma.sync(check=1)
        assert connected() == silent
        assert len(sigma.threads()) == 20 - silent
        assert done.stderr.count("is unreachable: no answer within the time limit") == silent
        assert connected.at_once > 1, "the silent ones were waited for one by one"
        sigma.sync()
        assert connected() <= 2 * silent


def test_an_origin_whose_main_went_back_is_refused_until_it_is_whole_again(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    before = tip(sigma.home, "main~1")
    git(sigma.home, "update-ref", "refs/heads/main", before)
    for words in (("sync",), ("inbox", "process"), ("send", "pi", "x")):
        done = sigma.cn(*words, check=1)
        assert "rewound" in done.stderr
        assert "refs/cn/rescue/" in done.stderr
    (rescue,) = [ref for ref in sigma.refs() if ref.startswith("refs/cn/rescue/")]
    git(sigma.root, "push", "-q", f"--force-with-lease=main:{before}", "origin", f"{rescue}:refs/heads/main")
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    world.settle(pi, sigma)
    sigma.idle()


def test_a_peers_hub_that_is_deleted_and_made_anew_gets_its_mail_once(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    away = pi.home.with_name("away.git")
    pi.home.rename(away)
    sigma.decide("pi/proposal", "delete:no", check=1)
    bare(pi.home)
    git(pi.root, "push", "-q", "origin", "main")
    sigma.cn("outbox", "flush")
    sigma.cn("outbox", "flush")
    assert sorted(branches(pi.home)) == ["main", "sigma/notice-proposal"]
    rows = [r for r in sigma.rows() if r[1] == "notice:discarded"]
    assert [r[2] for r in rows] == ["queued", "✓ delivered"]


def test_a_peer_that_deletes_our_message_does_not_get_it_again(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "hello")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/hello")
    assert "our sigma/hello is gone at pi" in sigma.sync(check=1).stderr
    for _ in range(2):
        sigma.sync()
        sigma.process()
    assert sorted(branches(pi.home)) == ["main"]
    assert [r[2] for r in sigma.rows() if r[2] == "✓ delivered"] == ["✓ delivered"]


def test_a_peer_that_moved_is_asked_at_once_at_its_new_address(sigma: Node, pi: Node) -> None:
    there = pi.home.rename(pi.home.with_name("moved.git"))
    for _ in range(3):
        sigma.cn("send", "pi", "Hello", check=None)
        sigma.cn("sync", check=None)
    assert "next try in" in sigma.cn("status").stdout
    sigma.cn("peer", "remove", "pi", check=0)
    sigma.cn("peer", "add", "pi", str(there), check=0)
    assert "✓ delivered" in sigma.sync().stdout
    assert "next try in" not in sigma.cn("status").stdout


def test_a_host_that_hangs_is_waited_for_once_and_by_who_writes_to_it(world: World) -> None:
    with stalled_server() as (port, connected):
        sigma, pi = world.hub("sigma", config="limits:\n  peer_seconds: 2\n"), world.hub("pi")
        sigma.cn("peer", "add", "pi", str(pi.home))
        sigma.cn("peer", "add", "three", f"git://127.0.0.1:{port}/three.git", check=None)
        sigma.cn("send", "three", "One", check=None)
        before = connected()
        assert before
        for text in ("Two", "Three"):
            assert "✓ delivered" in sigma.cn("send", "pi", text, check=None).stdout
        assert connected() == before
        assert "next try in" in sigma.cn("status", check=None).stdout

        sigma.cn("send", "three", "Four", check=None)
        assert connected() > before
        before = connected()
        sigma.cn("send", "pi", "Five", check=None)
        assert connected() == before
        sigma.cn("outbox", "flush", check=None)
        assert connected() > before


def test_the_proxy_of_a_remote_is_used_for_every_connection_to_it(world: World, sigma: Node, pi: Node) -> None:
    """``remote.<name>.proxy`` (git-config(1)): only through it is there a host of that name."""
    world.propose(pi, sigma)
    with http_backend(sigma.home.parent) as served:
        git(sigma.root, "remote", "set-url", "origin", f"http://git.invalid/{sigma.home.name}")
        assert "git.invalid" in sigma.cn("sync", check=1).stderr
        git(sigma.root, "config", "remote.origin.proxy", served.base)
        given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ada"}
        assert "received pi/proposal" in sigma.cn("sync", env=given).stdout
        assert tip(sigma.home, "main") == tip(sigma.root, "main")
        assert git(sigma.root, "log", "-1", "--format=%cn") == "Ada", "what is given this way stays"
        assert sigma.cn("sync").stdout == "", "an idle run asks in a way of its own"
