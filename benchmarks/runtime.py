"""Latency, memory and losses of the runtime, measured: ``make bench-runtime``.

A real daemon with its processor, on a hub in a temporary folder, talks to a Telegram and to a
model on loopback (those of the tests). Nothing here passes or fails; the figures are printed
and written to ``benchmarks/RESULTS-runtime.md``. Latency is from the update's arrival at Telegram to the
request that sends the reply. What the machine needs for bare steps is measured in the same run,
before and after, so that figures of different machines and hours can be set beside each other.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.model_server import KEY, MODEL, ModelServer, Reply, fill, model_server  # noqa: E402
from tests.support.telegram_server import TOKEN, USER, TelegramServer, telegram_server  # noqa: E402

PATIENCE = 60.0
"""Seconds that one answer may take before it counts as lost."""
_ANSWER = "---\nid: {id}\nreply: {id}|ok\n---\n\nAnswer to %s"
_AGENT = """\
llm:
  model: {model}
  base_url: {api}
telegram:
  base_url: {bot}
  allowed_users: [{user}]
"""


class Bench:
    """A hub, its daemon, and both servers."""

    def __init__(self, folder: Path, bot: TelegramServer, api: ModelServer) -> None:
        self.hub, self.bot, self.api = folder / "hub", bot, api
        home = folder / "home"
        home.mkdir()
        kept = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
        self.env = {name: os.environ[name] for name in kept if name in os.environ} | {
            "HOME": str(home),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONPATH": str(ROOT),
            "TELEGRAM_TOKEN": TOKEN,
            "ANTHROPIC_KEY": KEY,
        }
        self.peaks = {"daemon": 0, "processor": 0}
        self.delay = 0.0
        api.answer = self._answer
        self._run(sys.executable, "-P", "-m", "cn", "init", "-q", "sigma", "--path", str(self.hub))
        settings = self.hub / ".cn/hub.yaml"
        settings.write_text(settings.read_text().replace("interface: triage", "interface: queue"))
        agent = _AGENT.format(model=MODEL, api=api.url, bot=bot.url, user=USER)
        (self.hub / ".cn/agent.yaml").write_text(agent)
        self.git("-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "-qam", "Benchmark")

    def _answer(self, body: dict[str, object]) -> Reply:
        text = fill(_ANSWER, body)
        asked = str(body["messages"][-1]["content"])  # type: ignore[index]
        wanted = [word for word in asked.split() if word.startswith("question-")][-1:]
        return Reply(text % (wanted[0] if wanted else "nothing"), hang=self.delay)

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.hub.parent, env=self.env, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def git(self, *words: str) -> str:
        """Plain git in the hub."""
        return self._run("git", "-C", str(self.hub), *words)

    def commits(self) -> int:
        """How many commits main has."""
        return int(self.git("rev-list", "--count", "HEAD"))

    @contextmanager
    def daemon(self, log: Path) -> Iterator[None]:
        """A running daemon, its memory watched."""
        words = [sys.executable, "-P", "-m", "cn", "--hub", str(self.hub), "agent", "--daemon"]
        with log.open("ab") as out:
            process = subprocess.Popen(words, cwd=self.hub, env=self.env, stdout=out, stderr=out)
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(process.pid, ended), daemon=True)
        watch.start()
        try:
            wait_for(lambda: self.bot.count("getUpdates") > 0)
            yield
        finally:
            ended.set()
            watch.join()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            finally:
                process.kill()

    def _watch(self, pid: int, ended: threading.Event) -> None:
        while not ended.wait(0.05):
            self.peaks["daemon"] = max(self.peaks["daemon"], peak(pid))
            with suppress(OSError):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                self.peaks["processor"] = max([self.peaks["processor"], *(peak(int(c)) for c in children)])

    def latencies(self, count: int, pause: float, delay: float, name: str) -> list[float]:
        """Seconds of ``count`` messages, each said ``pause`` after the answer to the one before."""
        self.delay = delay
        found = []
        for n in range(count):
            time.sleep(pause)
            sent, begun = self.bot.count("sendMessage"), time.monotonic()
            self.bot.say(f"question-{name}-{n}")
            wait_for(lambda was=sent: self.bot.count("sendMessage") > was)  # type: ignore[misc]
            found.append([c.at for c in self.bot.calls if c.method == "sendMessage"][-1] - begun)
        return found

    def flood(self, count: int) -> tuple[float, int, int]:
        """``count`` messages at once: seconds for all, how many answers are lost, how many doubled."""
        self.delay = 0.0
        names = {f"question-flood-{n}" for n in range(count)}
        begun = time.monotonic()
        for name in names:
            self.bot.say(name)
        seen = -1
        while (there := len(self._answered(names))) < count and there > seen:
            seen = there
            with suppress(TimeoutError):
                wait_for(lambda was=there: len(self._answered(names)) > was)  # type: ignore[misc]
        seconds = time.monotonic() - begun
        time.sleep(2)
        answers = self._answered(names)
        return seconds, count - len(answers), sum(answers.values()) - len(answers)

    def _answered(self, names: set[str]) -> Counter[str]:
        words = (text.split()[-1] for text in self.bot.texts())
        return Counter(word for word in words if word in names)


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds; raises :class:`TimeoutError`."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.002)


def peak(pid: int) -> int:
    """``VmHWM`` of a process in kB (proc(5)); 0 where there is none."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1])
    return 0


def timed(command: Sequence[str], folder: Path, times: int = 5) -> float:
    """The median of some runs of a command, in seconds."""
    found = []
    for _ in range(times):
        begun = time.monotonic()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        found.append(time.monotonic() - begun)
    return statistics.median(found)


def floors(folder: Path) -> dict[str, float]:
    """What bare steps cost here and now, in seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org"]
    timed([*git, "init", "-q"], folder, 1)
    return {
        "`git --version`": timed(["git", "--version"], folder),
        "`git commit` (bare)": timed([*git, "commit", "-q", "--allow-empty", "-m", "b"], folder),
        "python, nothing else": timed([sys.executable, "-c", "pass"], folder),
        "python and `import anthropic`": timed([sys.executable, "-c", "import anthropic"], folder, 3),
    }


def spread(seconds: Sequence[float]) -> str:
    """The median and the 95th percentile (nearest rank)."""
    ordered = sorted(seconds)
    rank = max(0, -(-95 * len(ordered) // 100) - 1)
    return f"{statistics.median(ordered):.2f} | {ordered[rank]:.2f}"


def measure(folder: Path, options: argparse.Namespace) -> str:
    """All of it, as the page that is written."""
    before = floors(folder / "floor")
    with telegram_server() as bot, model_server() as api:
        bench = Bench(folder, bot, api)
        with bench.daemon(folder / "log"):
            time.sleep(options.pause)
            bench.latencies(1, options.pause, 0.0, "first")
            first = bench.commits()
            fast = bench.latencies(options.paced, options.pause, 0.0, "fast")
            each = (bench.commits() - first) / options.paced
            slow = bench.latencies(max(5, options.paced // 4), options.pause, 4.0, "slow")
            seconds, lost, doubled = bench.flood(options.messages)
        peaks = {name: size / 1024 for name, size in bench.peaks.items()}
    after = floors(folder / "floor")
    load = os.getloadavg()[0]
    lines = [
        "# The runtime, measured",
        "",
        "Written by `make bench-runtime`; see `benchmarks/runtime.py` for what is measured.",
        "",
        f"{datetime.now():%Y-%m-%d}; {platform.machine()}, {os.cpu_count()} CPUs, "
        f"load {load:.1f} at the end; "
        f"Python {platform.python_version()}, {bench.git('--version')}, "
        f"anthropic {version('anthropic')}, python-telegram-bot {version('python-telegram-bot')}.",
        "",
        "| from update to reply, seconds | messages | p50 | p95 |",
        "|---|---|---|---|",
        f"| the model answers at once | {len(fast)} | {spread(fast)} |",
        f"| the model takes 4 s | {len(slow)} | {spread(slow)} |",
        "",
        f"Each message comes {options.pause:g} s after the answer to the one before. "
        f"A message makes {each:.1f} commits.",
        "",
        "| under load | |",
        "|---|---|",
        f"| messages at once | {options.messages} |",
        f"| seconds a message | {seconds / options.messages:.2f} |",
        f"| lost, doubled | {lost}, {doubled} |",
        f"| daemon, most memory resident | {peaks['daemon']:.1f} MB |",
        f"| processor, most memory resident | {peaks['processor']:.1f} MB |",
        "",
        "| the floor, ms | before | after |",
        "|---|---|---|",
        *(f"| {name} | {before[name] * 1000:.0f} | {after[name] * 1000:.0f} |" for name in before),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--messages", type=int, default=50, help="messages at once, under load")
    parser.add_argument("--paced", type=int, default=40, help="messages one by one, for the latency")
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between answer and next message")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/RESULTS-runtime.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cn-bench-") as folder:
        text = measure(Path(folder), options)
    print(text)
    options.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
