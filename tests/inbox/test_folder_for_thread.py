"""A folder in main in the place of a pending thread: never taken for its text, and the thread comes back."""

from __future__ import annotations

import pytest

from tests.support.hubs import clone, commit, git, push
from tests.support.world import World
from tests.threads.test_threads import day


@pytest.mark.sliced(2)
@pytest.mark.parametrize("gone_again", [True, False])
def test_a_folder_in_place_of_a_thread(world: World, gone_again: bool) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "two")
    sigma.sync()
    name = sigma.only_thread()
    before = sigma.thread(name)
    pusher = clone(sigma.url, world.folder / "pusher", "eve")
    path = f"threads/inbox/{name}"
    git(pusher, "rm", "-q", path)
    commit(pusher, {f"{path}/x": "x\n"}, "a folder")
    if gone_again:
        git(pusher, "rm", "-rq", path)
        git(pusher, "commit", "-qm", "gone")
    push(pusher, sigma.url, "main")
    assert f"{path} was gone from main; restored" in sigma.sync().stdout
    assert (sigma.only_thread(), sigma.thread(name)) == (name, before)
    assert sigma.cn("inbox", "show", "pi/two").stdout.startswith(before)
    assert sigma.sync().stdout == ""
    sigma.cn("doctor")
    sigma.decide("pi/two", "delete:x")


def test_a_folder_in_place_of_a_reflection_is_not_its_text(world: World) -> None:
    sigma = world.hub("sigma")
    path = f"threads/reflections/daily/{day()}.md"
    sigma.write({f"{path}/x": "x\n"})
    for words in (("daily",), ("read", path), ("thread", "show", path)):
        done = sigma.cn(*words, check=None)
        assert "100644" not in done.stdout + done.stderr, words
