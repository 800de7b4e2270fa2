"""Threads, triage, logs and cron as they are taught: each example as it stands."""

from __future__ import annotations

import shlex

import pytest

from cn.inbox.plan.decisions import Facts, plan_decision
from cn.protocol.effects import Plan, Post
from cn.protocol.layout import done_path, inbox_path
from cn.protocol.log import append_rows, log_path, parse_rows
from cn.protocol.thread_file import (
    Custom,
    Decision,
    Defer,
    Delegate,
    Delete,
    Header,
    Merge,
    Reply,
    Triage,
    format_thread,
    parse_decision,
    read_decision,
)
from cn.values.names import Name, Topic, parse_branch, thread_name
from cn.values.timestamps import parse_stamp
from tests.agent.test_ops_corpus import CONFIG, HEAD, ITEM, NOW, PEERS, PI, SIGMA, TEXT
from tests.support.hubs import branches
from tests.support.world import Node, World

INCOMING = """\
# pi/proposal

**From:** pi
**Branch:** sigma/proposal
**Received:** 2026-02-05T14:00Z

---

[Content]
"""
TRIAGED = (
    INCOMING
    + """
---

## Triage

decision: do:merge
actor: sigma
timestamp: 2026-02-05T15:00Z
"""
)
LOG = """\
# Inbox Log: 2026-02-05

| Time | Source | Decision | Executed |
|------|--------|----------|----------|
| 14:00 | pi/proposal | received | — |
| 15:00 | pi/proposal | do:merge | ✓ merged |
| 15:30 | omega/stale | delete:stale | ✓ deleted |
"""
CRONTAB = """\
# Fetch and materialize inbound
*/5 * * * * cn inbox sync /path/to/hub

# Process triaged items
*/15 * * * * cn inbox process /path/to/hub
"""
DECISIONS: list[tuple[str, Decision]] = [
    ("delete:stale", Delete("stale")),
    ("defer:waiting on review", Defer("waiting on review")),
    ("delegate:omega", Delegate(Name("omega"))),
    ("do:merge", Merge()),
    ("do:reply:answer", Reply(Topic("answer"))),
    ("do:reply:sigma/answer", Reply(Topic("sigma/answer"))),
    ("do:custom:Write it down", Custom("Write it down")),
]


def test_the_section_decides() -> None:
    assert read_decision(TRIAGED, INCOMING) == Triage(Merge(), SIGMA, parse_stamp("2026-02-05T15:00Z"))


def test_a_thread_begins_as_shown_and_says_more() -> None:
    """The head that was read and its signature are added, and all that a peer wrote stands quoted."""
    received = parse_stamp("2026-02-05T14:00Z")
    header = Header(PI, "proposal", parse_branch("sigma/proposal"), received, HEAD, "unverified")
    added = {f"**Head:** {HEAD}", "**Signature:** unverified", ""}
    shown = [line.removeprefix("> ") for line in format_thread(header, "[Content]").splitlines() if line not in added]
    wanted = [line for line in INCOMING.splitlines() if line]
    assert shown[: len(wanted)] == wanted


@pytest.mark.parametrize(("text", "decision"), DECISIONS)
def test_each_decision_is_in_the_type(text: str, decision: Decision) -> None:
    assert parse_decision(text) == decision


@pytest.mark.parametrize("branch", ["answer", "sigma/answer"])
def test_a_reply_goes_on_the_branch_named_with_or_without_our_prefix(branch: str) -> None:
    facts = Facts(CONFIG, PEERS, PI, ITEM, TEXT, NOW, committed=TEXT)
    plan = plan_decision(facts, Triage(parse_decision(f"do:reply:{branch}"), SIGMA, NOW, "Thanks."))
    assert isinstance(plan, Plan)
    assert [e.topic for e in plan.effects if isinstance(e, Post)] == ["answer"]


FOLDERS = {
    # where it is written, and what is shown
    inbox_path(thread_name("20260205", PI, "proposal", HEAD, ())): "threads/inbox/20260205-pi-proposal.md",
    inbox_path(thread_name("20260205", Name("omega"), "review", HEAD, ())): "threads/inbox/20260205-omega-review.md",
    done_path(thread_name("20260205", PI, "old", HEAD, ())): "threads/inbox/done/20260205-pi-old.md",
    log_path(parse_stamp("2026-02-05T14:00Z")): "logs/inbox/20260205.md",
}


def test_threads_and_logs_lie_where_they_are_shown() -> None:
    assert list(FOLDERS) == list(FOLDERS.values())


def test_the_log_is_written_and_read_as_shown() -> None:
    rows = parse_rows(LOG, "20260205")
    assert append_rows("", rows) == LOG
    assert [row.decision for row in rows] == ["received", "do:merge", "delete:stale"]


def test_the_loop_runs_by_the_lines_of_the_crontab_and_only_the_creator_deletes(
    world: World, sigma: Node, pi: Node
) -> None:
    """Pushed, shown, decided, answered, cleaned up; in the log "✓ merged" names the commit too."""
    fetch, execute = (shlex.split(line)[6:] for line in CRONTAB.splitlines() if line and not line.startswith("#"))
    assert (fetch[-1], execute[-1]) == ("/path/to/hub", "/path/to/hub")

    def run(node: Node, words: list[str]) -> None:
        node.cn(*words[:-1], node.root)

    world.propose(pi, sigma)
    run(sigma, fetch)
    name = sigma.only_thread()
    assert name.endswith("-pi-proposal.md")
    sigma.write_triage(name, "do:merge")
    run(sigma, execute)
    # What is done lies in threads/inbox/done/, in the same folder as what waits.
    assert sigma.done() == [name]
    assert "pi/proposal" in branches(sigma.home), "the recipient deletes nothing"
    run(pi, fetch)
    assert "pi/proposal" not in branches(sigma.home)
    rows = sigma.rows("pi/proposal")
    assert rows[0][1:] == ("received", "—")
    assert rows[1][1] == "do:merge"
    assert rows[1][2].startswith("✓ merged ")
