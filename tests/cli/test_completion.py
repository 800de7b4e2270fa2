"""Shell completion, by the shells themselves: commands, options, threads and peers of a hub."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import ROOT, cn, commit
from tests.support.world import Node, World

SHELLS = ("bash", "zsh", "fish")
"""Seconds within which a person gives up; on a quiet machine it is half a second."""


@pytest.fixture(scope="module")
def sigma(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Node:
    world = World(tmp_path_factory.mktemp("world"), template)
    node, pi = world.hub("sigma"), world.hub("pi")
    world.link(node, pi)
    world.propose(pi, node, "proposal")
    node.sync()
    return node


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder whose ``cn`` is this checkout's."""
    program = tmp_path / "bin" / "cn"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m cn "$@"\n')
    program.chmod(0o755)
    return program.parent


def shell(name: str, script: str, tools: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    words = {"bash": ["--norc", "--noprofile", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}
    return subprocess.run(
        [found, *words[name], script],
        cwd=cwd,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def bash(tools: Path, cwd: Path, *words: str) -> list[str]:
    """What bash offers for the last of ``words``, with our script in force."""
    quoted = " ".join(f"'{w}'" for w in words)
    script = (
        'eval "$(cn completion bash)"\n'
        "complete -p cn >/dev/null || exit 3\n"
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMPREPLY=()\n"
        '_cn_completion cn; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = shell("bash", script, tools, cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_commands(sigma: Node, tools: Path) -> None:
    assert sorted(bash(tools, sigma.root, "cn", "in")) == ["inbox", "init", "input"]
    offered = bash(tools, sigma.root, "cn", "")
    for name in ("init", "inbox", "peer", "sync", "send", "reply", "outbox", "status", "log", "doctor"):
        assert name in offered
    assert bash(tools, sigma.root, "cn", "cron", "") == ["install", "remove", "show"]


def test_synonyms_are_not_offered(sigma: Node, tools: Path) -> None:
    assert "read" not in bash(tools, sigma.root, "cn", "")
    assert bash(tools, sigma.root, "cn", "inbox", "") == ["process", "show", "sync", "triage"]


def test_options(sigma: Node, tools: Path) -> None:
    assert "--fix" in bash(tools, sigma.root, "cn", "doctor", "--")


def test_shells(sigma: Node, tools: Path) -> None:
    assert bash(tools, sigma.root, "cn", "completion", "") == list(SHELLS)


def test_threads(sigma: Node, tools: Path) -> None:
    name = sigma.only_thread().removesuffix(".md")
    for verb in ("show", "triage"):
        assert name in bash(tools, sigma.root, "cn", "inbox", verb, "20")
    assert name in bash(tools, sigma.root, "cn", "reply", "")


def test_what_we_sent(world: World, tools: Path) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    sigma.cn("send", "pi", "Early word")
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    assert bash(tools, sigma.root, "cn", "withdraw", "") == ["sigma/early-word"]


def test_what_a_peer_named_is_no_more_than_a_word_to_the_shell(world: World, tools: Path) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    for topic in ("$(touch${IFS}owned)", "plain", "`id`", "a;b"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    assert bash(tools, sigma.root, "cn", "inbox", "show", "pi/") == ["pi/plain"]
    names = [name.removesuffix(".md") for name in sigma.threads()]
    assert len(names) == 4
    assert sorted(bash(tools, sigma.root, "cn", "inbox", "show", "20")) == names


def test_peers(sigma: Node, tools: Path) -> None:
    for words in (("peer", "remove"), ("peer", "sync"), ("send",)):
        assert bash(tools, sigma.root, "cn", *words, "p") == ["pi"]


def test_the_hub_that_is_named_counts(sigma: Node, tools: Path, tmp_path: Path) -> None:
    assert bash(tools, tmp_path, "cn", "--hub", str(sigma.root), "peer", "remove", "") == ["pi"]
    assert bash(tools, tmp_path, "cn", "peer", "remove", "") == []


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    "files",
    [{".cn/hub.yaml": "name: [\n"}, {"state/peers.md": "```yaml\n- 1\n```\n"}, {"state/ledger/pi/open": b"\xff\0{"}],
    ids=["hub.yaml", "peers.md", "ledger"],
)
def test_a_broken_hub_is_silence(
    sigma: Node, tools: Path, tmp_path: Path, files: dict[str, bytes | str | None]
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(sigma.root, broken, symlinks=True)
    commit(broken, files, "damage")
    for words in (("inbox", "show"), ("peer", "remove")):
        bash(tools, broken, "cn", *words, "")
    shutil.rmtree(broken / ".git" / "objects")
    for words in (("inbox", "show"), ("peer", "remove")):
        assert bash(tools, broken, "cn", *words, "") == []


def test_a_completion_starts_few_gits(sigma: Node, tmp_path: Path) -> None:
    events, config = tmp_path / "events", tmp_path / "gitconfig"
    events.mkdir()
    config.write_text(f"[trace2]\n\teventTarget = {events}\n")
    env = {"COMP_WORDS": "cn inbox show ", "COMP_CWORD": "3", "_CN_COMPLETE": "bash_complete"}
    done = cn(env={**env, "GIT_CONFIG_GLOBAL": str(config)}, cwd=sigma.root, check=0)
    assert "proposal" in done.stdout
    assert len(list(events.iterdir())) <= 5


def test_a_password_in_a_url_is_not_offered(sigma: Node, tools: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    shutil.copytree(sigma.root, secret, symlinks=True)
    commit(secret, {"state/peers.md": '```yaml\n- name: pi\n  hub: "https://me:s3cret@host/x"\n```\n'})
    env = {"COMP_WORDS": "cn peer remove ", "COMP_CWORD": "3", "_CN_COMPLETE": "zsh_complete"}
    done = cn(env=env, cwd=secret, check=0)
    assert "pi" in done.stdout
    assert "s3cret" not in done.stdout


@pytest.mark.parametrize("name", SHELLS)
def test_the_script_is_one_of_that_shell(name: str, tools: Path, tmp_path: Path) -> None:
    text = cn("completion", name, check=0).stdout
    assert "_CN_COMPLETE" in text
    script = tmp_path / "script"
    script.write_text(text)
    check = {"bash": "bash -n", "zsh": "zsh -n", "fish": "fish --no-execute"}[name]
    done = shell(name, f"{check} {script}", tools, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_offers_threads_and_peers(sigma: Node, tools: Path) -> None:
    done = shell("fish", "cn completion fish | source; complete -C 'cn peer remove '", tools, sigma.root)
    assert done.stdout.split()[0] == "pi"


def test_zsh_offers_threads_and_peers(sigma: Node, tools: Path) -> None:
    # What zsh's own functions get, without a line editor.
    script = (
        "compdef() { : }; _describe() { print -rl -- ${(P)3} }\n"
        'eval "$(cn completion zsh)"\n'
        'words=(cn peer remove ""); CURRENT=4; _cn_completion'
    )
    done = shell("zsh", script, tools, sigma.root)
    assert done.stdout.startswith("pi:")
    assert done.stderr == ""


def test_another_shell_is_a_usage_error() -> None:
    assert "zsh" in cn("completion", "csh", check=2).stderr


def test_help_says_how_to_install_it() -> None:
    text = cn("completion", "--help", check=0).stdout
    for word in ("bash", "zsh", "fish", "bash-completion/completions/cn", "completions/cn.fish"):
        assert word in text
