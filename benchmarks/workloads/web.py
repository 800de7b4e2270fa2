"""The pages of ``cn web`` on a hub with a long past, beside the summary page of ``git instaweb`` (git-instaweb(1)).

Seconds are from the request to the last byte, of servers that run and have answered before. Each request of cn differs
by a word that means nothing, so that no page is one that was drawn before.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.frame.measure import Broken
from benchmarks.frame.place import Place, bare, cn
from benchmarks.frame.workload import Cost, Plan, Result, Workload
from benchmarks.workloads.look import PEERS, build_past

OPEN = 100
PAGE, START, MEMORY = 0.15, 1.0, 80 * 1024
"""What is aimed at: seconds of a page, seconds until the first one, KiB of the server."""
SUMMARY = "/cgi-bin/gitweb.cgi?p=.git;a=summary"
PAGES = {
    "Now": ("/", "open-"),
    "Threads, all": ("/threads?state=all", "open-"),
    "Threads, done, by text": ("/threads?state=done&text=done-77", "done-77"),
    "a thread that waits": ("/thread/pi/open-5", "open-5"),
    "a thread that is done": ("/thread/pi/done-5", "done-5"),
    "Log": ("/log", "Log"),
    "History": ("/history", "discarded"),
}
"""What is asked for, and what must stand there."""
_LIMIT = 60.0


class Server(NamedTuple):
    """A server on loopback: where, with which cookie, as which process, and the seconds until its first page."""

    port: int
    cookie: str
    pid: int
    seconds: float

    def get(self, path: str) -> tuple[float, str]:
        """Seconds to the last byte, and the page."""
        begun = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_LIMIT)
        try:
            connection.request("GET", path, headers={"Cookie": self.cookie} if self.cookie else {})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        if answer.status != 200:
            raise Broken(f"{path} was answered with {answer.status}: {text[:300]}")
        return time.perf_counter() - begun, text

    @property
    def peak(self) -> int:
        """KiB of the process at its peak (proc(5), ``VmHWM``); 0 where that is not told."""
        try:
            text = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        found = re.search(r"VmHWM:\s+(\d+)", text)
        return int(found[1]) if found else 0


class Web(Workload):
    """Page after page, warm, and the start."""

    row = "web"
    goal = 1.0

    def results(self, plan: Plan) -> Iterator[Result]:
        """One hub for all of them."""
        for size in plan.sizes or (10_000,):
            folder = plan.scratch / "case"
            folder.mkdir()
            place = Place(folder / "live")
            place.root.mkdir()
            for name in PEERS:
                bare(place, place.peer(name))
            build_past(place, size, OPEN)
            subprocess.run(cn("inbox", "sync"), cwd=place.hub, env=place.env, check=True, capture_output=True)
            yield from self._measured(plan, place, size)
            folder.rename(plan.scratch / f"web-{size}")

    def _measured(self, plan: Plan, place: Place, size: int) -> Iterator[Result]:
        past = f"{OPEN} open, {size:,} done"
        with ExitStack() as running:
            theirs = running.enter_context(instaweb(place)) if has_gitweb() else None
            ours = running.enter_context(web(place))
            plan.say(f"web: start: {ours.seconds:.3f} s{_aim(ours.seconds, START)}")
            if theirs is None:
                plan.say(
                    "web: nothing beside it; gitweb, or Perl's CGI.pm, is missing (Debian: gitweb, libcgi-pm-perl)"
                )
            else:
                theirs.get(SUMMARY)
                started = Cost(ours.seconds, 1, ours.peak), Cost(theirs.seconds, 1)
                yield self._result(f"start to the first page, {past}", size, *started)
            for name, (path, expected) in PAGES.items():
                mark = "&" if "?" in path else "?"
                if expected not in ours.get(f"{path}{mark}warm=1")[1]:
                    raise Broken(f"{path} does not show {expected}")
                times, floors = list[float](), list[float]()
                for number in range(plan.runs * 2):
                    times.append(ours.get(f"{path}{mark}n={number}")[0])
                    floors += [theirs.get(SUMMARY)[0]] if theirs is not None else []
                cost = Cost(statistics.median(times), len(times), ours.peak)
                told = (
                    f"web: {name}: {cost.value:.3f} s{_aim(cost.value, PAGE)}, {cost.peak} KiB{_aim(cost.peak, MEMORY)}"
                )
                if floors:
                    floor = Cost(statistics.median(floors), len(floors))
                    result = self._result(f"page {name}, {past}", size, cost, floor)
                    told += f", {result.ratio:.2f} × the summary of gitweb"
                    yield result
                plan.say(told)

    def _result(self, case: str, size: int, cost: Cost, floor: Cost) -> Result:
        return Result(self.row, case, size, self.goal, cost, floor, base="git instaweb")


def _aim(value: float, most: float) -> str:
    return "" if value <= most else f" (more than {most:g})"


def has_gitweb() -> bool:
    """Can git instaweb be asked here?"""
    found = Path("/usr/share/gitweb/gitweb.cgi").exists()
    return found and subprocess.run(["perl", "-MCGI", "-e1"], check=False, capture_output=True).returncode == 0


@contextmanager
def web(place: Place) -> Iterator[Server]:
    """``cn web``, entered."""
    begun = time.perf_counter()
    words = cn("--hub", str(place.hub), "web")
    process = subprocess.Popen(words, env=place.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        link = re.match(r"http://127\.0\.0\.1:(\d+)(/start\S+)", process.stdout.readline())
        if link is None:
            raise Broken("cn web printed no link")
        port = int(link[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LIMIT)
        connection.request("GET", link[2])
        cookie = (connection.getresponse().getheader("Set-Cookie") or "").partition(";")[0]
        connection.close()
        server = Server(port, cookie, process.pid, 0)
        server.get("/")
        yield server._replace(seconds=time.perf_counter() - begun)
    finally:
        process.terminate()
        process.wait(_LIMIT)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def instaweb(place: Place) -> Iterator[Server]:
    """``git instaweb``, with the server that Python brings."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    begun = time.perf_counter()
    words = ["git", "instaweb", "--local", "--httpd=python", f"--port={port}", "--browser=true"]
    env = {**place.env, "PATH": os.environ["PATH"]}
    subprocess.run([*words, "--start"], cwd=place.hub, env=env, check=True, capture_output=True)
    try:
        server = Server(port, "", 0, 0)
        deadline = time.monotonic() + _LIMIT
        while True:
            try:
                server.get(SUMMARY)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        yield server._replace(seconds=time.perf_counter() - begun)
    finally:
        subprocess.run([*words, "--stop"], cwd=place.hub, env=env, check=False, capture_output=True)


WEB = (Web(),)
