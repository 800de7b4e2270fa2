"""Somebody who can push to origin's main tampers with cn's records, and what cn makes of it."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from cn.protocol.outbox_entry import Remove, format_entry, outbox_path
from cn.values.names import Branch, Name, Oid
from cn.values.timestamps import parse_stamp
from tests.support.hubs import branches, clone, commit, git, identify, make_ssh_key, paths, push, sign_with
from tests.support.world import Node, World, is_in_main


def plant(sigma: Node, world: World, files: dict[str, str | None]) -> str:
    """A pusher commits ``files`` on origin's main."""
    path = world.folder / "pusher"
    if not path.is_dir():
        clone(sigma.url, path)
        identify(path, "mallory")
    git(path, "pull", "-q", "--ff-only", "origin", "main")
    made = commit(path, files, "harmless")
    push(path, sigma.url, "main")
    return made


def ledger_file(sigma: Node, name: str = "open") -> str:
    return git(sigma.root, "show", f"main:state/ledger/pi/{name}") + "\n"


def test_an_emptied_or_changed_index_of_the_ledger_is_mended(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    good = ledger_file(sigma)
    for bad in ("", good.replace(head, "1" * 40), "no json\n"):
        plant(sigma, world, {"state/ledger/pi/open": bad})
        done = sigma.cn("sync", check=0)
        assert "is written anew from the history" in done.stdout
        assert ledger_file(sigma) == good
        sigma.idle()
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_a_ledger_line_that_is_none_leaves_only_that_peer_out(world: World, sigma: Node, pi: Node) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    world.propose(pi, sigma)
    sigma.sync()
    month = next(p.name for p in (sigma.root / "state/ledger/pi").iterdir() if p.name.isdigit())
    lines = ledger_file(sigma, month)
    made = plant(sigma, world, {f"state/ledger/pi/{month}": lines + "2026-01-01T00:00:00Z in merged x\n"})
    world.propose(omega, sigma, "other")
    done = sigma.cn("sync", check=1)
    assert "pi is left out: its ledger is damaged" in done.stderr
    assert len(sigma.threads()) == 2
    assert "pi is left out: its ledger is damaged" in sigma.cn("status").stdout
    again = sigma.cn("sync")
    assert (again.stdout, again.stderr) == ("", "")
    assert git(world.folder / "pusher", "rev-parse", "HEAD") == made
    git(sigma.root, "pull", "-q", "--ff-only", "origin", "main")
    damaged = sigma.cn("doctor", check=None)
    sigma.write({f"state/ledger/pi/{month}": lines}, "take the line out")
    remedy = "'git push origin refs/heads/main' and 'git update-ref refs/cn/origin/main refs/heads/main'"
    assert remedy in damaged.stdout
    git(sigma.root, "update-ref", "refs/cn/origin/main", "main")
    sigma.sync()
    assert "its ledger is damaged" not in sigma.cn("status").stdout


def test_a_planted_message_says_no_more_than_cn_would(world: World, sigma: Node, pi: Node) -> None:
    """Written by hand with all its bytes right, but in another's name."""
    pi.cn("send", "sigma", "real")
    entry = next((pi.root / "threads/mail/sent").glob("*.md")).read_text()
    forged = entry.replace('to: "sigma"', 'to: "pi"', 1).replace('branch: "pi/', 'branch: "sigma/')
    plant(sigma, world, {"threads/mail/outbox/20260101-pi-real-00000000.md": forged})
    done = sigma.cn("sync", check=1)
    assert "known-peer: it is written in the name of pi" in done.stderr
    assert "sigma/real" not in branches(pi.home)
    again = sigma.cn("sync")
    assert again.stderr == ""
    assert "it is written in the name of pi" in sigma.cn("status").stdout


def test_a_planted_deletion_needs_our_records(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(sigma, pi, "ours")
    sigma.sync()
    entry = Remove(Name("pi"), Branch("sigma/ours"), Oid(head), parse_stamp("2026-02-05T12:00:00Z"), "because")
    plant(sigma, world, {outbox_path(entry): format_entry(entry).decode()})
    done = sigma.cn("sync", check=1)
    assert "creator-only-delete: our ledger does not say" in done.stderr
    assert branches(pi.home)["sigma/ours"] == head
    take_out(sigma, done.stderr)


def take_out(sigma: Node, told: str) -> None:
    """Type what is told, and commit: nothing is left to tell, and nothing else went."""
    before = set(paths(sigma.root))
    assert "cn outbox flush" not in sigma.cn("doctor", check=None).stdout
    for command in re.findall(r"'(git (?:--literal-pathspecs )?(?:log|rm) .*?)'(?: shows|, a commit)", told):
        assert command in sigma.cn("doctor", check=None).stdout
        subprocess.run(command, shell=True, cwd=sigma.root, check=True, capture_output=True, timeout=60)
    gone = git(sigma.root, "diff", "--cached", "--name-only", "--no-renames", "-z").rstrip("\0")
    git(sigma.root, "commit", "-qm", "out")
    assert before - set(paths(sigma.root)) == {gone}
    done = sigma.sync()
    assert "outbox" not in done.stderr
    assert sigma.sync().stderr == ""


@pytest.mark.sliced(3)
@pytest.mark.parametrize("name", ["20261121-pi-x-aaaaaaaa.md", "20261121-pi-$(touch pwned)-a.md", "2*.md", "it's.md"])
def test_junk_in_the_outbox_is_taken_out_by_what_is_told(world: World, sigma: Node, pi: Node, name: str) -> None:
    """The name is the pusher's: it is neither run by the shell nor a pattern of git's."""
    del pi
    plant(sigma, world, {f"threads/mail/outbox/{name}": "junk", "threads/mail/outbox/2z-say.md": "z"})
    done = sigma.cn("sync", check=1)
    assert "it is not sent" in done.stderr
    take_out(sigma, done.stderr)
    assert not (sigma.root / "pwned").exists()


def test_with_guard_nothing_unsigned_enters_the_folders_of_cn(world: World, sigma: Node, pi: Node) -> None:
    key, public = make_ssh_key(world.folder / "key")
    git(sigma.root, "config", "cn.guard", "true")
    git(sigma.root, "config", "--add", "cn.trustedKey", public)
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "defer:later")
    name = sigma.only_thread()
    text = sigma.thread(name) + "\n## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n"
    before = branches(sigma.home)["main"]
    plant(sigma, world, {f"threads/inbox/{name}": text})
    done = sigma.cn("inbox", "process", check=1)
    assert "cn trust" in done.stderr
    assert not is_in_main(sigma, head)
    pusher = world.folder / "pusher"
    git(pusher, "reset", "--hard", "-q", before)
    sign_with(pusher, key)
    commit(pusher, {f"threads/inbox/{name}": text}, "a reviewer decides")
    push(pusher, sigma.url, "+main")
    git(sigma.root, "update-ref", "-d", "refs/cn/origin/main")
    git(sigma.root, "reset", "-q", "--hard", before)
    sigma.sync()  # brings the section into the work tree
    sigma.process()
    assert is_in_main(sigma, head)


@pytest.mark.parametrize("guard", [True, False])
def test_what_a_trusted_key_took_back_does_not_come_again_by_an_unsigned_commit(
    world: World, sigma: Node, pi: Node, *, guard: bool
) -> None:
    """A decision in a clone with guard, and a peer's key that was stolen: each was replaced a moment ago, by a signed
    commit that this clone has not seen, and somebody who may push sets it back before it looks.
    """
    key, public = make_ssh_key(world.folder / "key")
    _, stolen = make_ssh_key(world.folder / "stolen")
    git(sigma.root, "config", "--add", "cn.trustedKey", public)
    git(sigma.root, "config", "cn.guard", str(guard).lower())
    head = world.propose(pi, sigma)
    sigma.sync()
    where = f"threads/inbox/{sigma.only_thread()}" if guard else "state/peers.md"
    first = git(sigma.root, "show", f"main:{where}") + "\n"
    decided = f"{first}\n## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n"
    changed = decided if guard else first.replace("deliver: mailbox", f'deliver: mailbox\n  key: "{stolen}"')
    pusher = world.folder / "pusher"
    plant(sigma, world, {"doc.md": "1"})
    sign_with(pusher, key)
    commit(pusher, {where: changed}, "a reviewer's")
    push(pusher, sigma.url, "main")
    sigma.sync()
    git(pusher, "pull", "-q", "--ff-only", sigma.url, "main")
    commit(pusher, {where: first}, "taken back")
    git(pusher, "config", "commit.gpgSign", "false")
    evil = commit(pusher, {where: changed}, "tidy")
    push(pusher, sigma.url, "main")
    done = sigma.cn("inbox", "process", check=1)
    assert f"has not accepted it: {where} (commit {evil[:12]})" in done.stderr
    assert not is_in_main(sigma, head)
    shown = sigma.cn("trust", check=1).stdout
    assert f"by commit {evil[:12]}" in shown
    assert ("+decision: do:merge" if guard else "+  key:") in shown
    git(pusher, "revert", "--no-edit", "HEAD")
    push(pusher, sigma.url, "main")
    sigma.process()
    assert git(sigma.root, "show", f"main:{where}") + "\n" == first
    assert not is_in_main(sigma, head)


def test_what_was_accepted_and_taken_back_goes_by_no_merge_that_a_run_makes(world: World, sigma: Node) -> None:
    """With guard: the first merge has the file of others; they set it back, and the next has it as committed here."""
    git(sigma.root, "config", "cn.guard", "true")
    sigma.write({"threads/drafts/plan.md": "1\n\n\n\n2\n"})
    sigma.cn("sync", check=1)  # it is no draft entry
    commit(sigma.root, {"threads/drafts/plan.md": "1\n\n\n\nours\n"}, "ours")
    plant(sigma, world, {"threads/drafts/plan.md": "theirs\n\n\n\n2\n"})
    sigma.cn("sync", check=1)
    sigma.cn("trust", check=1)
    sigma.cn("trust", "--yes")
    back = plant(sigma, world, {"threads/drafts/plan.md": "1\n\n\n\n2\n"})
    done = sigma.cn("sync", check=1)
    assert f"has not accepted it: threads/drafts/plan.md (commit {back[:12]})" in done.stderr


def test_a_refused_arrival_stands_in_the_status_until_it_is_gone(world: World, sigma: Node, pi: Node) -> None:
    _, public = make_ssh_key(world.folder / "key")
    old = (sigma.root / "state/peers.md").read_text()
    sigma.write({"state/peers.md": old.replace("deliver: mailbox", f'deliver: mailbox\n  key: "{public}"')})
    world.propose(pi, sigma)
    sigma.cn("sync")
    told = "pi/proposal is refused: signature-policy: the tip is not signed"
    for words in (("sync",), ("inbox", "process")):
        sigma.cn(*words, check=None)
        status = json.loads(sigma.cn("status", "--json").stdout)
        assert [told in one["text"] for one in status["standing"]] == [True]
        remedy = status["standing"][0]["remedy"]
        assert (
            "ask pi, whose prefix it has, to delete pi/proposal; 'git push origin :refs/heads/pi/proposal' does it"
            in remedy
        )
    assert "→ if pi did not make it, ask pi" in sigma.cn("status").stdout
    world.withdraw(pi, sigma)
    sigma.cn("sync", check=None)
    assert json.loads(sigma.cn("status", "--json").stdout)["standing"] == []
