"""What people write while origin does not answer waits here, and goes once, when it answers."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cn.protocol.draft import Draft, format_draft
from cn.values.timestamps import parse_stamp
from tests.support.hubs import ROOT, bare, branches, clone, cn, commit, git, identify, push, write_commit
from tests.support.meanwhile import meanwhile
from tests.support.proxy import NONE, Fault, Proxy, proxy
from tests.support.servers import free_port, http_backend
from tests.support.world import Node, World


@pytest.fixture
def away(sigma: Node, pi: Node) -> Node:
    """Sigma, whose origin does not answer."""
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    return sigma


def back(node: Node) -> None:
    git(node.root, "config", "remote.origin.url", node.url)


def drafts(node: Node) -> list[str]:
    return git(node.root, "ls-tree", "-r", "--name-only", "main", "threads/drafts").split()


def test_a_message_waits_here_and_goes_once(away: Node, pi: Node) -> None:
    done = away.cn("send", "pi", "Hello", "--body", "The text.")
    assert "origin is unreachable" in done.stdout
    assert "the send waits here, and goes when origin answers" in done.stdout
    assert len(drafts(away)) == 1
    assert "send to pi, written" in away.cn("status").stdout
    (waits,) = json.loads(away.cn("outbox", "--json").stdout)
    assert (waits["effect"], waits["to"], waits["subject"]) == ("draft", "pi", "Hello")
    assert away.sync(1).stderr.count("origin is unreachable") == 1
    back(away)
    away.sync()
    assert (drafts(away), away.outbox()) == ([], [])
    pi.sync()
    assert "> The text." in pi.thread(pi.only_thread())
    away.idle()


def test_a_reply_a_comment_and_a_follow_up_wait_too(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "A question")
    pi.cn("send", "sigma", "Another one")
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("done", "pi/another-one")
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("reply", "pi/a-question", "Yes.")
    sigma.cn("comment", "pi/proposal", "Why?")
    sigma.cn("reply", "pi/another-one", "After all.")
    assert len(drafts(sigma)) == 3
    assert len(sigma.threads()) == 2, "nothing is decided yet"
    back(sigma)
    sigma.process()
    assert (drafts(sigma), sigma.outbox()) == ([], [])
    pi.sync()
    texts = "".join(pi.thread(name) for name in pi.threads())
    assert all(f"> {said}" in texts for said in ("Yes.", "Why?", "After all."))
    assert [name.split("-", 1)[1] for name in sigma.threads()] == ["pi-proposal.md"]
    sigma.sync()
    sigma.idle()


def test_what_would_be_refused_is_refused_at_once(away: Node) -> None:
    assert "no peer" in away.cn("send", "nobody", "Hello", check=1).stderr
    assert "no-secrets" in away.cn("send", "pi", "the key is AKIAIOSFODNN7EXAMPLA", check=1).stderr
    assert "nobody/x" in away.cn("comment", "nobody/x", "Hello", check=1).stderr
    assert drafts(away) == []


def test_one_that_is_refused_later_stays_and_keeps_no_other(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("send", "pi", "Hello")
    lost = Draft("comment", "pi/none", "Why?", "", parse_stamp("2026-02-05T15:00Z"), b"")
    commit(sigma.root, {lost.path: format_draft(lost)}, "about a thread that is nowhere")
    back(sigma)
    done = sigma.process(1)
    assert done.stderr.count("is not said") == 1
    assert f"'rm -- {drafts(sigma)[0]}' takes it back" in done.stderr
    assert len(drafts(sigma)) == 1
    assert "sigma/hello" in branches(pi.url)
    assert sigma.process().stderr == "", "it was told"
    assert "is not said" in sigma.cn("status").stdout
    git(sigma.root, "rm", "-q", f"{drafts(sigma)[0]}")
    git(sigma.root, "commit", "-qm", "never mind")
    sigma.process()
    assert "is not said" not in sigma.cn("status").stdout


def test_a_dry_run_keeps_nothing(away: Node) -> None:
    head = git(away.root, "rev-parse", "main")
    away.cn("send", "pi", "Hello", "--dry-run")
    assert git(away.root, "rev-parse", "main") == head


@pytest.mark.parametrize("act", ["reply", "comment"])
def test_what_waited_about_a_thread_that_another_clone_decided_is_said_and_so_told(
    world: World, sigma: Node, pi: Node, tmp_path: Path, act: str
) -> None:
    pi.cn("send", "sigma", "A question")
    sigma.sync()
    second = Node("sigma", clone(sigma.home, tmp_path / "second", trusted=True), sigma.home, sigma.url)
    identify(second.root, "sigma")
    second.sync()
    for node in (sigma, second):
        git(node.root, "config", "remote.origin.url", f"{sigma.url}.away")
        node.cn(act if node is second else "reply", "pi/a-question", f"In {node.root.name}.")
    for node in (sigma, second):
        back(node)
    sigma.sync()
    told = second.sync().stdout
    was = f"pi/a-question: {act} was not carried out: another clone was first with do:reply:re-a-question"
    assert told.count(f"{was}; its text goes as a message of its own") == 1
    assert was.partition(": ")[2].partition(" was ")[2] in second.cn("log").stdout
    assert "another clone" not in sigma.cn("log").stdout
    pi.sync()
    texts = "".join(pi.thread(name) for name in pi.threads())
    assert all(f"> In {node.root.name}." in texts for node in (sigma, second)), "nothing that was said is lost"
    assert "another clone" not in second.sync().stdout, "once"


def test_what_was_said_about_a_head_decides_nothing_about_another(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "Shall I keep the backups?")
    sigma.sync()
    name = sigma.only_thread()
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("reply", name, "Yes, please.")
    person = world.person(pi, sigma)
    git(person, "fetch", "--quiet", sigma.url, "pi/shall-i-keep-the-backups")
    text = git(person, "show", "FETCH_HEAD:message.md").replace("keep", "delete") + "\n"
    new = write_commit(person, {"message.md": text}, "x", [], "pi <pi@cn.invalid>")
    push(person, sigma.url, f"+{new}:refs/heads/pi/shall-i-keep-the-backups")
    back(sigma)
    done = sigma.sync()
    assert "has moved since this was said; its text goes as a message of its own" in done.stdout
    assert sigma.threads() == [name], "nothing is decided"
    assert "delete the backups?" in sigma.thread(name)
    assert "> Yes, please." not in sigma.thread(name)
    assert any("re-shall-i-keep" in branch for branch in branches(pi.url))


def test_what_waits_is_said_before_what_is_decided_later(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("comment", "pi/proposal", "Well done.")
    sigma.triage("pi/proposal", "do:merge")
    back(sigma)
    assert "comment by sigma" in sigma.process().stdout
    assert (sigma.threads(), drafts(sigma)) == ([], [])
    pi.sync()
    assert "> Well done." in pi.thread(pi.only_thread())


def test_the_loser_of_a_race_says_nothing_again(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("send", "pi", "Hello")
    back(sigma)
    git(sigma.root, "push", "--quiet", "origin", "main")
    # A copy of the folder has its reflog too: either says it.
    second = Node("sigma", world.folder / "second", sigma.home, sigma.url)
    shutil.copytree(sigma.root, second.root, symlinks=True)
    run = f"{sys.executable} -m cn --hub {second.root} sync"
    env = meanwhile(tmp_path / "bin", before=f"PYTHONPATH={ROOT} {run}")
    done = sigma.cn("sync", env=env)
    assert done.stderr == ""
    assert [name for name in branches(pi.url) if name.startswith("sigma/hello")] == ["sigma/hello"]
    assert drafts(sigma) == []


def planted(world: World, sigma: Node, files: dict[str, bytes | None]) -> Node:
    """Another clone, from which somebody pushed this to main."""
    other = world.second(sigma)
    commit(other.root, files, "planted")
    git(other.root, "push", "--quiet", "origin", "main")
    return other


PLANTED = Draft("send", "pi", "Delete all.", "", parse_stamp("2026-02-05T15:00Z"), b"")


def test_one_that_came_with_main_from_elsewhere_is_not_said(world: World, sigma: Node, pi: Node) -> None:
    planted(world, sigma, {PLANTED.path: format_draft(PLANTED)})
    told = sigma.sync(1).stderr
    assert f"{PLANTED.path} is not said: it came with main from elsewhere" in told
    assert f"'rm -- {PLANTED.path}' takes it back; else the clone in which it was written says it" in told
    assert not any(name.startswith("sigma/") for name in branches(pi.url))
    assert sigma.sync().stderr == "", "it was told"
    assert "it came with main from elsewhere" in sigma.cn("status").stdout
    assert "it is not said here" in sigma.cn("outbox").stdout
    assert "✓ delivered" in sigma.cn("send", "pi", PLANTED.message).stdout, "who says it here does so"
    assert drafts(sigma) == [PLANTED.path]
    (sigma.root / PLANTED.path).write_bytes(format_draft(replace(PLANTED, message="Something else.")))
    sigma.cn("sync", check=None)
    assert len([name for name in branches(pi.url) if name.startswith("sigma/")]) == 1, "an edit makes it nobody's"
    (sigma.root / PLANTED.path).unlink()
    assert "was removed here: it is not said" in sigma.sync().stdout
    assert drafts(sigma) == []
    assert "it came with main" not in sigma.cn("status").stdout


@pytest.mark.parametrize("way", ["amended", "reverted", "merged"])
def test_what_git_made_here_of_one_from_elsewhere_is_not_said(world: World, sigma: Node, pi: Node, way: str) -> None:
    other = planted(world, sigma, {PLANTED.path: format_draft(PLANTED)})
    if way == "merged":  # by a merge that has what none of its parents has
        tree, parents = git(other.root, "rev-parse", "main^{tree}"), ["-p", "main~1", "-p", "main~1~1"]
        merge = git(other.root, "commit-tree", "-m", "merged", *parents, tree)
        git(other.root, "push", "--quiet", "--force", "origin", f"{merge}:main")
        git(other.root, "reset", "--quiet", "--hard", merge)
    if way != "amended":
        commit(other.root, {PLANTED.path: None}, "another way")
        git(other.root, "push", "--quiet", "origin", "main")
    sigma.sync(0 if way != "amended" else 1)
    if way == "amended":  # of what seemed to be the last of one's own
        git(sigma.root, "commit", "--quiet", "--amend", "-m", "A word")
        git(sigma.root, "push", "--quiet", "--force", "origin", "main")
        git(sigma.root, "update-ref", "refs/cn/origin/main", "main")
        sigma.cn("doctor", "--fix", check=None)
    else:
        git(sigma.root, "revert", "--no-edit", "HEAD")
    assert "origin" not in sigma.cn("sync", check=None).stderr
    assert drafts(sigma) == [PLANTED.path]
    assert "it came with main from elsewhere" in sigma.cn("status").stdout
    assert not any(name.startswith("sigma/") for name in branches(pi.url))


def test_one_that_was_said_and_that_somebody_puts_back_is_not_said_again(world: World, away: Node, pi: Node) -> None:
    away.cn("send", "pi", "Yes.")
    (path,) = drafts(away)
    said, written = (away.root / path).read_bytes(), git(away.root, "rev-parse", "main")
    back(away)
    away.sync()
    other = planted(world, away, {path: said})
    assert f"{path} is not said" in away.sync(1).stderr
    commit(other.root, {path: None}, "another way")
    tree = git(other.root, "rev-parse", "main~1^{tree}")
    # A merge with the very commit that wrote it, which needs no commit of theirs that adds it.
    merge = git(other.root, "commit-tree", "-m", "merged", "-p", "main", "-p", written, tree)
    git(other.root, "push", "--quiet", "origin", f"{merge}:main")
    away.cn("sync", check=None)
    assert drafts(away) == [path]
    assert "is not said" in away.cn("status").stdout
    assert [name for name in branches(pi.url) if name.startswith("sigma/")] == ["sigma/yes"]


def test_ones_own_words_wait_beside_the_same_from_elsewhere(world: World, sigma: Node, pi: Node) -> None:
    planted(world, sigma, {PLANTED.path: format_draft(PLANTED)})
    sigma.sync(1)
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("send", "pi", PLANTED.message)
    assert len(drafts(sigma)) == 2
    back(sigma)
    sigma.sync()
    assert drafts(sigma) == [PLANTED.path]
    assert "sigma/delete-all" in branches(pi.url)


def test_what_origin_refuses_waits_too(sigma: Node, pi: Node) -> None:
    git(sigma.home, "config", "receive.hideRefs", "refs/heads/main")
    done = sigma.cn("send", "pi", "Hello", check=1)
    assert "origin did not take main" in done.stderr
    assert "the send waits here, and goes when origin takes it" in done.stderr
    assert len(drafts(sigma)) == 1
    git(sigma.home, "config", "--unset", "receive.hideRefs")
    sigma.sync()
    assert drafts(sigma) == []
    assert "sigma/hello" in branches(pi.url)


def test_threads_of_our_own_wait_too_and_what_does_not_wait_says_what_does(away: Node) -> None:
    assert (
        "the adhoc thread waits here, and goes when origin answers" in away.cn("adhoc", "A note", "--body", "x").stdout
    )
    away.cn("mca", "add", "The backups are old")
    assert len(drafts(away)) == 2
    assert "adhoc, written 0m ago: waits for origin" in away.cn("status").stdout
    waits = "'cn adhoc' and 'cn inbox triage' write waits here, and goes then"
    for words, nothing in (
        (("daily",), "nothing was opened"),
        (("done", "pi/x"), "nothing was decided"),
        (("done", "pi/x", "pi/y", "--yes"), "nothing was decided"),
        (("thread", "close", "x"), "nothing was decided"),
        (("propose", "x", "pi"), "nothing was proposed, and your commits are as they were"),
    ):
        refused = cn(*words, cwd=away.root, check=1).stderr
        assert nothing in refused
        assert waits in refused
        assert "nothing was committed" not in refused
    back(away)
    away.sync()
    assert drafts(away) == []
    names = git(away.root, "ls-tree", "-r", "--name-only", "main", "threads/adhoc", "state/mca").split()
    assert any("a-note" in name for name in names)
    assert any("the-backups-are-old" in name for name in names)


@pytest.mark.parametrize("before", [(), ("sync",)])
def test_a_host_that_resets_every_connection_took_nothing(sigma: Node, pi: Node, before: tuple[str, ...]) -> None:
    """ssh says that before it has exchanged keys; what is written waits, whatever was tried before."""
    sigma.sync()
    with proxy(free_port()) as host:
        host.fault = Fault("reset", reset=True)
        git(sigma.root, "config", "remote.origin.url", f"ssh://127.0.0.1:{host.port}/hub")
        for words in filter(None, [before]):
            assert "origin is unreachable" in sigma.cn(*words, check=1).stderr
        assert "the send waits here, and goes when origin answers" in sigma.cn("send", "pi", "Hello").stdout
    back(sigma)
    sigma.sync()
    assert (drafts(sigma), "sigma/hello" in branches(pi.url)) == ([], True)
    sigma.idle()


def test_one_whose_file_was_removed_is_not_said_and_an_edited_one_as_it_is_now(away: Node, pi: Node) -> None:
    away.cn("send", "pi", "I resign")
    away.cn("send", "pi", "Price is 500")
    told = " ".join(away.cn("outbox").stdout.split())
    assert "takes it back (its words stay in main's history); edited, it goes as it is then" in told
    for path in (away.root / path for path in drafts(away)):
        text = path.read_text()
        if "resign" in text:
            path.unlink()
        else:
            path.write_text(text.replace("500", "5000"))
    shown = away.cn("status").stdout
    assert "its file was removed here: it is not said" in shown
    assert "Price is 5000" in shown
    back(away)
    said = away.sync().stdout
    assert said.count("was removed here: it is not said; its words stay in main's history") == 1
    assert said.count("was edited here: it is said as it is now") == 1
    assert [name for name in branches(pi.url) if name.startswith("sigma/")] == ["sigma/price-is-5000"]
    assert (drafts(away), list((away.root / "threads").glob("drafts/*"))) == ([], [])
    away.idle()


def test_the_same_by_cn_commit(away: Node, pi: Node) -> None:
    away.cn("send", "pi", "I resign")
    away.cn("send", "pi", "Price is 500")
    first, second = sorted(drafts(away), key=lambda path: "resign" not in (away.root / path).read_text())
    (away.root / first).unlink()
    (away.root / second).write_text((away.root / second).read_text().replace("500", "5000"))
    assert f"{first} is taken back: it is not said" in away.cn("commit").stdout
    assert git(away.root, "status", "--short") == ""
    back(away)
    away.sync()
    assert [name for name in branches(pi.url) if name.startswith("sigma/")] == ["sigma/price-is-5000"]
    assert drafts(away) == []


@pytest.mark.parametrize("by", ["", "commit"])
def test_one_that_is_edited_to_another_thread_goes_there_and_nowhere_else(world: World, by: str) -> None:
    sigma, pi, omega = (world.hub(name) for name in ("sigma", "pi", "omega"))
    for one in (pi, omega):
        world.link(sigma, one)
    pi.cn("send", "sigma", "Pi asks")
    pi.cn("send", "sigma", "Pi asks too")
    omega.cn("send", "sigma", "Omega asks")
    sigma.sync()
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    for act, thread, words in (
        ("comment", "pi/pi-asks", "Alpha"),
        ("reply", "pi/pi-asks", "Beta"),
        ("comment", "pi/pi-asks-too", "Gamma"),
    ):
        sigma.cn(act, thread, words)
    for path in (sigma.root / path for path in drafts(sigma)):
        text = path.read_text()
        to = '"pi"' if "Gamma" in text else '"omega/omega-asks"'
        path.write_text(re.sub("^to: .*$", f"to: {to}", text, flags=re.MULTILINE))
    if by:
        sigma.cn(by)
    back(sigma)
    done = sigma.cn("sync", check=1)
    assert "has moved" not in done.stdout
    assert "is not said: no pending thread 'pi'" in done.stderr
    assert len(drafts(sigma)) == 1
    assert [one for one in branches(pi.url) if one.startswith("sigma/")] == []
    omega.sync()
    said = "".join(map(omega.thread, omega.threads()))
    assert ("> Alpha" in said, "> Beta" in said, "> Gamma" in said) == (True, True, False)
    assert "done before" not in sigma.cn("log").stdout
    assert sigma.cn("inbox").stdout.count("pending") == 2, "nothing is decided"


def test_what_is_no_draft_among_them_is_named_once(away: Node, pi: Node) -> None:
    away.cn("send", "pi", "Hello")
    (path,) = drafts(away)
    (away.root / path).with_name("notes.md").write_text("garbage")
    (away.root / path).unlink()
    (away.root / path).symlink_to("/etc/passwd")
    back(away)
    told = away.sync(1).stderr
    assert "threads/drafts/notes.md is no draft of cn's, and is not said" in told
    assert f"{path} is no plain file here" in told
    assert away.sync().stderr == "", "it was told"
    assert "notes.md is no draft" in away.cn("status").stdout
    (away.root / path).unlink()
    (away.root / path).with_name("notes.md").unlink()
    assert "was removed here: it is not said" in away.sync().stdout
    assert "no draft" not in away.cn("status").stdout
    assert not any(name.startswith("sigma/") for name in branches(pi.url))


@pytest.mark.parametrize("reached", [True, False])
def test_the_very_same_words_wait_once_and_go_once(away: Node, pi: Node, reached: bool) -> None:
    away.cn("send", "pi", "Hello")
    if reached:
        back(away)
        assert "✓ delivered" in away.cn("send", "pi", "Hello").stdout
    else:
        assert "the very same send to pi waits already" in away.cn("send", "pi", "Hello").stdout
        away.cn("send", "pi", "Hello!")
        assert len(drafts(away)) == 2
        back(away)
        away.sync()
    assert drafts(away) == []
    assert len([name for name in branches(pi.url) if name.startswith("sigma/")]) == (1 if reached else 2)


LOST = Fault("lost", deaf=True, then_gone=True)
"""A push arrives, its answer does not, and nobody can be asked."""


@pytest.fixture
def cut(world: World, tmp_path: Path) -> Iterator[tuple[Node, Node, Proxy]]:
    """Sigma, whose origin stands behind a proxy, pi, and that proxy."""
    with http_backend(tmp_path / "served") as served, proxy(urlsplit(served.base).port or 0) as host:
        url = f"http://127.0.0.1:{host.port}/sigma.git"
        sigma, pi = world.hub("sigma", url=url, home=bare(served.path("sigma"))), world.hub("pi")
        world.link(sigma, pi)
        yield sigma, pi, host


def test_one_that_origin_may_have_is_said_to_be_so_and_goes_once(cut: tuple[Node, Node, Proxy]) -> None:
    sigma, pi, host = cut
    pi.cn("send", "sigma", "q0")
    sigma.sync()
    host.fault = LOST
    assert "nobody knows whether origin took main" in sigma.cn("reply", "pi/q0", "Yes, 100 EUR").stdout
    assert "nobody knows whether origin took it; the next run that reaches origin" in sigma.cn("status").stdout
    again = sigma.cn("reply", "pi/q0", "Yes, 100 EUR").stdout
    assert "the very same reply to pi/q0 waits already" in again
    assert len(drafts(sigma)) == 1
    host.fault = NONE
    sigma.sync()
    assert [name for name in branches(pi.url) if name.startswith("sigma/")] == ["sigma/re-q0"]
    assert drafts(sigma) == []


@pytest.mark.parametrize("to", ["pi/q0", "pi/q1"])
def test_one_that_is_edited_after_origin_took_it_goes_besides(cut: tuple[Node, Node, Proxy], to: str) -> None:
    sigma, pi, host = cut
    for name in ("q0", "q1"):
        pi.cn("send", "sigma", name)
    sigma.sync()
    host.fault = LOST
    sigma.cn("comment", "pi/q0", "It costs 100 EUR")
    (path,) = (sigma.root / path for path in drafts(sigma))
    text = path.read_text().replace("100 EUR", "200 EUR")
    path.write_text(re.sub("^to: .*$", f'to: "{to}"', text, flags=re.MULTILINE))
    host.fault = NONE
    told = sigma.sync().stdout
    assert "comment to pi/q0, had come to origin before it was edited here: what it says now goes besides" in told
    assert "it is said as it is now" not in told
    assert drafts(sigma) == []
    pi.sync()
    said = "".join(map(pi.thread, pi.threads()))
    assert ("> It costs 100 EUR" in said, "> It costs 200 EUR" in said) == (True, True)
    assert f"sigma/re-{to.partition('/')[2]}" in " ".join(branches(pi.url))


def test_a_connection_that_broke_while_a_comment_was_pushed_asks_for_no_right(cut: tuple[Node, Node, Proxy]) -> None:
    sigma, pi, host = cut
    pi.cn("send", "sigma", "q0")
    sigma.sync()
    host.fault = Fault("cut", push=0)
    said = " ".join(sigma.cn("comment", "pi/q0", "Why?", check=1).stderr.split())
    assert "goes when origin takes it → origin was asked, and does not have it; run again" in said
    host.fault = NONE
    sigma.cn("comment", "pi/q0", "Why?")  # as told
    sigma.sync()
    assert len([name for name in branches(pi.url) if name.startswith("sigma/")]) == 1
    assert drafts(sigma) == []


@pytest.mark.parametrize("act", ["reply", "comment", "send"])
def test_words_that_waited_and_whose_push_has_an_unknown_end_go_once_said_again(
    cut: tuple[Node, Node, Proxy], act: str
) -> None:
    sigma, pi, host = cut
    pi.cn("send", "sigma", "q0")
    sigma.sync()
    words = (act, "pi" if act == "send" else "pi/q0", "Yes, 100 EUR")
    host.fault = Fault("away", refuse=True)
    sigma.cn(*words)
    host.fault = LOST
    assert "nobody knows whether origin took main" in sigma.cn(*words).stdout
    host.fault = NONE
    told = sigma.cn(*words)
    assert act == "send" or "had come to origin; it goes once" in told.stdout
    assert told.stderr == ""
    sigma.sync()
    assert len([name for name in branches(pi.url) if name.startswith("sigma/")]) == 1
    assert sigma.listing("threads/drafts") == []
    sigma.cn("status", "--check")


def test_a_draft_whose_push_has_an_unknown_end_ends_the_run_and_is_not_called_refused(
    cut: tuple[Node, Node, Proxy],
) -> None:
    sigma, pi, host = cut
    host.fault = Fault("away", refuse=True)
    sigma.cn("send", "pi", "Hello")
    host.fault = NONE
    git(sigma.root, "push", "--quiet", "origin", "main")
    host.fault = LOST
    said = sigma.sync(1).stderr
    assert "nobody knows whether origin took main" in said
    assert "refused" not in said
    assert "takes it back" not in said
    host.fault = NONE
    sigma.sync()
    assert [name for name in branches(pi.url) if name.startswith("sigma/")] == ["sigma/hello"]
    assert drafts(sigma) == []


def test_what_waits_goes_before_what_is_said_later(sigma: Node, pi: Node) -> None:
    """Said within one second, and told in that order by status and the outbox."""
    away = sigma.home.with_name("away.git")
    sigma.home.rename(away)
    words = ["Zeta", "Alpha", "Mu", "Beta"]
    for word in words:
        sigma.cn("send", "pi", word)
    for command in ("status", "outbox"):
        shown = sigma.cn(command).stdout
        assert sorted(words, key=shown.index) == words
    away.rename(sigma.home)
    told = sigma.cn("send", "pi", "Last").stdout
    queued = [line.rpartition(": ")[2] for line in told.split("\n") if "queued: " in line]
    assert queued == [*words, "Last"]
    assert {"sigma/zeta", "sigma/alpha", "sigma/mu", "sigma/beta", "sigma/last"} <= set(branches(pi.home))


def test_what_waits_and_is_said_again_goes_once_and_in_its_turn(sigma: Node, pi: Node) -> None:
    away = sigma.home.with_name("away.git")
    sigma.home.rename(away)
    for word in ("First", "Second"):
        sigma.cn("send", "pi", word)
    away.rename(sigma.home)
    sigma.cn("send", "pi", "Second")
    assert sorted(branches(pi.home)) == ["main", "sigma/first", "sigma/second"]
    assert sigma.listing("threads/drafts") == []


class _Busy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_web_server_that_is_busy_at_once_has_taken_nothing(sigma: Node, pi: Node) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Busy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        git(sigma.root, "remote", "set-url", "origin", f"http://127.0.0.1:{server.server_address[1]}/hub.git")
        told = sigma.cn("send", "pi", "hello")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert "origin is unreachable" in told.stdout
    assert "nobody knows" not in told.stdout + sigma.cn("outbox").stdout
    assert list((sigma.root / ".git/cn/push").glob("*")) == []
    git(sigma.root, "remote", "set-url", "origin", sigma.url)
    sigma.sync()
    assert "sigma/hello" in branches(pi.home)
