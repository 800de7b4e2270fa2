"""What waits is worth what its signature is by the key that is pinned now."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.hubs import commit, git, make_ssh_key, push, sign_with, write_raw_commit
from tests.support.world import Node, World, is_in_main


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The private file and the public text of pi's key."""
    return make_ssh_key(tmp_path_factory.mktemp("keys") / "old")


@pytest.fixture(scope="session")
def new(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Those of the key that pi has next."""
    return make_ssh_key(tmp_path_factory.mktemp("keys") / "new")


def _shown(node: Node) -> tuple[str, str]:
    """Signature and state of the one thread, as ``cn inbox --json`` has them."""
    (thread,) = json.loads(node.cn("inbox", "--json").stdout)
    assert f"**Signature:** {thread['signature']}\n" in node.thread(thread["thread"])
    return thread["signature"].partition(" ")[0], thread["state"]


def _signed(world: World, config: str = "", key: str = "", private: Path | None = None) -> tuple[Node, Node]:
    """sigma with a pinned ``key`` of pi's, whose person signs with ``private``."""
    sigma, pi = world.hub("sigma", config=config), world.hub("pi")
    world.link(sigma, pi, b_key=key)
    if private is not None:
        sign_with(world.person(pi, sigma), private)
    return sigma, pi


def test_what_waits_when_another_key_is_pinned_acts_no_more_until_that_signs_it(
    world: World, old: tuple[Path, str], new: tuple[Path, str]
) -> None:
    sigma, pi = _signed(world, key=old[1], private=old[0])
    world.link(sigma, world.hub("omega"))
    head = world.propose(pi, sigma)
    sigma.sync()
    assert _shown(sigma) == ("verified", "pending")
    told = sigma.cn("peer", "key", "pi", new[1]).stderr
    assert "signature-policy" in told
    assert "'cn delete pi/proposal' ends it" in told
    assert _shown(sigma) == ("unverified", "pending")
    assert "**Caution:** is not signed with SHA256:" in sigma.thread(sigma.only_thread())
    for decision, *more in (
        ["do:merge"],
        ["delegate:omega"],
        ["do:reply:x", "--body", "yes"],
        ["do:custom:look at it"],
    ):
        assert "signature-policy" in sigma.triage("pi/proposal", decision, *more, check=1).stderr
    sigma.write_triage(sigma.only_thread(), "do:merge")  # with an editor, which asks nobody
    sigma.cn("inbox", "process")  # what is refused is for its creator to mend
    assert not is_in_main(sigma, head)
    sign_with(world.person(pi, sigma), new[0])
    head = world.propose(pi, sigma, force=True)
    sigma.sync()
    assert _shown(sigma) == ("verified", "pending")
    assert "**Caution:**" not in sigma.thread(sigma.only_thread())
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_its_creator_is_told_once_that_it_has_to_be_signed_anew(
    world: World, old: tuple[Path, str], new: tuple[Path, str]
) -> None:
    sigma, pi = _signed(world, key=old[1], private=old[0])
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("peer", "key", "pi", new[1])
    sigma.sync()
    sigma.sync()
    (notice,) = sigma.notices()
    text = (sigma.root / "threads/mail/sent" / notice).read_text("utf-8")
    assert "status: refused" in text
    assert "git commit --amend --no-edit -S" in text


@pytest.mark.parametrize("by_hand", [False, True])
def test_who_was_told_so_is_told_once_that_it_waits_again_where_the_key_was_wrong(
    world: World, old: tuple[Path, str], new: tuple[Path, str], *, by_hand: bool
) -> None:
    sigma, pi = _signed(world, key=old[1])
    pi.cn("sign", old[0])
    pi.cn("send", "sigma", "Which day?")
    sigma.sync()
    for key in (new[1], old[1]):
        if by_hand:
            text, known = (sigma.root / "state/peers.md").read_text("utf-8"), old[1] if key == new[1] else new[1]
            sigma.write({"state/peers.md": text.replace(known.split()[1], key.split()[1])})
        else:
            sigma.cn("peer", "key", "pi", key)
        sigma.sync()
        pi.sync()
        shown = pi.cn("status").stdout
        assert ("refused at a peer, waits for you" in shown) == (key == new[1])
    assert 'deferred: "it was let in after all, and waits for a decision"' in " ".join(shown.split())
    assert _shown(sigma) == ("verified", "pending")
    sigma.sync()
    assert len(sigma.notices()) == 2
    time.sleep(1.1)  # a notice of the same words in the same second is the same one
    sigma.cn("peer", "key", "pi", new[1])  # wrong once more: it is told once more
    sigma.sync()
    assert "refused" in pi.sync().stdout
    sigma.cn("peer", "key", "pi", old[1])
    sigma.cn("reply", "pi/which-day", "Monday")
    world.settle(pi, sigma)
    pi.cn("status", "--check")


def test_who_was_told_so_is_told_that_it_waits_again_where_no_key_is_asked_for(
    world: World, old: tuple[Path, str]
) -> None:
    sigma, pi = _signed(world)
    pi.cn("send", "sigma", "Which day?")
    sigma.sync()
    sigma.cn("peer", "key", "pi", old[1])
    sigma.sync()
    assert "signature-policy" in pi.sync().stdout
    text = (sigma.root / "state/peers.md").read_text("utf-8")
    sigma.write({"state/peers.md": "".join(line for line in text.splitlines(True) if "  key:" not in line)})
    sigma.sync()
    assert "is deferred" in pi.sync().stdout
    pi.cn("status", "--check")


def test_what_was_decided_by_the_earlier_key_is_void(
    world: World, old: tuple[Path, str], new: tuple[Path, str]
) -> None:
    """The list of peers was changed by hand, behind a decision that waits."""
    sigma, pi = _signed(world, key=old[1], private=old[0])
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    text = (sigma.root / "state/peers.md").read_text("utf-8")
    sigma.write({"state/peers.md": text.replace(old[1].split()[1], new[1].split()[1])})
    assert "what was decided is void" in sigma.cn("inbox", "process").stderr
    assert not is_in_main(sigma, head)
    assert _shown(sigma) == ("unverified", "pending")
    assert "## Void triage" in sigma.thread(sigma.only_thread())
    sigma.idle()


@pytest.mark.parametrize("signs", [True, False])
def test_a_first_key_says_what_waits_already_is_worth(world: World, old: tuple[Path, str], *, signs: bool) -> None:
    """No hub.yaml asks for signed merges: the key does, of what waits as of what comes."""
    sigma, pi = _signed(world, private=old[0] if signs else None)
    head = world.propose(pi, sigma)
    sigma.sync()
    assert _shown(sigma) == ("unverified", "pending")
    sigma.cn("peer", "key", "pi", old[1])
    assert _shown(sigma) == ("verified" if signs else "unverified", "pending")
    sigma.triage("pi/proposal", "do:merge", check=0 if signs else 1)
    sigma.process()
    assert is_in_main(sigma, head) == signs


def test_nothing_ends_as_done_that_the_pinned_key_did_not_sign(world: World, old: tuple[Path, str]) -> None:
    sigma, pi = _signed(world)
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("peer", "key", "pi", old[1])
    assert "signature-policy" in sigma.cn("done", "pi/proposal", check=1).stderr
    assert _shown(sigma) == ("unverified", "pending")
    shown = " ".join(sigma.cn("inbox", "show", "pi/proposal").stdout.partition("-- decide")[2].split())
    told = "the key that is pinned for pi did not sign it: pi signs it anew, or 'cn delete pi/proposal' ends it"
    assert told in shown, "nothing is offered that is refused"
    assert "deletes pi/proposal: delete:<reason>" in shown
    sigma.cn("inbox", "triage", "pi/proposal", "delete:no")


def test_what_main_holds_and_the_pinned_key_did_not_sign_is_ended_by_the_step_that_is_printed(
    world: World, old: tuple[Path, str]
) -> None:
    sigma, pi = _signed(world)
    head = world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "merge", "--quiet", "--no-edit", head)
    sigma.sync()
    sigma.cn("peer", "key", "pi", old[1])
    sigma.sync()
    shown = " ".join(sigma.cn("status").stdout.split())
    assert "→ 'cn delete pi/proposal' ends it" in shown
    assert "do:merge" not in shown
    sigma.cn("delete", "pi/proposal")
    assert sigma.threads() == []


def test_a_reply_that_is_refused_by_a_key_goes_again_once_that_key_signs(world: World, old: tuple[Path, str]) -> None:
    """Its question is gone by then; its words go all the same, and stand behind the first ones."""
    sigma, pi = _refused_reply(world, old)
    step = "'cn sign KEY', with the key that sigma has pinned for us, and the next 'cn sync' tells it again"
    shown = " ".join(pi.cn("status").stdout.split())
    assert f"{step}; 'cn withdraw sigma:re-which-day' takes it away" in shown
    pi.cn("status", "--check", check=1)
    pi.sync()
    assert step in " ".join(pi.cn("status").stdout.split()), "until somebody does"
    pi.cn("sign", old[0])
    assert "goes again, signed as this clone signs" in pi.sync().stdout
    pi.cn("status", "--check")
    assert "goes again" not in pi.sync().stdout
    sigma.sync()
    text = sigma.thread(sigma.only_thread())
    assert (text.count("> > Monday"), text.count(", verified SHA256:")) == (2, 1)
    world.settle(sigma, pi)
    pi.cn("doctor")


def test_a_reply_that_is_refused_by_a_key_is_taken_away_where_nobody_signs_it(
    world: World, old: tuple[Path, str]
) -> None:
    _, pi = _refused_reply(world, old)
    pi.cn("withdraw", "sigma:re-which-day")
    assert "which-day" not in pi.cn("status").stdout
    pi.sync()
    pi.cn("doctor")


def _refused_reply(world: World, key: tuple[Path, str], *, over: bool = False) -> tuple[Node, Node]:
    """pi's reply was taken, and is looked at by a key that sigma pins then."""
    sigma, pi = _signed(world)
    sigma.cn("send", "pi", "Which day?")
    pi.sync()
    pi.cn("reply", "sigma/which-day", "Monday")
    sigma.sync()
    if over:
        pi.sync()
        assert "branch deleted: by us" in pi.cn("why", "sigma:re-which-day").stdout
    sigma.cn("peer", "key", "pi", key[1])
    sigma.sync()
    pi.sync(check=1 if over else 0)
    return sigma, pi


def test_a_reply_that_is_refused_by_a_key_when_it_is_over_waits_to_be_said_anew(
    world: World, old: tuple[Path, str]
) -> None:
    """Its question is gone by then, and the reply with it."""
    _, pi = _refused_reply(world, old, over=True)
    shown = " ".join(pi.cn("status").stdout.split())
    assert "signature-policy" in shown
    assert "say it anew in a message of its own" in shown
    pi.cn("status", "--check", check=1)
    pi.sync()
    assert "say it anew" in " ".join(pi.cn("status").stdout.split()), "until somebody does"
    pi.cn("withdraw", "sigma:re-which-day")
    assert "which-day" not in pi.cn("status").stdout
    pi.sync()
    pi.cn("doctor")


def test_an_earlier_key_that_is_pinned_again_counts_again(
    world: World, old: tuple[Path, str], new: tuple[Path, str]
) -> None:
    sigma, pi = _signed(world, key=old[1], private=old[0])
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("peer", "key", "pi", new[1])
    sigma.cn("peer", "key", "pi", old[1])
    assert _shown(sigma) == ("verified", "pending")
    assert "**Caution:**" not in sigma.thread(sigma.only_thread())
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


@pytest.mark.parametrize("state", ["deferred", "assigned", "withdrawn"])
def test_what_is_put_off_assigned_or_withdrawn_stays_so(
    world: World, old: tuple[Path, str], new: tuple[Path, str], state: str
) -> None:
    reviewers = "reviewers:\n  - {name: alice, email: alice@people.example}\n"
    sigma, pi = _signed(world, reviewers, key=old[1], private=old[0])
    world.propose(pi, sigma)
    sigma.sync()
    match state:
        case "deferred":
            sigma.decide("pi/proposal", "defer:later", "--until", "2099-01-01")
        case "assigned":
            sigma.decide("pi/proposal", "delegate:alice")
        case _:
            world.withdraw(pi, sigma)
            sigma.sync()
    changes = {"signature": "", "chain": ""}
    (before,) = json.loads(sigma.cn("inbox", "--json").stdout)
    sigma.cn("peer", "key", "pi", new[1])
    assert _shown(sigma) == ("unverified", state)
    (after,) = json.loads(sigma.cn("inbox", "--json").stdout)
    assert {**after, **changes} == {**before, **changes}
    sigma.sync()
    sigma.idle()
    sigma.cn("doctor")


def test_an_agent_is_not_given_what_the_pinned_key_did_not_sign(
    world: World, old: tuple[Path, str], new: tuple[Path, str]
) -> None:
    sigma, pi = _signed(world, key=old[1], private=old[0])
    text = (sigma.root / ".cn/hub.yaml").read_text("utf-8")
    sigma.write({".cn/hub.yaml": text.replace("interface: triage", "interface: queue")})
    world.propose(pi, sigma)
    sigma.sync()
    assert "**Signature:** verified" in sigma.cn("input").stdout
    sigma.cn("peer", "key", "pi", new[1])
    assert not (sigma.root / "state/input.md").exists()
    sigma.sync()
    assert not (sigma.root / "state/input.md").exists()
    assert "waits for a person: the key that is pinned for pi did not sign it" in sigma.cn("queue").stdout
    sigma.cn("peer", "key", "pi", old[1])
    sigma.sync()
    assert "**Signature:** verified" in sigma.cn("input").stdout


def test_a_key_that_is_taken_out_verifies_nothing(world: World, old: tuple[Path, str]) -> None:
    sigma, pi = _signed(world, key=old[1], private=old[0])
    world.propose(pi, sigma)
    sigma.sync()
    text = (sigma.root / "state/peers.md").read_text("utf-8")
    sigma.write({"state/peers.md": "\n".join(line for line in text.split("\n") if "key:" not in line)})
    (thread,) = json.loads(sigma.cn("inbox", "--json").stdout)
    assert thread["signature"] == "unverified"  # also before a run has looked
    sigma.sync()
    assert _shown(sigma) == ("unverified", "pending")
    assert git(sigma.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["renamed", "second", "words", "pinned later"])
def test_a_signed_commit_that_came_as_another_peers_says_so_and_is_not_merged(
    world: World, old: tuple[Path, str], how: str
) -> None:
    """Who can push replays it, also with its signature written otherwise."""
    sigma, pi = _signed(world, key=old[1], private=old[0])
    head = world.propose(pi, sigma)
    sigma.sync()
    world.withdraw(pi, sigma)
    sigma.sync()
    if how == "renamed":
        sigma.cn("peer", "remove", "pi")
    key = ["--key", old[1]] if how != "pinned later" else []
    told = sigma.cn("peer", "add", "omega", world.hub("omega").url, *key).stdout
    person = world.person(pi, sigma)
    if how == "words":
        raw = git(person, "cat-file", "commit", head) + "\n"
        head = write_raw_commit(person, raw.replace("SIGNATURE-----\n ", "SIGNATURE-----\n \n ", 1).encode())
    push(person, sigma.url, f"{head}:refs/heads/omega/proposal")
    sigma.sync()
    if not key:
        told = sigma.cn("peer", "key", "omega", old[1]).stdout
    assert f"pi {'had' if how == 'renamed' else 'has'} the same key" in told
    (name,) = [name for name in sigma.threads() if "-omega-" in name]
    assert "**Caution:** holds what came before as pi/proposal" in sigma.thread(name)
    assert "merge-needs-approval" in sigma.triage("omega/proposal", "do:merge", check=1).stderr
    fresh = commit(person, {"docs/more.md": "more\n"}, "More")
    push(person, sigma.url, f"+{fresh}:refs/heads/omega/proposal")
    sigma.sync()
    sigma.decide("omega/proposal", "do:merge")
    assert is_in_main(sigma, fresh)


def test_who_shows_anothers_signed_commit_first_keeps_it_from_no_merge(world: World, old: tuple[Path, str]) -> None:
    sigma, pi = _signed(world, key=old[1], private=old[0])
    world.link(sigma, world.hub("omega"))
    head = world.propose(pi, sigma)
    world.withdraw(pi, sigma)
    push(world.person(pi, sigma), sigma.url, f"{head}:refs/heads/omega/mine")
    sigma.sync()
    world.offer(pi, sigma, "proposal", head)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
