"""One hub on two machines: origin arbitrates, nothing is lost, nothing happens twice."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import branches, clone, cn_env, git, identify
from tests.support.meanwhile import meanwhile
from tests.support.world import Node, World, is_in_main


@pytest.fixture
def second(world: World, sigma: Node, pi: Node) -> Node:
    """Another clone of sigma's hub."""
    root = clone(sigma.home, world.folder / "cn-sigma-2", trusted=True)
    identify(root, "sigma", "sigma@cn.invalid")
    return Node("sigma", root, sigma.home, sigma.url)


def test_what_one_clone_received_the_other_decides(world: World, sigma: Node, pi: Node, second: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    second.sync()
    second.decide("pi/proposal", "do:merge")
    assert is_in_main(second, head)
    done = sigma.process()
    assert "merge" not in done.stdout
    assert sigma.threads() == []
    assert sigma.main == second.main
    pi.sync()
    sigma.sync()
    second.sync()
    world.settle(pi, sigma, second)
    assert sigma.rows() == second.rows()
    assert [r[1:] for r in sigma.rows()].count(("do:merge", "✓ merged SHA")) == 1
    sigma.idle()
    second.idle()


def test_both_decide_the_same_thread_and_one_is_executed(world: World, sigma: Node, pi: Node, second: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    second.sync()
    sigma.triage("pi/proposal", "delete:one")
    second.triage("pi/proposal", "delete:two")
    sigma.process()
    second.cn("inbox", "process", check=None)
    second.cn("inbox", "process", check=None)
    sigma.sync()
    second.sync()
    assert sigma.main == second.main
    (kept,) = (second.root / ".git/cn/aside").rglob("*.md")
    assert "decision: delete:two" in kept.read_text(), "what was written here is set aside"
    assert [r[1] for r in sigma.rows() if r[2] == "✓ discarded"] == ["delete:one"]
    assert sigma.threads() == second.threads() == []
    assert len(sigma.notices()) == 1


def elsewhere(node: Node, *words: str) -> str:
    """A shell command that runs cn on another clone."""
    return shlex.join([sys.executable, "-m", "cn", "--hub", str(node.root), *words])


@pytest.mark.parametrize("late", ["at once", "later"])
def test_who_comes_second_says_so_once_and_only_there_it_is_logged(
    world: World, sigma: Node, pi: Node, second: Node, tmp_path: Path, late: str
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    second.sync()
    sigma.triage("pi/proposal", "delete:one")
    second.triage("pi/proposal", "do:reply:no", "--body", "Not now.")
    if late == "at once":
        env = meanwhile(tmp_path / "bin", before=elsewhere(sigma, "inbox", "process"))
        done = second.cn("inbox", "process", check=0, env=env)
        assert "✓ pi/proposal: delete:one by sigma" in (tmp_path / "bin/said").read_text("utf-8")
    else:
        sigma.process()
        done = second.cn("inbox", "process", check=0)
    (told,) = (line for line in (done.stdout + done.stderr).splitlines() if line)
    was = "not carried out: another clone was first with delete:one"
    assert told.startswith(f"· pi/proposal: do:reply:no was {was}; ")
    assert "is done already; your copy is kept at .git/cn/aside/" in told
    again = second.process()
    assert again.stdout + again.stderr == ""
    log = second.cn("log", check=0).stdout
    assert log.count("do:reply:no") == log.count(was) == 1
    lines = [json.loads(line) for line in (second.root / "logs/cn.log").read_text().splitlines()]
    (event,) = (line for line in lines if line.get("outcome") == "overtaken")
    assert event["source"] == event["branch"] == "pi/proposal"
    assert event["thread"].endswith("-pi-proposal.md")
    assert "do:reply:no" not in sigma.cn("log", check=0).stdout
    assert sigma.rows() == second.rows()
    assert sigma.main == second.main
    assert len(sigma.notices()) == 1


def test_what_was_only_decided_and_refused_here_was_not_first(
    world: World, sigma: Node, pi: Node, second: Node
) -> None:
    world.propose(pi, sigma, files={"docs/start.md": "theirs\n"})
    sigma.sync()
    sigma.write({"docs/start.md": "ours\n"})
    sigma.decide("pi/proposal", "do:merge")  # refused: main has changed
    person = world.person(pi, sigma)
    git(person, "fetch", "--quiet", sigma.url, "main")
    git(person, "rebase", "--quiet", "--strategy-option=theirs", "FETCH_HEAD")
    world.offer(pi, sigma, "proposal", "HEAD", force=True)
    sigma.sync()
    second.sync()
    second.decide("pi/proposal", "do:merge")
    sigma.triage("pi/proposal", "delete:no")
    done = sigma.sync()
    assert "delete:no was not carried out: another clone was first with do:merge" in done.stdout + done.stderr


RACES = {
    "thread": (("delete", "pi/proposal", "--reason", "two"), ("delete", "pi/proposal", "--reason", "one")),
    "reply": (("reply", "pi/proposal", "two"), ("delete", "pi/proposal", "--reason", "one")),
    "own": (("thread", "close", "own", "--reason", "two"), ("thread", "close", "own", "--reason", "one")),
    "concern": (("mca", "done", "concern"), ("delete", "concern", "--reason", "one")),
}
LOST = {
    "thread": "pi/proposal: delete:two was not carried out: another clone was first with delete:one",
    "reply": "pi/proposal: reply was not carried out: another clone was first with delete:one",
    "own": "adhoc/DATE-own: ack:two was not carried out: another clone was first",
    "concern": "mca/DATE-concern-ID: done was not carried out: another clone was first",
}


@pytest.mark.sliced(6)
@pytest.mark.parametrize("late", ["at once", "later"])
@pytest.mark.parametrize("what", RACES)
def test_a_command_that_comes_second_says_who_was_first_and_logs_it_here(
    world: World, sigma: Node, pi: Node, second: Node, tmp_path: Path, what: str, late: str
) -> None:
    world.propose(pi, sigma)
    sigma.cn("adhoc", "own")
    sigma.cn("mca", "add", "concern")
    sigma.sync()
    second.sync()
    own = [*second.root.glob("threads/adhoc/*.md"), *second.root.glob("state/mca/*.md")]
    names = {path.stem.split("-")[1]: path.stem for path in own}
    mine, theirs = ([names.get(word, word) for word in words] for words in RACES[what])
    if late == "at once":
        env = meanwhile(tmp_path / "bin", before=elsewhere(sigma, *theirs))
        done = second.cn(*mine, check=None, env=env)
    else:
        sigma.cn(*theirs)
        done = second.cn(*mine, check=None)
    assert done.returncode == (0 if what == "reply" else 1)
    said = re.sub(r"(mca|adhoc)/\d{8}", r"\1/DATE", re.sub(r"concern-\w+", "concern-ID", done.stdout + done.stderr))
    assert said.count(LOST[what]) == 1, said
    log = second.cn("log").stdout
    assert log.count("another clone was first") == 1
    second.sync()
    assert sigma.cn("log").stdout.count("another clone was first") == 0
    sigma.sync()
    assert sigma.rows() == second.rows()
    assert [row[1] for row in second.rows() if "two" in row[1] or row[1] == "done"] == []
    assert git(second.root, "status", "--porcelain") == ""


def test_an_edit_of_what_a_run_here_filed_names_no_other_clone(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "delete:one")
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    decided = path.read_text("utf-8")
    sigma.process()
    path.write_text(decided, "utf-8")
    assert "carried out" not in sigma.process().stdout
    path.write_text(decided.replace("delete:one", "delete:two"), "utf-8")
    told = sigma.process().stdout
    assert "delete:two was not carried out: a run here was first with delete:one" in told
    path.write_text(decided.replace("delete:one", "delete:two"), "utf-8")
    sigma.process()
    assert sigma.cn("log").stdout.count("delete:two") == 1


def test_what_two_clones_deliver_at_once_is_pinned_in_both(
    world: World, sigma: Node, pi: Node, second: Node, tmp_path: Path
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    gone = pi.home.rename(pi.home.with_name("gone"))
    sigma.cn("inbox", "triage", "pi/proposal", "delete:one", check=0)
    sigma.cn("inbox", "process", check=1)
    second.cn("inbox", "sync", check=1)
    gone.rename(pi.home)
    env = meanwhile(tmp_path / "bin", before=elsewhere(second, "outbox", "flush"))
    sigma.cn("outbox", "flush", check=0, env=env)
    said = (tmp_path / "bin/said").read_text("utf-8")
    assert said.splitlines() == ["✓ delivered sigma/notice-proposal at pi"]
    pins = [{ref: tip for ref, tip in n.refs().items() if "/out/" in ref} for n in (sigma, second)]
    assert pins[0] == pins[1]
    assert len(pins[0]) == 1


def test_a_pin_that_another_clone_sets_at_this_moment_is_set_again(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    world.propose(pi, sigma)
    lock = sigma.home / "refs/cn/pins/pi/in/proposal.lock"
    env = meanwhile(tmp_path / "bin", before=f"mkdir -p {lock.parent}; : >{lock}", after=f"rm {lock}")
    done = sigma.cn("sync", check=0, env=env)
    assert (tmp_path / "bin/once").exists()
    assert "cn's pins" not in done.stdout + done.stderr
    pins = git(sigma.home, "for-each-ref", "--format=%(refname)", "refs/cn/pins/").split()
    assert pins == ["refs/cn/pins/pi/in/proposal"]


def test_what_was_written_there_meanwhile_stays_in_the_thread_decided_here(
    world: World, sigma: Node, pi: Node, second: Node
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    second.sync()
    name = second.only_thread()
    path = second.root / "threads/inbox" / name
    older = path.read_text("utf-8")
    theirs = sigma.root / "threads/inbox" / name
    theirs.write_text(theirs.read_text("utf-8") + "\nLegal was asked. They answer on Monday.\n", "utf-8")
    sigma.cn("save")
    path.write_text(older + "\na note from the second machine\n", "utf-8")
    second.cn("inbox", "sync", check=None)
    second.write_triage(name, "do:reply:no")
    path.write_text(path.read_text("utf-8") + "\nThe answer is no.\n", "utf-8")
    second.process()
    text = second.thread(name)
    assert "\n> Legal was asked. They answer on Monday.\n" in text
    assert "\na note from the second machine\n" in text
    assert text.index("## Written elsewhere meanwhile") < text.index("## Triage")
    sent = git(pi.home, "show", "sigma/no:message.md")
    assert "The answer is no." in sent
    assert "Monday" not in sent
    assert git(second.root, "status", "--porcelain") == ""


def test_what_another_clone_decided_during_the_run_is_shown_before_it_is_decided_here(
    world: World, sigma: Node, pi: Node, second: Node, tmp_path: Path
) -> None:
    """The run plans again, on a main that its work tree has never had."""
    world.propose(pi, sigma)
    sigma.sync()
    second.sync()
    name = second.only_thread()
    second.triage("pi/proposal", "defer:asked legal", "--body", "They answer on Monday.")
    sigma.triage("pi/proposal", "delete:no")
    env = meanwhile(tmp_path / "bin", before=elsewhere(second, "inbox", "process"))
    done = sigma.cn("inbox", "process", check=1, env=env)
    assert (tmp_path / "bin/once").exists()
    assert "void: it was deferred or assigned meanwhile, which the thread did not show" in done.stderr
    text = sigma.thread(name)
    assert text.index("They answer on Monday.") < text.index("## Void triage") < text.index("> decision: delete:no")
    sigma.decide("pi/proposal", "delete:no")
    assert "They answer on Monday." in sigma.thread(name)


def test_a_decision_that_was_taken_back_there_is_not_carried_out_by_the_copy_here(
    world: World, sigma: Node, pi: Node, second: Node
) -> None:
    """It was saved there, came here with a sync, and is gone from main when this clone decides."""
    head = world.propose(pi, sigma)
    sigma.sync()
    second.sync()
    before = second.thread(second.only_thread())
    second.triage("pi/proposal", "do:merge")
    second.cn("save")
    sigma.sync()
    name = sigma.only_thread()
    assert "decision: do:merge" in sigma.thread(name)
    (second.root / "threads/inbox" / name).write_text(before)
    second.cn("save")
    done = sigma.process()
    assert "pi/proposal: its thread was changed in another clone" in done.stdout
    assert not is_in_main(sigma, head)
    assert sigma.thread(name) == before
    sigma.idle()
    second.triage("pi/proposal", "do:merge")
    second.cn("save")
    sigma.process()
    sigma.process()
    assert is_in_main(sigma, head)


def start(node: Node, *words: str) -> subprocess.Popen[str]:
    """Run cn beside us."""
    return subprocess.Popen(
        [sys.executable, "-m", "cn", "--hub", str(node.root), *words],
        env=cn_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*children: subprocess.Popen[str]) -> str:
    """Wait for all of them; all must end well. What they said."""
    said = ""
    for child in children:
        out, _ = child.communicate(timeout=120)
        assert child.returncode == 0, out
        assert "internal error" not in out
        said += out
    return said


def test_both_run_at_once(world: World, sigma: Node, pi: Node, second: Node) -> None:
    topics = [f"t{i}" for i in range(6)]
    heads = {}
    for round_ in range(3):
        for topic in topics[2 * round_ : 2 * round_ + 2]:
            heads[topic] = world.propose(pi, sigma, topic)
        finish(start(sigma, "sync"), start(second, "sync"), start(sigma, "sync"))
    finish(start(sigma, "sync"), start(second, "sync"))
    assert len(sigma.threads()) == len(second.threads()) == len(topics)
    for topic in topics[:3]:
        sigma.triage(f"pi/{topic}", "delete:first")
    for topic in topics[3:]:
        second.triage(f"pi/{topic}", "delete:second")
    finish(start(sigma, "inbox", "process"), start(second, "inbox", "process"))
    finish(start(sigma, "inbox", "process"), start(second, "inbox", "process"), start(pi, "sync"))
    world.settle(pi, sigma, second)
    assert sigma.main == second.main
    assert sigma.threads() == []
    rows = sigma.rows()
    for topic in topics:
        mine = [r[1:] for r in rows if r[0] == f"pi/{topic}"]
        reason = "first" if topic in topics[:3] else "second"
        assert mine.count(("received", "—")) == 1
        assert mine.count((f"delete:{reason}", "✓ discarded")) == 1
        assert mine.count(("notice:discarded", "queued")) == 1
        assert mine.count(("notice:discarded", "✓ delivered")) == 1
        assert mine.count(("gone", "branch deleted by its creator")) == 1
    assert set(branches(sigma.home)) == set(branches(pi.home)) == {"main"}
    assert git(sigma.root, "status", "--porcelain") == ""
    assert git(second.root, "status", "--porcelain") == ""


def test_two_runs_at_once_in_one_clone_take_turns(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    finish(*(start(sigma, "sync") for _ in range(3)))
    assert [r[1] for r in sigma.rows()] == ["received"]
    sigma.triage("pi/proposal", "do:merge")
    finish(*(start(sigma, "inbox", "process") for _ in range(3)))
    assert [r[1] for r in sigma.rows()].count("do:merge") == 1
    assert len(git(sigma.root, "rev-list", "--merges", "main").split()) == 1


def test_a_users_commit_here_and_a_run_there_come_together(world: World, sigma: Node, pi: Node, second: Node) -> None:
    from tests.support.hubs import commit

    mine = commit(second.root, {"docs/mine.md": "mine\n"}, "not pushed yet")
    world.propose(pi, sigma)
    sigma.sync()
    second.sync()
    assert is_in_main(second, mine)
    assert len(second.threads()) == 1
    sigma.sync()
    assert sigma.main == second.main
    assert (sigma.root / "docs/mine.md").read_text() == "mine\n"


def test_a_protected_change_from_elsewhere_waits_for_trust(world: World, sigma: Node, pi: Node, second: Node) -> None:
    sigma.sync()
    intruder = clone(sigma.home, world.folder / "intruder")
    identify(intruder, "intruder")
    text = (intruder / "state/peers.md").read_text().replace(pi.url, str(world.folder / "evil.git"))
    (intruder / "state/peers.md").write_text(text)
    git(intruder, "commit", "--quiet", "-am", "harmless")
    git(intruder, "push", "--quiet", "origin", "HEAD:main")
    world.propose(pi, sigma)
    before = sigma.refs()
    done = sigma.cn("sync", check=1)
    assert "state/peers.md" in done.stderr
    assert "cn trust" in done.stderr
    after = {**sigma.refs(), "refs/cn/origin/main": before["refs/cn/origin/main"]}
    assert after == before
    git(intruder, "revert", "--no-edit", "HEAD")
    git(intruder, "push", "--quiet", "origin", "HEAD:main")
    sigma.sync()
    assert len(sigma.threads()) == 1


def test_a_fresh_clone_finds_everything_in_origin(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    world.propose(pi, sigma, "one")
    world.propose(pi, sigma, "two")
    sigma.sync()
    sigma.decide("pi/one", "delete:no")
    root = clone(sigma.home, tmp_path / "fresh", trusted=True)
    identify(root, "sigma", "sigma@cn.invalid")
    fresh = Node("sigma", root, sigma.home, sigma.url)
    fresh.sync()
    assert fresh.rows() == sigma.rows()
    assert fresh.threads() == sigma.threads()
    pi.sync()
    fresh.sync()
    assert ("pi/one", "gone", "branch deleted by its creator") in fresh.rows()


def test_a_decision_that_one_clone_saw_refused_is_told_in_the_other_that_makes_it_too(
    world: World, sigma: Node, pi: Node
) -> None:
    other = world.second(sigma)
    world.propose(pi, sigma)
    for node in (sigma, other):
        node.sync()
    name = sigma.only_thread()
    for node in (sigma, other):
        node.write_triage(name, "do:merge", "pi")
        assert "do:merge is refused: no-self-merge" in node.process(check=1).stderr, "who decides is told"
        assert "refused: no-self-merge" in node.cn("inbox").stdout
        assert node.process().stderr == "", "once"
    assert [row[1] for row in sigma.rows("pi/proposal")].count("do:merge") == 1


def test_two_clones_with_two_refused_decisions_of_one_thread_come_to_rest(world: World, sigma: Node, pi: Node) -> None:
    other = world.second(sigma)
    world.propose(pi, sigma)
    for node in (sigma, other):
        node.sync()
    name = sigma.only_thread()
    sigma.write_triage(name, "do:merge", "pi")
    other.write_triage(name, "delete:no", "mallory")
    for node in (sigma, other):
        node.process(check=1)
    before = len(other.rows("pi/proposal"))
    for node in (sigma, other, sigma, other):
        assert node.process().stderr == ""
    assert len(other.rows("pi/proposal")) == before


def test_what_waits_in_the_outbox_says_that_another_clone_may_have_tried(world: World, sigma: Node, pi: Node) -> None:
    other = world.second(sigma)
    pi.home.rename(pi.home.with_name("away"))
    sigma.cn("send", "pi", "hello", check=None)
    assert "1 attempt" in sigma.cn("outbox").stdout
    git(other.root, "pull", "--quiet", "--ff-only")
    assert "not tried from this clone yet" in other.cn("outbox").stdout
    other.cn("sync", check=None)
    assert "not tried" not in other.cn("outbox").stdout + sigma.cn("outbox").stdout
