"""Kill cn at every step of the agent's turn: nothing is lost, nothing happens twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.desk import answer, archived, current, work_queue
from tests.support.figures import observed
from tests.support.hubs import branches, git
from tests.support.kill import State, Trial
from tests.support.world import World

ANSWER = """---
id: ID
reply: ID|merged by hand, thanks
done: ID
surface: Watch the retries
send: omega|please look at this|the whole text
---

A longer answer
of two lines.
"""
SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
BAD = f"---\nid: ID\nreply: ID|fine\nsend: nobody|hello\ndelegate: ID|nobody\n---\n\n{SECRET}\n"
SLICE = 60


class Stage:
    """sigma works a queue; pi and omega are its peers, omega one of its community."""

    def __init__(self, world: World, *, origin: bool = True, topics: tuple[str, ...] = ("one", "two")) -> None:
        inside = World(world.folder / "world", world.template)
        self.sigma = inside.hub("sigma", origin=origin)
        self.pi, self.omega = inside.hub("pi"), inside.hub("omega")
        inside.link(self.sigma, self.pi)
        inside.link(self.sigma, self.omega)
        path = self.sigma.root / "state/peers.md"
        text = path.read_text().replace("- name: omega\n", "- name: omega\n  community: yes\n")
        self.sigma.write({"state/peers.md": text}, "community")
        work_queue(self.sigma)
        git(self.sigma.root, "config", "cn.wake", "cat >> .git/woken")
        for topic in topics:
            inside.propose(self.pi, self.sigma, topic)
        self.folder = inside.folder

    def staged(self) -> None:
        """A person is at work: something staged, something not, something unknown."""
        (self.sigma.root / "docs/other.md").write_text("staged\n")
        git(self.sigma.root, "add", "docs/other.md")
        (self.sigma.root / "docs/other.md").write_text("staged, then edited\n")
        (self.sigma.root / "unknown.txt").write_text("unknown\n")

    def settle(self, codes: tuple[int, ...] = (0,)) -> None:
        """What cron does, until both runs find nothing to do."""
        quiet = 0
        for turn in range(12):
            before = self.sigma.refs(), [branches(n.home) for n in (self.sigma, self.pi, self.omega)]
            done = self.sigma.cn("inbox", ("process", "sync")[turn % 2], check=None)
            assert done.returncode in codes, (done.stdout, done.stderr)
            assert "internal error" not in done.stderr
            after = self.sigma.refs(), [branches(n.home) for n in (self.sigma, self.pi, self.omega)]
            quiet = quiet + 1 if after == before else 0
            if quiet == 2:
                return
        raise AssertionError("the hub did not come to rest")

    def woken(self) -> State:
        """Who was woken for what: a kill may repeat a call, never drop one; what is withheld."""
        path = self.sigma.root / ".git/woken"
        lines = set(path.read_text().split("\n")) if path.exists() else set()
        kept = [p for p in (self.sigma.root / ".git/cn/withheld").rglob("*") if p.is_file()]
        whole = [(oct(p.stat().st_mode), SECRET in p.read_text()) for p in kept]
        return {"woken": sorted(lines - {"you have inbox", ""}), "withheld": whole}

    def trial(self, *words: str, codes: tuple[int, ...] = (0,), then: tuple[int, ...] = (0,)) -> Trial:
        peers = (self.pi, self.omega)
        return Trial(self.folder, self.sigma, peers, words, lambda: self.settle(then), codes, self.woken)


def answered(world: World, origin: bool = True) -> Trial:
    """A good output waits, and behind it another item."""
    stage = Stage(world, origin=origin)
    stage.sigma.sync()
    answer(stage.sigma, ANSWER)
    stage.staged()
    return stage.trial("inbox", "process")


def answered_alone(world: World) -> Trial:
    """The same in a hub that has no origin."""
    return answered(world, origin=False)


def promoted(world: World) -> Trial:
    """Two branches have arrived; a sync makes threads, items, and the agent's input of them."""
    stage = Stage(world)
    stage.staged()
    return stage.trial("inbox", "sync")


def rejected(world: World) -> Trial:
    """An output waits of which nothing may be executed."""
    stage = Stage(world)
    stage.sigma.sync()
    answer(stage.sigma, BAD)
    stage.staged()
    return stage.trial("inbox", "process", codes=(1,), then=(0, 1))


def given_up(world: World) -> Trial:
    """The output waits that is one too many: a dead letter, and the next item."""
    stage = Stage(world)
    work_queue(stage.sigma, more="max_attempts: 1\n")
    stage.sigma.sync()
    answer(stage.sigma, BAD)
    stage.staged()
    return stage.trial("inbox", "process", codes=(1,), then=(0, 1))


def written(world: World) -> Trial:
    """The agent answers by its command; killed, it gives the same answer once more."""
    stage = Stage(world)
    stage.sigma.sync()
    words = ("out", "do", "reply", "--message", "fine by me\nwith a second line")
    trial = stage.trial(*words)
    first = current(stage.sigma)

    def settle() -> None:
        if current(stage.sigma) == first:
            again = stage.sigma.cn(*words, check=None)
            said = "has its answer already"
            assert again.returncode == 0 or said in again.stderr, again.stderr
        stage.settle()

    trial.settle = settle
    return trial


CASES: list[Callable[[World], Trial]] = [answered, answered_alone, promoted, rejected, given_up, written]


def test_undisturbed_the_turn_comes_to_what_it_should(world: World) -> None:
    trial = answered(world)
    good = trial.record()
    sigma = trial.node
    assert sorted(good["sent to pi"]) == ["sigma/re-one"]
    assert sorted(good["sent to omega"]) == ["sigma/concern-watch-the-retries", "sigma/please-look-at-this"]
    assert len(archived(sigma, "input")) == len(archived(sigma, "output")) == 1
    assert good["output"] is None
    assert "thread: DAY-pi-two" in good["input"]
    assert good["status"].split("\n") == ["MM docs/other.md", "?? unknown.txt"]
    assert [r[1:] for r in sigma.rows("pi/one")] == [
        ("received", "—"),
        ("do:reply:re-one", "queued"),
        ("done", "✓ done"),
        ("surface:Watch the retries", "✓ opened"),
        ("send:concern-watch-the-retries", "queued"),
        ("send:please-look-at-this", "queued"),
        ("send:concern-watch-the-retries", "✓ delivered"),
        ("send:please-look-at-this", "✓ delivered"),
        ("do:reply:re-one", "✓ delivered"),
    ]
    assert good["leftovers"] == []
    assert len(good["woken"]) == 2


def test_the_mask_hides_what_may_be_an_id_and_no_other_word() -> None:
    from tests.support.kill import mask

    text = "| 12:34 | pi/one | do:reply:re-one | queued | added faded 3f2a9c1 decade"
    assert mask(text) == "| TIME | pi/one | do:reply:re-one | queued | added faded HEX HEX"


@pytest.mark.parametrize("case", CASES)
def test_a_kill_at_a_sample_of_steps_loses_and_repeats_nothing(world: World, case: Callable[[World], Trial]) -> None:
    trial = case(world)
    good = trial.record()
    assert good["withheld"] == ([("0o100600", True)] if case in (rejected, given_up) else [])
    trial.try_kills(trial.sample(SLICE, case.__name__))


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_a_kill_at_any_step_loses_and_repeats_nothing(world: World, case: Callable[[World], Trial]) -> None:
    trial = case(world)
    trial.record()
    kills = trial.slice_of_kills()
    killed, wrong = trial.count_kills(kills)
    boundaries = len(trial.kills())
    observed("agent", case.__name__, boundaries=boundaries, kills=len(kills), met=killed, wrong=len(wrong))
    assert not wrong
