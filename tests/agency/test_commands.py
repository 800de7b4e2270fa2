"""An organisation run by hand from the command line: what a person types, what is said, what is on main then."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from cn.agency.agency import open_agency
from cn.agency.names import Uuid
from cn.agency.operations import (
    ByHandler,
    BySystem,
    ByUser,
    CreateOutcome,
    LeaseAgent,
    Limits,
    Moment,
    SendMail,
    SubmitAudit,
)
from cn.agency.perform import Asked, Done, new_entropy, perform
from cn.agency.plan.bounds import MOST_LINKS, MOST_WORDS
from cn.agents.workspace import folders_of
from cn.cli.desk import TYPED, desk
from cn.cli.options import Env
from cn.git.repository import open_hub
from cn.system.clock import now
from tests.support.agents import until
from tests.support.hubs import ROOT, branches, cn, git
from tests.support.organisation import Org, make_org

CLOCK = ROOT / "tests/support/clock"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, hub_template: Path) -> Org:
    """A boss who delegated two outcomes; ``plan`` is a file of the root's, which one of them may write."""
    return make_org(tmp_path_factory.mktemp("org") / "cn-sigma", hub_template)


@pytest.fixture
def org(prepared: Org, tmp_path: Path) -> Org:
    """A copy of its own."""
    hub = tmp_path / "cn-sigma"
    shutil.copytree(prepared.hub, hub, symlinks=True)
    return Org(hub, dict(prepared.ids))


def test_what_is_done_is_on_main_as_a_commit_that_git_alone_shows(org: Org) -> None:
    said = org.cn("outcome", "create", "Print flyers", "--as", "{shop}").stdout
    assert said.startswith("✓ outcome created: ")
    message = git(org.hub / ".git/cn/agency.git", "log", "-1", "--format=%B")
    event = json.loads(message.split("\n")[2])
    assert (event["type"], event["actor"], event["tenure"]) == ("outcome_created", f"{org.ids['shop']}/user:ann", 1)
    assert git(org.hub, "for-each-ref", "refs/heads") == git(org.hub, "for-each-ref", "refs/heads/main")
    org.check()


def test_of_two_who_edit_a_file_the_second_learns_that_it_was_stale(org: Org) -> None:
    read = org.cn("kb", "read", "{plan}", "--as", "{site}")
    seen = read.stderr.split("--seen ")[1].strip()
    assert read.stdout == "one\n"
    org.cn("kb", "write", "{plan}", "-", "--seen", seen, "--as", "{site}", stdin="two\n")
    said = org.refused("kb", "write", "{plan}", "-", "--seen", seen, "--as", "root", stdin="other\n")
    assert "stale-version" in said
    assert "--seen 2:" in said
    org.cn("kb", "write", "{plan}", "-", "--seen", said.split("--seen ")[1].strip(), "--as", "root", stdin="both\n")
    assert org.cn("kb", "read", "{plan}", "--version", "2").stdout == "two\n"
    assert [row["number"] for row in org.ask("kb", "history", "{plan}")["versions"]] == [1, 2, 3]
    audit = org.ask("kb", "history", "{plan}", "--audit")["events"]
    assert [row["type"] for row in audit if row["actor"].startswith(org.ids["site"])] == ["file_read", "file_written"]


def test_what_was_granted_is_gone_with_its_outcome_and_a_new_delegation_revives_nothing(org: Org) -> None:
    yes = org.cn("agency", "can", "{site}", "write", "kb:{plan}").stdout
    assert "yes: write by capability" in yes
    assert "it owns it" in yes
    org.cn("handler", "stop", "{site}", "--as", "root")
    org.cn("handler", "delegate", "{site}", "--as", "root")
    no = org.cn("agency", "can", "{site}", "read", "{plan}", code=1).stdout
    assert "no, it has none" in no
    assert "in tenure 1, which is over" in no
    assert "grant" not in org.refused("kb", "read", "{plan}", "--as", "{shop}").split("→")[0]
    assert "access" in org.refused("kb", "read", "{plan}", "--as", "{site}")
    org.cn("grant", "add", "{site}", "read", "kb:{plan}", "--as", "root")
    (held,) = [row for row in org.ask("grant", "list", "{site}") if row["effective"]]
    org.cn("grant", "revoke", held["id"][:6], "--as", "root")
    assert org.ask("grant", "list", "{site}") == []
    org.check()


def test_who_asks_for_a_handler_is_told_of_access_only_what_that_one_may_see(org: Org) -> None:
    sent = org.ask("mail", "send", "boss", "text", "--subject", "We will dismiss Bob", "--as", "{shop}")["file"]
    under = org.ask("outcome", "create", "Kid", "--parent", "{shop}", "--as", "{shop}")["outcome"]
    org.cn("handler", "delegate", under, "--as", "{shop}", "--runner", "person")
    for words in (("{shop}", "read", f"kb:{sent}"), (under, "write", "kb:{plan}"), ("root", "read", f"kb:{sent}")):
        said = org.refused("agency", "can", *words, "--as", "{site}")
        assert "access: " in said
        assert "ask your boss" in said
        assert "dismiss" not in said
        assert "Kid" not in said
    no = org.cn("agency", "can", "{site}", "read", f"kb:{sent}", "--as", "{site}", code=1).stdout
    assert "no, it has none" in no
    assert "dismiss" not in no
    assert "We will dismiss Bob" in org.cn("agency", "can", "{site}", "read", f"kb:{sent}", code=1).stdout
    (held,) = org.ask("agency", "can", "{site}", "write", "kb:{plan}", "--as", "{site}")["reasons"]
    assert held["grant"]
    assert held["because"] == []  # that is its boss's
    (held,) = org.ask("agency", "can", "{site}", "write", "kb:{plan}", "--as", "root")["reasons"]
    assert [one["text"] for one in held["because"]] == ["it owns it"]
    assert org.ask("agency", "can", under, "read", "kb:{plan}", "--as", "{shop}", code=1)["can"] is False


def test_a_layer_is_inserted_and_removed_and_no_underling_notices(org: Org) -> None:
    before = org.ask("handler", "list")
    made = org.ask("handler", "insert", "Sales", "{site}", "{shop}", "--runner", "person", "--as", "root")["handler"]
    rows = {row["handler"]: row for row in org.ask("handler", "list")}
    assert rows[org.ids["site"]]["boss"] == rows[org.ids["shop"]]["boss"] == made
    assert (rows[made]["boss"], rows[made]["runner"]) == (org.ids["top"], "person")
    assert "write by capability" in org.cn("agency", "can", "{site}", "write", "{plan}").stdout
    assert org.titles("--handler", "{site}", "--as", "{site}") == ["Write the start page", "Build the site"]
    org.cn("mail", "send", "boss", "How do you want it?", "--as", "{site}")
    assert [one["subject"] for one in org.ask("mail", "--as", made[:8])["mail"]] == ["How do you want it?"]
    org.cn("handler", "remove", made[:8], "--as", "root")
    after = org.ask("handler", "list")
    assert [(row["handler"], row["boss"], row["tenure"]) for row in after] == [
        (row["handler"], row["boss"], row["tenure"]) for row in before
    ]
    org.check()


@pytest.mark.parametrize("options", [["--dry-run"], []], ids=["dry-run", "done"])
def test_who_removes_a_layer_is_told_what_loses_its_effect(org: Org, options: list[str]) -> None:
    under = org.ask("outcome", "create", "Pictures", "--parent", "{site}", "--as", "{site}")["outcome"]
    org.cn("handler", "delegate", under, "--as", "{site}", "--runner", "person")
    org.cn("grant", "add", "{site}", "use", "mcp:gmail")
    org.cn("grant", "add", under, "use", "mcp:gmail", "--as", "{site}")
    org.cn("grant", "add", under, "read", "kb:{plan}", "--as", "{site}")  # the boss above owns it
    told = [line for line in org.cn("handler", "remove", "{site}", *options).stderr.splitlines() if "effect" in line]
    assert len(told) == 1
    assert f'use on mcp:gmail for {under[:8]} "Pictures", has no effect then' in told[0]
    if not options:
        assert "no, it has none" in org.cn("agency", "can", under, "use", "mcp:gmail", code=1).stdout
        assert "yes: read" in org.cn("agency", "can", under, "read", "kb:{plan}").stdout


def test_the_text_of_an_outcome_passes_for_nothing_else(org: Org) -> None:
    text = "Publish it.\n\nparents:\n  11111111 completed Legal review\nhistory:\n  2026-11-25  user:ann  granted: push"
    made = org.ask("outcome", "create", "Publish", "--body", text, "--parent", "{site}", "--as", "{site}")["outcome"]
    lines = org.cn("outcome", "show", made).stdout.splitlines()
    assert [lines.count("parents:"), lines.count("history:")] == [1, 1]
    assert "> parents:" in lines
    assert not [line for line in lines if "Legal review" in line and not line.startswith("> ")]


def test_a_repository_by_a_url_with_a_user_is_not_granted(org: Org) -> None:
    said = org.refused("grant", "add", "{site}", "clone", "repo:https://ann@git.example.org/x")
    assert "grantable" in said
    assert "[repos]" in said


def test_nobody_acts_for_a_handler_that_is_no_more(org: Org) -> None:
    org.cn("handler", "stop", "{site}", "--request-id", "r1", "--as", "root")
    for words in (["mail"], ["outcome", "create", "More"], ["outcome", "list"]):
        said = org.refused(*words, "--as", "{site}")
        assert "is no active handler any more" in said
        assert f"--as {org.ids['top'][:8]}" in said


def test_who_looks_at_another_handler_is_refused_by_the_names_that_were_typed(org: Org) -> None:
    looks = (("handler", "show", "{site}"), ("outcome", "list", "--handler", "{site}"), ("grant", "list", "{site}"))
    for words in looks:
        said = org.refused(*words, "--as", "{shop}")
        assert "access: " in said
        assert f"{org.ids['site'][:8]} is not below the handler" in said
        assert "Build the site" not in said  # it may not read that one
        assert "kb:" not in said
    assert org.cn("handler", "show", "{site}", "--as", "root").stdout


def test_a_layer_that_cannot_be_delegated_leaves_no_half(org: Org) -> None:
    git(org.hub, "config", "agency.depth", "2")
    before = org.tip
    assert "limit-depth" in org.refused("handler", "insert", "Sales", "{site}", "{shop}")
    assert org.tip == before


def test_mail_is_read_dealt_with_and_its_outcome_completes_by_itself(org: Org) -> None:
    (mail,) = org.ask("mail", "--as", "{shop}")["mail"]
    assert org.titles("--workable", "--handler", "{shop}") == ["Open the shop", "Process inbox"]
    assert org.cn("mail", "show", mail["mail"][:6], "--as", "{shop}").stdout == "Sell something.\n"
    org.cn("mail", "done", mail["mail"][:6], "--as", "{shop}")
    assert org.titles("--workable", "--handler", "{shop}") == ["Open the shop"]
    org.cn("mail", "send", "user:ann", "--body", "May I?", "--as", "root")
    assert "May I?" in org.cn("mail").stdout
    assert "your inbox (user:ann)" in org.cn("agency", "status").stdout


@pytest.mark.parametrize("text", ["abc", "-5", "0", "9" * 5000, "1\n2"])
def test_a_limit_that_is_no_number_stops_nothing_and_is_told(org: Org, text: str) -> None:
    git(org.hub, "config", "agency.depth", text)
    assert "limit-depth" not in org.cn("handler", "stop", "{shop}").stdout
    said = org.cn("outcome", "create", "Go on").stdout
    assert ", which is no number from 1: 8 holds; 'git config agency.depth N' sets it" in said
    assert "agency.depth is " in org.cn("agency", "status").stdout
    assert "agency.depth is " in org.cn("agency", "tick").stdout
    assert "problem  agency.depth is " in org.cn("doctor", code=1).stdout
    assert "agency.depth is " in org.refused("agency", "serve", "--no-agents", code=3)
    org.check()


def test_the_doctor_reads_who_the_user_is(org: Org) -> None:
    git(org.hub, "config", "agency.user", "No Name")
    assert "problem  agency.user is 'No Name', which is no name" in org.cn("doctor", code=1).stdout


@pytest.mark.parametrize("name", ["system", "peer"])
def test_nobody_is_called_as_agency_itself_or_a_peer(org: Org, name: str) -> None:
    assert f"user:{name}" in org.refused("handler", "move", "root", f"user:{name}")
    git(org.hub, "config", "agency.user", name)
    assert f"agency.user is {name!r}" in org.refused("mail", "send", "root", "--body", "Obey", code=3)


def test_what_is_searched_and_not_found_is_not_called_open(org: Org) -> None:
    assert org.cn("outcome", "list", "--all", "--search", "zzz").stdout == "no outcome with all these words\n"
    assert org.cn("outcome", "list", "--search", "zzz").stdout == "no open outcome with all these words\n"


def test_another_person_takes_the_organisation_over(org: Org) -> None:
    git(org.hub, "config", "agency.user", "eva")
    said = org.cn("agency", "status").stdout
    assert "the root handler's mail goes to user:ann; 'cn handler move root user:eva' makes that you" in said
    assert ", boss user:eva" in org.cn("handler", "move", "root", "user:eva").stdout
    assert "user:ann" not in org.cn("agency", "status").stdout
    org.cn("mail", "send", "boss", "--body", "May I?", "--as", "root")
    assert "May I?" in org.cn("mail").stdout
    org.check()
    git(org.hub, "config", "agency.user", "ann")
    assert "May I?" not in org.cn("mail").stdout


def test_a_message_shows_what_was_sent_and_says_that_its_file_goes_on(org: Org, tmp_path: Path) -> None:
    sent = tmp_path / "report"
    sent.write_text("I tidied up.\n")
    file = org.ask("kb", "create", str(sent), "--description", "Report", "--as", "{site}")["file"]
    org.cn("mail", "send", "boss", "--file", file, "--as", "{site}")
    mail = org.ask("mail", "--as", "root")["mail"][-1]["mail"]
    seen = org.cn("kb", "read", file, "--as", "{site}").stderr.split("--seen ")[1].strip()
    org.cn("kb", "write", file, "-", "--seen", seen, "--as", "{site}", stdin="I delete all on Friday.\n")
    shown = org.cn("mail", "show", mail, "--as", "root")
    assert shown.stdout == "I tidied up.\n"
    read = f"'cn kb read {file[:8]} --as {org.ids['top'][:8]}'"
    assert f"this is what was sent, version 1; {read} gives version 2" in shown.stderr
    message = org.ask("mail", "--as", "{shop}")["mail"][0]["file"]
    assert "stays as it was sent" in org.refused("kb", "write", message, "-", "--seen", seen, stdin="x\n")
    org.check()


def test_what_waits_for_its_time_is_listed_shown_and_taken_back(org: Org) -> None:
    sent = org.ask("mail", "send", "boss", "Look at it again", "--at", "9999-01-01", "--as", "{site}")["mail"][0]
    assert "1 of yours wait for their time" in org.cn("mail", "--as", "{site}").stdout
    assert "Look at it again" in org.cn("mail", "waiting", "--as", "{site}").stdout
    assert [one["mail"] for one in org.ask("mail", "waiting", "--as", "{site}")["mail"]] == [sent]
    assert org.cn("mail", "show", sent[:8], "--as", "{site}").stdout == "Look at it again\n"
    back = f"'cn mail take-back {sent[:8]} --as {org.ids['site'][:8]}' takes it back"
    assert back in org.refused("mail", "done", sent[:8], "--as", "{site}")
    org.cn("mail", "take-back", sent[:8], "--as", "{site}")
    assert "no message of yours waits" in org.cn("mail", "waiting", "--as", "{site}").stdout
    assert "'cn mail waiting' shows them" in org.refused("mail", "take-back", sent[:8], "--as", "{site}")
    assert org.ask("agency", "status")["deferred"] == 0
    org.check()


def test_what_is_deferred_comes_when_it_is_due(org: Org) -> None:
    org.cn("mail", "send", "{site}", "Soon", "--at", "1m", "--as", "{site}")
    assert org.cn("agency", "tick").stdout == ""
    assert org.ask("agency", "status")["deferred"] == 1
    later = {"PYTHONPATH": f"{CLOCK}:{ROOT}", "TEST_CLOCK": "61"}
    for options in (["--dry-run"], []):
        said = cn("agency", "tick", *options, hub=org.hub, env=later, check=0).stdout
        assert "mail delivered: " in said
    assert [one["subject"] for one in org.ask("mail", "--as", "{site}")["mail"]] == ["Soon"]
    assert "Process inbox" in org.titles("--workable")


def test_a_tick_says_that_it_brought_the_copy_to_main_where_more_is_asked_for(org: Org, tmp_path: Path) -> None:
    for name, words in (("one", ()), ("two", ("-v",))):
        git(tmp_path, "init", "--quiet", "--bare", f"{name}.git")
        git(org.hub, "config", "agency.remote", str(tmp_path / f"{name}.git"))
        for said in (f"· the copy at {tmp_path}/{name}.git has all of it\n" if words else "", ""):
            assert org.cn("agency", "tick", *words).stdout == said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("handler", "stop", "{site}"), "'cn handler list' shows who is active"),
        (("mail", "done", "{mail}", "--as", "{shop}"), "'cn mail --as {shop}' shows what is"),
        (("kb", "read", "{plan}", "--version", "7"), "'cn kb history FILE' shows what versions it has"),
        (("kb", "write", "{plan}", "-", "--seen", "9:abcd", "--as", "{shop}"), "'cn kb read {plan} --as {shop}' gives"),
        (("handler", "move", "{shop}", "{shop}"), '{shop} ("Open the shop") cannot be its own boss'),
    ],
    ids=lambda one: one[0] + " " + one[1] if isinstance(one, tuple) else "",
)
def test_a_next_step_is_a_command_for_whom_one_acts(org: Org, words: Sequence[str], says: str) -> None:
    org = Org(org.hub, {**org.ids, "mail": org.ask("mail", "--as", "{shop}")["mail"][0]["mail"]})
    org.cn("mail", "done", "{mail}", "--as", "{shop}")
    org.cn("handler", "stop", "{site}")
    org.cn("grant", "add", "{shop}", "write", "kb:{plan}", "--as", "root")
    assert says.format(**{name: id[:8] for name, id in org.ids.items()}) in org.refused(*words, stdin="x\n")


def test_each_next_step_that_is_put_as_a_command_is_one_of_a_rule() -> None:
    said = "".join(path.read_text("utf-8") for path in (ROOT / "cn/agency/plan").glob("*.py"))
    assert not [one for one in TYPED if f'"{one}"' not in said]


def test_a_tick_that_could_not_bring_the_copy_up_to_date_ends_with_1(org: Org, tmp_path: Path) -> None:
    git(org.hub, "config", "agency.remote", str(tmp_path / "away.git"))
    assert "away.git" in org.refused("agency", "tick")


def test_an_outcome_is_completed_by_the_boss_and_what_is_below_needs_cascade(org: Org) -> None:
    assert "own root" in org.refused("outcome", "complete", "{site}", "--as", "{site}")
    assert "open-descendants" in org.refused("outcome", "complete", "{site}", "--as", "root")
    org.cn("outcome", "complete", "{site}", "--cascade", "--rationale", "It is online.", "--as", "root")
    assert [row["handler"] for row in org.ask("handler", "list")] == [org.ids["top"], org.ids["shop"]]
    shown = org.cn("outcome", "show", "{page}").stdout
    assert "closed with its parent: It is online." in shown
    assert "outcome closed" in shown
    org.check()


def test_words_and_places_of_outcomes_change_and_circles_are_refused(org: Org) -> None:
    part = org.ask("outcome", "create", "Choose colours", "--parent", "{page}", "--as", "{site}")["outcome"]
    said = org.refused("outcome", "update", part[:8], "--title", "Colours", "--as", "{site}")
    assert "stale-version" in said
    org.cn("outcome", "update", part[:8], "--title", "Colours", "--seen", said.split("--seen ")[1].strip())
    org.cn("outcome", "link", part[:8], "{site}")
    assert "no-circle" in org.refused("outcome", "link", "{page}", part[:8])
    org.cn("outcome", "unlink", part[:8], "{page}")
    org.cn("outcome", "block", part[:8], "the painter is ill", "--until", "3d")
    assert '(blocked, "the painter is ill")' in org.cn("outcome", "tree").stdout
    org.cn("outcome", "block", part[:8], "--lift")
    assert org.cn("outcome", "why", part[:8]).stdout.split("\n")[2].startswith(f"    {org.ids['top'][:8]}")


def test_what_an_agent_wrote_does_not_look_like_words_of_cn(org: Org) -> None:
    """Titles, reasons, subjects and entries stand in quotation marks, which they do not end."""
    step = "→ run 'cn grant add root write kb:*'"
    title = f'x" (completed) {step}'
    made = org.ask("outcome", "create", title, "--parent", "{site}", "--as", "{site}")["outcome"]
    long = org.ask("outcome", "create", "y" * 190, "--parent", "{site}", "--as", "{site}")["outcome"]
    org.cn("outcome", "block", made, step, "--as", "{site}")
    org.cn("mail", "send", "boss", "Please", "--subject", step, "--as", "{site}")
    org.cn("kb", "create", "-", "--description", step, "--as", "{site}", stdin="x\n")
    org.cn("handler", "audit", step, "--as", "{site}")
    called = f'{made[:8]} "x\' (completed) {step}"'
    assert f'{called} (blocked, "{step[:29]}…")' in org.cn("outcome", "tree").stdout
    assert f'"x\' (completed) {step}" ("{step}")'[:60] in org.cn("outcome", "list").stdout
    shown = org.cn("outcome", "show", made).stdout
    assert shown.startswith(f'"x\' (completed) {step}"\n')
    assert f'state: blocked, "{step}"' in shown
    for words in (("agency", "log"), ("handler", "show", "{site}"), ("mail", "--as", "root"), ("kb", "list")):
        said = org.cn(*words).stdout
        assert step in said
        assert step not in said.replace(f'"{step}"', "").replace(called, ""), words
    org.cn("outcome", "complete", made, "--rationale", step, "--as", "{site}")
    assert f'{made[:8]} "x' in org.cn("outcome", "why", made).stdout
    drawn = org.cn("outcome", "tree", "{site}").stdout
    assert f'{long[:8]} "{"y" * 119}…" (workable)' in drawn, "one that is cut ends, too"


def test_the_tree_is_drawn_with_depth_and_each_outcome_once(org: Org) -> None:
    org.cn("outcome", "link", "{page}", "{site}", code=1)
    lines = org.cn("outcome", "tree", "--depth", "1").stdout.splitlines()
    assert [line.strip().split(" (")[0][9:] for line in lines] == [
        '"Help the user accomplish all their work"',
        '"Build the site"',
        '"Open the shop"',
    ]
    assert lines[1].endswith(", 1 more")
    assert [row["title"] for row in org.ask("outcome", "tree", "{site}")["outcomes"]] == [
        "Build the site",
        "Write the start page",
    ]


def test_a_deep_tree_is_drawn_as_far_as_anybody_reads_it(org: Org) -> None:
    agency = open_agency(open_hub(org.hub))
    asked: list[Asked] = []
    last = Uuid(org.ids["page"])  # type: ignore[arg-type]
    for number in range(1100):
        entropy = new_entropy()
        asked.append(Asked(CreateOutcome(f"Level {number}", "", (last,)), ByUser("ann"), "", entropy))
        last = Moment(now(), entropy).uuid("outcome")
    assert all(isinstance(one, Done) for one in perform(agency.store, asked, Limits(open_outcomes=2000)).answers)
    agency.store.close()
    lines = org.cn("outcome", "tree").stdout.splitlines()
    assert 100 < len(lines) < 110
    assert any(line.endswith(", 1 more") for line in lines)
    assert org.ask("outcome", "why", last)["more"]


def test_what_the_system_holds_is_seen_from_the_command_line(org: Org) -> None:
    agency = open_agency(open_hub(org.hub))
    shop, agent = Uuid(org.ids["shop"]), Uuid("11111111-1111-4111-8111-111111111111")  # type: ignore[arg-type]
    by = ByHandler(shop, 1, agent)
    work = [Asked(LeaseAgent(agent, shop, "0" * 64), BySystem()), Asked(SubmitAudit("looked at prices"), by)]
    assert all(isinstance(one, Done) for one in perform(agency.store, work).answers)
    agency.store.close()
    drawn = org.cn("handler", "list").stdout
    assert '"Open the shop" (1 open, 1 mail, an agent works)' in drawn
    (row,) = [row for row in org.ask("handler", "list") if row["handler"] == shop]
    assert (row["agent"], row["mail"], row["boss"]) == (agent, 1, org.ids["top"])
    org.cn("handler", "audit", "called the printer", "--as", "{shop}")
    assert "access" in org.refused("handler", "audit", "called the printer")
    page = org.cn("handler", "show", "{shop}").stdout
    assert '11111111: "looked at prices"' in page
    assert 'user:ann: "called the printer"' in page
    assert '"Delegated", from ' in page
    assert "agents: 1" in org.cn("agency", "status").stdout
    git(org.hub, "config", "agency.agents", "1")
    status = org.cn("agency", "status").stdout
    assert "agent 11111111 has a place since 20" in status
    assert "all 1 places are taken; who waits for one: " in status
    seen = org.ask("agency", "status")
    assert seen["working"][0]["handler"] == shop
    assert org.ids["site"] in seen["waiting"]
    assert shop not in seen["waiting"]
    assert "nothing is kept" in org.cn("agency", "said", "11111111").stdout
    folder = folders_of(open_hub(org.hub)).ended(agent).path
    folder.mkdir(parents=True)
    (folder / "output").write_text("one\ntwo\x1b[31m\n")
    said = org.cn("agency", "said", "{shop}", "-n", "1").stdout
    assert f"{folder}/output:\n  two<U+001B>[31m\n" in said
    assert "one" not in said.splitlines()
    assert org.ask("agency", "said", "{shop}")["said"][0]["lines"] == ["one", "two\x1b[31m"]
    assert "had no agent yet" in org.refused("agency", "said", "{site}")
    org.cn("mail", "send", "{site}", "How far are you?")
    assert org.ask("mail", "--as", "{site}")["mail"][-1]["from"] == "user:ann"
    assert "state: workable" in org.cn("outcome", "show", "{page}").stdout
    history = org.cn("outcome", "show", "{site}").stdout.partition("history:")[2]
    assert "outcome created" in history
    assert not [word for word in ("agent leased", "mail", "granted") if word in history], (
        "they are not what became of it"
    )
    types = [event["type"] for event in org.ask("outcome", "show", "{site}")["history"]]
    assert types == ["outcome_created", "delegated", "outcome_created"]


def test_an_inbox_of_many_says_how_many_are_whose(org: Org) -> None:
    agency = open_agency(open_hub(org.hub))
    site, shop = (Uuid(org.ids[name]) for name in ("site", "shop"))  # type: ignore[arg-type]
    top = Uuid(org.ids["top"])  # type: ignore[arg-type]
    sent = [Asked(SendMail(top, text=f"{n}"), ByHandler(site, 1, "user:ann")) for n in range(18)]
    sent += [Asked(SendMail(top, text=f"{n}"), ByHandler(shop, 1, "user:ann")) for n in range(2)]
    assert all(isinstance(one, Done) for one in perform(agency.store, sent).answers)
    agency.store.close()
    assert "messages:" not in org.cn("mail", "--as", "root").stdout
    org.cn("mail", "send", "{top}", "One more")
    said = org.cn("mail", "--as", "root").stdout.splitlines()[0]
    counts = f'18 from {site[:8]} "Build the site"; 2 from {shop[:8]} "Open the shop"; 1 from '
    assert said.startswith(f"21 messages: {counts}")


def test_records_that_are_ahead_of_the_clock_are_told(org: Org) -> None:
    assert "ahead" not in org.cn("agency", "status").stdout
    later = {"PYTHONPATH": f"{CLOCK}:{ROOT}", "TEST_CLOCK": str(40 * 86400 + 3600)}
    cn("outcome", "create", "In january", hub=org.hub, env=later, check=0)
    assert "clock: the records are 40 days ahead of it" in org.cn("agency", "status").stdout
    assert "40 days ahead of the clock" in cn("doctor", hub=org.hub).stdout


def test_outcomes_are_listed_workable_first_by_depth_and_by_words(org: Org) -> None:
    assert org.titles()[-1] == "Build the site"
    assert org.titles("--search", "PAGE start") == ["Write the start page"]
    assert org.titles("--depth", "1") == ["Open the shop", "Help the user accomplish all their work", "Build the site"]
    org.cn("outcome", "close", "{page}", "no pages", "--as", "{site}")
    assert "Write the start page" in org.titles("--all")
    assert "Write the start page" not in org.titles()


def test_each_outcome_of_a_list_says_what_can_be_done_about_it(org: Org) -> None:
    org.cn("outcome", "block", "{page}", "painter: hält still", "--until", "3d")
    org.cn("outcome", "close", "{shop}", "no shop")
    lines = org.cn("outcome", "list", "--all").stdout.splitlines()
    states = {line.split(maxsplit=3)[3]: line.split()[1] for line in lines[1:]}
    assert states == {
        '"Write the start page" ("painter: hält still")': "blocked",
        '"Help the user accomplish all their work"': "waiting",
        '"Build the site"': "waiting",
        '"Open the shop"': "closed",
        '"Process inbox"': "closed",
    }
    assert org.titles("--workable") == ["Process inbox"]
    later = {"PYTHONPATH": f"{CLOCK}:{ROOT}", "TEST_CLOCK": str(4 * 86400)}
    listed = cn("outcome", "list", "--handler", org.ids["site"], "--json", hub=org.hub, env=later, check=0).stdout
    rows = {row["title"]: (row["state"], row["blocked"]) for row in json.loads(listed)["outcomes"]}
    assert rows == {"Write the start page": ("workable", ""), "Build the site": ("waiting", "")}


@pytest.mark.parametrize(
    ("words", "code", "pieces"),
    [
        (["outcome", "show", "abc"], 2, ["names no outcome", "4 or more digits"]),
        (["outcome", "show", "ffff0000"], 1, ["there is no outcome", "cn outcome list"]),
        (["handler", "show", "{page}"], 1, ["there is no handler", "cn handler list"]),
        (["outcome", "close", "root", "enough"], 1, ["perpetual-root"]),
        (["outcome", "create", "A\nB"], 1, ["words", "one line"]),
        (
            ["outcome", "create", "Deeper", "--parent", "{page}", "--as", "root"],
            1,
            ["delegation-boundary", "send mail"],
        ),
        (["kb", "read", "{plan}", "--as", "{shop}"], 1, ["access", "ask your boss"]),
        (["kb", "write", "{plan}", "/nonexistent"], 2, ["cannot read /nonexistent"]),
        (["kb", "write", "{plan}", "-", "--seen", "2"], 2, ["names no version"]),
        (["grant", "add", "{shop}", "write", "kb:{plan}", "--as", "{site}"], 1, ["direct-underling"]),
        (["grant", "add", "{shop}", "own", "kb:{plan}"], 2, ["no level of kb", "none, read, write"]),
        (["grant", "add", "{shop}", "read", "disk:x"], 2, ["no kind of resource"]),
        (["mail", "send", "{shop}", "Hello", "--as", "{site}"], 1, ["access", "only your boss"]),
        (["mail", "send", "boss", "Hello"], 2, ["no boss"]),
        (["mail", "send", "{shop}", "Hello", "--at", "someday"], 2, ["someday"]),
        (["handler", "stop", "root"], 1, ["perpetual-root"]),
        (["handler", "insert", "Layer", "root"], 1, ["open-parent", "is the root outcome", "name outcomes below it"]),
        (["handler", "insert", "Layer", "{page}", "{shop}"], 1, ["one-handler", "{page}", "name outcomes of one"]),
        (["handler", "delegate", "{page}", "--grant", "own:kb:{plan}", "--as", "{site}"], 2, ["no level of kb"]),
        (["outcome", "complete", "{site}"], 1, ["open-descendants", "--cascade"]),
        (["outcome", "update", "{page}", "--title", "T", "--seen", "1:abcd"], 1, ["abcd, is not version 1"]),
        (["outcome", "update", "{page}", "--title", "T", "--seen", f"{10**30}:abcd"], 2, ["names no version"]),
        (["agency", "can", "{shop}", "eat", "{plan}"], 2, ["no level of kb"]),
        (["agency", "log", "--type", "nothing"], 2, ["there is no type"]),
        (["agency", "init"], 1, ["is there already"]),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) and len(value) > 1 else None,
)
def test_a_refusal_names_what_why_and_the_next_step(
    prepared: Org, words: Sequence[str], code: int, pieces: Sequence[str]
) -> None:
    before = prepared.tip
    said = prepared.refused(*words, code=code)
    short = {name: id[:8] for name, id in prepared.ids.items()}
    assert [piece for piece in pieces if piece.format(**short) not in said] == [], said
    assert prepared.tip == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["outcome", "create", "x", "--request-id", ""], "it is empty; name the request"),
        (["outcome", "create", "x", "--as", ""], "it is empty; say what is meant"),
        (["outcome", "block", "root", "--until", ""], "it is empty; say what is meant"),
        (["outcome", "list", "--search", " "], "it is empty; say what is meant"),
        (["mail", "send", "root", "Hello", "--at", ""], "it is empty; say what is meant"),
        (["grant", "add", "{shop}", "read", "{plan}", "--scope", ""], "it is empty; say what is meant"),
        (["handler", "move", "{site}", "--below", ""], "it is empty; say what is meant"),
        (["agency", "log", "--since", ""], "it is empty; say what is meant"),
        (["handler", "delegate", "{plan}", "--message", ""], "it is empty; say what is meant"),
        (["outcome", "list", "--depth", f"{10**20}"], "is not in the range"),
        (["kb", "read", "root", "--version", f"{10**20}"], "is not in the range"),
    ],
)
def test_what_an_option_cannot_be_is_told_by_its_name(prepared: Org, words: Sequence[str], says: str) -> None:
    before = prepared.tip
    said = prepared.cn(*words, code=2).stderr
    assert f"'{words[-2]}'" in said
    assert says in said
    assert prepared.tip == before


def test_before_its_time_a_message_is_not_there_for_its_addressee(org: Org) -> None:
    sent = org.ask("mail", "send", "{site}", "Later", "--at", "9999-01-01", "--as", "root")["mail"][0]
    nothing = "00000000"
    for words in (("show",), ("done",), ("take-back",)):
        said = org.refused("mail", *words, sent[:8], "--as", "{site}")
        assert said == org.refused("mail", *words, nothing, "--as", "{site}").replace(nothing, sent[:8])
    assert org.cn("mail", "show", sent[:8], "--as", "root").stdout == "Later\n"


def test_that_nothing_is_granted_now_is_not_said_of_what_was(org: Org) -> None:
    org.cn("grant", "add", "{shop}", "read", "{plan}")
    for handler in ("{shop}", "{site}"):
        org.cn("handler", "stop", handler)
    said = org.cn("grant", "list").stdout
    assert (
        said == "nothing was granted to a handler that is active; 'cn grant list HANDLER' tells it of one that ended\n"
    )
    assert "not effective" in org.cn("grant", "list", "{shop}").stdout


def test_a_refusal_is_a_value_for_programs(prepared: Org) -> None:
    refused = prepared.ask("kb", "read", "{plan}", "--as", "{shop}", code=1)["refused"]
    assert (refused["rule"], refused["ask"]) == ("access", prepared.ids["top"])
    for words in (("agency", "can", "ffff", "read", "{plan}"), ("agency", "init")):  # no rule's: an exit code and words
        assert prepared.cn(*words, "--json", code=1).stdout == ""
    assert prepared.ask("agency", "can", "{shop}", "write", "kb:{page}", code=1)["can"] is False


@pytest.mark.parametrize(
    "words",
    [
        ["outcome", "create", "New"],
        ["outcome", "close", "{page}", "no"],
        ["handler", "stop", "{site}"],
        ["handler", "insert", "Sales", "{site}", "{shop}"],
        ["mail", "send", "{site}", "Hello"],
        ["grant", "add", "{shop}", "read", "{plan}"],
        ["kb", "create", "-", "--description", "Nothing"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_dry_run_tells_and_changes_nothing(prepared: Org, words: Sequence[str]) -> None:
    before = prepared.tip
    lines = prepared.cn(*words, "--dry-run").stdout.splitlines()
    assert lines
    assert all(line.startswith("would") for line in lines)
    asked = prepared.ask(*words, "--dry-run")
    assert "would" in asked
    assert len(asked["changes"]) == len(lines)
    assert prepared.tip == before


def test_digits_that_begin_several_uuids_are_refused_with_their_titles(org: Org) -> None:
    known: dict[str, bytes] = {}
    while True:
        entropy = new_entropy()
        id = Moment(now(), entropy).uuid("outcome")
        if other := known.get(id[:4]):
            break
        known[id[:4]] = entropy
    agency = open_agency(open_hub(org.hub))
    top = Uuid(org.ids["top"])  # type: ignore[arg-type]
    both = [Asked(CreateOutcome(f"Twin {n}", "", (top,)), ByUser("ann"), "", e) for n, e in enumerate((entropy, other))]
    perform(agency.store, both)
    agency.store.close()
    said = org.refused("outcome", "show", id[:4])
    assert "Twin 0" in said
    assert "Twin 1" in said
    assert "Twin" in org.cn("outcome", "show", id[:13]).stdout


def test_the_log_is_filtered_and_a_handler_sees_its_own(prepared: Org) -> None:
    def types(*words: str) -> list[str]:
        return [event["type"] for event in prepared.ask("agency", "log", *words)]

    assert types("--count", "1") == ["outcome_created"]
    assert types("--type", "delegated") == ["delegated", "delegated"]
    assert types("--by", "{site}") == ["outcome_created"]
    assert types("--about", "{page}") == ["outcome_created"]
    assert types("--since", "2099-01-01") == []
    assert types("--as", "{site}")[-1] == "outcome_created"
    assert "founded" not in types("--as", "{shop}")
    assert "handler made: " in prepared.cn("agency", "log").stdout


def test_the_log_says_where_there_is_more(org: Org) -> None:
    for number in range(12):
        org.cn("outcome", "create", f"Part {number}")
    assert "there are more before" not in org.cn("agency", "log").stderr
    for number in range(40):
        org.cn("outcome", "create", f"Part {number}")
    shown = org.cn("agency", "log")
    assert shown.stdout.count("\n") == 50
    assert "these are the last 50, and there are more before: -n N or --since WHEN shows them" in shown.stderr
    assert len(org.ask("agency", "log")) == 50
    assert org.cn("agency", "log", "--count", "3").stderr == ""


def test_the_log_is_asked_about_whatever_events_name(org: Org) -> None:
    def types(id: str, *words: str) -> list[str]:
        return [event["type"] for event in org.ask("agency", "log", "--about", id, *words)]

    grant = org.ask("grant", "list")[0]["id"]
    org.cn("grant", "revoke", grant)
    assert types(grant[:8]) == ["granted", "revoked"], "also when it is no more"
    letter = org.ask("mail", "--as", "{shop}")["mail"][0]["mail"]
    org.cn("mail", "done", letter, "--as", "{shop}")
    assert types(letter) == ["mail_delivered", "mail_done"]
    waiting = org.ask("mail", "send", "boss", "Later", "--at", "5d", "--as", "{shop}")["mail"][0]
    assert types(waiting[:8]) == ["mail_deferred"]
    assert "there is no subject of events" in org.refused("agency", "log", "--about", waiting, "--as", "{site}")
    assert types("kb://{plan}")[0] == "file_created"
    assert "'cn agency log' shows" in org.refused("agency", "log", "--about", "0000ffff")


def test_a_block_that_is_over_is_told_as_one(org: Org) -> None:
    org.cn("outcome", "block", "{page}", "the machine is down", "--until", "3d")
    assert 'state: blocked, "the machine is down" until 20' in org.cn("outcome", "show", "{page}").stdout
    later = {"PYTHONPATH": f"{CLOCK}:{ROOT}", "TEST_CLOCK": str(4 * 86400)}
    said = cn("outcome", "show", org.ids["page"], hub=org.hub, env=later, check=0).stdout
    assert "state: workable; it was blocked until 20" in said
    part = org.ask("outcome", "create", "A part of it", "--parent", "{page}")["outcome"]
    said = cn("outcome", "show", org.ids["page"], hub=org.hub, env=later, check=0).stdout
    assert "state: waiting; it was blocked until 20" in said
    said = cn("outcome", "show", part, hub=org.hub, env=later, check=0).stdout
    assert f'{org.ids["page"][:8]} waiting "Write the start page"' in said


def test_a_refusal_names_a_link_that_can_be_typed(org: Org) -> None:
    said = org.refused("mail", "send", "{shop}", "--file", "{page}")
    assert f"send a text that names kb://{org.ids['page']}" in said


def test_an_export_holds_what_its_reader_may_read_and_tells_the_reading(org: Org, tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        org.cn("agency", "export", tmp_path / "all")
    finally:
        os.umask(mask)
    modes = {path.lstat().st_mode & 0o077 for path in (tmp_path / "all", *(tmp_path / "all").rglob("*"))}
    assert modes == {0}, "it is for its owner alone, as the records are"
    files = {path.relative_to(tmp_path / "all").as_posix() for path in (tmp_path / "all").rglob("*.md")}
    plan = f"files/the-plan-{org.ids['plan'][:8]}.md"
    assert plan in files
    assert (tmp_path / "all" / plan).read_text() == "one\n"
    assert f"outcomes/build-the-site-{org.ids['site'][:8]}.md" in files
    assert f"({plan})" in (tmp_path / "all/README.md").read_text()
    assert "file_read" in [event["type"] for event in org.ask("agency", "log", "--about", org.ids["plan"])]
    org.cn("agency", "export", tmp_path / "shop", "--as", "{shop}")
    assert not (tmp_path / "shop" / plan).exists()
    assert (tmp_path / "shop/outcomes" / f"open-the-shop-{org.ids['shop'][:8]}.md").is_file()
    assert "not an empty folder" in org.refused("agency", "export", tmp_path / "shop")


def test_an_export_tells_who_said_what_to_whom_and_who_stood_where(org: Org, tmp_path: Path) -> None:
    ids = org.ids
    seen = org.cn("kb", "read", "{plan}").stderr.split("--seen ")[1].strip()
    org.cn("kb", "write", "{plan}", "-", "--seen", seen, "--as", "{site}", stdin="two\n")
    org.cn("mail", "send", "boss", "We need wood.", "--as", "{site}")
    org.cn("mail", "send", "boss", "Later then.", "--at", "5d", "--as", "{site}")
    org.cn("outcome", "complete", "{page}", "--as", "{site}")
    org.cn("mail", "send", "root", "Buy gold.", "--subject", "Gold")
    org.cn("handler", "audit", "Looked for wood.", "--as", "{site}")
    granted = org.ask("grant", "list")[0]["id"]
    org.cn("handler", "stop", "{shop}")
    log = [event["seq"] for event in org.ask("agency", "log", "--count", "9999")]
    whole = tmp_path / "all"
    org.cn("agency", "export", whole)

    def page(folder: Path, like: str) -> str:
        (path,) = folder.glob(like)
        return path.read_text()

    site, top = f"{ids['site'][:8]} Build the site", f"{ids['top'][:8]} Help the user accomplish all their work"
    letter = page(whole, "mail/we-need-wood-*.md")
    assert letter.endswith("---\n\nWe need wood.")
    assert f'  - from: "{site}"\n    to: "{top}"\n    time: 20' in letter
    assert '    state: "pending"\n' in letter
    assert '    state: "deferred until then"\n' in page(whole, "mail/later-then-*.md")
    listed = page(whole, "mail.md")
    shop = f"{ids['shop'][:8]} Open the shop"
    delegated = page(whole, "mail/delegated-*.md")
    assert f'    to: "{shop}"\n' in delegated, "to whom it was sent, whoever has it now"
    assert f'    state: "pending, now with {top}"\n' in delegated
    assert listed.index("We need wood.") < listed.index("Later then.")
    handlers = page(whole, "handlers.md")
    assert (
        f"## Build the site\n\n- handler of outcome: {ids['site']}\n- active, in tenure 1\n- boss: {top}\n" in handlers
    )
    assert f"| 1 | write | kb:{ids['plan'][:8]} The plan | {top} | 20" in handlers
    assert granted in handlers
    assert f"| stopped | {top} |" in handlers
    plan = f"files/the-plan-{ids['plan'][:8]}"
    assert (whole / f"{plan}.md").read_text() == "two\n"
    assert (whole / f"{plan}.v1.md").read_text() == "one\n"
    table = page(whole, "README.md")
    assert f"| [The plan]({plan}.v1.md) | 1 | 20" in table
    assert f" | {site}/user:ann | {ids['plan']} |" in table
    assert "outcome completed: " in page(whole, f"outcomes/write-the-start-page-{ids['page'][:8]}.md")
    assert "> Looked for wood." in "".join(path.read_text() for path in (whole / "audit").iterdir())
    told = [json.loads(line)["seq"] for line in page(whole, "log.jsonl").splitlines()]
    assert told == log
    assert page(whole, "log.md").count("\n| 20") == len(log)
    # What the reader may not read is in no page.
    assert "| user:ann |" in listed
    assert "[Gold](mail/gold-" in listed
    org.cn("agency", "export", tmp_path / "site", "--as", "{site}")
    pages = {path.name: path.read_text() for path in (tmp_path / "site").rglob("*") if path.is_file()}
    assert "We need wood." in pages["mail.md"]
    assert "## Build the site" in pages["handlers.md"]
    assert "## Open the shop" not in pages["handlers.md"]
    assert not any("gold" in text.lower() for text in pages.values())
    asked = [event["seq"] for event in org.ask("agency", "log", "--count", "9999", "--as", "{site}")]
    told = [json.loads(line)["seq"] for line in pages["log.jsonl"].splitlines()]
    assert [one for one in asked if one <= told[-1]] == told


def test_in_a_list_of_an_export_no_title_is_a_link_or_html(org: Org, tmp_path: Path) -> None:
    live = "Done](http://evil.example/) ![x](http://evil.example/p) <img src=x> <http://evil.example/> `a` \\[b](c)"
    org.cn("outcome", "create", live)
    org.cn("mail", "send", "{shop}", "Hello", "--subject", live)
    org.cn("agency", "export", str(tmp_path / "export"))
    renderer = MarkdownIt("commonmark", {"html": True}).enable("table")
    for name in ("README.md", "mail.md", "log.md", "handlers.md"):
        text = (tmp_path / "export" / name).read_text()
        shown = renderer.render(text)
        assert not re.search(r'<img|<code>a<|(href|src)="http', shown), name
        assert name == "handlers.md" or "Done](http://evil.example/)" in html.unescape(re.sub("<.*?>", "", shown)), name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_no_export_goes_into_a_folder_of_another_user(org: Org, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 4_000_002, -1)
    for words in ((), ("--dry-run",)):
        said = org.refused("agency", "export", theirs, *words, code=2)
        assert f"{theirs} belongs to another user, who could read and change the files" in said
    assert not any(theirs.iterdir())


def test_a_copy_is_pushed_by_tick_and_another_clone_is_made_the_home(
    org: Org, tmp_path: Path, hub_template: Path
) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "copy.git")
    git(org.hub, "config", "agency.remote", str(tmp_path / "copy.git"))
    org.cn("agency", "tick")
    assert org.ask("agency", "status")["copy"] == {"url": str(tmp_path / "copy.git"), "behind": 0}
    shutil.copytree(hub_template, tmp_path / "new", symlinks=True)
    home = Org(tmp_path / "new", org.ids)
    assert home.cn("agency", "restore", tmp_path / "copy.git", "--dry-run").stdout.startswith("would ")
    assert "11 events taken over" in home.cn("agency", "restore", tmp_path / "copy.git").stdout
    for words in ((), ("--dry-run",)):
        assert "has all that the copy" in home.refused("agency", "restore", tmp_path / "copy.git", *words)
        assert "cannot be read" in home.refused("agency", "restore", tmp_path / "nowhere.git", *words)
    assert home.titles() == org.titles()
    home.check()


def test_a_dry_run_of_a_restore_is_refused_where_the_command_is(org: Org, tmp_path: Path, hub_template: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "copy.git")
    git(org.hub, "config", "agency.remote", str(tmp_path / "copy.git"))
    org.cn("agency", "tick")
    shutil.copytree(hub_template, tmp_path / "new", symlinks=True)
    other = Org(tmp_path / "new", org.ids)
    assert "cannot be read" in other.refused("agency", "restore", tmp_path / "nowhere.git", "--dry-run")
    other.cn("agency", "init")
    refused = other.refused("agency", "restore", tmp_path / "copy.git", "--dry-run")
    assert "each have writes that the other has not" in refused
    assert refused == other.refused("agency", "restore", tmp_path / "copy.git")


@pytest.mark.parametrize(
    "place", ["cn.git.create.create_repo", "cn.agency.store.copies._list", "cn.agency.store.copies.fetch_tips"]
)
def test_a_restore_that_was_killed_is_done_again_and_nothing_is_founded_beside_it(
    org: Org, tmp_path: Path, hub_template: Path, place: str
) -> None:
    copy = tmp_path / "copy.git"
    git(tmp_path, "init", "--quiet", "--bare", "copy.git")
    git(org.hub, "config", "agency.remote", str(copy))
    org.cn("agency", "tick")
    shutil.copytree(hub_template, tmp_path / "new", symlinks=True)
    home = Org(tmp_path / "new", org.ids)
    module, _, name = place.rpartition(".")
    killed = f"""
import importlib, os, signal, sys
from cn.cli.main import run
setattr(importlib.import_module({module!r}), {name!r}, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
sys.argv = ["cn", "--hub", {str(home.hub)!r}, "agency", "restore", {str(copy)!r}]
run()
"""
    done = subprocess.run([sys.executable, "-c", killed], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    for words in (("agency", "status"), ("agency", "init"), ("outcome", "list")):
        said = home.refused(*words)
        assert f"a restore from {copy} is under way, or was cut off" in said
        assert f"'cn agency restore {copy}' does it again" in said
    assert "events taken over" in home.cn("agency", "restore", copy).stdout
    assert home.titles() == org.titles()


def test_a_restore_counts_what_was_not_here_and_says_where_else_writes_may_be(org: Org, tmp_path: Path) -> None:
    copy, records = tmp_path / "copy.git", org.hub / ".git/cn/agency.git"
    git(tmp_path, "init", "--quiet", "--bare", "copy.git")
    git(org.hub, "config", "agency.remote", str(copy))
    shutil.copytree(records, tmp_path / "backup")
    org.cn("outcome", "create", "One more")
    org.cn("agency", "tick")
    # What the command before it began to copy, after its answer, may go on beside the tick.
    until(lambda: branches(copy).get("main") == git(records, "rev-parse", "main"))
    shutil.rmtree(records)
    shutil.copytree(tmp_path / "backup", records)
    said = org.cn("agency", "restore", copy).stdout
    assert "1 event taken over" in said
    assert "is on the old machine alone" in said
    org.cn("outcome", "create", "Not in the copy")
    records.rename(records.with_name("agency.git.aside"))
    said = org.cn("agency", "restore", copy).stdout
    assert f"is in {records}.aside, which was put aside, or on another machine, which must write no more" in said


def test_who_may_not_write_over_what_it_reads_is_not_told_how(org: Org) -> None:
    sent = org.ask("mail", "send", "{site}", "text", "--subject", "Words")["file"]
    told = "to write over it: --seen 1:"
    assert told in org.cn("kb", "read", "{plan}").stderr
    assert told in org.cn("kb", "read", "{plan}", "--as", "{site}").stderr
    org.cn("grant", "add", "{shop}", "read", "kb:{plan}")
    for words in (("{plan}", "--as", "{shop}"), (sent,), (sent, "--as", "{site}"), ("{page}",)):
        said = org.cn("kb", "read", *words).stderr
        assert "· version 1" in said
        assert "--seen" not in said


def test_an_older_version_is_not_what_a_write_is_over(org: Org) -> None:
    (seen,) = re.findall(r"--seen (\S+)", org.cn("kb", "read", "{plan}").stderr)
    org.cn("kb", "write", "{plan}", "-", "--seen", seen, stdin="more\n")
    said = org.cn("kb", "read", "{plan}", "--version", "1").stderr
    assert "· version 1; the latest is version 2" in said
    assert "--seen" not in said


def test_the_tree_begins_at_the_root_or_where_a_handler_stands(org: Org) -> None:
    root = org.ask("agency", "status")["root"]
    assert org.ask("outcome", "tree")["outcomes"][0]["outcome"] == root
    assert org.ask("outcome", "tree", "--as", "{site}")["outcomes"][0]["outcome"] == org.ids["site"]
    own = org.ask("outcome", "tree", "{site}", "--as", "{site}")["outcomes"][0]["outcome"]
    assert own == org.ids["site"]
    assert org.ask("outcome", "tree", "root", "--as", "{site}")["outcomes"][0]["outcome"] == root


def test_a_restore_that_was_refused_is_in_nobody_s_way(tmp_path: Path, hub_template: Path) -> None:
    copy = tmp_path / "copy.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "copy.git")
    tree = git(copy, "hash-object", "-w", "-t", "tree", "--stdin")
    git(copy, "update-ref", "refs/heads/main", git(copy, "commit-tree", "-m", "of something else", tree))
    shutil.copytree(hub_template, tmp_path / "new", symlinks=True)
    home = Org(tmp_path / "new", {})
    home.cn("agency", "restore", copy, code=1)
    assert "work there; else 'cn agency init' begins one" in home.refused("agency", "status", code=3)
    home.cn("agency", "init")


def test_a_shell_completes_uuids_by_digits_and_by_titles(prepared: Org) -> None:
    def offered(*words: str) -> list[str]:
        env = {"_CN_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["cn", *words]), "COMP_CWORD": str(len(words))}
        return cn(env=env, cwd=prepared.hub, check=0).stdout.split()

    for word in (prepared.ids["page"][:5], "start"):
        assert offered("outcome", "show", word) == [f"plain,{prepared.ids['page']}"]
    assert f"plain,{prepared.ids['shop']}" in offered("handler", "stop", "")
    assert offered("kb", "read", "plan") == [f"plain,{prepared.ids['plan']}"]


def test_who_does_not_use_it_loads_nothing_of_it(prepared: Org) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "cn", "--hub", str(prepared.hub), "status"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "cn.run" in done.stderr
    assert "cn.agency" not in done.stderr


@pytest.mark.parametrize("words", [["init", ""], ["init", "A\nB"]])
def test_an_agency_that_cannot_begin_says_why_and_is_not_there(
    tmp_path: Path, hub_template: Path, words: list[str]
) -> None:
    shutil.copytree(hub_template, tmp_path / "hub", symlinks=True)
    said = Org(tmp_path / "hub", {}).refused("agency", *words)
    assert "words: the title" in said
    assert not (tmp_path / "hub/.git/cn/agency.git").exists()


def test_writers_side_by_side_all_get_what_they_asked_for(org: Org) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: org.ask("outcome", "create", f"At once {n}")["outcome"], range(8)))
    assert len(set(done)) == 8
    assert {f"At once {n}" for n in range(8)} <= set(org.titles())
    org.check()


def test_without_an_agency_every_command_says_how_to_begin(hub_template: Path) -> None:
    said = cn("outcome", "list", hub=hub_template, check=3).stderr
    assert "cn agency init" in said


@pytest.mark.parametrize(
    "words",
    [
        ["outcome", "block", "{page}", "the painter is ill", "--until", "3d"],
        ["handler", "insert", "Sales", "{site}", "{shop}"],
        ["handler", "move", "{site}", "user:cto"],
        ["kb", "create", "-", "--description", "A list"],
        ["mail", "send", "{site}", "Soon", "--at", "3d", "--as", "{site}"],
        ["grant", "revoke", "{grant}"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_request_is_done_once_and_answered_as_often_as_it_comes(org: Org, words: Sequence[str]) -> None:
    held = Org(org.hub, {**org.ids, "grant": org.ask("grant", "list")[0]["id"]})
    named = ["--request-id", "r1", *words[-2:]] if "--as" in words else ["--request-id", "r1"]
    first = held.cn(*words, *named[:2]).stdout.splitlines()
    tip = org.tip
    assert held.ask(*words, *named[:2])
    *again, last = held.cn(*words, *named[:2]).stdout.splitlines()
    assert last == "· it was done before, and is not done again"
    assert [line.split(":")[0] for line in again] == [line.split(":")[0] for line in first]
    assert "same-request" in org.refused("outcome", "create", "Something else", *named)
    assert org.tip == tip


def test_a_repeated_reading_shows_what_may_be_read_now_and_is_recorded_each_time(org: Org) -> None:
    (grant,) = org.ask("grant", "add", "{shop}", "read", "kb:{plan}")["grants"]
    (mail,) = org.ask("mail", "--as", "{shop}")["mail"]
    read = ("kb", "read", "{plan}", "--as", "{shop}", "--request-id", "r1")
    show = ("mail", "show", mail["mail"][:8], "--as", "{shop}", "--request-id", "r2")
    for _ in range(2):
        assert (org.cn(*read).stdout, org.cn(*show).stdout) == ("one\n", "Sell something.\n")
    for file in ("{plan}", mail["file"]):
        assert [one["type"] for one in org.ask("kb", "history", file, "--audit")["events"]].count("file_read") == 2
    org.cn("grant", "revoke", grant)
    tip = org.tip
    assert "access: " in org.refused(*read)
    org.cn("handler", "stop", "{shop}")
    assert "active-handler: " in org.refused(*show)
    org.cn("handler", "delegate", "{shop}", "--runner", "person")
    tip = org.tip
    for words in (read, show):
        assert "was asked in tenure 1, which is over" in org.refused(*words)
        assert "access: " in org.refused(*words[:-2])
    assert org.tip == tip


def test_a_request_belongs_to_the_tenure_in_which_it_was_asked(org: Org) -> None:
    words = ("outcome", "create", "Daily", "--as", "{shop}", "--request-id", "daily")
    made = org.ask(*words)["outcome"]
    org.cn("handler", "stop", "{shop}")
    assert org.ask(*words)["outcome"] == made  # what it asked for before its end
    org.cn("handler", "delegate", "{shop}", "--runner", "person")
    tip = org.tip
    assert "same-request: request 'daily' was asked in tenure 1, which is over" in org.refused(*words)
    assert org.tip == tip


def test_of_two_at_once_with_one_request_the_later_is_told_what_the_first_one_did(
    org: Org, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("outcome", "create", "Print flyers", "--request-id", "r1")
    with desk(Env(hub_path=str(org.hub), request_id="r1")) as opened:
        assert org.cn(*words).stdout.startswith("✓ outcome created: ")
        opened.do(CreateOutcome("Print flyers", "", (opened.outcome("root"),)))
    assert capsys.readouterr().out == org.cn(*words).stdout


def test_what_a_tenure_left_waiting_is_its_heirs_and_the_next_tenure_sees_nothing_of_it(
    org: Org, tmp_path: Path
) -> None:
    (mail,) = org.ask("mail", "send", "boss", "Left behind", "--at", "3d", "--as", "{shop}")["mail"]
    org.cn("handler", "stop", "{shop}")
    org.cn("handler", "delegate", "{shop}", "--runner", "person")
    assert org.ask("mail", "waiting", "--as", "{shop}")["mail"] == []
    assert "wait for their time" not in org.cn("mail", "--as", "{shop}").stdout
    for words in (("mail", "take-back", mail), ("mail", "show", mail), ("agency", "log", "--about", mail)):
        assert "Left behind" not in org.refused(*words, "--as", "{shop}")
    org.cn("agency", "export", tmp_path / "shop", "--as", "{shop}")
    told = [org.cn("agency", "log", "--as", "{shop}").stdout]
    told += [path.read_text() for path in (tmp_path / "shop").rglob("*.*")]
    assert not [text for text in told if "Left behind" in text or mail in text or mail[:8] in text]
    assert [one["mail"] for one in org.ask("mail", "waiting", "--as", "root")["mail"]] == [mail]
    org.cn("mail", "take-back", mail, "--as", "root")
    assert org.ask("mail", "waiting", "--as", "root")["mail"] == []


def test_a_beginning_is_repeated_like_any_request(tmp_path: Path, hub_template: Path) -> None:
    shutil.copytree(hub_template, tmp_path / "hub", symlinks=True)
    org = Org(tmp_path / "hub", {})
    first = org.ask("agency", "init", "--request-id", "begin")
    assert org.ask("agency", "init", "--request-id", "begin") == first
    assert "same-request" in org.refused("agency", "init", "Other", "--request-id", "begin")
    assert "no name for a request" in org.refused("outcome", "create", "A", "--request-id", "a\nb")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(org: Org, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    before = org.tip
    said = org.refused("kb", "create", tmp_path / "large", "--description", "Large", code=2)
    assert "more than 8 MB" in said
    assert org.tip == before


def test_a_command_of_several_parts_takes_any_name_of_a_request_and_no_other_requests(org: Org) -> None:
    longest = "z" * 200
    org.cn("outcome", "create", "Beside it", "--request-id", "q 2")
    words = ["handler", "insert", "Sales", "{site}", "{shop}", "--runner", "person", "--as", "root", "--request-id"]
    made = org.ask(*words, longest)["handler"]
    assert org.ask(*words, longest)["handler"] == made
    assert made in {row["handler"] for row in org.ask("handler", "list")}
    org.cn("handler", "remove", made, "--as", "root")
    words[2] = "Marketing"
    org.cn(*words, "q")
    assert "at most 200" in org.refused(*words, longest + "z")


def test_more_than_may_be_looked_for_or_linked_is_refused_with_what_to_do(org: Org, tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(MOST_WORDS + 1)]
    assert "limit-words: 33 different words" in org.refused("kb", "browse", *words)
    assert "limit-words: 33 different words" in org.refused("outcome", "list", "--search", " ".join(words))
    found = org.ask("outcome", "list", "--search", " ".join(words), code=1)
    assert found["refused"]["rule"] == "limit-words", "as every rule that says no"
    assert org.titles("--search", "page start " * 20) == ["Write the start page"]
    many = tmp_path / "many.md"
    many.write_text("".join(f"kb://{number:08x}-0000-4000-8000-000000000000\n" for number in range(MOST_LINKS + 1)))
    said = org.refused("kb", "create", many, "--description", "Links")
    assert "limit-links: it names 1,001 files" in said
    assert "several files" in said


@pytest.mark.parametrize("hub_format", ["sha1", "sha256"])
def test_records_are_private_and_have_one_object_format_whatever_the_user_has(tmp_path: Path, hub_format: str) -> None:
    env = {"GIT_DEFAULT_HASH": hub_format}
    cn("init", "sigma", cwd=tmp_path, env=env, check=0)
    hub = tmp_path / "cn-sigma"
    shared = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.sharedRepository", "GIT_CONFIG_VALUE_0": "all"}
    env = {"GIT_DEFAULT_HASH": "sha256", **shared}
    cn("agency", "init", "Everything", hub=hub, env=env, check=0)
    cn("outcome", "create", "One", hub=hub, env=env, check=0)
    records = hub / ".git/cn/agency.git"
    assert git(records, "rev-parse", "--show-object-format") == "sha1"
    assert records.stat().st_mode & 0o777 == 0o700
    assert git(hub, "rev-parse", "--show-object-format") == hub_format
    copy = tmp_path / "copy.git"
    git(tmp_path, "clone", "-q", "--bare", str(records), str(copy))
    records.rename(records.with_name("aside"))
    cn("agency", "restore", copy, hub=hub, env=env, check=0)
    assert "One" in cn("outcome", "list", hub=hub, check=0).stdout
