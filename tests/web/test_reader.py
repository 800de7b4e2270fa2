"""What the server keeps, and when it reads anew; the stream of a page; what the extra and the unit need."""

from __future__ import annotations

import http.client
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cn.git.repository import Hub, open_hub
from cn.run.view import View, open_view
from cn.system import extras
from cn.values.errors import EXIT_CONFIG
from cn.values.names import Name
from cn.views.done import DoneRow, read_done
from cn.web import reader as module
from cn.web.fingerprint import read_fingerprint
from cn.web.links import Links
from cn.web.page import Drawn, Page
from cn.web.reader import KEPT, Reader
from cn.web.render import Frame, Renderer
from tests.support.hubs import ROOT, cn_env, git
from tests.support.world import Node, World
from tests.web.site import SECONDS, serving


@pytest.fixture
def hub(world: World, sigma: Node, pi: Node) -> Node:
    """A hub with a thread that waits and one that is done."""
    world.propose(pi, sigma, "first", message="First")
    world.propose(pi, sigma, "second", message="Second")
    sigma.sync()
    sigma.decide("pi/first", "delete:no")
    return sigma


def opened(node: Node) -> Hub:
    return open_view(open_hub(node.root)).hub


class Counted:
    """A reader whose drawings are counted."""

    def __init__(self, node: Node) -> None:
        self.reader = Reader(opened(node), "sigma")
        self.renderer = Renderer()
        self.count = 0

    def ask(self, name: str, **query: str) -> Drawn:
        def draw(page: Page, at: datetime) -> Drawn:
            self.count += 1
            return self.renderer.draw(page, Frame("sigma", at, Links(name)))

        return self.reader.draw(name, query, draw)


def test_a_page_is_drawn_again_only_when_the_hub_has_changed_or_a_minute_passed(
    hub: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime(2026, 11, 24, 12, 0, 30, tzinfo=UTC)
    monkeypatch.setattr(module, "now", lambda: at)
    pages = Counted(hub)
    assert pages.ask("now") is pages.ask("now")
    assert pages.count == 1
    hub.triage("pi/second", "delete:no")
    assert "decided: delete:no" in pages.ask("now").html
    assert pages.count == 2
    at += timedelta(seconds=40)
    pages.ask("now")
    assert pages.count == 3


CHANGES: dict[str, Callable[[Node], object]] = {
    "a commit on main": lambda node: node.write({"x": "y"}, "x"),
    "a decision in a working copy": lambda node: node.triage("pi/second", "delete:no"),
    "a run": lambda node: node.cn("adhoc", "A thought"),
    "a configuration that is not committed": lambda node: (node.root / ".cn/hub.yaml").write_text("name: sigma\n"),
    "another branch": lambda node: git(node.root, "switch", "-q", "-c", "other"),
    "packed refs": lambda node: git(node.root, "pack-refs", "--all"),
    "a file in the inbox": lambda node: (node.root / "threads/inbox/stray.md").write_text("x"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_page_shows_is_seen_in_the_fingerprint(hub: Node, change: str) -> None:
    before = read_fingerprint(opened(hub))
    assert read_fingerprint(opened(hub)) == before, "looking changes nothing"
    CHANGES[change](hub)
    assert read_fingerprint(opened(hub)) != before


def test_what_is_kept_is_bounded_and_refusals_are_not_kept(hub: Node) -> None:
    pages = Counted(hub)
    for number in range(KEPT + 5):
        pages.ask("threads", text=str(number))
    assert len(pages.reader._drawn) == KEPT
    before = pages.count
    assert pages.ask("thread/none").status == pages.ask("thread/none").status == 404
    assert pages.count == before + 2


def test_a_done_thread_is_read_once_as_long_as_its_peers_ledger_is_the_same(
    hub: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def note(view: View, peer: Name) -> tuple[DoneRow, ...]:
        read.append(peer)
        return read_done(view, peer)

    monkeypatch.setattr(module, "read_done", note)
    pages = Counted(hub)
    assert "First" in pages.ask("threads", state="done").html
    hub.write({"x": "y"}, "x")
    assert "First" in pages.ask("threads", state="done").html
    assert read == ["pi"]
    hub.decide("pi/second", "delete:no")
    assert "Second" in pages.ask("threads", state="done").html
    assert read == ["pi", "pi"]


def test_a_stream_names_the_parts_that_changed(hub: Node) -> None:
    with serving(hub.root) as site:
        site.enter()
        events = _events(site.host, site.cookie, "/live?page=/")
        first = next(events)
        assert {"waiting", "agent", "peers", "hours"} <= set(first), "what the browser does not have"
        hub.triage("pi/second", "delete:no")
        assert "waiting" in next(events)
        events.close()


def _events(host: str, cookie: str, path: str) -> Generator[list[str], None, None]:
    connection = http.client.HTTPConnection(host, timeout=SECONDS)
    connection.request("GET", path, headers={"Cookie": cookie})
    answer = connection.getresponse()
    assert answer.getheader("Content-Type", "").startswith("text/event-stream")
    try:
        while line := answer.readline().decode().rstrip("\n"):
            pass
        while True:
            line = answer.readline().decode().rstrip("\n")
            if line.startswith("data: "):
                yield line.removeprefix("data: ").split(" ")
    finally:
        connection.close()


def test_without_its_packages_the_command_says_what_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "starlette" else real(name))
    with pytest.raises(extras.ExtraMissing) as raised:
        extras.require_web()
    assert "starlette" in raised.value.text
    assert "cn-hub[web]" in raised.value.hint


def test_no_other_command_loads_what_the_pages_need(hub: Node) -> None:
    probe = (
        "import sys\nsys.argv = ['cn', *sys.argv[1:]]\nfrom cn.cli.start import run\n"
        "try:\n    run()\nfinally:\n    print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    for words in (("status",), ("inbox",), ("web", "--help")):
        command = [sys.executable, "-c", probe, "--hub", str(hub.root), *words]
        done = subprocess.run(command, env=cn_env(), capture_output=True, text=True, timeout=60, check=True)
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert not loaded & {"starlette", "uvicorn", "jinja2", "markupsafe", "anyio", "asyncio"}, words
        assert "cn.web" not in done.stderr.split(), words


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    text = (ROOT / "cron/cn-web.service").read_text()
    settings = dict(row.split("=", 1) for row in text.splitlines() if "=" in row and row[0] != "#")
    assert (settings["Type"], settings["RestartPreventExitStatus"]) == ("notify", str(EXIT_CONFIG))
    assert " web -q " in settings["ExecStart"], "no link in the journal"
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing")
    unit = tmp_path / "cn-web.service"
    unit.write_text(text.replace("/home/me/.local/bin/cn", "/bin/true").replace("User=me", "User=root"))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, encoding="utf-8", check=False)
    if "cn-web" not in done.stderr and done.returncode:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr}")
    assert (done.returncode, done.stderr) == (0, "")
