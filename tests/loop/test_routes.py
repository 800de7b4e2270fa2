"""Other places for branches: no origin at all, a separate mailbox, another name for main."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hubs import bare, branches, fetch, git, make_ssh_key, parents_of, paths, refs
from tests.support.world import Node, World, is_in_main


def whole_life(world: World, sigma: Node, pi: Node) -> None:
    """A proposal is merged and cleaned up, a message is answered."""
    head = world.propose(pi, sigma)
    pi.cn("send", "sigma", "hello")
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    sigma.triage("pi/hello", "do:reply:thanks", "--body", "Thanks.")
    sigma.process()
    assert is_in_main(sigma, head)
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)
    assert "> Thanks." in pi.thread(pi.only_thread())
    sigma.idle()
    pi.idle()


def test_two_hubs_without_origin_push_into_each_other(world: World) -> None:
    sigma, pi = world.hub("sigma", origin=False), world.hub("pi", origin=False)
    world.link(sigma, pi)
    whole_life(world, sigma, pi)
    assert set(branches(sigma.root)) == set(branches(pi.root)) == {"main"}


def test_two_hubs_without_origin_fetch_from_each_other(world: World) -> None:
    sigma, pi = world.hub("sigma", origin=False), world.hub("pi", origin=False)
    world.link(sigma, pi, "pickup")
    whole_life(world, sigma, pi)


def test_a_mailbox_of_its_own_shows_peers_nothing_of_cns(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    box = bare(world.folder / "host/mailbox.git")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    sigma.url, origin = str(box), sigma.home
    world.link(sigma, pi)
    sigma.sync()
    assert "docs/start.md" in paths(box, "main")
    assert not [p for p in paths(box, "main") if p.startswith(("threads/", "logs/", "state/"))]
    sigma.home = box
    head = world.propose(pi, sigma)
    sigma.home = origin
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    assert "docs/proposal.md" in paths(box, "main")
    for _ in range(2):
        pi.sync()
        sigma.sync()
    assert set(branches(box)) == {"main"}
    assert pi.rows()[0] == ("sigma/proposal", "notice:merged", "merged SHA")
    assert not [p for p in paths(box, "main") if p.startswith(("threads/", "logs/", "state/"))]
    assert not [r for r in refs(box) if r.startswith("refs/cn/")]
    sigma.idle()
    pi.idle()


@pytest.mark.parametrize("restored", [False, True])
def test_the_second_answer_to_a_merged_branch_names_what_peers_can_see(world: World, restored: bool) -> None:
    """Pushed again (``git push --all`` of another clone), or the mailbox alone was put back from a backup."""
    sigma, pi, box = with_mailbox(world)
    before, head = branches(box)["main"], branches(box)["pi/proposal"]
    sigma.decide("pi/proposal", "do:merge")
    merge = branches(box)["main"]
    assert parents_of(box, merge)[1] == head
    for _ in range(2):
        pi.sync()
        sigma.sync()
    assert set(branches(box)) == {"main"}
    git(box, "update-ref", "refs/heads/pi/proposal", head)
    if restored:
        git(box, "update-ref", "refs/heads/main", before)
    sigma.sync()
    (notice,) = [name for name in branches(pi.home) if name.startswith("sigma/")]
    told = git(pi.home, "show", f"{notice}:message.md")
    assert "decided before: do:merge" in told
    assert merge in told
    private = git(sigma.root, "log", "-1", "--format=%H", "--grep=^Merge pi/proposal", "--first-parent", "main")
    assert private not in told
    for _ in range(2):
        pi.sync()
        sigma.sync()
    assert set(branches(box)) == {"main"}
    assert "unproven" not in pi.cn("why", "sigma:proposal").stdout
    assert "waiting on others" not in pi.cn("status").stdout
    sigma.idle()
    pi.idle()


def with_mailbox(world: World) -> tuple[Node, Node, Path]:
    """sigma with a mailbox of its own, and pi, which proposes something there."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    box = bare(world.folder / "host/mailbox.git")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    sigma.url = str(box)
    world.link(sigma, pi)
    sigma.sync()
    propose_at(world, pi, sigma, box, "proposal")
    return sigma, pi, box


def propose_at(world: World, pi: Node, sigma: Node, box: Path, topic: str) -> str:
    """Propose something there, and let it come in; its head."""
    origin, sigma.home = sigma.home, box
    head = world.propose(pi, sigma, topic)
    sigma.home = origin
    sigma.sync()
    return head


def test_a_merge_by_hand_that_the_published_main_does_not_show_says_how_it_ends(world: World) -> None:
    sigma, pi, box = with_mailbox(world)
    git(sigma.root, "fetch", "-q", "box", "pi/proposal")
    git(sigma.root, "merge", "-q", "--no-ff", "-m", "by hand", "FETCH_HEAD")
    git(sigma.root, "push", "-q", "origin", "main")
    sigma.decide("pi/proposal", "do:merge")
    for _ in range(2):
        pi.sync()
        sigma.sync()
    assert "docs/proposal.md" in paths(box, "main")
    for words in (("status",), ("why", "sigma:proposal"), ("thread", "show", "sigma:proposal")):
        shown = " ".join(pi.cn(*words).stdout.split())
        assert "unproven: it names no merge commit, and sigma's main does not hold" in shown
        assert "where that holds the work already, 'cn withdraw sigma:proposal' ends it here" in shown
        assert "cn peer key" not in shown, "no signature proves a merge that main does not show"
    pi.cn("withdraw", "sigma:proposal")
    pi.sync()
    assert set(branches(box)) == {"main"}
    assert "unproven" not in pi.cn("status").stdout
    assert "ends it here" not in pi.cn("why", "sigma:proposal").stdout


def test_an_answer_that_a_separate_mailbox_does_not_prove_is_proven_by_a_key(world: World) -> None:
    sigma, pi, box = with_mailbox(world)
    world.link(pi, world.hub("omega"))
    sigma.decide("pi/proposal", "delete:no")
    pi.sync()
    for words in (("status",), ("why", "sigma:proposal")):
        shown = " ".join(pi.cn(*words).stdout.split())
        assert "unproven: others can push there too" in shown
        assert "'cn peer key sigma KEY' pins the key that sigma signs with, which proves what it signed" in shown
        assert "('cn sign KEY' there, for what it says from then on); 'cn withdraw sigma:proposal' ends it" in shown
    private, key = make_ssh_key(world.folder / "key")
    sigma.cn("sign", private)
    pi.cn("peer", "key", "sigma", key)
    pi.sync()
    shown = " ".join(pi.cn("status").stdout.split())
    assert "only what sigma signs with the key that is pinned here is proven ('cn sign KEY' there" in shown
    pi.cn("withdraw", "sigma:proposal")
    propose_at(world, pi, sigma, box, "second")
    sigma.decide("pi/second", "delete:no")
    for _ in range(2):
        pi.sync()
        sigma.cn("sync", check=None)
    assert set(branches(box)) == {"main"}
    assert "waiting on others" not in pi.cn("status").stdout


def test_what_another_clone_publishes_is_nobody_elses(world: World) -> None:
    """Somebody's push there is told in these very words."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    box = bare(world.folder / "host/mailbox.git")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    origin = sigma.home
    sigma.url = str(box)
    world.link(sigma, pi)
    sigma.sync()
    sigma.url = str(origin)
    second = world.second(sigma)
    git(second.root, "remote", "add", "box", str(box))
    second.sync()
    for number, (one, other) in enumerate([(sigma, second), (second, sigma)] * 2):
        sigma.home, sigma.url = box, str(box)
        world.propose(pi, sigma, f"topic{number}", {f"docs/{number}.md": "x\n"})
        sigma.home, sigma.url = origin, str(origin)
        one.sync()
        one.decide(f"pi/topic{number}", "do:merge")
        assert f"docs/{number}.md" in paths(box, "main")
        done = other.sync()
        assert "published" not in done.stdout + done.stderr


def test_a_main_of_another_name(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    sigma.configure("main: trunk\n")
    git(sigma.root, "branch", "-m", "main", "trunk")
    git(sigma.root, "push", "--quiet", "origin", "trunk")
    git(sigma.home, "symbolic-ref", "HEAD", "refs/heads/trunk")
    git(sigma.root, "push", "--quiet", "origin", ":main")
    git(sigma.root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    text = (sigma.root / "state/peers.md").read_text()
    at = text.rindex("```")
    entry = f'- name: pi\n  hub: "{pi.url}"\n'
    (sigma.root / "state/peers.md").write_text(text[:at] + entry + text[at:])
    git(sigma.root, "commit", "--quiet", "-am", "peer")
    git(sigma.root, "push", "--quiet", "origin", "trunk")
    pi.add_peer(sigma)
    head = world.propose(pi, sigma, start="origin/trunk")
    assert "pi/proposal" in sigma.sync().stdout
    sigma.decide("pi/proposal", "do:merge")
    fetch(sigma.root, sigma.url)
    assert head in git(sigma.root, "rev-list", "trunk").split()
    pi.sync()
    assert not world.has_branch(pi, sigma)
    sigma.sync()
    pi.sync()
    sigma.idle()
    pi.idle()
