"""A clone whose configuration nobody has accepted: no command sends a key anywhere, or asks whom main's files name."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cn.llm import config as llm_config
from cn.run import view
from cn.values import accepted
from tests.support.desk import work_queue
from tests.support.hubs import ROOT, clone, cn, git
from tests.support.runtime import open_item
from tests.support.world import Node, World

KEYS = {"ANTHROPIC_KEY": "sk-ant-key-of-this-user", "TELEGRAM_TOKEN": "123456:token-of-this-user"}
_WORDS = {
    "NAME": "nobody", "URL": "https://eve.example/x.git", "KEY": "no-key", "THREAD": "pi/proposal",
    "DECISION": "do:merge", "PEER": "pi", "MESSAGE": "hello", "TOPIC": "topic", "ID": "nothing", "TITLE": "title",
    "DESCRIPTION": "concern", "SENT": "topic",
    "TO": "pi", "SHELL": "bash", "FOLDER": "exported", "WHO": "root", "OUTCOME": "root", "HANDLER": "root",
    "LEVEL": "read", "RESOURCE": "root", "RATIONALE": "why", "CHILD": "root", "PARENT": "root", "OUTCOMES": "root",
    "BOSS": "root", "TEXT": "text", "FILE": "file", "PATH": "path", "MAIL": "mail", "GRANT": "grant", "HOLDER": "root",
}  # fmt: skip
_ASKED = {"cn sign": ("no-key",), "cn daily": (), "cn init": ("other", "--path", "other")}
_OTHERWISE = {
    "cn cron install": ("cn cron install --dry-run",),  # the user's own crontab
    "cn cron remove": ("cn cron remove --dry-run",),
    "cn web": ("cn web --export site",),  # else it serves until it is ended
    "cn agency init": (),  # in its place below: before, nobody serves Agency
    "cn agent": ("cn agent", "cn agent --process", "cn agent --daemon", "cn agent --stdio"),
    "cn doctor": ("cn doctor", "cn doctor --full", "cn doctor --fix --full"),
    "cn context": ("cn context", "cn context {id}", "cn context --text"),
    "cn replay": ("cn replay", "cn replay {id}", "cn replay --as-sent {id}", "cn replay --model other"),
    "cn peer sync": ("cn peer sync", "cn peer sync pi"),
    "cn peer accept": ("cn peer accept pi",),
    "cn send": ("cn send pi hello", "cn send omega hello"),
    "cn out do reply": ("cn out do reply --message x",),
    "cn done": ("cn done pi/proposal", "cn done --all --yes"),
}


def every_command() -> list[str]:
    """Those of docs/commands.md, each with words in the place of what it takes."""
    rows = re.findall(r"^\| `(cn [^`]*)` \|", (ROOT / "docs/commands.md").read_text("utf-8"), re.M)
    found: list[str] = []
    for row in rows:
        name = " ".join(re.findall(r"(?:^| )([a-z]+)(?= |$)", row))
        wanted = re.findall(r"(?<= )[A-Z]+(?= |$)", row)
        found += _OTHERWISE.get(name, (" ".join([name, *_ASKED.get(name, [_WORDS[word] for word in wanted])]),))
    return [*found, "cn agency init", "cn agency tick", "cn inbox list", "cn -v sync", "cn sync --dry-run"]


class Listener:
    """A port on loopback that takes what comes, answers nothing, and remembers all of it."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.got: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self.socket.accept()
            except OSError:
                return
            with line, suppress(OSError):
                line.settimeout(5)
                self.got.append(line.recv(1 << 16))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def listeners(*names: str) -> Iterator[dict[str, Listener]]:
    found = {name: Listener() for name in names}
    yield found
    for one in found.values():
        one.socket.close()


def configured(world: World, sigma: Node, pi: Node, places: dict[str, Listener]) -> tuple[str, str]:
    """``sigma`` with an archived answer and a proposal that waits; its main with these addresses, and the id."""
    work_queue(sigma)
    id = open_item(sigma, "a question")
    sigma.process()
    sigma.cn("out", "do", "ack", "--reason", "read")
    sigma.process()
    world.propose(pi, sigma)
    sigma.sync()
    agent = f"llm:\n  model: x\n  base_url: {places['model'].url}\n"
    agent += f"telegram:\n  allowed_users: [1]\n  base_url: {places['telegram'].url}\n"
    rows = [f"- name: pi\n  hub: {places['pi'].url}/pi.git", f"- name: omega\n  hub: {places['omega'].url}/omega.git"]
    peers = "\n".join(["# Peers", "", "```yaml", *rows, "  deliver: pickup", "```", ""])
    return sigma.write({".cn/agent.yaml": agent, "state/peers.md": peers}, "evil"), id


@pytest.mark.parametrize("accepted_before", [False, True])
def test_no_command_sends_a_key_or_asks_whom_main_names(
    world: World, sigma: Node, pi: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, accepted_before: bool
) -> None:
    with listeners("model", "telegram", "pi", "omega", "origin") as places:
        before = git(sigma.root, "rev-parse", "main").strip()
        if accepted_before:
            sigma.sync()
        fresh = tmp_path / "fresh"
        if accepted_before:
            clone(sigma.url, fresh)
            cn("trust", "--yes", hub=fresh, check=0)
            git(fresh, "config", "user.name", "sigma")
            git(fresh, "config", "user.email", "sigma@cn.invalid")
        _, id = configured(world, sigma, pi, places)
        if accepted_before:
            git(fresh, "pull", "-q", "origin", "main")
        else:
            clone(sigma.url, fresh, trusted=False)
        assert git(fresh, "rev-parse", "main").strip() != before
        git(fresh, "remote", "set-url", "origin", f"{places['origin'].url}/sigma.git")
        (fresh / "state/output.md").unlink(missing_ok=True)
        monkeypatch.chdir(fresh)
        for words in every_command():
            done = cn(*words.format(id=id).split()[1:], env=KEYS, stdin="a question\n", seconds=60)
            asked = {name: one.got for name, one in places.items() if name != "origin" and one.got}
            assert not asked, (words, asked, done)
            assert "Traceback" not in done.stderr, (words, done.stderr)
        sent = b"".join(places["origin"].got)
        assert sent, "origin is asked what main is"
        assert not any(key.encode() in sent for key in KEYS.values())


def test_the_doctor_says_whom_it_leaves_out(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    with listeners("model", "telegram", "pi", "omega") as places:
        configured(world, sigma, pi, places)
        fresh = clone(sigma.url, tmp_path / "fresh", trusted=False)
        told = cn("doctor", "--full", hub=fresh, env=KEYS).stdout
        assert "no peer was asked: this clone has not accepted main's configuration" in told
        assert "the model was not looked up: this clone has not accepted main's configuration" in told


def test_only_what_looks_whether_it_is_accepted_says_so() -> None:
    """mypy sees that whoever opens a key shows an ``Accepted``; nobody else may make one, or read a key beside it."""
    made = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "cn").rglob("*.py"))
        if re.search(r"\bAccepted\(|\._value\b", path.read_text("utf-8"))
    ]
    assert made == [Path(module.__file__ or "").relative_to(ROOT).as_posix() for module in (llm_config, view, accepted)]
