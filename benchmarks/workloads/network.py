"""What people wait for: commands over a real sshd, 25 ms away each way, beside bare git's fetches and pushes.

A connection is what speaks with a git there; a login that is made before them (ssh(1), ``-N``) is counted as that.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.frame.measure import run
from benchmarks.frame.place import ROOT, Place, cn
from benchmarks.frame.servers import free_port, wait_for
from benchmarks.frame.workload import Cost, Plan, Result, Workload, floor

_DELAY = ROOT / "benchmarks/frame/delay.py"
_LATE = 0.025
_SSH = """\
#!/bin/sh
case " $* " in *" -G "* | *" -O "* | *" -N "*) ;; *) echo >> {log} ;; esac
exec ssh "$@"
"""


class Case(NamedTuple):
    """A command of sigma's, and what bare git does instead (see the floor)."""

    name: str
    command: Sequence[str]
    steps: Sequence[str]


_CASES = (
    Case("idle sync", ("sync",), ("ls-remote origin & ls-remote pi",)),
    Case(
        "send",
        ("send", "pi", "message {n}"),
        ("+", "push -q origin main", "push -q pi HEAD:refs/heads/sigma/b{n}", "+", "push -q origin main"),
    ),
    Case("sync, one new thread", ("sync",), ("fetch -q origin pi/b{n} & ls-remote pi", "+", "push -q origin main")),
    Case(
        "process, a merge and its notice",
        ("inbox", "process"),
        (
            *("ls-remote origin", "+", "push -q origin main"),
            *("push -q pi HEAD:refs/heads/sigma/n{n}", "+", "push -q origin main"),
        ),
    ),
)


class _Far:
    """sigma and pi behind sshd, and a clone of each other sigma for bare git; what connects is counted."""

    def __init__(self, place: Place, base: str, ssh: str, log: Path, connections: Path) -> None:
        self.place, self.base, self.ssh = place, base, ssh
        self._log, self._connections = log, connections
        self.env = place.env
        connections.touch()

    def share(self, shared: bool) -> None:
        """Let cn share logins, and bare git by settings of its user's; or neither."""
        sockets = self.place.root.parent / "s"
        sockets.mkdir(exist_ok=True)
        by_user = f"-o ControlMaster=auto -o ControlPersist=1 -o ControlPath={sockets}/%C"
        alone = "-o ControlMaster=no"
        self.env = {**self.place.env, "GIT_SSH_COMMAND": self.ssh if shared else f"{self.ssh} {alone}"}
        self.floor_env = {**self.env, "GIT_SSH_COMMAND": f"{self.ssh} {by_user if shared else alone}"}

    def counts(self) -> tuple[int, int]:
        """Connections and logins so far."""
        logins = self._log.read_text(errors="replace").count("Accepted publickey")
        return len(self._connections.read_text()), logins

    def build(self) -> None:
        """Two hubs that know each other, and sigma once more as bare git has it."""
        root = self.place.root
        for name in ("sigma", "pi"):
            for repo in (name, f"bare-{name}"):
                subprocess.run(
                    ["git", "init", "-q", "--bare", "-b", "main", f"{root}/served/{repo}.git"], env=self.env, check=True
                )
            self.do(*cn("init", name, "--path", str(root / name)), at=root)
            self.do("git", "remote", "add", "origin", f"{self.base}/{name}.git", at=root / name)
        for name, other in (("sigma", "pi"), ("pi", "sigma")):
            self.do(*cn("peer", "add", other, f"{self.base}/{other}.git"), at=root / name)
        self.do("git", "clone", "-q", str(root / "sigma"), str(root / "bare"), at=root)
        for name, repo in (("origin", "bare-sigma"), ("pi", "bare-pi")):
            self.do("git", "config", f"remote.{name}.url", f"{self.base}/{repo}.git", at=root / "bare")
        self.do("git", "push", "-q", "origin", "main", at=root / "bare")
        for name in ("pi", "sigma", "sigma"):
            self.do(*cn("sync"), at=root / name)

    def do(self, *words: str, at: Path) -> None:
        """One command that is not measured."""
        run(words, at, self.env)

    def prepare(self, case: Case, n: int) -> None:
        """What the command is to find."""
        root = self.place.root
        served = {name: str(root / f"served/{name}.git") for name in ("sigma", "bare-sigma")}
        if case.name.startswith("sync"):
            self.do("git", "push", "-q", served["bare-sigma"], f"HEAD:refs/heads/pi/b{n}", at=root / "bare")
            self.do(*cn("send", "sigma", f"message {n}"), at=root / "pi")
        elif case.name.startswith("process"):
            tree = self.place.git("rev-parse", "main^{tree}", at=Path(served["sigma"]))
            blob = self.place.git("hash-object", "-w", "--stdin", at=Path(served["sigma"]), stdin=b"%d\n" % n)
            listing = self.place.git("ls-tree", tree, at=Path(served["sigma"])) + f"\n100644 blob {blob}\tp{n}.md\n"
            tree = self.place.git("mktree", at=Path(served["sigma"]), stdin=listing.encode())
            words = (
                "-c",
                "user.name=pi",
                "-c",
                "user.email=pi@example.org",
                "commit-tree",
                "-p",
                "main",
                "-m",
                f"P{n}",
            )
            head = self.place.git(*words, tree, at=Path(served["sigma"]))
            self.place.git("update-ref", f"refs/heads/pi/p{n}", head, at=Path(served["sigma"]))
            self.do(*cn("sync"), at=root / "sigma")
            self.do(*cn("inbox", "triage", f"pi/p{n}", "do:merge"), at=root / "sigma")
        elif case.name.startswith("idle"):
            self.do(*cn("sync"), at=root / "sigma")


class Network(Workload):
    """Time, connections and logins of each command, with logins shared and without."""

    row = "network"
    goal = 1.3

    def results(self, plan: Plan) -> Iterator[Result]:
        """Each case with sharing, then without; the counts are of the last run."""
        with ExitStack() as stack:
            far = stack.enter_context(_served(plan))
            number = 0
            for shared in (True, False):
                far.share(shared)
                for case in _CASES:
                    sides: dict[str, list[tuple[float, int, int]]] = {"cn": [], "floor": []}
                    for _ in range(plan.runs):
                        number += 1
                        far.prepare(case, number)
                        for side in sides:
                            sides[side].append(_measure(far, case, number, side))
                    yield from self._rows(plan, case, shared, sides)

    def _rows(
        self, plan: Plan, case: Case, shared: bool, sides: dict[str, list[tuple[float, int, int]]]
    ) -> Iterator[Result]:
        name = f"{case.name}, {'one login' if shared else 'logins not shared'}"
        ours, theirs = (Cost(statistics.median(s for s, _, _ in runs), len(runs)) for runs in sides.values())
        result = Result(self.row, name, plan.runs, self.goal, ours, theirs, base="bare git")
        plan.say(f"{self.row}: {name}: {ours.value:.3f} s, {result.ratio:.2f} × bare git")
        yield result
        for at, unit in ((1, "connections"), (2, "logins")):
            ours, theirs = (Cost(float(runs[-1][at]), len(runs)) for runs in sides.values())
            yield Result(self.row, f"{name}: {unit}", plan.runs, 0, ours, theirs, unit=unit, base="bare git")


def _measure(far: _Far, case: Case, n: int, side: str) -> tuple[float, int, int]:
    """Seconds, connections, logins."""
    before = far.counts()
    words = [word.format(n=n) for word in (case.command if side == "cn" else case.steps)]
    if side == "cn":
        ran = run(cn(*words), far.place.root / "sigma", far.env)
    else:
        ran = run(floor("network", *words), far.place.root / "bare", far.floor_env)
    after = far.counts()
    return ran.seconds, after[0] - before[0], after[1] - before[1]


@contextmanager
def _served(plan: Plan) -> Iterator[_Far]:
    from tests.support.servers import ssh_server  # with pytest, which no other row needs

    folder = plan.scratch / "network"
    folder.mkdir()
    place = Place(folder / "live")
    place.root.mkdir()
    with ssh_server(place.root / "served", folder / "server") as served:
        user, _, rest = served.base.removeprefix("ssh://").partition("@127.0.0.1:")
        inner, port = rest.partition("/")[0], free_port()
        delay = subprocess.Popen(
            [sys.executable, str(_DELAY), str(port), inner, str(_LATE)], env=place.env, start_new_session=True
        )
        try:
            wait_for(port)
            connections, ssh = folder / "connections", folder / "ssh"
            ssh.write_text(_SSH.format(log=connections))
            ssh.chmod(0o755)
            command = served.env["GIT_SSH_COMMAND"].replace("StrictHostKeyChecking=yes", "StrictHostKeyChecking=no")
            command = f"{ssh} {command.partition(' ')[2]}"
            base = f"ssh://{user}@127.0.0.1:{port}{place.root / 'served'}"
            far = _Far(place, base, command, folder / "server/sshd.log", connections)
            far.share(True)
            far.build()
            yield far
        finally:
            os.killpg(delay.pid, signal.SIGTERM)
            delay.wait()


NETWORK = (Network(),)
