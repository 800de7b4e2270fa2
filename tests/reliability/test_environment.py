"""What a hook, cron, ``git rebase --exec`` or a shell leaves in the environment does not change what cn does.

The names come from the git that is installed, so that new ones are tried too.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from cn.git.environment import users_environment
from tests.support.hubs import cn, git
from tests.support.kill import mask, state_of
from tests.support.world import World

CHOICES = (
    "GIT_SSH",
    "GIT_SSL_",
    "GIT_PROXY_SSL_",
    "GIT_HTTP_PROXY_AUTHMETHOD",
    "GIT_HTTP_USER_AGENT",
    "GIT_PROXY_COMMAND",
    "GIT_DEFAULT_HASH",
)
"""Beginnings of what the user chooses there, beside the files and values of the configuration (``GIT_CONFIG_…``)."""
_CONFIGURATION = re.compile("GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_|VALUE_)")
_PROGRAMS = ("git", "git-remote-http", "git-sh-setup", "git-daemon", "git-http-backend")
_VALUES = {
    "GIT_DIR": "/nonexistent",
    "GIT_WORK_TREE": "/",
    "GIT_FLUSH": "0",
    "GIT_PAGER": "false",
    "GIT_EDITOR": "false",
    "GIT_PYTHON_GIT_EXECUTABLE": "/nonexistent/git",
    "GIT_TRACE": "1",
    "GIT_TRACE2": "1",
}
_OTHERS = {
    **{"TZ": "Pacific/Chatham", "LC_ALL": "tr_TR.UTF-8", "LANG": "de_DE", "LANGUAGE": "de:fr", "EMAIL": "odd@odd"},
    **{"PAGER": "false", "EDITOR": "false", "VISUAL": "false", "TERM": "xterm", "COLUMNS": "7", "LINES": "1"},
    **{"FORCE_COLOR": "", "CLICOLOR_FORCE": "1", "POSIXLY_CORRECT": "1", "CDPATH": "/", "ENV": "/nonexistent"},
    **{"BASH_ENV": "/nonexistent", "SSH_ASKPASS": "false", "DISPLAY": ":9", "TAR_OPTIONS": "x", "GREP_OPTIONS": "-v"},
    **{"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONOPTIMIZE": "2", "PYTHONDEVMODE": "1"},
    **{"PYTHONWARNINGS": "error", "PYTHONHASHSEED": "7", "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"},
}


def names_of_git() -> list[str]:
    """Every name of that form in the programs of git, and some that a newer one or GitPython reads."""
    folder = Path(git(Path.cwd(), "--exec-path"))
    programs = [folder / name for name in _PROGRAMS if (folder / name).exists()]
    found = {name.decode() for file in programs for name in re.findall(rb"\bGIT_[A-Z0-9_]+", file.read_bytes())}
    return sorted(found | {*_VALUES, "GIT_ATTR_SOURCE", "GIT_ADVICE", "GIT_REFERENCE_BACKEND"})


def is_choice(name: str) -> bool:
    return name.startswith(CHOICES) or _CONFIGURATION.match(name) is not None


def play(world: World, env: Mapping[str, str]) -> object:
    """A loop with every cn in that environment, and what it came to."""
    said: list[object] = []
    started = any(name.startswith("PYTHON") for name in env)

    def shown(text: str) -> str:
        return re.sub(r"[0-9a-f]{12}|\d\d:\d\d|\b\d+m\b", "_", mask(text.replace(str(world.folder), "FOLDER")))

    fresh = world.folder / "cn-fresh"
    made = cn("init", "fresh", "--path", fresh, cwd=world.folder, env=env, started=started)
    said.append((shown(made.stdout), made.stderr, (fresh / ".git/config").read_text(), git(fresh, "status", "--short")))
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "one")
    world.propose(pi, sigma, "two", {"ä ö/* [x].md": "odd\n"})
    for node, *words in (
        (sigma, "sync"),
        (sigma, "inbox", "show", "pi/two"),
        (sigma, "inbox", "triage", "pi/one", "do:merge"),
        (sigma, "inbox", "triage", "pi/two", "defer:later"),
        (sigma, "inbox", "process"),
        (sigma, "send", "pi", "hello"),
        (pi, "sync"),
        (sigma, "sync"),
        (sigma, "why", "pi/one"),
        (sigma, "sync"),
    ):
        if words[0] == "send":
            time.sleep(1.1)  # after the notices: what was written when is known to the second, and orders what arrives
        done = node.cn(*words, env=env, started=started)
        said.append((words, shown(done.stdout), shown(done.stderr)))
    made_by = [git(node.root, "log", "--format=%an %ae %cn %ce %s", "main") for node in (sigma, pi)]
    return (
        said,
        shown(repr([state_of(node) for node in (sigma, pi)])),
        made_by,
        git(sigma.root, "reflog", "--format=%gs"),
    )


def test_nothing_that_git_reads_reaches_it_but_what_the_user_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    names = names_of_git()
    assert len(names) > 100
    before = set(os.environ)
    for name in names:
        monkeypatch.setenv(name, "odd")
    kept = {name for name in users_environment() if name.startswith("GIT_")} - before
    assert kept == {name for name in names if is_choice(name)} - before


@pytest.mark.parametrize("value", ["/odd", pytest.param("1", marks=pytest.mark.full)])
def test_a_loop_among_variables_of_git_comes_to_the_same(
    world: World, tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    odd = {name: _VALUES.get(name, value) for name in names_of_git() if not is_choice(name)}
    plain = play(World(tmp_path_factory.mktemp("plain"), world.template), {})
    assert play(World(tmp_path_factory.mktemp("odd"), world.template), odd) == plain


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(_OTHERS))
def test_a_loop_in_an_odd_environment_comes_to_the_same(
    world: World, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    plain = play(World(tmp_path_factory.mktemp("plain"), world.template), {})
    assert play(World(tmp_path_factory.mktemp("odd"), world.template), {name: _OTHERS[name]}) == plain


@pytest.mark.full
def test_an_odd_choice_of_the_user_is_used_or_named(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    for number, name in enumerate(name for name in names_of_git() if is_choice(name)):
        for value in ("/odd", "1", ""):
            done = sigma.cn("sync", env={name: value}, check=None)
            assert "Traceback" not in done.stderr, (name, value)
            assert done.returncode == ("GIT_CONFIG_" in done.stderr), (name, value, done.stderr)
        world.propose(pi, sigma, f"t{number}")
        assert f"received pi/t{number}" in sigma.sync().stdout
