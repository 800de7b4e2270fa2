"""Messages that people start: send, reply, and an outbox that keeps what it cannot deliver."""

from __future__ import annotations

import re
import shutil

from tests.support.hubs import branches, cn, read, tip
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


def test_mail_over_another_ones_branch_stays_in_the_outbox(world: World, sigma: Node, pi: Node) -> None:
    """Somebody took the name at the peer's: never overwritten."""
    away = pi.home.with_name("away.git")
    shutil.move(pi.home, away)
    sigma.cn("send", "pi", "hello", check=1)
    shutil.move(away, pi.home)
    squatter = world.propose(sigma, pi, "hello")
    done = sigma.cn("outbox", "flush", check=1)
    assert "other bytes" in done.stderr
    assert "it waits; ask pi who made that branch there, and to delete it" in done.stderr
    assert "git rm" not in done.stderr, "it is our own, and goes out when the place is free"
    assert branches(pi.home)["sigma/hello"] == squatter
    assert len(sigma.outbox()) == 1
    world.withdraw(sigma, pi, "hello")
    sigma.cn("outbox", "flush")
    assert len(sigma.outbox()) == 0
    assert "sigma/hello" in branches(pi.home)


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
