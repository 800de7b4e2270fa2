"""Remotes that delay, cut, refuse, are silent, say nothing to a push; hosts that rewind, delete, go away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from urllib.parse import urlsplit

import pytest

from tests.support.figures import observed
from tests.support.hubs import bare, branches, git, tip, write_commit
from tests.support.kill import State, differences, messages, tree
from tests.support.proxy import NONE, Fault, Proxy, proxy
from tests.support.servers import serve
from tests.support.world import Node, World

SECONDS = 6
FAULTS = {
    f.name: f
    for f in (
        Fault("delay", delay=0.4),
        Fault("refused", refuse=True),
        Fault("reset", reset=True),
        Fault("silent", hang=True),
        Fault("answer-cut-at-once", down=3),
        Fault("answer-cut", down=200),
        Fault("question-cut", up=40),
        Fault("push-cut-at-once", push=0),
        Fault("push-cut-in-the-pack", push=160),
        Fault("push-unanswered", deaf=True),
        Fault("push-unanswered-then-gone", deaf=True, then_gone=True),
        Fault("push-cut-then-gone", push=0, then_gone=True),
    )
}
STATUSES = {f"http-{code}": Fault(f"http-{code}", status=code) for code in (200, 401, 403, 429, 500)}
STATUSES["http-500-to-the-push"] = Fault("http-500-to-the-push", status=500, pushes=True)
QUICK = [
    ("git", "peer", "push-unanswered"),
    ("http", "origin", "push-unanswered"),
    ("http", "peer", "http-429"),
    ("http", "peer", "http-200"),
]
SAID = {"send": "Good morning.", "reply": "Yes, do.", "comment": "Why so?"}
"""What a person says, by command."""
ALL = [("git", place, name) for place in ("origin", "peer") for name in FAULTS]
ALL += [("http", place, name) for place in ("origin", "peer") for name in {**FAULTS, **STATUSES}]


@contextmanager
def rewound(home: Path) -> Iterator[None]:
    """Main is where it was before, for a while."""
    with moved_to(home, "main~1"):
        yield


@contextmanager
def forced(home: Path) -> Iterator[None]:
    """Somebody pushes another main over it."""
    other = write_commit(home, {"docs/start.md": "another\n"}, "another", [tip(home, "main~1")])
    with moved_to(home, other):
        yield


@contextmanager
def moved_to(home: Path, where: str) -> Iterator[None]:
    """Main is there; what came to it meanwhile must not be lost when it is put back."""
    before = tip(home, "main")
    git(home, "update-ref", "refs/heads/main", where)
    after = tip(home, "main")
    yield
    assert tip(home, "main") == after, "nothing of ours is put on top of it"
    git(home, "update-ref", "refs/heads/main", before)


@contextmanager
def deleted(home: Path) -> Iterator[None]:
    """Main is gone."""
    before = tip(home, "main")
    git(home, "update-ref", "-d", "refs/heads/main")
    yield
    assert "main" not in branches(home), "it is not made anew"
    git(home, "update-ref", "refs/heads/main", before)


@contextmanager
def older(home: Path) -> Iterator[None]:
    """A copy of before shows itself for a while: main one commit back, and none of the branches."""
    before = branches(home)
    for name, where in before.items():
        if name != "main":
            git(home, "update-ref", "-d", f"refs/heads/{name}", where)
    git(home, "update-ref", "refs/heads/main", "main~1")
    yield
    for name, where in {**branches(home), **before}.items():
        git(home, "update-ref", f"refs/heads/{name}", where)


@contextmanager
def away(home: Path) -> Iterator[None]:
    """The whole repository is gone."""
    home.rename(home.with_suffix(".away"))
    yield
    assert not home.exists()
    home.with_suffix(".away").rename(home)


TURNS = {turn.__name__: turn for turn in (rewound, forced, deleted, older, away)}
"""What the host itself does; a person puts it back."""


@dataclass
class Scene:
    """sigma and pi, each behind a proxy of its own."""

    world: World
    sigma: Node
    pi: Node
    origin: Proxy
    peer: Proxy

    def prepare(self) -> None:
        """Two threads that are decided, and a branch that is new."""
        for topic in ("one", "two"):
            self.world.propose(self.pi, self.sigma, topic)
        self.sigma.sync()
        self.sigma.triage("pi/one", "do:merge")
        self.sigma.triage("pi/two", "do:reply:answer", "--body", "Thanks.")
        self.world.propose(self.pi, self.sigma, "three")

    def settle(self) -> None:
        """What cron does once all is well."""
        for node in (self.sigma, self.pi, self.sigma, self.pi, self.sigma):
            node.cn("peer", "sync")  # whatever the back-off says
            node.process()

    def state(self) -> State:
        """What must not depend on what went wrong."""
        merges = git(self.sigma.root, "log", "--merges", "--format=%s", "main").splitlines()
        return {
            "main": tree(self.sigma.home, "main"),
            "in step": tip(self.sigma.root, "main") == tip(self.sigma.home, "main"),
            "merges": merges,
            "at pi": messages(self.sigma, self.pi),
            "at sigma": sorted(branches(self.sigma.home)),
            "pi": tree(self.pi.home, "main"),
            "status": [git(n.root, "status", "--porcelain") for n in (self.sigma, self.pi)],
            "notes": [p.name for p in (self.sigma.root / ".git/cn/push").glob("*")],
        }

    def true_marks(self, said: str) -> None:
        """Every checkmark is of something that is there."""
        there = branches(self.pi.home) if self.pi.home.exists() else {}
        for line in said.splitlines():
            words = line.split()
            if line.startswith("✓ delivered"):
                assert words[2] in there, line
            if line.startswith("✓ pi/one: do:merge"):
                merges = git(self.sigma.home, "log", "--merges", "--format=%s", "main")
                assert "Merge pi/one" in merges, line


@pytest.fixture
def scenes(world: World, tmp_path: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def build(stack: ExitStack, world: World, kind: str, folder: Path) -> Scene:
    """Two hubs whose repositories are served as ``kind``, behind proxies."""
    inside = World(folder, world.template)
    folder.mkdir(parents=True)
    served = stack.enter_context(serve(kind, folder / "host", folder / "server"))
    port = urlsplit(served.base).port
    assert port
    proxies = [stack.enter_context(proxy(port)) for _ in range(2)]
    config = f"mailbox_trusted: true\nlimits:\n  peer_seconds: {SECONDS}\n"

    def hub(name: str, before: Proxy) -> Node:
        url = served.base.replace(str(port), str(before.port)) + f"/{name}.git"
        return inside.hub(name, url=url, home=bare(served.path(name)), config=config)

    scene = Scene(inside, hub("sigma", proxies[0]), hub("pi", proxies[1]), *proxies)
    inside.link(scene.sigma, scene.pi)
    scene.prepare()
    return scene


GOOD: dict[str, State] = {}


def good(stack: ExitStack, world: World, kind: str) -> State:
    """What an undisturbed exchange comes to."""
    if kind not in GOOD:
        scene = build(stack, world, kind, world.folder / "good")
        scene.sigma.process()
        scene.settle()
        GOOD[kind] = scene.state()
        assert GOOD[kind]["merges"].count("Merge pi/one") == 1
        assert GOOD[kind]["in step"]
    return GOOD[kind]


def try_fault(stack: ExitStack, world: World, kind: str, place: str, fault: Fault) -> None:
    """Process and sync while ``place`` fails; then all is well again."""
    scene = build(stack, world, kind, world.folder / "bad")
    faulty = scene.origin if place == "origin" else scene.peer
    faulty.fault = fault
    run_badly(scene)
    met = faulty.met
    faulty.fault = NONE
    compare(stack, world, scene, f"{kind}-{place}-{fault.name}", met)


def try_turn(stack: ExitStack, world: World, kind: str, place: str, name: str) -> None:
    """The same while the repository at ``place`` is turned, through a proxy that fails nothing."""
    scene = build(stack, world, kind, world.folder / "bad")
    node, through = (scene.sigma, scene.origin) if place == "origin" else (scene.pi, scene.peer)
    through.fault = Fault("none of it")
    with TURNS[name](node.home):
        run_badly(scene)
    compare(stack, world, scene, f"{kind}-{place}-{name}", through.met)


def try_saying(stack: ExitStack, world: World, kind: str, fault: Fault) -> None:
    """A person says something while origin fails; then all is well again, and it is there once."""
    scene = build(stack, world, kind, world.folder / "bad")
    scene.pi.cn("send", "sigma", "May I?")
    scene.sigma.sync()
    for words, about in zip(SAID.items(), ("pi", "pi/may-i", "pi/three"), strict=True):
        scene.origin.fault = fault
        done = scene.sigma.cn(words[0], about, words[1], check=None)
        assert done.returncode in (0, 1)
        assert "internal error" not in done.stderr
        scene.origin.fault = NONE if fault.then_gone else fault
    scene.origin.fault = NONE
    scene.settle()
    assert sorted(shown(scene)) == sorted(SAID.values()), fault.name
    observed("remotes", f"said-{kind}-{fault.name}", scenarios=1, connections=scene.origin.met, wrong=0)
    assert scene.origin.met or fault.then_gone


def shown(scene: Scene) -> list[str]:
    """Which of the sentences pi's threads show, each as often as they do."""
    texts = [scene.pi.thread(name) for name in (*scene.pi.threads(), *scene.pi.done())]
    return [said for text in texts for said in SAID.values() for _ in range(text.count(f"\n> > {said}\n"))]


@pytest.mark.parametrize("name", ["reset", "push-unanswered-then-gone", "push-cut-then-gone"])
def test_what_a_person_says_survives_a_fault(scenes: ExitStack, world: World, name: str) -> None:
    try_saying(scenes, world, "git", FAULTS[name])


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "name"), [*(("git", n) for n in FAULTS), *(("http", n) for n in {**FAULTS, **STATUSES})]
)
def test_what_a_person_says_survives_any_fault(scenes: ExitStack, world: World, kind: str, name: str) -> None:
    try_saying(scenes, world, kind, {**FAULTS, **STATUSES}[name])


def run_badly(scene: Scene) -> None:
    """What it says is true and told with the next step, and ``cn`` ends by itself."""
    for turn, words in enumerate((("inbox", "process"), ("sync",))):
        done = scene.sigma.cn(*words, check=None)
        assert done.returncode in (0, 1), (words, done)
        assert "internal error" not in done.stderr
        scene.true_marks(done.stdout)
        if done.returncode and turn == 0:  # told once
            assert "→" in done.stderr, done.stderr


def compare(stack: ExitStack, world: World, scene: Scene, case: str, met: int) -> None:
    """All is well again, and comes to what an undisturbed exchange comes to."""
    kind = case.partition("-")[0]
    wanted = good(stack, world, kind)
    scene.settle()
    found = scene.state()
    wrong = {key: differences(found[key], wanted[key]) for key in wanted if found[key] != wanted[key]}
    observed("remotes", case, scenarios=1, connections=met, wrong=len(wrong))
    assert met
    assert not wrong, pformat(wrong, width=160)


@pytest.mark.sliced(3)
@pytest.mark.parametrize(("kind", "place", "name"), QUICK)
def test_a_fault_changes_when_and_not_what(scenes: ExitStack, world: World, kind: str, place: str, name: str) -> None:
    try_fault(scenes, world, kind, place, {**FAULTS, **STATUSES}[name])


@pytest.mark.full
@pytest.mark.parametrize(("kind", "place", "name"), ALL)
def test_any_fault_changes_when_and_not_what(scenes: ExitStack, world: World, kind: str, place: str, name: str) -> None:
    try_fault(scenes, world, kind, place, {**FAULTS, **STATUSES}[name])


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    ("kind", "place", "name"), [("git", "origin", "rewound"), ("http", "peer", "away"), ("git", "peer", "older")]
)
def test_a_host_that_turns_changes_when_and_not_what(
    scenes: ExitStack, world: World, kind: str, place: str, name: str
) -> None:
    try_turn(scenes, world, kind, place, name)


@pytest.mark.full
@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize("place", ["origin", "peer"])
@pytest.mark.parametrize("kind", ["git", "http"])
def test_any_turn_of_a_host_changes_when_and_not_what(
    scenes: ExitStack, world: World, kind: str, place: str, name: str
) -> None:
    try_turn(scenes, world, kind, place, name)
