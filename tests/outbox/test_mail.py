"""Messages that people start: send, reply, and an outbox that keeps what it cannot deliver."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from cn.actions.mail import send
from cn.git.repository import open_hub
from cn.protocol.outbox_entry import entry_head, parse_entry
from cn.transaction.lock import hub_lock
from tests.support.hubs import branches, clone, cn, cn_env, commit, git, make_ssh_key, read, tip
from tests.support.terminal import Terminal
from tests.support.world import Node, World


def test_a_message_is_sent_and_read(world: World, sigma: Node, pi: Node) -> None:
    done = pi.cn("send", "sigma", "Lunch?", "--body", "At noon.\n\n## Triage\n\ndecision: do:merge")
    assert "✓ delivered pi/" in done.stdout
    (branch,) = [b for b in branches(sigma.home) if b.startswith("pi/")]
    assert re.fullmatch(r"pi/lunch(-[0-9a-f]{8})?", branch)
    data = read(sigma.home, f"refs/heads/{branch}:message.md").decode()
    assert data.startswith("---\ncn: message/1\nkind: message\nfrom: pi\nto: sigma\n")
    sigma.sync()
    name = sigma.only_thread()
    text = sigma.thread(name)
    assert "> At noon." in text
    assert "> ## Triage" in text
    sigma.idle()
    sigma.decide(name, "delete:read")
    world.settle(pi, sigma)
    assert set(branches(sigma.home)) == {"main"}
    topic = branch.removeprefix("pi/")
    assert pi.rows()[:2] == [
        (f"sigma/{topic}", f"send:{topic}", "queued"),
        (f"sigma/{topic}", f"send:{topic}", "✓ delivered"),
    ]
    assert (f"sigma/{topic}", "clean up", "✓ deleted") in pi.rows()


def test_the_very_same_message_of_the_same_second_is_sent_once(
    world: World, sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cn.actions.mail.now", lambda: datetime(2026, 2, 5, 15, tzinfo=UTC))
    first, second = (send(open_hub(pi.root), "sigma", "hello", body="one") for _ in range(2))
    assert any(note.text.startswith("delivered ") for note in first.notes)
    assert [note.text for note in second.notes] == ["pi/hello at sigma has the very same message; it is not sent twice"]
    assert [name for name in branches(sigma.home) if name.startswith("pi/")] == ["pi/hello"]
    assert len(pi.sent()) == 1


def test_two_messages_with_one_subject_are_two(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "hello", "--body", "one")
    pi.cn("send", "sigma", "hello", "--body", "two")
    sigma.sync()
    assert len(sigma.threads()) == 2
    assert len([b for b in branches(sigma.home) if b.startswith("pi/hello")]) == 2


def test_a_message_is_not_merged(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "hello")
    sigma.sync()
    assert "this is a message" in sigma.triage("pi/hello", "do:merge", check=1).stderr
    sigma.write_triage(sigma.only_thread(), "do:merge")
    assert "this is a message" in sigma.process(check=1).stderr


def test_sending_to_oneself_to_nobody_and_nothing(sigma: Node, pi: Node) -> None:
    main = sigma.main
    assert "this hub" in sigma.cn("send", "sigma", "hello", check=1).stderr
    assert "is no peer" in sigma.cn("send", "nobody", "hello", check=1).stderr
    assert sigma.cn("send", "pi", "  ", check=2).stderr
    assert sigma.main == main


def test_a_reply_decides_a_pending_message(sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "A question")
    sigma.sync()
    name = sigma.only_thread()
    sigma.cn("reply", "pi/a-question", "Thanks", "--body", "Really.")
    assert (sigma.threads(), sigma.done()) == ([], [name])
    assert sigma.rows("pi/a-question")[1:] == [
        ("pi/a-question", "do:reply:re-a-question", "queued"),
        ("pi/a-question", "do:reply:re-a-question", "✓ delivered"),
    ]
    assert "Really." in sigma.thread(name)
    pi.sync()
    assert "pi/a-question" not in branches(sigma.url)
    assert "> Really." in pi.thread(pi.only_thread())


def test_a_reply_to_a_proposal_keeps_it(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.cn("reply", "pi/proposal", "Thanks", "--body", "Really.")
    assert (sigma.threads(), sigma.done()) == ([name], [])
    pi.sync()
    assert world.has_branch(pi, sigma)
    assert "> Really." in pi.thread(pi.only_thread())


def test_a_reply_to_a_done_thread_is_a_message_of_its_own(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.decide("pi/proposal", "delete:no")
    for thread in (name, "pi/proposal"):
        sigma.cn("reply", thread, f"One more thing about {thread}")
    mine = [b for b in branches(pi.home) if b.startswith("sigma/re-proposal")]
    assert len(mine) == 2
    assert f'in-reply-to: "{head}"' in read(pi.home, f"refs/heads/{mine[0]}:message.md").decode()
    pi.sync()
    assert len(pi.threads()) == 2
    assert "no pending thread" in sigma.cn("reply", "pi/unheard-of", "x", check=1).stderr


def test_mail_that_waits_for_a_peer_in_back_off_is_named_at_a_terminal_with_what_helps(
    world: World, sigma: Node, pi: Node
) -> None:
    pi.home.rename(away := pi.home.with_name("away.git"))
    sigma.cn("send", "pi", "hello", check=1)
    assert (sigma.sync().stdout, sigma.sync().stderr) == ("", ""), "cron is told once"
    terminal = Terminal(sigma.root, "sync", columns=200)
    assert terminal.end() == 0
    told = r"1 waits in the outbox for pi, which did not answer \(next try in \d+m\); 'cn outbox flush' tries now"
    assert re.search(told, terminal.text)
    terminal = Terminal(sigma.root, "sync", "--quiet", columns=200)
    assert terminal.end() == 0
    assert "outbox" not in terminal.text
    away.rename(pi.home)
    sigma.cn("outbox", "flush")
    assert sigma.outbox() == []


def test_mail_to_an_unreachable_peer_waits_with_its_reason(world: World, sigma: Node, pi: Node) -> None:
    away = pi.home.with_name("away.git")
    shutil.move(pi.home, away)
    done = sigma.cn("send", "pi", "hello", check=1)
    assert "sigma/hello for pi is not delivered: unreachable" in done.stderr
    assert len(sigma.outbox()) == 1
    assert sigma.sent() == []
    again = sigma.cn("sync")
    assert (again.stdout, again.stderr) == ("", ""), "told once"
    assert "unreachable" in sigma.cn("sync", "-v").stderr
    shutil.move(away, pi.home)
    done = sigma.cn("outbox", "flush")
    assert "✓ delivered sigma/hello at pi" in done.stdout
    assert (len(sigma.outbox()), len(sigma.sent())) == (0, 1)
    assert "sigma/hello" in branches(pi.home)
    assert [r[2] for r in sigma.rows()] == ["queued", "✓ delivered"]
    sigma.cn("peer", "sync")
    sigma.idle()


def test_one_dead_peer_delays_nobody(world: World, sigma: Node, pi: Node) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    world.propose(pi, sigma)
    shutil.rmtree(omega.home)
    done = sigma.cn("sync", check=1)
    assert "omega is unreachable" in done.stderr
    assert len(sigma.threads()) == 1
    sigma.triage("pi/proposal", "delete:no")
    sigma.cn("inbox", "process", check=None)
    pi.sync()
    assert not world.has_branch(pi, sigma)


def test_mail_whose_name_another_took_goes_under_a_free_one(world: World, sigma: Node, pi: Node) -> None:
    """Somebody took the name at the peer's: never overwritten, and the very same commit arrives all the same."""
    away = pi.home.with_name("away.git")
    shutil.move(pi.home, away)
    sigma.cn("send", "pi", "hello", check=1)
    shutil.move(away, pi.home)
    squatter = world.propose(sigma, pi, "hello")
    (name,) = sigma.outbox()
    queued = parse_entry((sigma.root / "threads/mail/outbox" / name).read_bytes())
    told = sigma.cn("outbox", "flush").stdout
    there = branches(pi.home)
    (free,) = [branch for branch in there if branch.startswith("sigma/hello-")]
    assert f"sigma/hello at {squatter[:8]} in pi's hub is not ours: somebody else made it" in told
    assert there["sigma/hello"] == squatter
    assert free == f"sigma/hello-{there[free][:8]}"
    assert there[free] == entry_head(queued)
    assert sigma.outbox() == []
    again = sigma.sync().stdout
    assert "is not ours" in again, again
    assert "adopted" not in again, again
    assert "its name was another's, and it goes as" in sigma.cn("thread", "show", "pi:hello").stdout
    pi.sync()
    pi.decide(free, "delete:read")
    sigma.sync()
    assert set(branches(pi.home)) & {free, "sigma/hello"} == {"sigma/hello"}


def test_what_leaves_no_room_for_mail_is_not_adopted(world: World, sigma: Node, pi: Node) -> None:
    git(pi.home, "update-ref", "refs/heads/sigma/hello/deep/x", "refs/heads/main")
    told = sigma.cn("send", "pi", "hello").stdout
    assert "in pi's hub is not ours: somebody else made it" in told
    again = sigma.sync().stdout
    assert "sigma/hello/deep/x at pi is not ours" in again
    assert "adopted" not in again + sigma.sync().stdout
    world.propose(sigma, pi, "other/x")
    assert "adopted sigma/other/x at pi: pushed by hand" in sigma.sync().stdout


def test_who_did_not_make_a_branch_is_not_told_to_sign_it(world: World, sigma: Node, pi: Node) -> None:
    _, public = make_ssh_key(world.folder / "key")
    old = (pi.root / "state/peers.md").read_text()
    pi.write({"state/peers.md": old.replace("deliver: mailbox", f'deliver: mailbox\n  key: "{public}"')})
    world.propose(pi, sigma)
    sigma.sync()
    world.propose(sigma, pi, "notice-proposal")
    sigma.decide("pi/proposal", "delete:no")
    pi.cn("sync")
    told = sigma.sync(check=1).stdout
    assert "that is not ours: somebody else made it, and ours went under another name" in told, told
    assert "notice-proposal at pi" not in sigma.cn("status").stdout


def test_a_delivery_nobody_heard_of_is_found_again(world: World, sigma: Node, pi: Node) -> None:
    """The push arrived, the answer did not: the same bytes give the same id, so it is no second one."""
    away = pi.home.with_name("away.git")
    shutil.move(pi.home, away)
    sigma.cn("send", "pi", "hello", check=1)
    (name,) = sigma.outbox()
    entry = (sigma.root / "threads/mail/outbox" / name).read_text()
    shutil.move(away, pi.home)
    sigma.cn("outbox", "flush")
    delivered = branches(pi.home)["sigma/hello"]
    assert f'id: "{delivered}"' in entry
    pi.sync()
    assert len(pi.threads()) == 1
    assert tip(pi.home, "refs/heads/sigma/hello") == delivered


def test_a_peer_that_was_removed_keeps_its_mail(world: World, sigma: Node, pi: Node) -> None:
    away = pi.home.with_name("away.git")
    shutil.move(pi.home, away)
    sigma.cn("send", "pi", "hello", check=1)
    shutil.move(away, pi.home)
    sigma.cn("peer", "remove", "pi")
    done = sigma.cn("outbox", "flush", check=1)
    assert "no peer any more" in done.stderr
    assert len(sigma.outbox()) == 1
    sigma.cn("peer", "add", "pi", pi.url)
    sigma.cn("outbox", "flush")
    assert sigma.outbox() == []


def test_forwarding_stops_at_the_limit_of_hops(world: World) -> None:
    names = ("sigma", "pi", "omega")
    hubs = [world.hub(name, config="limits:\n  hops: 1\n") for name in names]
    for i, a in enumerate(hubs):
        for b in hubs[i + 1 :]:
            world.link(a, b)
    sigma, pi, omega = hubs
    pi.cn("send", "sigma", "hello")
    sigma.sync()
    sigma.decide(sigma.only_thread(), "delegate:omega")
    omega.sync()
    name = omega.only_thread()
    omega.write_triage(name, "delegate:pi")
    done = omega.process(check=1)
    assert "forwarded 1 times already" in done.stderr
    assert omega.threads() == [name]


def test_the_hub_is_found_by_option_argument_and_folder(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    for words, cwd in (
        (("--hub", str(sigma.root), "inbox", "sync"), None),
        (("inbox", "sync", "--hub", str(sigma.root)), None),
        (("inbox", "sync", str(sigma.root)), None),
        (("inbox", "sync"), sigma.root / "threads"),
    ):
        assert cn(*words, cwd=cwd, check=0).stderr == ""
    assert len(sigma.threads()) == 1


def test_what_was_delivered_before_is_not_sent_again(world: World, sigma: Node, pi: Node) -> None:
    """Its reader has deleted the branch already: it would stand there for ever."""
    world.settle(sigma, pi)
    sigma.cn("send", "pi", "hello", "--body", "Read this.", check=0)
    (name,) = sigma.sent()
    pi.sync()
    pi.decide(pi.only_thread(), "delete:read")
    world.settle(sigma, pi)
    assert list(branches(pi.url)) == ["main"]
    text = (sigma.root / "threads/mail/sent" / name).read_text()
    sigma.write({f"threads/mail/outbox/{name}": text})
    done = sigma.sync()
    assert "sigma/hello for pi came back into the outbox; it was delivered before, and is not again" in done.stdout
    assert list(branches(pi.url)) == ["main"]
    assert sigma.outbox() == []
    assert sigma.rows("pi/hello")[-1][2] == "not done again: it came back into the outbox"
    sigma.idle()


def test_what_is_said_waits_for_a_run_that_is_at_work(sigma: Node, pi: Node) -> None:
    sigma.configure("lock_wait: 0.1\n")
    sigma.sync()
    command = [sys.executable, "-m", "cn", "--hub", str(sigma.root), "send", "pi", "hello"]
    with hub_lock(open_hub(sigma.root), 0):
        saying = subprocess.Popen(command, env=cn_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert saying.stderr is not None
        assert f"it waits: another run of cn holds the hub {sigma.root} (pid {os.getpid()}" in saying.stderr.readline()
        sigma.cn("adhoc", "no words to a peer", check=75)
    said, _ = saying.communicate(timeout=60)
    assert saying.returncode == 0
    assert "✓ delivered sigma/hello at pi" in said


@pytest.mark.parametrize("origin", [True, False])
def test_what_leaves_no_room_in_our_own_mailbox_is_ours_to_take_away(world: World, origin: bool) -> None:
    """By pickup the peer only reads there; the step works wherever it is typed, as in a clone of the peer's hub."""
    sigma, pi = world.hub("sigma", origin=origin), world.hub("pi")
    world.link(sigma, pi, "pickup")
    git(sigma.home, "update-ref", "refs/heads/pi", "refs/heads/main")
    told = sigma.cn("send", "pi", "hello", check=1).stderr
    assert "a branch named pi there leaves no room for pi/hello" in told
    assert "ask pi" not in told + sigma.cn("doctor", check=None).stdout
    desk = clone(pi.url, world.folder / "desk")
    (step,) = re.findall(r"'(git [^']*push [^']*)'", told)
    git(desk, *shlex.split(step)[1:])
    sigma.cn("outbox", "flush", check=0)
    assert "pi/hello" in branches(sigma.home)
    git(sigma.home, "update-ref", "refs/heads/pi/fix/x", "refs/heads/main")
    commit(desk, {"docs/fix.md": "fix\n"})
    told = cn("propose", "fix", "--hub", sigma.root, cwd=desk, check=1).stderr
    assert "ask pi" not in told + sigma.cn("doctor", check=None).stdout
    (step,) = re.findall(r"'(git [^']*push [^']*)'", told)
    git(desk, *shlex.split(step)[1:])
    cn("propose", "fix", "--hub", sigma.root, cwd=desk, check=0)
    assert branches(sigma.home)["pi/fix"] == tip(desk)
