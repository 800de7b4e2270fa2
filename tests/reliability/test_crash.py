"""Kill cn at every step of everything it does; the next quiet runs come to the same end."""

from __future__ import annotations

import pytest

from tests.support.figures import observed
from tests.support.scenes import SCENES
from tests.support.world import World

QUICK = ("all-decisions", "sync", "notices")
EVERY = 90
CHILDREN = ("merge", "all-decisions", "sync", "notices", "cleanup", "brought-together")


@pytest.mark.parametrize("name", QUICK)
def test_a_kill_at_a_sample_of_steps_loses_and_repeats_nothing(world: World, name: str) -> None:
    trial = SCENES[name](world)
    trial.record()
    assert trial.try_kills(trial.sample(EVERY, name)) > 0


@pytest.mark.full
@pytest.mark.parametrize("name", SCENES)
def test_a_kill_at_any_step_loses_and_repeats_nothing(world: World, name: str) -> None:
    trial = SCENES[name](world)
    good = trial.record()
    edits = [line for line in good["status"].split("\n") if not line.endswith("-pi-one.md")]
    assert edits == ["MM docs/other.md", " M docs/start.md", "?? unknown.txt"]
    assert (good["fsck"], good["home fsck"], good["leftovers"]) == ("", "", [])
    kills = trial.slice_of_kills()
    killed, wrong = trial.count_kills(kills)
    observed("crash", name, boundaries=len(trial.kills()), kills=len(kills), met=killed, wrong=len(wrong))
    assert not wrong


@pytest.mark.full
@pytest.mark.parametrize("name", CHILDREN)
def test_any_git_that_dies_alone_is_no_answer(world: World, name: str) -> None:
    """Out of memory: the kernel kills one git, and cn lives. What it asked is not answered.

    How far that git comes is chance; test_failing_git.py takes the hard places one by one.
    """
    trial = SCENES[name](world)
    trial.record()
    kills = trial.slice_of_child_kills()
    _, wrong = trial.count_kills(kills)
    observed("child", name, processes=len(trial.child_kills()), kills=len(kills), wrong=len(wrong))
    assert not wrong
