"""Every attack of the corpus, tried for real on the command that users run."""

from __future__ import annotations

import shutil
import time
from collections import Counter

import pytest

from tests.attacks.attack import SCENES, Attack, read_corpus
from tests.attacks.stage import Stage
from tests.support.figures import observed
from tests.support.world import World

ATTACKS = read_corpus()
ALONE = [a for a in ATTACKS if a.scene == "alone"]


@pytest.mark.sliced(2)
@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="keys are made with ssh-keygen")
@pytest.mark.parametrize("scene", [s for s in SCENES if s != "alone"])
def test_what_is_tried_together(scene: str, world: World) -> None:
    attacks = [a for a in ATTACKS if a.scene == scene]
    stage = Stage.build(world, scene)
    _hold(stage, attacks)


@pytest.mark.sliced(3)
@pytest.mark.parametrize("attack", ALONE, ids=[a.name for a in ALONE])
def test_what_is_tried_alone(attack: Attack, world: World) -> None:
    third = any(act.get("as") == "omega" for act in attack.acts)
    _hold(Stage.build(world, "alone", third=third), [attack])


def _hold(stage: Stage, attacks: list[Attack]) -> None:
    begun = time.monotonic()
    with stage.open:
        stage.perform(attacks)
        wrong = {"the scene": stage.check_scene(), **{a.name: stage.check(a) for a in attacks}}
    failed = {name: found for name, found in wrong.items() if found}
    case = attacks[0].name if stage.scene == "alone" else stage.scene
    numbers = Counter(a.who for a in attacks)
    observed(
        "attacks", case, tried=len(attacks), got_through=len(failed.keys() - {"the scene"}),
        seconds=round(time.monotonic() - begun, 1), **{f"by_{who}": n for who, n in numbers.items()},
    )  # fmt: skip
    assert not failed, "\n".join(f"{name}: {line}" for name, found in failed.items() for line in found)
