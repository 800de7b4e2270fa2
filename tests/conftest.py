"""Every test is sealed from the machine it runs on.

Own home, own git config, no system config, no ``GIT_*`` from outside, a crontab of its
own, fixed locale and time zone, no network but loopback. The zone is deliberately
neither UTC nor a whole hour away from it, and git's default branch not ``main``: what
leans on either fails here. Ctrl-C is heard, even where a shell's ``&`` began pytest, and
the end of a terminal, even below ``nohup``.
"""

from __future__ import annotations

import compileall
import inspect
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import hypothesis.configuration
import pytest

from tests.support.daemon_runs import Daemon
from tests.support.forked import close_servers
from tests.support.hubs import ROOT, cn
from tests.support.model_server import model_server
from tests.support.servers import KINDS, Remote, serve
from tests.support.studio import Studio
from tests.support.telegram_server import TelegramServer, telegram_server
from tests.support.world import Node, World


def _is_roomy(folder: Path) -> bool:
    """May the tests' files stand there? They are never more than a few hundred megabytes at a time."""
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize > 2_000_000_000 and not found.f_flag & os.ST_NOEXEC


_ALWAYS = {"home", "monkeypatch", "request", "tmp_path_factory"}
_SLOW = {"attacks", "cli", "docs", "fuzz", "git", "reliability", "runtime", "system", "transaction"}

_MEMORY = Path("/dev/shm")
"""A file system in memory, where there is one: nothing waits for a disk (tmpfs(5))."""

if "TMPDIR" not in os.environ and _is_roomy(_MEMORY):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
_SCRATCH = tempfile.TemporaryDirectory(prefix="cn-tests-")
_DROPPED_PREFIXES = ("GIT_", "SSH_", "GPG_", "XDG_", "LC_", "CN_", "ANTHROPIC_", "TELEGRAM_")
# fmt: off
_DROPPED = {
    "EDITOR", "VISUAL", "PAGER", "EMAIL", "LANG", "LANGUAGE", "NO_COLOR", "FORCE_COLOR", "CLICOLOR",
    "COLUMNS", "LINES", "DISPLAY", "WAYLAND_DISPLAY", "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY",
    "NO_PROXY", "ANTHROPIC_API_KEY", "ANTHROPIC_KEY", "ANTHROPIC_BASE_URL", "TELEGRAM_BOT_TOKEN",
    "TELEGRAM_TOKEN", "TELEGRAM_BASE_URL", "WORKSPACE", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM",
}
# fmt: on
_NOWHERE = "http://127.0.0.1:9"
_FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
    "TZ": "XST-05:45",
    "TERM": "dumb",
    "http_proxy": _NOWHERE,
    "https_proxy": _NOWHERE,
    "all_proxy": _NOWHERE,
    "no_proxy": "127.0.0.1,localhost",
}
_GITCONFIG = """\
[user]
\tname = Nobody
\temail = nobody@example.org
[init]
\tdefaultBranch = trunk
[maintenance]
	auto = false
[receive]
	autogc = false
[gc]
\tauto = 0
"""
_CRONTAB = """\
#!/bin/sh
# crontab(1) on a file in the test's own home: the user's table is never touched.
table="$HOME/crontab"
[ "$1" = "-u" ] && shift 2
case "${1:--}" in
  -l) [ -f "$table" ] || { echo "no crontab for $LOGNAME" >&2; exit 1; }; cat "$table" ;;
  -r) rm -f "$table" ;;
  -)  cat > "$table.new" && mv "$table.new" "$table" ;;
  -*) echo "crontab: unknown option $1" >&2; exit 1 ;;
  *)  cp "$1" "$table" ;;
esac
"""


def pytest_configure() -> None:
    """Seal the process before any fixture of a wider scope runs."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # Each of the thousands of cn processes would compile it again where
        # PYTHONDONTWRITEBYTECODE is set, and take twice as long.
        compileall.compile_dir(ROOT / "cn", quiet=1)
    for name in list(os.environ):
        if name.startswith(_DROPPED_PREFIXES) or name in _DROPPED:
            del os.environ[name]
    os.environ.update(_FIXED)
    time.tzset()
    os.umask(0o022)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # every cn would inherit it, and ignore Ctrl-C as well
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup(1) has ignored
    scratch = Path(_SCRATCH.name)
    tools = scratch / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "crontab").write_text(_CRONTAB)
    (tools / "crontab").chmod(0o755)
    os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    os.environ.update(_settle(scratch / "home"))
    hypothesis.configuration.set_hypothesis_home_dir(scratch / "hypothesis")
    hypothesis.settings.register_profile(
        "cn", deadline=None, database=None, print_blob=True, derandomize="CI" in os.environ
    )
    hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("cn"), max_examples=10)
    hypothesis.settings.load_profile(os.environ.get("TEST_PROFILE", "cn"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave a slice of what is marked ``sliced`` in ``make test``; find what ``make quick`` runs."""
    seen: Counter[str] = Counter()
    quick = "quick" in config.option.markexpr
    for item in items:
        name = item.nodeid.partition("[")[0]
        mark = item.get_closest_marker("sliced")
        if mark is not None and seen[name] % mark.args[0]:
            item.add_marker("full")
        seen[name] += 1
        if quick and isinstance(item, pytest.Function) and _is_pure(item):
            item.add_marker("quick")


def _is_pure(item: pytest.Function) -> bool:
    """Does the test need nothing but values: no folder, no repository and no process?"""
    given = set(item.callspec.params) if hasattr(item, "callspec") else set()
    if set(item.fixturenames) - given - _ALWAYS or item.path.parent.name in _SLOW:
        return False
    return not any(word in inspect.getsource(item.function) for word in ("subprocess", "cn(", "git("))


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    close_servers()
    _SCRATCH.cleanup()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that can be full or read-only; needs root and Linux."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("mounting needs root on Linux")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False, timeout=20).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, timeout=20)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for each test, with a git config that only names a user."""
    folder = tmp_path_factory.mktemp("home")
    for name, value in _settle(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hubs as ``cn init`` makes them, by name, to be copied."""
    folder = tmp_path_factory.mktemp("template")
    for name in ("sigma", "pi", "omega"):
        cn("init", name, "--path", folder / name, check=0)
    return folder


@pytest.fixture(params=KINDS)
def remote(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    """A folder of bare repositories, reached in each way that git knows."""
    with serve(request.param, tmp_path / "host", tmp_path / "server") as served:
        for name, value in served.env.items():
            monkeypatch.setenv(name, value)
        yield served


@pytest.fixture
def world(tmp_path: Path, template: Path) -> World:
    """An empty world."""
    return World(tmp_path, template)


@pytest.fixture
def sigma(world: World) -> Node:
    """The hub that receives."""
    return world.hub("sigma")


@pytest.fixture
def pi(world: World, sigma: Node) -> Node:
    """The hub that proposes, on the mailbox route."""
    node = world.hub("pi")
    world.link(sigma, node)
    return node


@pytest.fixture
def studio(sigma: Node) -> Iterator[Studio]:
    """The hub that receives, with a model and a Telegram on loopback."""
    with model_server() as model, telegram_server() as telegram:
        yield Studio(sigma, model, telegram)


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    """A Telegram that says what the test wants."""
    with telegram_server() as running:
        yield running


@pytest.fixture(scope="session")
def hub_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub as ``cn init`` makes it, to be copied."""
    root = tmp_path_factory.mktemp("template") / "cn-sigma"
    cn("init", "sigma", "--path", root, check=0)
    return root


@pytest.fixture
def daemon(tmp_path: Path, hub_template: Path, server: TelegramServer) -> Iterator[Daemon]:
    """The daemon, ended with the test; what it said must be in order."""
    made = Daemon(tmp_path, hub_template, server.url)
    yield made
    made.check_and_end()


def _settle(folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / ".gitconfig"
    config.write_text(_GITCONFIG)
    return {
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": str(config),
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "XDG_STATE_HOME": str(folder / ".local"),
    }
