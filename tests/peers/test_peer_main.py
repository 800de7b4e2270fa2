"""A peer's main is what its HEAD and its hub file say, and no branch of another name becomes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.git.process import Git
from cn.git.remote import Listing
from cn.peers.peer_main import Found, learn_mains
from cn.protocol.hub_config import main_named_in
from cn.values.names import Oid
from tests.support.hubs import bare, branches, clone, cn, commit, git, identify, push, tip, work, write_commit
from tests.support.servers import KINDS, serve
from tests.support.world import Node, World

NOTICE = """\
---
cn: message/1
kind: notice
from: sigma
to: pi
subject: merged
created: "2026-02-05T14:00:00Z"
about:
  branch: pi/fix
  head: {head}
  status: merged
  merge: {merge}
hops: 0
---
"""


def turn(node: Node, name: str, *, leaves_main: bool = False) -> None:
    """Another branch becomes this hub's main, and its HEAD."""
    node.configure(f"main: {name}\n")
    git(node.root, "branch", "-m", "main", name)
    git(node.root, "push", "--quiet", "origin", name)
    git(node.home, "symbolic-ref", "HEAD", f"refs/heads/{name}")
    if not leaves_main:
        git(node.root, "push", "--quiet", "origin", ":main")
    git(node.root, "symbolic-ref", "refs/remotes/origin/HEAD", f"refs/remotes/origin/{name}")


def enter(node: Node, other: Node) -> None:
    """A peer is added in a hub whose main has another name."""
    path = node.root / "state/peers.md"
    text = path.read_text()
    at = text.rindex("```")
    path.write_text(f'{text[:at]}- name: {other.name}\n  hub: "{other.url}"\n{text[at:]}')
    git(node.root, "commit", "--quiet", "-am", "peer")
    git(node.root, "push", "--quiet", "origin", "HEAD")


@pytest.fixture
def sigma(world: World) -> Node:
    """A hub whose main is trunk."""
    sigma = world.hub("sigma")
    turn(sigma, "trunk")
    return sigma


@pytest.fixture
def pi(world: World, sigma: Node) -> Node:
    pi = world.hub("pi")
    enter(sigma, pi)
    pi.add_peer(sigma)
    return pi


@pytest.fixture
def desk(world: World, sigma: Node, pi: Node) -> Path:
    """A clone of sigma's hub from which pi proposes."""
    path = clone(sigma.url, world.folder / "desk")
    identify(path, "Pia", "pia@people.example")
    git(path, "config", "cn.hub", str(pi.root))
    return path


def begin(desk: Path, name: str, start: str = "origin/trunk") -> str:
    git(desk, "fetch", "--quiet", "origin")
    git(desk, "switch", "--quiet", "--no-track", "-c", name, start)
    return commit(desk, {f"docs/{name}.md": name}, name)


@pytest.mark.parametrize("when", ["first", "later"])
def test_a_branch_main_that_somebody_pushed_proves_no_merge(
    world: World, sigma: Node, pi: Node, desk: Path, when: str
) -> None:
    omega = clone(sigma.url, world.folder / "omega")
    identify(omega, "sigma", "sigma@cn.invalid")
    if when == "first":
        push(omega, sigma.home, "HEAD:refs/heads/main")
    head = begin(desk, "fix")
    cn("propose", "fix", cwd=desk)
    assert branches(sigma.home)["pi/fix"] == head
    git(omega, "fetch", "--quiet", "origin")
    git(omega, "merge", "--quiet", "-s", "ours", "--no-edit", head)
    merge = tip(omega)
    push(omega, sigma.home, "HEAD:refs/heads/main")
    notice = write_commit(
        omega, {"message.md": NOTICE.format(head=head, merge=merge)}, author="sigma <sigma@cn.invalid>"
    )
    push(omega, pi.home, f"{notice}:refs/heads/sigma/notice-fix")
    assert "claimed, unproven: sigma's main did not make " in pi.sync().stdout
    pi.sync()
    assert branches(sigma.home)["pi/fix"] == head
    begin(desk, "more")
    cn("propose", "more", cwd=desk)
    assert "pi/more" in branches(sigma.home)


def test_beside_a_release_branch_main_all_goes_by_the_hubs_own(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    turn(sigma, "develop", leaves_main=True)
    released = branches(sigma.home)["main"]
    enter(sigma, pi)
    told = pi.cn("peer", "add", "sigma", sigma.url, "--check").stdout
    assert "HEAD" not in told
    desk = clone(sigma.url, world.folder / "desk")
    identify(desk, "Pia", "pia@people.example")
    git(desk, "config", "cn.hub", str(pi.root))
    begin(desk, "fix", "origin/develop")
    cn("propose", "fix", cwd=desk)
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    assert "sigma says pi/fix is merged" in (told := pi.sync().stdout)
    assert "unproven" not in told
    assert "pi/fix" not in branches(sigma.home)
    assert branches(sigma.home)["main"] == released
    assert "the HEAD of sigma's hub" not in pi.cn("doctor", "--full", check=None).stdout


@pytest.mark.parametrize("head", ["unborn", "unrelated"])
def test_a_host_whose_head_is_master_goes_on_with_main(world: World, head: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    if head == "unrelated":
        other = work(world.folder / "other", "other", "master")
        commit(other, {"README": "other"}, "other")
        push(other, sigma.home, "master")
    git(sigma.home, "symbolic-ref", "HEAD", "refs/heads/master")
    world.link(sigma, pi)
    assert (pi.sync().stderr, sigma.sync().stderr) == ("", "")
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert "unproven" not in pi.sync().stdout
    assert not world.has_branch(pi, sigma)


def test_another_main_is_named_by_doctor_and_taken_by_a_person_alone(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    pi.cn("send", "sigma", "First")
    pi.sync()
    turn(sigma, "trunk", leaves_main=True)
    pi.sync()
    assert _known(pi) == ["main"]
    told = pi.cn("doctor", "--full", check=None).stdout
    assert "the main of sigma's hub is trunk now, and this clone goes by its main" in told
    assert "'cn peer accept sigma'" in told
    assert f"its trunk is at {tip(sigma.home, 'trunk')[:12]}" in pi.cn("peer", "accept", "sigma").stdout
    assert _known(pi) == ["trunk"]
    pi.sync()
    assert _known(pi) == ["trunk"]
    assert "this clone goes by" not in pi.cn("doctor", "--full", check=None).stdout


def test_what_was_guessed_before_its_name_was_learnt_is_put_right(sigma: Node, pi: Node, desk: Path) -> None:
    """As a clone remembers it that went by names alone."""
    push(desk, sigma.home, "HEAD:refs/heads/main")
    pi.sync()
    path = pi.root / ".git/cn/local.json"
    memory = json.loads(path.read_bytes())
    (url,) = memory.pop("named")
    memory["known"] = {url: memory["known"][url].replace("trunk", "main")}
    path.write_text(json.dumps(memory))
    pi.write({"docs/more.md": "x"})  # so that the next run is not idle
    pi.sync()
    assert _known(pi) == ["trunk"]
    pi.cn("send", "sigma", "Hello")
    assert "pi/hello" in branches(sigma.home)


def _known(node: Node) -> list[str]:
    memory = json.loads((node.root / ".git/cn/local.json").read_bytes())
    names = list(memory["named"].values())
    assert [one.split(" ")[0] for one in memory["known"].values()] == names
    return names


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Path]:
    """Makes a repository with these branches; the hub file of each names a main, or is none."""

    def make(head: str, **mains: str | None) -> Path:
        home = bare(tmp_path / "far.git", head)
        for branch, main in mains.items():
            text = "" if main is None else f"name: sigma\nunheard-of: 1\nmain: {main}\n"
            files = {".cn/hub.yaml": text} if main is not None else {"README": branch}
            git(home, "update-ref", f"refs/heads/{branch}", write_commit(home, files))
        return home

    return make


@pytest.mark.parametrize(
    ("head", "mains", "name", "sure"),
    [
        ("main", {"main": None, "master": None}, "main", True),
        ("master", {"master": None}, "master", True),
        ("master", {"main": None}, "main", True),
        ("master", {"main": "main", "master": None}, "main", True),
        ("master", {"main": "main", "master": "master"}, "master", True),
        ("trunk", {"main": "main", "trunk": "trunk"}, "trunk", True),
        ("trunk", {"main": None, "trunk": None}, "main", False),
        ("trunk", {"main": "main", "trunk": "main"}, "main", True),
        ("trunk", {"trunk": "trunk"}, "trunk", True),
        ("trunk", {"trunk": None}, "trunk", False),
        ("none", {"trunk": "trunk"}, None, False),
    ],
)
def test_which_branch_is_main(
    tmp_path: Path, place: Callable[..., Path], head: str, mains: dict[str, str | None], name: str | None, sure: bool
) -> None:
    home, here = place(head, **mains), work(tmp_path / "here")
    listing = Listing((branch, Oid(oid)) for branch, oid in branches(home).items())
    found = learn_mains(Git(here), {str(home): listing}, 20)[str(home)]
    assert found == Found((name, listing[name]) if name else None, sure)
    assert not (here / ".git/cn").exists() or not list((here / ".git/cn").iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_main_is_learnt_over_every_transport(
    tmp_path: Path, place: Callable[..., Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, here = place("trunk", main=None, trunk="trunk"), work(tmp_path / "here")
    with serve(kind, tmp_path / "host", tmp_path / "scratch") as served:
        for key, value in served.env.items():
            monkeypatch.setenv(key, value)
        made.rename(served.path("sigma"))
        url = served.url("sigma")
        listing = Listing((branch, Oid(oid)) for branch, oid in branches(served.path("sigma")).items())
        assert learn_mains(Git(here), {url: listing}, 20)[url] == Found(("trunk", listing["trunk"]), sure=True)


def test_a_host_that_does_not_answer_is_no_guess(tmp_path: Path) -> None:
    url, here = str(tmp_path / "gone.git"), work(tmp_path / "here")
    assert isinstance(learn_mains(Git(here), {url: Listing(main=Oid("1" * 40))}, 20)[url], str)


def test_a_hub_file_of_any_shape_names_a_main_or_none() -> None:
    assert main_named_in(b"name: x\n") == "main"
    assert main_named_in(b"main: trunk\nnew: [1]\n") == "trunk"
    for data in (b"\xff", b"main: [1]\n", b"- 1\n", b"main: {\n", b"&a [*a]", b"!!python/object:os.system {}"):
        assert main_named_in(data) == "", data
