"""A clean/smudge filter that cannot run where cn runs (gitattributes(5)): git-lfs or git-crypt, and cron's PATH.

What does not need it goes on; of what does, file, filter, its own words and a step are told.
"""

from __future__ import annotations

import os
import shutil

import pytest

from cn.git.filters import mend_filter, why_filter_failed
from tests.support.hubs import git
from tests.support.world import Node, World, is_in_main

FILTERS = {
    "no program": ("no-such-program", "cannot run no-such-program"),
    "no program for a shell": ('no-such-program "$HOME"', "no-such-program: not found"),
    "its own words": ("echo enc: no key >&2; exit 1", "enc: no key"),
}
WORKS = "tr a-zA-Z n-za-mN-ZA-M"
STATUS = ("status", "--porcelain", "--", "s")


def use(node: Node, clean: str) -> None:
    for key in ("clean", "smudge"):
        git(node.root, "config", f"filter.enc.{key}", clean)


@pytest.fixture
def filtered(sigma: Node) -> Node:
    git(sigma.root, "config", "filter.enc.required", "true")
    use(sigma, WORKS)
    sigma.write({".gitattributes": "s/* filter=enc\n", "s/a": "hello\n", "s/b": "two\n"})
    sigma.sync()
    git(sigma.root, "status")
    return sigma


def make_racy(node: Node) -> None:
    """As after a pull or a commit of small files: they changed as late as the index did."""
    file = (node.root / "s/a").stat().st_mtime_ns
    os.utime(node.root / ".git/index", ns=(file, file))


def make_settled(node: Node) -> None:
    for path in (node.root / "s").iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    git(node.root, "status")


def elsewhere(world: World, node: Node, files: dict[str, str]) -> None:
    other = world.second(node)
    other.write(files)
    shutil.rmtree(other.root)


@pytest.mark.parametrize("kind", FILTERS)
def test_runs_that_do_not_need_it_go_on(world: World, filtered: Node, pi: Node, kind: str) -> None:
    """git compares files of a "racy" index by their filters each time it writes it, and ended every run."""
    head = world.propose(pi, filtered)
    (filtered.root / "s/b").write_text("TWO\n")  # of the same length: git takes it for an edit still
    use(filtered, FILTERS[kind][0])
    make_racy(filtered)
    filtered.sync()
    elsewhere(world, filtered, {"other.txt": "x\n"})
    make_racy(filtered)
    filtered.sync()
    filtered.decide("pi/proposal", "do:merge")
    assert is_in_main(filtered, head)
    assert "filter" not in filtered.cn("status").stdout
    use(filtered, WORKS)
    assert git(filtered.root, *STATUS) == " M s/b"


@pytest.mark.parametrize("kind", FILTERS)
def test_a_merge_of_a_file_that_nobody_can_compare_is_refused_with_what_the_filter_says(
    world: World, filtered: Node, pi: Node, kind: str
) -> None:
    head = world.propose(pi, filtered, files={"s/a": "theirs\n"})
    filtered.sync()
    filtered.triage("pi/proposal", "do:merge")
    use(filtered, FILTERS[kind][0])
    make_racy(filtered)
    told = filtered.process(check=1).stderr
    assert "whether you changed s/a cannot be told: its filter enc fails: " in told
    assert FILTERS[kind][1] in told
    assert "local changes" not in told
    assert "git check-attr filter -- s/a" in told
    assert ("cn cron install" in told) == (kind != "its own words")
    use(filtered, WORKS)
    filtered.process()
    assert is_in_main(filtered, head)
    assert git(filtered.root, *STATUS) == ""


@pytest.mark.parametrize("racy", [True, False])
@pytest.mark.parametrize("kind", FILTERS)
def test_main_from_elsewhere_with_such_a_file(world: World, filtered: Node, kind: str, racy: bool) -> None:
    """What git knows to be unchanged is, without a filter: then main comes in, and the file when it can."""
    elsewhere(world, filtered, {"s/a": "theirs\n", "other.txt": "x\n"})
    (make_racy if racy else make_settled)(filtered)
    use(filtered, FILTERS[kind][0])
    told = filtered.cn("sync", check=1 if racy else None)
    said = "whether you changed s/a cannot be told" if racy else "the work tree is behind main at s/a"
    assert f"{said}: its filter enc fails: " in told.stdout + told.stderr
    assert FILTERS[kind][1] in filtered.cn("status").stdout
    assert (filtered.root / "other.txt").exists() != racy
    use(filtered, WORKS)
    filtered.sync()
    assert (filtered.root / "s/a").read_text() == git(filtered.root, "show", "main:s/a").translate(ROT13) + "\n"
    assert git(filtered.root, *STATUS) == ""


ROT13 = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("kind", FILTERS)
def test_a_merge_that_brings_such_a_file_tells_it_of_the_filter(
    world: World, filtered: Node, pi: Node, kind: str, new: bool
) -> None:
    """Not of a folder that cn could not write to, nor of local changes that are none."""
    path = "s/new" if new else "s/a"
    head = world.propose(pi, filtered, files={path: "gurvef\n"})
    filtered.sync()
    filtered.triage("pi/proposal", "do:merge")
    make_settled(filtered)
    use(filtered, FILTERS[kind][0])
    told = filtered.process(check=1).stderr
    assert is_in_main(filtered, head)
    assert f"the work tree is behind main at {path}: its filter enc fails: " in told
    assert FILTERS[kind][1] in told
    assert "let cn write" not in told
    use(filtered, WORKS)
    filtered.sync()
    assert (filtered.root / path).read_text() == "theirs\n"
    assert git(filtered.root, *STATUS) == ""


def test_what_helps_fits_what_the_filter_says() -> None:
    hung_up = "fatal: the remote end hung up unexpectedly\n"
    gone = why_filter_failed("lfs", f"git-lfs filter-process: 1: git-lfs: not found\n{hung_up}")
    assert gone == "its filter lfs fails: git-lfs filter-process: 1: git-lfs: not found"
    assert "cn cron install" in mend_filter("a", gone)
    said = "Error downloading object: a: [404] Object does not exist: not found\n"
    lost = why_filter_failed("lfs", f"{said}error: external filter 'git-lfs smudge' failed\n")
    assert "git lfs push --all URL" in mend_filter("a", lost)
    assert "cn cron install" not in mend_filter("a", lost)
    assert "hung up" in why_filter_failed("x", hung_up)
