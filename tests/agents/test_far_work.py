"""Clones and pushes as tools: they wait on other hosts, where an answer may come late or never, and hold up nobody."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cn.agency.events import ResourceUsed
from cn.agency.names import SYSTEM, Uuid, user
from cn.agency.operations import GrantAccess, RevokeAccess, StopHandler, Wanted
from cn.agency.plan.result import Refused
from cn.agency.store.look import last_events
from cn.agents.machine import Repositories
from cn.agents.repositories import Mirrors, Repository
from cn.git.process import Git
from cn.server.far_work import FarWork
from cn.server.records import SharedRecords
from cn.server.tool import Call, View
from cn.server.tools.repositories import repository_tools
from cn.system.clock import now
from cn.system.removal import remove_tree
from tests.support.agents import ANN, Staff, script_runner
from tests.support.firm import all_processes, firm
from tests.support.hubs import git
from tests.support.servers import Remote, serve, stalled_server

_SECONDS = 120.0
WAITS = "sleep 600"


class Held(Mirrors):
    """Mirrors whose fetches wait until they are let go."""

    begun = threading.Event()
    go = threading.Event()

    def _fetch(self, repository: Repository, path: Path, lock: int) -> Refused | None:
        self.begun.set()
        assert self.go.wait(_SECONDS)
        return super()._fetch(repository, path, lock)


class Desk:
    """One agent that lives, and the tools of repositories."""

    def __init__(self, staff: Staff, url: str, folder: Path, kind: type[Mirrors]) -> None:
        self.staff, self.handler = staff, staff.handler("Change the page")
        staff.step()
        self.me = staff.as_agent(self.handler)
        self.workspace = staff.place.folders.find(Uuid(self.me.agent)).workspace  # type: ignore[arg-type, union-attr]
        self.grant = self.allow("push")
        known = Repositories((("site", url),), (), 0.0)
        self._mirrors = kind(folder / "mirrors", known, Git(folder))
        self.records = SharedRecords(staff.agency, lambda told: None)

    def allow(self, level: str) -> Uuid:
        made: Any = self.staff.do(GrantAccess(self.handler, Wanted("repo:site", level)))["grants"]
        return Uuid(made[0])

    def open(self) -> None:
        """For one event loop."""
        self.far = FarWork()
        made = repository_tools(self.staff.place, self._mirrors, self.far)
        self.tools = {tool.name: tool for tool in made}

    async def call(self, tool: str, request_id: str = "", **more: Any) -> View | Refused:
        arguments = {
            "repo": "site",
            "request_id": request_id,
            "path": None,
            "content": None,
            "content_base64": None,
        } | more
        found = await self.tools[tool].run(Call(self.me, arguments, now(), user(ANN.name)), self.records)
        assert not isinstance(found, tuple) or isinstance(found, Refused)
        return found

    def used(self) -> list[tuple[str, str]]:
        """What the records say of the repository, oldest first: by whom, and what."""
        with self.staff.agency.store.reading() as facts:
            found = last_events(facts, lambda event: isinstance(event.change, ResourceUsed), None, "")
        return [(one.actor, one.change.what) for one in found]  # type: ignore[union-attr]

    def clones(self) -> list[str]:
        return sorted(path.parent.name for path in self.workspace.glob("*/.git"))


def play(desk: Desk, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """What goes on in a server, bounded in time."""

    async def bounded() -> None:
        desk.open()
        try:
            await asyncio.wait_for(work(), _SECONDS)
        finally:
            await desk.far.close()

    asyncio.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    """A host with a repository that has a commit on main."""
    with serve("git", tmp_path / "served", tmp_path / "scratch") as served:
        served.repo("site")
        git(served.path("site"), "symbolic-ref", "HEAD", "refs/heads/main")
        git(tmp_path, "init", "--quiet", "-b", "main", "work")
        change(tmp_path, served, "one")
        yield served


def change(folder: Path, served: Remote, word: str) -> None:
    (folder / "work/page.md").write_text(f"{word}\n")
    git(folder / "work", "add", ".")
    git(folder / "work", "commit", "--quiet", "-m", word)
    git(folder / "work", "push", "--quiet", str(served.path("site")), "main")


@pytest.fixture
def desk(staffed: Callable[..., Staff], remote: Remote, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(staffed(script_runner("one", WAITS)), remote.url("site"), tmp_path, Mirrors)
    yield made
    made.records.close()


@pytest.fixture
def held(staffed: Callable[..., Staff], remote: Remote, tmp_path: Path) -> Iterator[Desk]:
    """The same, where the host answers once it is let go."""
    Held.begun.clear()
    Held.go.clear()
    made = Desk(staffed(script_runner("one", WAITS)), remote.url("site"), tmp_path, Held)
    yield made
    Held.go.set()
    made.records.close()


@pytest.mark.parametrize("before", [False, True], ids=["first", "the same request again"])
def test_what_ends_while_a_clone_waits_is_not_handed_out(
    held: Desk, remote: Remote, tmp_path: Path, before: bool
) -> None:
    async def work() -> None:
        if before:
            Held.go.set()
            made: Any = await held.call("repo_clone", "q1")
            remove_tree(held.workspace / made["path"])
            Held.go.clear()
            Held.begun.clear()
        told = held.used()
        waiting = asyncio.ensure_future(held.call("repo_clone", "q1"))
        await until(Held.begun.is_set)
        held.staff.do(RevokeAccess(held.grant))
        change(tmp_path, remote, "only after the end of the grant")
        Held.go.set()
        refused = await waiting
        assert isinstance(refused, Refused)
        assert refused.rule == "access"
        assert (held.clones(), held.used()) == ([], told)

    play(held, work)


def test_one_request_is_one_clone_as_long_as_it_is_there_and_each_clone_is_told(desk: Desk) -> None:
    async def work() -> None:
        answers: Any = await asyncio.gather(*(desk.call("repo_clone", "q1") for _ in range(5)))
        answers += [await desk.call("repo_clone", "q1")]
        assert answers == [answers[0]] * 6
        assert (desk.clones(), len(desk.used())) == (["site"], 1)
        other = await desk.call("repo_clone", "q2")
        assert isinstance(other, dict)
        assert other["path"] == "site.2"
        unnamed = await desk.call("repo_clone")
        assert isinstance(unnamed, dict)
        assert unnamed["path"] == "site.3"
        remove_tree(desk.workspace / "site")
        assert await desk.call("repo_clone", "q1") == answers[0]
        assert (desk.clones(), [what for _, what in desk.used()]) == (["site", "site.2", "site.3"], ["clones it"] * 4)
        taken = await desk.call("repo_push", "q1", branch=f"{desk.handler}/x", content="")
        assert isinstance(taken, Refused)

    play(desk, work)


def test_a_clone_for_an_agent_that_works_as_another_user_is_asked_of_that_user(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sudo = tmp_path / "bin/sudo"
    sudo.parent.mkdir()
    sudo.write_text('#!/bin/sh\necho "no: $1 $2 $3" >&2\nexit 1\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    (desk.workspace.parent / "user").write_text("nobody")

    async def work() -> None:
        refused = await desk.call("repo_clone", "q1")
        assert isinstance(refused, Refused)
        assert (refused.rule, refused.reason) == (
            "repo-place",
            "nobody, as whom you work, got no clone: no: -n -u nobody",
        )
        assert desk.clones() == []

    play(desk, work)


def test_a_request_of_another_server_is_known_to_the_next_one(desk: Desk) -> None:
    found: list[object] = []

    async def work() -> None:
        found.append(await desk.call("repo_clone", "q1"))

    play(desk, work)
    play(desk, work)
    assert found == [found[0]] * 2
    assert (desk.clones(), len(desk.used())) == (["site"], 1)


def test_an_agent_has_a_few_in_line_and_is_refused_more(held: Desk) -> None:
    async def work() -> None:
        waiting = [asyncio.ensure_future(held.call("repo_clone")) for _ in range(3)]
        await until(Held.begun.is_set)
        refused = await held.call("repo_clone")
        assert isinstance(refused, Refused)
        assert "3 clones or pushes of this agent wait" in refused.reason
        Held.go.set()
        assert all(isinstance(one, dict) for one in await asyncio.gather(*waiting))
        assert isinstance(await held.call("repo_clone"), dict)

    play(held, work)


def test_agents_are_started_whatever_waits_in_threads(held: Desk) -> None:
    async def work() -> None:
        loop, go = asyncio.get_running_loop(), threading.Event()
        with ThreadPoolExecutor(1) as one:
            loop.set_default_executor(one)
            loop.run_in_executor(None, go.wait, _SECONDS)  # whatever else a server does in threads
            waiting = [asyncio.ensure_future(held.call("repo_clone")) for _ in range(3)]
            try:
                await until(Held.begun.is_set)
                handler = held.staff.handler("Begin")
                await held.staff.spawner.close()
                held.staff.spawner = held.staff.new_spawner()
                held.staff.spawner.perform = ask
                await held.staff.spawner.step(held.staff.now)
                assert handler in held.staff.agents()
            finally:
                Held.go.set()
                go.set()
            await asyncio.gather(*waiting)

    async def ask(operation: Any, principal: Any) -> Any:
        return held.staff.ask(operation, principal)

    play(held, work)


@pytest.mark.parametrize("who", ["the agent ended", "the server ends"])
def test_a_git_that_waits_is_ended_with_who_waits(staffed: Callable[..., Staff], tmp_path: Path, who: str) -> None:
    with stalled_server() as (port, connected):
        url = f"git://127.0.0.1:{port}/site.git"
        made = Desk(staffed(script_runner("one", WAITS)), url, tmp_path, Mirrors)

        async def work() -> None:
            waiting = [asyncio.ensure_future(made.call("repo_clone")) for _ in range(2)]  # one has the mirror's lock
            await until(lambda: connected() > 0)
            if who == "the server ends":
                await made.far.close()
            else:
                made.far.end(made.me, "agent 1 has ended")
            for refused in await asyncio.gather(*waiting):
                assert isinstance(refused, Refused)
                assert "it was ended before it was done: " in refused.reason
            if who == "the server ends":
                assert isinstance(await made.call("repo_clone"), Refused)

        play(made, work)
        made.records.close()
        assert gits_of(url) == []
        assert made.used() == []


def gits_of(url: str) -> list[int]:
    return [pid for pid, words, _ in all_processes() if url in words]


def test_a_push_that_is_cut_off_is_told_as_one_that_may_have_arrived(
    desk: Desk, remote: Remote, tmp_path: Path
) -> None:
    hook = remote.path("site") / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nwhile test ! -e {tmp_path}/go; do sleep 0.05; done\n")
    hook.chmod(0o755)

    async def work() -> None:
        made: Any = await desk.call("repo_clone")
        copy = desk.workspace / made["path"]
        git(copy, "commit", "--quiet", "--allow-empty", "-m", "Second")
        git(copy, "bundle", "create", "--quiet", "work.bundle", "origin/HEAD..main")
        data = (copy / "work.bundle").read_bytes()
        branch = f"{desk.handler}/x"
        waiting: Awaitable[Any] = asyncio.ensure_future(
            desk.call("repo_push", "p1", branch=branch, content_base64=data)
        )
        await until(lambda: (tmp_path / "begun").exists() or waiting.done())  # type: ignore[attr-defined]
        assert (tmp_path / "begun").exists(), await waiting
        desk.staff.do(StopHandler(desk.handler))
        desk.far.end(desk.me, "its handler was stopped")
        refused = await waiting
        (tmp_path / "go").touch()
        assert isinstance(refused, Refused)
        assert "was cut off, and may have arrived" in refused.reason
        commit = git(copy, "rev-parse", "main")
        (_, first), second, (by, last) = desk.used()
        assert (first, second[1]) == ("clones it", f"pushes {commit} to {branch}")
        assert by == SYSTEM
        assert last.startswith(f"the push of {commit} was cut off, and may have arrived: its handler was stopped")

    play(desk, work)


CLONES = """
agent = Agent()
say(up=True)
agent.call("repo_clone", repo="site")
"""


def test_a_server_ends_while_a_host_does_not_answer_and_so_does_what_an_ended_agent_began(tmp_path: Path) -> None:
    from tests.agents.test_whole import program

    with stalled_server() as (port, connected):
        url = f"git://127.0.0.1:{port}/site.git"
        machine = program("one", CLONES, "unguarded = true") + f"[repos]\nsite = '{url}'\n"
        with firm(tmp_path, {}, machine) as made:
            first = made.handler("First", "one", (Wanted("repo:site", "clone"),))
            made.until(lambda: connected() == 1)
            made.do(StopHandler(first))
            made.until(lambda: not gits_of(url), "its git goes on")
            made.handler("Second", "one", (Wanted("repo:site", "clone"),))
            made.until(lambda: gits_of(url))
            made.stop()  # bounded
            assert gits_of(url) == []
