"""What an agent is told: how to work, the same for all agents of its handler, and how things are now."""

from __future__ import annotations

import re
from datetime import timedelta

from cn.agency.names import Party, Uuid
from cn.agency.operations import BlockOutcome, MoveHandler, SendMail, WriteFile
from cn.agents.prompt import TEMPLATE, first_message, system_prompt
from cn.system.extras import template_dir
from tests.support.agency import Records

WORDS = (template_dir() / TEMPLATE).read_text("utf-8")


def told(records: Records, handler: Uuid) -> dict[str, str]:
    """The first message, part by part."""
    message = first_message(
        records.handler(handler), records.rows, records.now, lambda file, hash: records.contents[hash]
    )
    return {head: text.strip() for head, text in re.findall(r"^## (.*)\n\n((?:(?!^## ).*\n?)*)", message, re.MULTILINE)}


def test_an_agent_is_told_to_look_into_its_inbox_first_to_stay_while_there_is_work_and_to_leave_its_state() -> None:
    """Whoever writes these words anew keeps what they say."""
    work = WORDS.partition("### How to work")[2].partition("### Rules")[0]
    assert "Stay as long as there are workable Outcomes." in work
    steps = re.findall(r"^\d\. \*\*(.*)\.\*\*(.*(?:\n   .*)*)", work, re.MULTILINE)
    assert [name for name, _ in steps] == ["Check the inbox", "Work", "Repeat", "End"]
    first, _, _, last = (" ".join(text.split()) for _, text in steps)
    assert "Turn messages into Outcomes" in first
    assert "Do no deep work yet" in first
    assert "When every Outcome is blocked, delegated or ended and the inbox is empty" in last
    assert "update the state document, submit your entry for the audit log" in last
    rules = " ".join(WORDS.partition("### Rules")[2].split())
    for rule in (
        "You are ephemeral",
        "Least privilege",
        "Outcomes are hypotheses",
        "Escalate",
        "Inbox first, then work",
    ):
        assert f"**{rule}" in rules
    assert "needs a restart, save your state in the state document, and end" in rules


def test_all_agents_of_a_handler_are_told_the_same_whatever_happened_meanwhile() -> None:
    records = Records()
    root = records.found()
    site = records.handler_for("Build the site", root)
    before = system_prompt(WORDS, records.handler(site))
    assert f"responsible for Outcome {site}" in before
    assert f"your Boss, the Handler responsible for Outcome {root}." in before
    records.do(SendMail(site, text="Begin."))
    records.do(WriteFile(records.handler(site).state, b"Begun."), records.agent(site))
    assert system_prompt(WORDS, records.handler(site)) == before
    records.do(MoveHandler(site, Party("user:ada")))
    assert "your Boss, user:ada." in system_prompt(WORDS, records.handler(site))
    assert system_prompt("{x} {handler}", records.handler(site)) == f"{{x}} {site}"


def test_an_agent_begins_with_what_the_one_before_it_left_and_with_what_waits() -> None:
    records = Records()
    root = records.found("Help Ada")
    site = records.handler_for("Build the site", root)
    by = records.agent(site)
    new = told(records, site)
    state = records.handler(site).state
    assert list(new) == ["Your outcome", "Why", f"State document (kb://{state})", "Workable now", "Pending mail"]
    assert new[f"State document (kb://{state})"] == "Nothing has been written yet: you are the first."
    assert new["Workable now"] == f"- {site} Build the site"
    assert "Help Ada" in new["Why"]
    page, shop = (records.outcome(title, site, by=by) for title in ("Write the page", "Open the shop"))
    records.do(BlockOutcome(shop, "no money", records.now + timedelta(days=1)), by)
    records.do(WriteFile(state, b"The page is half written.\n"), by)
    records.do(SendMail(site, text="How far are you?"))
    later = told(records, site)
    assert later[f"State document (kb://{state})"].endswith("The page is half written.")
    assert f"- {page} Write the page" in later["Workable now"]
    assert "Process inbox" in later["Workable now"].splitlines()[0], "mail comes first"
    assert "Open the shop" not in later["Workable now"]
    assert "from user:ada: How far are you?" in later["Pending mail"]
    records.pass_time(days=2)
    assert f"- {shop} Open the shop" in told(records, site)["Workable now"]


def test_a_long_state_document_is_cut_where_it_is_told_and_many_outcomes_are_counted() -> None:
    records = Records()
    site = records.handler_for("Build the site", records.found())
    by = records.agent(site)
    records.do(WriteFile(records.handler(site).state, b"x" * 40_000), by)
    for number in range(40):
        records.outcome(f"Page {number}", site, by=by)
    parts = told(records, site)
    text = parts[f"State document (kb://{records.handler(site).state})"]
    assert text.endswith("… it goes on; read it with state_read.")
    assert text.count("x") < 33_000
    assert parts["Workable now"].splitlines()[-1] == "- … and 10 more"
