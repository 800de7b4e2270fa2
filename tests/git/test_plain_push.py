"""Names of refs that git takes for others (remote.c, ``count_refspec_match``): what is pushed reaches what it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cn.git.process import Git
from cn.git.remote import Push, Result, in_the_way, push_forward, push_many, push_own, push_refs, would_push
from cn.values.names import Oid
from tests.support.hubs import commit, git, refs, try_git, work
from tests.support.servers import Remote, serve

TAG, BRANCH, SHORT = "refs/tags/refs/heads/", "refs/heads/refs/heads/", "refs/refs/heads/"


@pytest.fixture(params=["path", "http", "ssh"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Remote]:
    with serve(request.param, tmp_path / "served", tmp_path / "scratch") as served:
        yield served


class Place:
    """A repository here with two commits, and a remote that has the first one as these refs."""

    def __init__(self, remote: Remote, folder: Path, *there: str) -> None:
        self.url, self.path = remote.repo("o"), remote.path("o")
        here = work(folder / "here", "sigma")
        self.old, self.new = (Oid(commit(here, {"f": text}, text)) for text in ("old", "new"))
        git(here, "push", "--quiet", str(self.path), *(f"{self.old}:{ref}" for ref in there))
        self.here, self.git = here, Git(here, env=dict(remote.env))

    def refs(self) -> dict[str, str]:
        return refs(self.path, "refs/*")


@pytest.mark.parametrize("obstacle", [TAG, BRANCH, SHORT])
def test_a_ref_named_as_ours_keeps_nothing_from_being_set(remote: Remote, tmp_path: Path, obstacle: str) -> None:
    others = [f"{obstacle}{name}" for name in ("main", "pi/a", "pi/new")]
    place = Place(remote, tmp_path, "refs/heads/main", "refs/heads/pi/a", *others)
    plain = (place.url, f"{place.new}:refs/heads/main")
    assert b"matches more than one" in try_git(place.here, "push", *plain, **remote.env).stderr  # what git does
    pushes = [Push("pi/a", place.new, place.old), Push("pi/new", place.new, None)]
    told = push_many(place.git, {"": (place.url, pushes)}, 30.0)[""]
    assert {one.result for one in told.values()} == {Result.DONE}, told
    assert would_push(place.git, place.url, "main", place.new, 30.0).ok
    own = push_own(place.git, place.url, {"refs/cn/x": place.new}, 30.0, Push("main", place.new, place.old))
    assert {one.result for one in own.values()} == {Result.DONE}, own
    assert push_forward(place.git, place.url, "other", place.new, 30.0).result is Result.DONE
    assert (
        push_refs(place.git, place.url, {"refs/heads/third": place.new}, 30.0)["refs/heads/third"].result is Result.DONE
    )
    ours = (
        "refs/heads/main",
        "refs/heads/pi/a",
        "refs/heads/pi/new",
        "refs/heads/other",
        "refs/heads/third",
        "refs/cn/x",
    )
    assert place.refs() == dict.fromkeys(others, place.old) | dict.fromkeys(ours, place.new)


def test_a_lease_holds_beside_such_a_ref(remote: Remote, tmp_path: Path) -> None:
    place = Place(remote, tmp_path, "refs/heads/pi/a", "refs/heads/pi/b", f"{TAG}pi/a", f"{TAG}pi/b", f"{TAG}pi/c")
    before = place.refs()
    pushes = [Push("pi/a", place.new, place.new), Push("pi/b", place.new, None), Push("pi/a2", place.new, place.new)]
    told = push_many(place.git, {"": (place.url, pushes)}, 30.0)[""]
    assert {one.result for one in told.values()} == {Result.REJECTED}, told
    assert all("stale info" in one.reason for one in told.values()), told
    forward = push_forward(
        place.git, place.url, "pi/a", Oid(git(place.here, "commit-tree", "-m", "x", "HEAD^{tree}")), 9.0
    )
    assert (forward.result, "fast" in forward.reason or "fetch first" in forward.reason) == (Result.REJECTED, True)
    assert place.refs() == before


def test_a_deletion_goes_by_a_name_that_nothing_else_has(remote: Remote, tmp_path: Path) -> None:
    others = [f"{TAG}pi/a", f"{BRANCH}pi/a", "refs/tags/heads/pi/a", f"{TAG}pi/gone", "refs/tags/pi/gone"]
    place = Place(remote, tmp_path, "refs/heads/pi/a", "refs/heads/pi/b", *others)
    pushes = [Push(name, None, place.old) for name in ("pi/a", "pi/b")] + [Push("pi/new", place.new, None)]
    told = push_many(place.git, {"": (place.url, pushes)}, 30.0)[""]
    assert {one.result for one in told.values()} == {Result.DONE}, told
    assert place.refs() == dict.fromkeys(others, place.old) | {"refs/heads/pi/new": place.new}
    told = push_many(place.git, {"": (place.url, [Push("pi/gone", None, place.new)])}, 30.0)[""]
    assert told["pi/gone"].result is not Result.REJECTED or "stale info" in told["pi/gone"].reason
    assert f"{TAG}pi/gone" in place.refs()


def test_a_deletion_without_such_a_name_fails_alone_and_names_what_is_in_its_way(
    remote: Remote, tmp_path: Path
) -> None:
    others = [f"{TAG}pi/a", "refs/tags/heads/pi/a", "refs/tags/pi/a", "refs/tags/refs/cn/pins/x"]
    place = Place(remote, tmp_path, "refs/heads/pi/a", "refs/heads/pi/b", "refs/cn/pins/x", *others)
    pushes = [Push(name, None, place.old) for name in ("pi/a", "pi/b")] + [Push("pi/new", place.new, None)]
    told = push_many(place.git, {"": (place.url, pushes)}, 30.0)[""]
    assert {name: one.result.value for name, one in told.items()} == {
        "pi/a": "rejected",
        "pi/b": "done",
        "pi/new": "done",
    }, told
    assert in_the_way(told["pi/a"].reason) == f"{TAG}pi/a"
    own = push_own(place.git, place.url, {"refs/cn/pins/x": None, "refs/cn/y": place.new}, 30.0)
    assert own["refs/cn/y"].result is Result.DONE, own
    assert in_the_way(own["refs/cn/pins/x"].reason) == "refs/tags/refs/cn/pins/x"
    git(place.here, "push", place.url, f":{TAG}pi/a", ":refs/tags/refs/cn/pins/x", **remote.env)  # the remedy
    told = push_many(place.git, {"": (place.url, pushes[:1])}, 30.0)[""]
    assert told["pi/a"].result is Result.DONE
    assert push_own(place.git, place.url, {"refs/cn/pins/x": None}, 30.0)["refs/cn/pins/x"].result is Result.DONE
    assert place.refs().keys() == {*others[1:3], "refs/heads/pi/new", "refs/cn/y"}
