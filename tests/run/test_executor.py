"""The executor records what the machines have, and plans of one run see what it decided already."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.inbox.pending import record_due
from cn.outbox.deliver import deliver
from cn.outbox.our_branches import record_ours, record_proven
from cn.outbox.plan.receipts import clean_up
from cn.peers.observe import Observation
from cn.protocol.effects import Drop, Edit, Plan, Post, Put, Record
from cn.protocol.layout import MESSAGE
from cn.protocol.ledger import IN, OUT, Event
from cn.protocol.message import Message
from cn.protocol.states import InvalidTransition
from cn.run.executor import Executor
from cn.run.run import Run, open_run
from cn.secrets.scanner import MASK
from cn.transaction.push import encode
from cn.values.errors import Refused
from cn.values.names import HubPath, Name, Oid
from cn.values.report import Report
from cn.values.timestamps import format_second
from tests.support.hubs import ROOT, git, read, tip
from tests.support.world import Node, World

PI = Name("pi")
A, B = Oid("a" * 40), Oid("b" * 40)


@pytest.fixture
def sigma(tmp_path: Path, template: Path) -> Node:
    world = World(tmp_path, template)
    node = world.hub("sigma", origin=False)
    world.link(node, world.hub("pi", origin=False))
    return node


@pytest.fixture
def run(sigma: Node) -> Iterator[Run]:
    with open_run(open_hub(sigma.root), Report()) as opened:
        yield opened


def record(run: Run, side: str, kind: str, head: Oid = A, /, **fields: str) -> Plan:
    return Plan("test", (Record(PI, Event(run.now, side, kind, "x", head, fields)),))


def known(run: Run, side: str, *kinds: str, **fields: str) -> Executor:
    """An executor on a main whose ledger has these events of one topic."""

    def plan(executor: Executor) -> str:
        for kind in kinds:
            executor.perform(record(run, side, kind, **fields))
        return "cn: test"

    run.commit(plan)
    return run.executor()


def later(run: Run, time: timedelta) -> Executor:
    """An executor on the same main, after some time."""
    run.memory.at += time
    return run.executor()


def kinds(executor: Executor, side: str) -> list[str]:
    return [e.kind for e in executor._events.get(PI, []) if e.side == side]


@pytest.mark.parametrize(
    ("side", "history", "kind", "state"),
    [
        (IN, ["received", "decided"], "decided", "none"),
        (IN, ["received"], "returned", "received"),
        (IN, ["received"], "claimed", "received"),
        (IN, ["received", "deferred"], "enqueued", "deferred"),
        (OUT, ["queued"], "gone", "queued"),
        (OUT, ["queued", "delivered", "deleting"], "queued", "deleting"),
        (OUT, [], "deleting", "none"),
    ],
)
def test_an_event_that_cannot_be_commits_nothing(
    sigma: Node, run: Run, side: str, history: list[str], kind: str, state: str
) -> None:
    known(run, side, *history)
    before = tip(sigma.root, "main")

    def plan(executor: Executor) -> str:
        executor.perform(Plan("test", (Put(HubPath("threads/inbox/x.md"), "x"),)))
        executor.perform(record(run, side, kind))
        return "cn: test"

    with pytest.raises(InvalidTransition) as caught:
        run.commit(plan)
    machine = "thread" if side == IN else "sender"
    assert caught.value.text == f"pi/x: {kind!r} is no step of the {machine} machine from {state!r}"
    assert tip(sigma.root, "main") == before
    assert not (sigma.root / "threads/inbox/x.md").exists()


def test_what_happened_within_the_run_counts_too(run: Run) -> None:
    executor = known(run, IN, "received")
    executor.perform(record(run, IN, "decided"))
    with pytest.raises(InvalidTransition):
        executor.perform(record(run, IN, "decided"))
    assert kinds(executor, IN) == ["decided"]


def test_two_confirmations_of_one_delivery_both_fit(run: Run) -> None:
    """Two clones push the same; what a remote confirmed is never refused."""
    executor = known(run, OUT, "queued", "delivered", branch="sigma/x")
    for kind in ("delivered", "deleted", "deleted", "delivered"):
        executor.perform(record(run, OUT, kind))
    assert executor.item(PI, OUT, "x") is None


def test_a_deferred_thread_that_moved_in_this_run_does_not_return_at_its_old_head(run: Run) -> None:
    until = format_second(run.now + timedelta(hours=1))
    known(run, IN, "received", thread="20260205-pi-x.md", branch="pi/x")
    known(run, IN, "deferred", thread="20260205-pi-x.md", until=until)
    executor = later(run, timedelta(hours=2))
    item = executor.item(PI, IN, "x")
    assert item
    assert item.is_due(executor.now)
    executor.perform(record(run, IN, "refreshed", B))
    record_due(executor)
    assert kinds(executor, IN) == ["refreshed"]
    after = executor.item(PI, IN, "x")
    assert after
    assert (after.head, after.state) == (B, "received")


@pytest.mark.parametrize("first", ["gone", "deleting"])
def test_an_old_answer_is_cleaned_up_once(run: Run, first: str) -> None:
    """It vanished, or the branch it is about did, in the very run in which it gets old."""
    known(run, OUT, "queued", "delivered", kind="notice", branch="sigma/x", about="pi/y")
    executor = later(run, timedelta(days=400))
    item = executor.item(PI, OUT, "x")
    assert item
    if first == "gone":
        executor.perform(record(run, OUT, "gone"))
    else:
        executor.perform(Plan("test", (clean_up(PI, item, executor.now, "pi/y is gone", "pi/y"),)))
    run.memory.section("due")[f"pi/x {item.head}"] = format_second(executor.now - timedelta(days=2))
    record_due(executor)
    assert kinds(executor, OUT) == [first]


def test_an_old_answer_is_cleaned_up_when_it_was_old_for_a_day(run: Run) -> None:
    """A clock that jumps ahead, and back within a day, takes nothing back that nobody has read."""
    known(run, OUT, "queued", "delivered", kind="notice", branch="sigma/x", about="pi/y")
    start = run.now
    for days, cleaned in ((29, 0), (400, 0), (29.5, 0), (400, 0), (1, 0), (31, 0), (31.9, 0), (32, 1)):
        run.memory.at = start
        executor = later(run, timedelta(days=days))
        record_due(executor)
        assert len(kinds(executor, OUT)) == cleaned, days


def test_a_claim_about_a_branch_that_is_gone_is_not_looked_at(run: Run) -> None:
    known(run, OUT, "queued", "delivered", branch="sigma/x")
    executor = known(run, OUT, "answered", status="merged", unproven="main cannot be read", merge=B)
    executor.perform(record(run, OUT, "gone"))
    seen = Observation({}, mains={PI: ("main", B)})
    for _ in range(2):  # the second look at the same main would tell of the claim
        record_proven(executor, seen)
    assert kinds(executor, OUT) == ["gone"]
    assert executor.notes.notes == []


@pytest.mark.parametrize(("state", "gone"), [("queued", False), ("delivered", True)])
def test_what_the_outbox_still_holds_is_not_gone(run: Run, state: str, gone: bool) -> None:
    """A branch of that name was there, pushed by hand or unconfirmed, and vanished."""
    executor = known(run, OUT, *["queued", "delivered"][: 1 + gone], branch="sigma/x")
    item = executor.item(PI, OUT, "x")
    assert item
    assert item.state == state
    record_ours(executor, Observation({(PI, OUT, encode("x")): A}, saw={IN: set(), OUT: {PI}}))
    assert kinds(executor, OUT) == (["gone"] if gone else [])


def test_a_topic_adopted_in_this_run_is_taken(run: Run) -> None:
    executor = run.executor()
    executor.perform(record(run, OUT, "adopted", branch="sigma/x"))
    message = Message(MESSAGE, Name("sigma"), PI, "Hello", run.now, "text")
    executor.perform(Plan("test", (Post(message, "x"),)))
    topics = {item.topic: item.get("branch") for item in executor.open(PI, OUT)}
    assert set(topics) > {"x"}
    assert topics["x"] == "sigma/x"


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("state/peers.md", "one\nAKIAIOSFODNN7EXAMPLE\n", "state/peers.md, line 2"),
        ("threads/adhoc/AKIAIOSFODNN7EXAMPLE.md", "x\n", "the file's name"),
        ("threads/adhoc/x.md", "A\0K\0I\0A\0IOSFODNN7EXAMPLE\0\n", "threads/adhoc/x.md, line 1"),
    ],
)
def test_no_way_into_a_commit_is_unwatched(run: Run, path: str, text: str, told: str) -> None:
    executor = run.executor()
    executor.perform(Plan("test", (Edit(HubPath(path), text.encode()),)))
    with pytest.raises(Refused) as refused:
        executor.draft("cn: x")
    assert f"no-secrets: {told}: looks like a secret" in refused.value.text
    assert "AKIA" not in refused.value.text


def test_the_message_of_a_commit_is_masked(run: Run) -> None:
    executor = run.executor()
    executor.perform(Plan("test", (Edit(HubPath("threads/adhoc/x.md"), b"x\n"),)))
    draft = executor.draft("cn: pi/AKIAIOSFODNN7EXAMPLE ack by sigma")
    assert draft is not None
    assert draft.message == f"cn: {MASK}"


def test_a_file_may_be_written_more_than_once_in_a_run(run: Run, sigma: Node) -> None:
    paths = [HubPath(f"threads/inbox/20260101-pi-{n}.md") for n in range(3)]

    def plan(executor: Executor) -> str:
        for n, path in enumerate(paths):
            executor.perform(Plan("test", (Put(path, f"# {n}\n"),)))
        assert executor.read(paths[1]) == b"# 1\n"
        executor.perform(Plan("test", (Put(paths[1], "changed\n"), Drop(paths[2]))))
        return "cn: test"

    run.commit(plan)
    assert read(sigma.root, f"main:{paths[0]}") == b"# 0\n"
    assert read(sigma.root, f"main:{paths[1]}") == b"changed\n"
    assert not (sigma.root / paths[2]).exists()
    assert git(sigma.root, "status", "--porcelain") == ""


def test_a_secret_in_what_cn_writes_by_itself_is_masked(run: Run) -> None:
    executor, path = run.executor(), HubPath("threads/inbox/20260101-pi-x.md")
    executor.perform(Plan("test", (Put(path, "a ghp_" + "a1B2" * 9 + " key\n"),)))
    assert executor.read(path) == f"{MASK}\n".encode()


def test_all_letters_are_sent_as_they_were_queued(run: Run, sigma: Node, tmp_path: Path) -> None:
    def plan(executor: Executor) -> str:
        for n in range(5):
            message = Message(MESSAGE, Name("sigma"), PI, f"No {n}", run.now, f"{n}\n" + "word\n" * 80)
            executor.perform(Plan("test", (Post(message, f"no-{n}"),)))
        return "cn: test"

    run.commit(plan)
    queued = {path: run.snapshot.blob(path) for path in run.snapshot.outbox_paths()}
    assert len(queued) == 5
    deliver(run, force=True)
    assert run.report.exit_code == 0
    for n in range(5):
        message = read(tmp_path / "cn-pi", f"sigma/no-{n}:message.md")
        assert message.endswith(f"{n}\n".encode() + b"word\n" * 80)
    sent = {path.replace("/outbox/", "/sent/"): oid for path, oid in queued.items()}
    assert {path: run.snapshot.blob(path) for path in sent} == sent
    assert run.snapshot.outbox_paths() == []
    assert git(sigma.root, "status", "--porcelain") == ""


def test_only_perform_adds_to_the_commit(run: Run) -> None:
    """What it is given it keeps as it is; what it gathers is its own; nobody else writes there."""
    given = {"hub", "settings", "snapshot", "now", "base", "memory", "notes"}
    shown = {"changed", "changed_here", "withheld", "rows", "steps"}  # read-only, by their types
    executor = run.executor()
    assert {name for name in vars(executor) if not name.startswith("_")} == given | shown
    before = picture(executor)
    for name, member in inspect.getmembers(type(executor)):
        if isinstance(member, property):
            assert member.fset is None, name
            assert not isinstance(getattr(executor, name), list | dict), name
    assert picture(executor) == before, "what reads gathers nothing"
    executor.perform(Plan("test", (Edit(HubPath("threads/adhoc/x.md"), b"x\n"),)))
    assert picture(executor) != before


def picture(executor: Executor) -> dict[str, str]:
    """What would be committed, or done after the commit."""
    return {name: repr(getattr(executor, name)) for name in GATHERED}


GATHERED = ("_tip", "_files", "_here", "_withheld", "_inputs", "_rows", "_wakes", "_pins", "_kept", "_events")


def test_nobody_else_touches_what_an_executor_gathers() -> None:
    private = {name for name in vars(Executor) if name.startswith("_") and not name.startswith("__")}
    private |= set(GATHERED)
    for file in sorted((ROOT / "cn").rglob("*.py")):
        if file.name == "executor.py":
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                of_executor = node.value.id == "executor"
                assert not (of_executor and node.attr in private), (file, node.lineno)
                assert not (of_executor and isinstance(node.ctx, ast.Store | ast.Del)), (file, node.lineno)


def test_a_topic_adopted_after_the_first_message_of_a_run_is_taken(run: Run) -> None:
    executor = run.executor()
    mail = Message(MESSAGE, run.settings.us, PI, "s", run.now, "text")
    executor.perform(Plan("test", (Post(mail, "one", "", "test"),)))
    executor.perform(record(run, OUT, "adopted", branch="sigma/x", kind="proposal"))
    executor.perform(Plan("test", (Post(mail._replace(body="another"), "x", "", "test"),)))
    topics = sorted(item.topic for item in executor.open(PI, OUT))
    assert topics[:2] == ["one", "x"]
    assert topics[2].startswith("x-")


def test_a_plan_that_does_not_fit_is_left_out_whole_and_the_others_go_on(run: Run) -> None:
    executor = run.executor()
    with executor.apart("pi/x"):
        executor.perform(Plan("test", (Put(HubPath("threads/adhoc/x.md"), "x"), *record(run, IN, "decided").effects)))
        executor.notes.done("decided pi/x")
    executor.perform(record(run, IN, "received", branch="pi/x"))
    assert "threads/adhoc/x.md" not in executor.changed
    assert executor.item(PI, IN, "x") is not None
    assert ["'decided' is no step" in note.text for note in executor.notes.notes] == [True]
