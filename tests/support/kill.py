"""Kill a ``cn`` process at every step it takes; what is left must come to the same end.

For any command of any hub: :class:`Trial` takes a world as it stands, a command, and how to
come to rest. It records the steps of an undisturbed run (:mod:`killer.sitecustomize`), and
then, from the same beginning each time, kills the command at one of them, lets cn go on as
cron does, and compares everything that must not depend on when a run was killed.
"""

from __future__ import annotations

import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from pprint import pformat
from typing import Any

from tests.support.hubs import ROOT, branches, cn_env, git, git_bytes
from tests.support.world import Node

KILLER = Path(__file__).with_name("killer")
State = dict[str, Any]
Wrong = tuple[str, str, State]
"""A kill, the step it hit, and what came out otherwise than it should."""
_MASKS = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\| \d\d:\d\d \|"), "| TIME |"),
    (re.compile(r"\b\d{10} [+]0000\b"), "TIME"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "PORT"),
    (re.compile(r" \(it was gone already\)"), ""),  # by our own push, whose answer nobody heard
    (re.compile(r"(?<=-)(?:[0-9a-f]{32}|[0-9a-f]{8})(?=-delete\.md\b|\.md\b)"), "HEX"),
    (re.compile(r"(?<!-)\b\d{8}(?=-|\.md\b)"), "DAY"),
    # Also of letters alone: words that look so are masked on both sides.
    (re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{10}|[0-9a-f]{6,8})\b"), "HEX"),
)


@dataclass(frozen=True, order=True)
class Kill:
    """At which step, and whether before it, after it, or together with the process it started."""

    step: int
    when: str

    def __str__(self) -> str:
        return f"{self.step}:{self.when}"


def mask(text: str) -> str:
    """``text`` without what the clock and the hashes that hang on it make different."""
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text


@dataclass
class Trial:
    """One command on ``node``, which lies in ``folder`` with all it speaks to, and what it comes to.

    ``settle`` lets the hubs come to rest, ``words`` are the command; ``codes`` how it may end
    undisturbed. ``extra`` adds to what is compared.
    """

    folder: Path
    node: Node
    peers: Sequence[Node]
    words: Sequence[str]
    settle: Callable[[], None]
    codes: Sequence[int] = (0,)
    extra: Callable[[], State] = dict
    steps: list[str] = field(default_factory=list)
    good: State = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start = self.folder.with_name(self.folder.name + "-start")
        self._log = self.folder.with_name(self.folder.name + "-steps")
        self._day = _today()
        shutil.rmtree(self._start, ignore_errors=True)
        shutil.copytree(self.folder, self._start, symlinks=True)

    def record(self) -> State:
        """An undisturbed run: its steps, and what it comes to."""
        self._day = _today()
        self._restore()
        self._log.unlink(missing_ok=True)
        done = self._run(f"{self._log}", "")
        assert done.returncode in self.codes, done.stderr
        self.steps = self._log.read_text().splitlines()
        self.settle()
        self.good = self.state()
        return self.good

    def kills(self) -> list[Kill]:
        """Every kill there is: before each step, with each file just opened, around each process started."""
        found = []
        for number, line in enumerate(self.steps, 1):
            kind = line.split(" ")[1]
            if kind == "read":
                continue  # it changes nothing: the end of one step is the time before the next
            found.append(Kill(number, "before"))
            if kind in ("start", "open"):
                found.append(Kill(number, "after"))
            if kind == "start":
                found.append(Kill(number, "both"))
        return found

    def slice_of_kills(self) -> list[Kill]:
        """All, or with ``TEST_SLICE=2:5`` every fifth from the third on, to share the work."""
        return _slice(self.kills())

    def slice_of_child_kills(self) -> list[Kill]:
        """The same of :meth:`child_kills`."""
        return _slice(self.child_kills())

    def child_kills(self) -> list[Kill]:
        """Every process that is started, killed alone, also one that only reads: cn lives on."""
        kinds = [line.split(" ")[1] for line in self.steps]
        return [Kill(n, "child") for n, kind in enumerate(kinds, 1) if kind in ("start", "read")]

    def sample(self, every: int, seed: object) -> list[Kill]:
        """Every n-th of them, from a seeded place on."""
        return self.kills()[random.Random(str(seed)).randrange(every) :: every]

    def try_kills(self, kills: Iterable[Kill]) -> int:
        """Each of them from the same beginning; how many met the process. Fails with all that is wrong."""
        killed, wrong = self.count_kills(kills)
        assert not wrong, f"{len(wrong)} of {killed} kills: {pformat(wrong, width=160)}"
        return killed

    def count_kills(self, kills: Iterable[Kill]) -> tuple[int, list[Wrong]]:
        """The same, without judging: how many met the process, and after which it came out otherwise."""
        killed: int = 0
        wrong: list[Wrong] = []
        for kill in kills:
            met, difference = self.kill(kill)
            killed += met
            if difference:
                wrong.append((str(kill), self.steps[kill.step - 1], difference))
                print(*wrong[-1], flush=True)
        return killed, wrong

    def kill(self, kill: Kill) -> tuple[bool, State]:
        """Die there, and go on. Whether it met the process, and what came out otherwise than it should."""
        codes: list[int] = []

        def die() -> None:
            done = self._run("", str(kill))
            codes.append(done.returncode)
            if kill.when == "child":
                assert done.returncode in (0, 1), (kill, done.stderr)
                assert "internal error" not in done.stderr, (kill, done.stderr)
            else:
                assert done.returncode in (*self.codes, -signal.SIGKILL), (kill, done.stderr)

        wrong = self.disturb(die)
        return codes[-1] == -signal.SIGKILL, wrong

    def interrupt(self, step: int, name: str) -> tuple[int, list[str], State]:
        """Send SIGINT or SIGTERM there: the exit code, the locks left behind, and what came out otherwise."""
        codes: list[int] = []
        left: list[str] = []

        def stop() -> None:
            done = self._run("", f"{step}:{name}")
            assert "Traceback" not in done.stderr, done.stderr
            codes.append(done.returncode)
            locks = [*self.node.root.glob(".git/*.lock"), *self.node.root.glob(".git/refs/**/*.lock")]
            left.extend(sorted(str(path) for path in locks))

        wrong = self.disturb(stop)
        return codes[-1], left, wrong

    def pause(self, step: int, meanwhile: Callable[[], object]) -> tuple[int, State]:
        """Stop it there, do something ``meanwhile``, continue it: the exit code, and what came out otherwise."""
        codes: list[int] = []

        def stop() -> None:
            done = self._run("", f"{step}:STOP", meanwhile)
            assert "Traceback" not in done.stderr, done.stderr
            codes.append(done.returncode)

        wrong = self.disturb(stop)
        return codes[-1], wrong

    def say(self, step: int, name: str) -> tuple[int, str]:
        """From the beginning: send SIGINT or SIGTERM there. The exit code, and all that was said."""
        self._restore()
        done = self._run("", f"{step}:{name}")
        return done.returncode, done.stderr

    def disturb(self, act: Callable[[], None]) -> State:
        """From the beginning: ``act``, and go on as cron does; what came out otherwise than it should.

        Logs and ledger have a file a day: after midnight (UTC) it is compared with an undisturbed run
        of the new day, and what midnight came into is done again.
        """
        while True:
            if self._day != _today():
                steps = self.steps  # the kills are those of the first day
                self.record()
                self.steps = steps
            self._restore()
            act()
            try:
                self.settle()
            except AssertionError as error:
                return {"settling": str(error)}
            found = self.state()
            if self._day == _today():
                return {k: differences(found.get(k), v) for k, v in self.good.items() if found.get(k) != v}

    def _run(self, log: str, at: str, stopped: Callable[[], object] = lambda: None) -> subprocess.CompletedProcess[str]:
        env = {"PYTHONPATH": f"{KILLER}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        env |= {"CN_KILL_LOG": log, "CN_KILL_AT": at, "CN_KILL_ROOT": str(self.folder)}
        words = [sys.executable, "-m", "cn", "--hub", str(self.node.root), *self.words]
        # To files, not pipes: a child that outlives the killed process would hold those open.
        with (self.folder.with_name("said")).open("w+") as said:
            with subprocess.Popen(
                words,
                env=cn_env(env),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's & ignores it
            ) as child:
                try:
                    if at.endswith(":STOP"):
                        found = os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                        if found is not None and found.si_code == os.CLD_STOPPED:
                            stopped()
                            child.send_signal(signal.SIGCONT)
                    child.wait(60)
                finally:
                    child.kill()
            said.seek(0)
            return subprocess.CompletedProcess(words, child.returncode, "", said.read())

    def _restore(self) -> None:
        for name in os.listdir(self.folder):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        shutil.copytree(self._start, self.folder, symlinks=True, dirs_exist_ok=True)

    def state(self) -> State:
        """Everything that must not depend on when a run was killed."""
        found = state_of(self.node)
        for peer in self.peers:
            found[f"sent to {peer.name}"] = messages(self.node, peer)
        return found | self.extra()


def _today() -> date:
    return datetime.now(UTC).date()


def _slice(kills: list[Kill]) -> list[Kill]:
    first, _, step = os.environ.get("TEST_SLICE", "0:1").partition(":")
    return kills[int(first) :: int(step)]


def state_of(node: Node) -> State:
    """A hub: main, its home's branches, the user's work, what lies on this machine, leftovers."""
    root = node.root
    cn = root / ".git/cn"
    return {
        "main": tree(root, "main"),
        "home": sorted(branches(node.home)),
        "in step": branches(node.home)["main"] == branches(root)["main"],
        "status": git(root, "status", "--porcelain"),
        "staged": git(root, "diff", "--cached"),
        "unstaged": git(root, "diff"),
        "fsck": git(root, "fsck", "--no-dangling", "--no-progress"),
        "home fsck": git(node.home, "fsck", "--no-dangling", "--no-progress"),
        "input": _text(root / "state/input.md"),
        "output": _text(root / "state/output.md"),
        "cn.log": sorted(mask(_text(root / "logs/cn.log") or "").split("\n")),
        "pins": sorted(r for r in node.refs() if r.startswith("refs/cn/pins/")),
        "leftovers": sorted(
            str(path.relative_to(root))
            for path in (
                *root.glob(".git/*.lock"),
                *root.glob(".git/refs/**/*.lock"),
                *root.glob("**/.cn-tmp-*"),
                *(cn / name for name in ("journal", "restore", "txn", "outgoing") if (cn / name).exists()),
                *cn.glob("push/*"),
                *cn.glob("aside/**/*.md"),
            )
        ),
    }


def messages(node: Node, peer: Node) -> dict[str, list[tuple[str, str]]]:
    """What lies at a peer of ours."""
    ours = [name for name in branches(peer.home) if name.startswith(f"{node.name}/")]
    return {name: tree(peer.home, name) for name in ours}


def tree(repo: Path, ref: str) -> list[tuple[str, str]]:
    """Every file of a commit, path and text masked. A list: masked paths may be the same."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(git_bytes(repo, "archive", "--format=tar", ref))) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            if file is not None:
                found.append((mask(member.name), _sorted_rows(mask(file.read().decode("utf-8", "replace")))))
    return sorted(found)


def _sorted_rows(text: str) -> str:
    """Two peers are served at once: whose row comes first is chance."""
    lines = text.split("\n")
    rows = [i for i, line in enumerate(lines) if line.startswith("| TIME |") or line.startswith("TIME ")]
    for index, line in zip(rows, sorted(lines[i] for i in rows), strict=True):
        lines[index] = line
    return "\n".join(lines)


def _text(path: Path) -> str | None:
    return mask(path.read_text("utf-8")) if path.is_file() else None


def differences(found: object, wanted: object) -> object:
    """What is too much and what is missing, where that can be told."""
    if isinstance(found, list) and isinstance(wanted, list):
        return {
            "too much": [x for x in found if found.count(x) > wanted.count(x)],
            "missing": [x for x in wanted if wanted.count(x) > found.count(x)],
        }
    return {"found": found, "wanted": wanted}
