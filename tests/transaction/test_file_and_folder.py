"""A file that becomes a folder, or a folder that becomes a file: the index and the work tree follow main."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.hubs import commit, git
from tests.support.world import Node, World, content, is_in_main

FILE, FOLDER = {"notes": "a\n"}, {"notes/one": "a\n", "notes/two/deep": "b\n"}
TURNS = {"to a folder": (FILE, FOLDER), "to a file": (FOLDER, FILE)}


def turn(repo: Path, old: dict[str, str], new: dict[str, str]) -> str:
    """Commit ``new`` in the place of ``old``."""
    if old:
        git(repo, "rm", "-r", "--quiet", "--", *old)
    return commit(repo, dict(new), "turned")


def elsewhere(world: World, node: Node, old: dict[str, str], new: dict[str, str]) -> None:
    """Somebody pushes that to origin's main."""
    other = world.second(node).root
    turn(other, old, new)
    git(other, "push", "--quiet", "origin", "main")
    shutil.rmtree(other)


def is_clean(node: Node) -> bool:
    """Is nothing staged, changed or untracked?"""
    return git(node.root, "status", "--porcelain") == ""


def names(node: Node, place: str = "notes") -> set[str]:
    """The files of a place in the index, which must be main's."""
    index = set(git(node.root, "ls-files", "--", place).split())
    assert index == set(git(node.root, "ls-tree", "-r", "--name-only", "main", "--", place).split())
    return index


@pytest.mark.parametrize("direction", TURNS)
def test_a_turn_from_elsewhere_arrives(world: World, sigma: Node, direction: str) -> None:
    old, new = TURNS[direction]
    sigma.write(old)
    elsewhere(world, sigma, old, new)
    sigma.sync()
    assert is_clean(sigma)
    assert names(sigma) == set(new)
    assert {path: (sigma.root / path).read_text() for path in new} == new


@pytest.mark.parametrize("direction", TURNS)
def test_a_turn_is_merged(world: World, sigma: Node, pi: Node, direction: str) -> None:
    old, new = TURNS[direction]
    sigma.write(old)
    person = world.person(pi, sigma)
    git(person, "pull", "--quiet", "origin", "main")
    head = turn(person, old, new)
    world.offer(pi, sigma, "proposal", head)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    sigma.process()
    assert is_in_main(sigma, head)
    assert is_clean(sigma)
    assert names(sigma) == set(new)


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("direction", "what"),
    [
        *((direction, what) for direction in TURNS for what in ("edited", "staged")),
        *(("to a file", what) for what in ("new", "new and staged")),
    ],
)
def test_what_somebody_works_on_there_stops_the_run(world: World, sigma: Node, direction: str, what: str) -> None:
    old, new = TURNS[direction]
    sigma.write(old)
    mine = next(iter(old)) if not what.startswith("new") else "notes/mine"
    (sigma.root / mine).write_text("my own\n")
    if "staged" in what:
        git(sigma.root, "add", mine)
    elsewhere(world, sigma, old, new)
    before = git(sigma.root, "status", "--porcelain")
    told = sigma.cn("sync", check=1).stderr
    if what == "new":
        assert "notes/mine lies where main has the file notes" in told
        assert "move it elsewhere" in told
    else:
        assert "notes" in told
        assert "local changes" in told
        assert "git stash -u" in told
    assert (sigma.root / mine).read_text() == "my own\n"
    assert git(sigma.root, "status", "--porcelain") == before
    git(sigma.root, "stash", "-u")
    sigma.sync()
    assert is_clean(sigma)
    assert names(sigma) == set(new)


def test_an_ignored_file_in_the_way_is_named(world: World, sigma: Node) -> None:
    """Neither a commit nor a stash would take it away."""
    sigma.write({"notes/one": "a\n", ".gitignore": "*.tmp\n"})
    (sigma.root / "notes/x.tmp").write_text("mine\n")
    elsewhere(world, sigma, {"notes/one": "a\n"}, {"notes": "b\n"})
    told = sigma.cn("sync", check=1).stderr
    assert "notes/x.tmp lies where main has the file notes" in told
    (sigma.root / "notes/x.tmp").rename(sigma.root / "x.tmp")
    sigma.sync()
    assert (sigma.root / "notes").read_text() == "b\n"


def own_thread(node: Node) -> str:
    """The path of a new thread of the hub's own."""
    node.cn("adhoc", "plan")
    return git(node.root, "ls-files", "--", "threads/adhoc/*plan.md").strip()


def test_a_thread_that_became_a_folder_is_not_taken_out_by_the_next_commit(world: World, sigma: Node) -> None:
    path = own_thread(sigma)
    sigma.sync()
    elsewhere(world, sigma, {path: ""}, {f"{path}/x": "keep\n"})
    told = sigma.cn("sync")
    assert "staged" not in told.stdout + told.stderr
    assert is_clean(sigma)
    sigma.write({"mine": "hi\n"})
    sigma.sync()
    assert content(sigma, f"{path}/x") == b"keep\n"
    elsewhere(world, sigma, {f"{path}/x": ""}, {path: "a file again\n"})
    sigma.sync()
    assert is_clean(sigma)
    assert content(sigma, path) == b"a file again\n"


@pytest.mark.parametrize("staged", [False, True])
def test_an_edit_of_a_thread_that_became_a_folder_is_kept(world: World, sigma: Node, staged: bool) -> None:
    path = own_thread(sigma)
    sigma.sync()
    (sigma.root / path).write_text("my edit\n")
    if staged:
        git(sigma.root, "add", path)
    elsewhere(world, sigma, {path: ""}, {f"{path}/x": "keep\n"})
    told = sigma.cn("sync", check=1)
    assert (sigma.root / path).read_text() == "my edit\n"
    assert "is something else here" in told.stdout + told.stderr
    assert names(sigma, path) == {f"{path}/x"}
    if staged:
        assert "had a staged change" in told.stdout + told.stderr
        kept = [one.read_text() for one in (sigma.root / ".git/cn").rglob("*.staged*") if one.is_file()]
        assert kept == ["my edit\n"]
    (sigma.root / path).unlink()
    sigma.sync()
    assert is_clean(sigma)
    assert (sigma.root / path / "x").read_text() == "keep\n"


def test_what_is_staged_below_a_thread_that_became_a_file_is_kept(world: World, sigma: Node) -> None:
    path = "threads/adhoc/20260101-plan.md"
    sigma.write({f"{path}/x": "keep\n"})
    (sigma.root / path / "mine").write_text("my own\n")
    git(sigma.root, "add", "-f", f"{path}/mine")
    elsewhere(world, sigma, {f"{path}/x": ""}, {path: "a file\n"})
    sigma.cn("sync", check=1)
    assert (sigma.root / path / "mine").read_text() == "my own\n"
    assert names(sigma, path) == {path}
    shutil.rmtree(sigma.root / path)
    sigma.sync()
    assert is_clean(sigma)
    assert (sigma.root / path).read_text() == "a file\n"


def test_ignored_files_where_main_got_files_are_named_with_a_step_that_works(world: World, sigma: Node) -> None:
    """git neither commits nor stashes them; a folder and a link of theirs are in the way of files, too."""
    sigma.write({".gitignore": "*.tmp\nbuild\nlink\n"})
    (sigma.root / "build").mkdir()
    (sigma.root / "link").symlink_to("build")
    for name in ("a.tmp", "b.tmp", "build/mine"):
        (sigma.root / name).write_text("mine\n")
    elsewhere(world, sigma, {}, {"a.tmp": "theirs\n"})
    told = sigma.cn("sync", check=1).stderr
    assert "a.tmp lies where main has the file a.tmp, and is untracked" in told
    assert "stash -u" not in told
    elsewhere(world, sigma, {}, {"b.tmp": "theirs\n", "build": "theirs\n", "link/x": "theirs\n"})
    told = sigma.cn("sync", check=1).stderr
    assert "a.tmp, b.tmp, build/mine, link lie where main has files, and are untracked" in told
    assert "move them elsewhere" in " ".join(told.split())
    assert told.split("\n")[0].removeprefix("cn: ") in sigma.cn("status").stdout
    for name in ("a.tmp", "b.tmp", "link", "build"):
        (sigma.root / name).rename(world.folder / name)
    sigma.sync()
    assert (sigma.root / "a.tmp").read_text() == (sigma.root / "link/x").read_text() == "theirs\n"
    assert is_clean(sigma)


@pytest.mark.parametrize("what", ["folder", "ignored folder", "link", "file"])
def test_what_is_untracked_in_the_way_of_a_merge_is_named(world: World, sigma: Node, pi: Node, what: str) -> None:
    if what == "ignored folder":
        sigma.write({".gitignore": "place\n"})
    path, way = ("place", "place/mine") if "folder" in what else ("place/x", "place")
    world.propose(pi, sigma, files={path: "theirs\n"})
    sigma.sync()
    if "folder" in what:
        (sigma.root / "place").mkdir()
    if what == "link":
        (sigma.root / way).symlink_to("docs")
    else:
        (sigma.root / way).write_text("mine\n")
    sigma.write_refused_triage("pi/proposal", "do:merge")
    told = sigma.process(check=1).stderr
    assert f"{way} lies here and is untracked, where the merge puts a file" in told
    (sigma.root / "place").rename(world.folder / "place")
    sigma.process()
    assert (sigma.root / path).read_text() == "theirs\n"
