"""What a run costs grows as what it meets does: twice as much, about twice the processor's time.

Each case gives a hub more and more of one thing, and each time a whole command is run as a process of its own, with
every git that it starts. Processor time is compared, not the clock. What a command costs with nothing to do is in each
size, so what each doubling *adds* is compared with what the one before it added: 2 where the cost is linear, 4 where it
is quadratic.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from cn.protocol.layout import MESSAGE, NOTICE
from cn.protocol.message import About, Message, format_message
from cn.values.names import Branch, Name, Oid
from cn.values.timestamps import parse_stamp
from tests.support.desk import answer, work_queue
from tests.support.figures import observed
from tests.support.hubs import git, git_bytes, tip
from tests.support.world import World

MOST = 3.2
"""Times what the doubling before added."""
FREE = 0.3
"""Seconds that a doubling may add whatever the one before it added."""
ENOUGH = 3.0
"""Seconds of one run after which no larger one is tried."""
SIZES = 5
"""How many at most, each twice the one before."""
CREATED = parse_stamp("2026-02-05T12:00Z")
CONFIG = "limits:\n  branches_per_peer: 100000\n  peer_seconds: 600\n"


def _begin(n: int, branch: int) -> str:
    """The first lines of a commit of pi's person (git-fast-import(1))."""
    at = 1_770_000_000 + n
    return f"commit refs/made/{branch}\nmark :{n + 1}\ncommitter Pi <pi@people.example> {at} +0000\ndata 2\nm\n"


class Scene:
    """A hub ``sigma`` with a peer ``pi``, and pi's person."""

    def __init__(self, world: World, config: str = CONFIG) -> None:
        self.world = world
        self.sigma, self.pi = world.hub("sigma", config=config), world.hub("pi")
        world.link(self.sigma, self.pi)
        self.told: list[str] = []
        self.sigma.sync()

    def run(self, *words: str) -> float:
        """Seconds of processor time that the command took, with all that it started."""
        before = _spent()
        done = self.sigma.cn(*words, check=None, started=True)
        spent = _spent() - before
        assert done.returncode in (0, 1), done.stderr
        self.told.append(f"{done.stdout}{done.stderr}")
        return spent

    def sync(self) -> float:
        return self.run("inbox", "sync")

    def process(self) -> float:
        return self.run("inbox", "process")

    def offer(self, names: Iterable[str], commits: Iterable[str], home: Path | None = None) -> None:
        """Branches in the mailbox, or in another repository, at commits that are there."""
        lines = "".join(f"update refs/heads/{name} {oid}\n" for name, oid in zip(names, commits, strict=True))
        git(home or self.sigma.home, "update-ref", "--stdin", stdin=lines)
        git(home or self.sigma.home, "pack-refs", "--all")

    def proposals(self, count: int, home: Path | None = None, start: int = 0) -> list[str]:
        """Commits in the mailbox's repository, each with a file of its own upon main."""
        repo = home or self.sigma.home
        stream = "".join(
            f"{_begin(n, n)}from refs/heads/main^0\nM 644 inline docs/p{n}.md\ndata 2\nx\n\n"
            for n in range(start, start + count)
        )
        return _imported(repo, stream)

    def messages(
        self, count: int, kind: str = MESSAGE, about: Callable[[int], About | None] = lambda n: None
    ) -> list[str]:
        """Messages of pi's to sigma, as commits in the mailbox's repository."""
        parts = []
        for n in range(count):
            data = format_message(
                Message(kind, Name("pi"), Name("sigma"), f"Number {n}", CREATED, "Words.\n", about=about(n))
            ).decode()
            parts.append(f"{_begin(n, n)}M 644 inline message.md\ndata {len(data)}\n{data}\n")
        return _imported(self.sigma.home, "".join(parts))

    def message(self, text: bytes) -> None:
        """One message whose file is ``text``, on the branch ``pi/words``."""
        oid = git(self.sigma.home, "hash-object", "-w", "--stdin", stdin=text)
        tree = git(self.sigma.home, "mktree", stdin=f"100644 blob {oid}\tmessage.md\n")
        self.offer(["pi/words"], [git(self.sigma.home, "commit-tree", tree, "-m", "words")])

    def decide_all(self, decision: str, body: str = "") -> None:
        for name in self.sigma.threads():
            self.sigma.write_triage(name, decision)
            if body:
                path = self.sigma.root / "threads/inbox" / name
                path.write_text(f"{path.read_text('utf-8')}\n{body}", "utf-8")


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _imported(repo: Path, stream: str) -> list[str]:
    """The commits of a stream (git-fast-import(1)), in its order."""
    git(repo, "fast-import", "--quiet", "--force", "--export-marks=made", stdin=stream)
    file = repo / "made" if (repo / "made").is_file() else repo / ".git/made"
    found = dict(line.split(" ") for line in file.read_text().splitlines())
    made = git(repo, "for-each-ref", "--format=delete %(refname)", "refs/made/")
    git(repo, "update-ref", "--stdin", stdin=made + "\n")
    return [oid for _, oid in sorted(found.items(), key=lambda item: int(item[0][1:]))]


def _new_proposals(scene: Scene, size: int) -> float:
    scene.offer((f"pi/p{n}" for n in range(size)), scene.proposals(size))
    return scene.sync()


def _new_messages(scene: Scene, size: int) -> float:
    scene.offer((f"pi/m{n}" for n in range(size)), scene.messages(size))
    return scene.sync()


def _merges(scene: Scene, size: int) -> float:
    _new_proposals(scene, size)
    scene.decide_all("do:merge")
    return scene.process()


def _deletions(scene: Scene, size: int) -> float:
    _new_proposals(scene, size)
    scene.decide_all("delete:not now")
    return scene.process()


def _replies(scene: Scene, size: int) -> float:
    _new_messages(scene, size)
    scene.decide_all("do:reply:answer", "Thank you.\n")
    return scene.process()


def _moved(scene: Scene, size: int) -> float:
    _new_proposals(scene, size)
    scene.offer((f"pi/p{n}" for n in range(size)), scene.proposals(size, start=size))
    return scene.sync()


def _withdrawn(scene: Scene, size: int) -> float:
    _new_proposals(scene, size)
    lines = "".join(f"delete refs/heads/pi/p{n}\n" for n in range(size))
    git(scene.sigma.home, "update-ref", "--stdin", stdin=lines)
    return scene.sync()


def _pending(scene: Scene, size: int) -> float:
    _new_proposals(scene, size)
    scene.offer(["pi/one-more"], [scene.proposals(1, start=size)[0]])
    return scene.sync()


def _looked_at(scene: Scene, size: int) -> float:
    _new_proposals(scene, size)
    return scene.run("status")


def _odd_names(scene: Scene, size: int) -> float:
    head = tip(scene.sigma.home, "main")
    scene.offer((f"pi/{'x' * 200}-{n}-\u202e" for n in range(size)), [head] * size)
    return scene.sync()


def _nobodys(scene: Scene, size: int) -> float:
    head = tip(scene.sigma.home, "main")
    scene.offer((f"nobody{n}/x" for n in range(size)), [head] * size)
    return scene.sync()


def _in_our_name(scene: Scene, size: int) -> float:
    scene.offer((f"sigma/a{n}" for n in range(size)), scene.proposals(size, scene.pi.home), scene.pi.home)
    return scene.sync()


def _notices(scene: Scene, size: int) -> float:
    heads = scene.proposals(size, scene.pi.home)
    scene.offer((f"sigma/a{n}" for n in range(size)), heads, scene.pi.home)
    scene.sync()
    refused = scene.messages(
        size, NOTICE, lambda n: About(Branch(f"sigma/a{n}"), Oid(heads[n]), "refused", reason="no")
    )
    scene.offer((f"pi/notice-a{n}" for n in range(size)), refused)
    return scene.sync()


def _line(scene: Scene, size: int) -> str:
    """The last of so many commits, one upon the other and the first upon main."""
    first = "from refs/heads/main^0\n"
    changes = (f"M 644 inline docs/p{n % 50}.md\ndata <<E\n{n}\nE\n" for n in range(size))
    stream = "".join(f"{_begin(n, 0)}{'' if n else first}{change}" for n, change in enumerate(changes))
    return _imported(scene.sigma.home, stream)[-1]


def _history(scene: Scene, size: int) -> float:
    scene.offer(["pi/long"], [_line(scene, size)])
    return scene.sync()


def _files(scene: Scene, size: int) -> float:
    files = "".join(f"M 644 inline docs/{'long' * 20}{n}.md\ndata 2\nx\n" for n in range(size))
    scene.offer(["pi/wide"], _imported(scene.sigma.home, f"{_begin(0, 0)}from refs/heads/main^0\n{files}"))
    cost = scene.sync()
    for name in scene.sigma.threads():
        scene.sigma.write_triage(name, "do:merge")
    return cost + scene.process()


def _folders(scene: Scene, size: int) -> float:
    oid = git(scene.sigma.home, "hash-object", "-w", "--stdin", stdin="x\n")
    tree = git(scene.sigma.home, "mktree", stdin=f"100644 blob {oid}\tx.md\n")
    for _ in range(size):
        tree = git(scene.sigma.home, "mktree", stdin=f"040000 tree {tree}\td\n")
    head = git(scene.sigma.home, "commit-tree", tree, "-p", "main", "-m", "deep")
    scene.offer(["pi/deep"], [head])
    return scene.sync()


def _peers(scene: Scene, size: int) -> float:
    listed = "".join(f"- name: p{n}\n  hub: {scene.pi.url}\n" for n in range(size))
    old = (scene.sigma.root / "state/peers.md").read_text()
    at = old.rindex("```")
    scene.sigma.write({"state/peers.md": old[:at] + listed + old[at:]}, "peers")
    return scene.sync()


def _strays(scene: Scene, size: int) -> float:
    for n in range(size):
        (scene.sigma.root / "threads/inbox" / f"stray{n}.md").write_text("## Triage\n\ndecision: do:merge\n")
    return scene.process()


def _queued(scene: Scene, size: int) -> float:
    work_queue(scene.sigma)
    scene.offer((f"pi/m{n}" for n in range(size)), scene.messages(size))
    return scene.sync() + scene.run("queue")


def _commits_at_origin(scene: Scene, size: int) -> float:
    scene.offer(["main"], [_line(scene, size)])
    return scene.sync()


COUNTS: dict[str, tuple[Callable[[Scene, int], float], int]] = {
    "odd names": (_odd_names, 400),
    "new proposals": (_new_proposals, 50),
    "new messages": (_new_messages, 50),
    "merges": (_merges, 50),
    "deletions": (_deletions, 50),
    "replies": (_replies, 50),
    "moved branches": (_moved, 50),
    "withdrawn branches": (_withdrawn, 50),
    "one more beside": (_pending, 100),
    "looked at": (_looked_at, 100),
    "names of nobody": (_nobodys, 400),
    "branches in our name": (_in_our_name, 50),
    "notices": (_notices, 50),
    "a history": (_history, 400),
    "files of a branch": (_files, 200),
    "folders within folders": (_folders, 100),
    "peers": (_peers, 25),
    "strays": (_strays, 200),
    "a queue": (_queued, 50),
    "commits at origin": (_commits_at_origin, 400),
}
"""What a hub meets many of: the run that is measured, and how many at first."""

HEAD = format_message(Message(MESSAGE, Name("pi"), Name("sigma"), "Words", CREATED, "")).rstrip(b"\n")
ELSEWHERE = HEAD.replace(b"to: sigma", b"to: omega")


def _sent(head: bytes, unit: bytes, end: bytes = b"\n") -> Callable[[Scene, int], float]:
    """A sync that brings it, another one beside it, and a decision about what was shown."""

    def run(scene: Scene, size: int) -> float:
        scene.message(head + b"\n\n" + unit * (size // len(unit)) + end)
        cost = scene.sync() + scene.sync()
        for name in scene.sigma.threads():
            scene.sigma.write_triage(name, "delete:read")
        return cost + scene.process()

    return run


def _signed(scene: Scene, size: int) -> float:
    raw = git_bytes(scene.sigma.home, "cat-file", "commit", scene.proposals(1)[0])
    head, _, text = raw.partition(b"\n\n")
    lines = b"\n ".join([b"A" * 70] * (size // 71))
    signature = b"gpgsig -----BEGIN SSH SIGNATURE-----\n " + lines + b"\n -----END SSH SIGNATURE-----"
    return _commit(scene, head + b"\n" + signature + b"\n\n" + text)


def _headed(scene: Scene, size: int) -> float:
    raw = git_bytes(scene.sigma.home, "cat-file", "commit", scene.proposals(1)[0])
    head, _, text = raw.partition(b"\n\n")
    return _commit(scene, head + b"\n" + b"\n".join(b"x-odd %d" % n for n in range(size // 8)) + b"\n\n" + text)


def _worded(scene: Scene, size: int) -> float:
    raw = git_bytes(scene.sigma.home, "cat-file", "commit", scene.proposals(1)[0])
    return _commit(scene, raw + b"> `\r" * (size // 4) + b"\n")


def _commit(scene: Scene, raw: bytes) -> float:
    head = git(scene.sigma.home, "hash-object", "-w", "-t", "commit", "--literally", "--stdin", stdin=raw)
    scene.offer(["pi/odd"], [head])
    cost = scene.sync() + scene.sync()
    for name in scene.sigma.threads():
        scene.sigma.write_triage(name, "delete:read")
    return cost + scene.process()


def _answered(unit: str) -> Callable[[Scene, int], float]:
    """What an agent wrote about the item that it was given."""

    def run(scene: Scene, size: int) -> float:
        work_queue(scene.sigma)
        scene.offer(["pi/m"], scene.messages(1))
        scene.sigma.sync()
        answer(scene.sigma, "---\nid: ID\nreply: ID|read\n---\n" + unit * (size // len(unit)) + "\n")
        return scene.process()

    return run


BYTES: dict[str, Callable[[Scene, int], float]] = {
    "carriage returns": _sent(HEAD, b"\r"),
    "carriage returns for another": _sent(ELSEWHERE, b"\r"),
    "quotes": _sent(HEAD, b"> "),
    "fences": _sent(HEAD, b"```\n"),
    "comments": _sent(HEAD, b"<!--"),
    "sections": _sent(HEAD, b"## Triage\n"),
    "begins of keys": _sent(HEAD, b"-----BEGIN PRIVATE KEY-----\n"),
    "places with passwords": _sent(HEAD, b"a://b:"),
    "lines that Unicode knows": _sent(HEAD, "\u2028".encode()),
    "a head without end": _sent(HEAD[:-3], b"a: b\n"),
    "a signature": _signed,
    "headers of a commit": _headed,
    "words of a commit": _worded,
    "an answer of fences": _answered("```\n"),
    "an answer of carriage returns": _answered("\r"),
    "an answer of keys": _answered("sk-ant-"),
}
"""What a hub meets long: one text of so many bytes."""
KILOBYTES = 16


def too_costly(measure: Callable[[int], float], size: int, tries: int = 1) -> str:
    """What grew faster than its size, if something did: sizes and seconds, each the least of so many ``tries``.

    One step that costs more than the last proves nothing: a machine that is busy, a limit that is passed. What grows
    as the square of its size does so twice in a row.
    """
    costs: list[float] = []
    steep = 0
    while len(costs) < 3 or (costs[-1] < ENOUGH and len(costs) < SIZES):
        costs.append(min(measure(size << len(costs)) for _ in range(tries)))
        if len(costs) > 2:
            before, added = costs[-2] - costs[-3], costs[-1] - costs[-2]
            steep = steep + 1 if added > max(FREE, MOST * before) else 0
        if steep == 2 or (steep and costs[-1] >= ENOUGH):
            return ", ".join(f"{size << n}: {cost:.2f} s" for n, cost in enumerate(costs))
    return ""


def check(tmp_path: Path, template: Path, name: str, run: Callable[[Scene, int], float], size: int) -> None:
    worlds = iter(range(100))

    def measure(size: int) -> float:
        return run(Scene(World(tmp_path / f"w{next(worlds)}", template)), size)

    if found := too_costly(measure, size):  # a busy machine alone proves nothing
        assert not (again := too_costly(measure, size, tries=2)), f"{found}\n{again}"
    observed("growth", name, runs=next(worlds), too_costly=0)


@pytest.mark.parametrize(
    ("cost", "found"),
    [
        (lambda n: 0.5 + n / 100, False),
        (lambda n: 0.5 + n / 100 + (1.0 if n >= 800 else 0), False),
        (lambda n: 0.5 + n * n / 160000, True),
        (lambda n: n * n / 10000, True),
        (lambda n: 0.5, False),
    ],
    ids=["linear", "a step", "quadratic", "quadratic and dear", "constant"],
)
def test_what_is_too_costly(cost: Callable[[int], float], found: bool) -> None:
    assert bool(too_costly(cost, 100)) is found


@pytest.mark.full
@pytest.mark.parametrize("name", COUNTS)
def test_the_cost_of_a_run_grows_as_the_number_of_what_it_meets(tmp_path: Path, template: Path, name: str) -> None:
    run, size = COUNTS[name]
    check(tmp_path, template, name, run, size)


@pytest.mark.full
@pytest.mark.parametrize("name", BYTES)
def test_the_cost_of_a_run_grows_as_the_length_of_what_it_meets(tmp_path: Path, template: Path, name: str) -> None:
    check(tmp_path, template, name, BYTES[name], KILOBYTES << 10)
