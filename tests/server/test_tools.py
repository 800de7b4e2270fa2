"""Every tool over the wire, by the official client: what it gives fits its schema, what it refuses says what next."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cn.agency.events import FileRead
from cn.agency.names import Uuid
from cn.agency.operations import CreateFile, Delegate, GrantAccess, RevokeAccess, SendMail, StopHandler, Wanted
from cn.agency.plan.bounds import MOST_LINKS, MOST_NAMED, MOST_WORDS
from cn.server.tools import BASE
from tests.support.agency_server import Office, Server, uuid
from tests.support.mcp_clients import WAYS, Agent, connect, talk

TOOLS = {tool.name: tool for tool in BASE}


@pytest.fixture(scope="module")
def root_token(office: Office) -> str:
    """Of the agent of the root handler."""
    return office.lease().token


class Checked(Agent):
    """A client that holds each result against the schema of its tool."""

    async def do(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        value = await Agent.do(self, tool, **arguments)
        jsonschema.validate(value, TOOLS[tool].gives)
        return value


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_reads_writes_and_is_refused_over_each_way_and_version(
    office: Office, server: Server, way: str, mode: str, workspace: Path
) -> None:
    agent = office.lease(office.handler(f"Over {way}, {mode}"))
    (workspace / "note.md").write_text("# Found\n")

    async def work() -> None:
        async with connect(server, agent.token, way, mode, workspace) as ask:
            given = {"path": "note.md"} if "bridge" in way else {"content": "# Found\n"}
            made = await ask.do("kb_create", description="What was found", **given)
            read = await ask.do("kb_read", file=made["file"])
            assert (read["content"], read["version"], read["hash"]) == ("# Found\n", 1, made["hash"])
            if "bridge" in way:
                copy = workspace / read["path"]
                assert copy.read_text() == "# Found\n"
                assert copy.stat().st_mode & 0o222 == 0
            refused = await ask.no("kb_write", file=made["file"], content="again")
            assert refused["rule"] == "stale-version"
            assert f"version 1, {made['hash']}" in refused["reason"]
            listed = await ask.client.list_tools()
            assert [tool.name for tool in listed.tools][: len(BASE)] == [tool.name for tool in BASE]

    talk(work)


def test_a_list_says_where_in_the_workspace_what_was_read_lies(office: Office, server: Server, workspace: Path) -> None:
    agent = office.lease(office.handler("Lists files"))

    async def work() -> None:
        async with connect(server, agent.token, "bridge", workspace=workspace) as ask:
            made = [(await ask.do("kb_create", description=f"Note {n}", content=f"{n}\n"))["file"] for n in range(2)]
            await ask.do("kb_read", file=made[0])
            rows = {row["file"]: row for row in (await ask.do("kb_list"))["files"]}
            assert (workspace / rows[made[0]]["path"]).read_text() == "0\n"
            assert "path" not in rows[made[1]]

    talk(work)


def test_each_tool_gives_what_its_schema_says(office: Office, server: Server) -> None:
    boss = office.handler("Run the web")
    agent = office.lease(boss)

    async def work() -> None:
        async with connect(server, agent.token) as plain:
            ask = Checked(plain.client)
            await _knowledge(ask)
            await _outcomes(ask, boss)
            await _mail_and_permissions(ask, boss)

    talk(work)


@pytest.mark.parametrize("tool", ["handler_stop", "handler_remove", "outcome_complete", "outcome_close"])
def test_what_ends_underlings_with_live_agents_answers_about_its_own_subject(
    office: Office, server: Server, tool: str
) -> None:
    """The official client throws at an answer that does not fit, of what was done."""
    boss = office.handler(f"Ends others, {tool}")
    agent, under = office.lease(boss), office.handler("Ends with it", boss)
    below = office.handler("Stands below it", under)
    office.lease(under)
    office.lease(below)
    office.do(SendMail(under, text="Dealt with by nobody."))
    name, given = tool.split("_")[0], {"rationale": "r", "cascade": True} if "outcome" in tool else {}

    async def work() -> None:
        async with connect(server, agent.token) as plain:
            ask = Checked(plain.client)
            first = await ask.do(tool, **{name: under}, **given, request_id="once")
            assert first[name] == under
            again = await ask.do(tool, **{name: under}, **given, request_id="once")
            assert again == {key: value for key, value in first.items() if key != "stopped"}  # no event keeps that

    talk(work)


def test_what_says_more_than_a_call_may_is_refused_and_says_what_next(office: Office, server: Server) -> None:
    agent = office.lease(office.handler("Says much"))
    many = ["3f2a9c1e-be04-4d7f-a582-a1c0d94be7f0"] * (MOST_NAMED + 1)
    text = "\n".join(f"kb://{number:08x}-0000-4000-8000-000000000000" for number in range(MOST_LINKS + 1))
    says: dict[str, tuple[str, dict[str, Any]]] = {
        "kb_browse": ("limit-words", {"words": " ".join(map(str, range(MOST_WORDS + 1)))}),
        "mail_take_back": ("arguments", {"mail": many}),
        "outcome_create": ("arguments", {"title": "Build", "parents": many}),
        "kb_create": ("limit-links", {"description": "Links", "content": text}),
    }

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            for tool, (rule, arguments) in says.items():
                refused = await ask.no(tool, **arguments)
                assert (refused["rule"], bool(refused["remedy"])) == (rule, True)
            wordy = await ask.no("kb_browse", words="a " * 3_000_000)
            assert "at most 1,000 characters, not 6,000,000" in wordy["reason"]

    talk(work)


def test_what_may_be_read_no_more_is_not_read_again_and_another_tenure_has_nothing_of_the_one_before(
    office: Office, server: Server
) -> None:
    file = uuid(office.do(CreateFile("Plan", b"one"))["file"])
    boss = office.handler("Works twice")
    (grant,) = office.do(GrantAccess(boss, Wanted(f"kb:{file}", "read")))["grants"]
    first, mail = office.lease(boss), list[str]()

    async def before() -> None:
        async with connect(server, first.token) as ask:
            for _ in range(2):
                assert (await ask.do("kb_read", file=file))["content"] == "one"
            office.do(RevokeAccess(grant))
            assert (await ask.no("kb_read", file=file))["rule"] == "access"
            mail.extend((await ask.do("mail_send_deferred", to=boss, at="3d", text="Left behind"))["mail"])
            assert "Left behind" in str(await ask.do("mail_deferred"))

    async def after(token: str) -> None:
        async with connect(server, token) as ask:
            assert (await ask.do("mail_deferred"))["mail"] == []
            assert (await ask.no("mail_take_back", mail=mail))["rule"] == "known"

    talk(before)
    office.do(StopHandler(boss))
    office.do(Delegate(boss))
    again = office.lease(boss).token
    talk(lambda: after(again))
    with office.agency.store.reading() as facts:
        events = [event.change for event in facts.history(file, 2**53, 99)]
    assert sum(isinstance(change, FileRead) for change in events) == 2


async def _knowledge(ask: Checked) -> None:
    made = await ask.do("kb_create", description="Plan", content="one", request_id="first")
    again = await ask.do("kb_create", description="Plan", content="one", request_id="first")
    assert made == again
    assert (await ask.no("kb_create", description="Plan", content="two", request_id="first"))["rule"] == "same-request"
    file = made["file"]
    written = await ask.do("kb_write", file=file, content_base64="AAEC", version=1, hash=made["hash"])
    read = await ask.do("kb_read", file=file)
    assert (written["version"], read["size"], read["content_base64"], "content" in read) == (2, 3, "AAEC", False)
    assert (await ask.do("kb_read_version", file=file, version=1))["content"] == "one"
    assert len((await ask.do("kb_history", file=file))["versions"]) == 2
    types = [event["type"] for event in (await ask.do("kb_audit", file=file))["events"]]
    assert types == ["file_created", "file_written", "file_read", "file_read"]
    assert file in str(await ask.do("kb_list"))
    assert file in str(await ask.do("kb_browse", words="PLAN"))
    assert (await ask.no("state_read"))["rule"] == "not-written"
    state = await ask.do("state_write", content="Begin with the start page.")
    assert (await ask.do("state_read"))["hash"] == state["hash"]
    await ask.do("audit_submit", text="I planned.")
    assert "I planned." in str(await ask.do("audit_read"))


async def _outcomes(ask: Checked, boss: Uuid) -> None:
    page = (await ask.do("outcome_create", title="Write the start page", parents=[boss]))["outcome"]
    shop = (await ask.do("outcome_create", title="Open the shop", parents=[boss], text="Soon."))["outcome"]
    seen = await ask.do("outcome_view", outcome=shop)
    assert "Soon." in str(seen["markdown"])
    await ask.do("outcome_update", outcome=shop, text="Later.", version=seen["version"], hash=seen["hash"], link=[page])
    assert len((await ask.do("outcome_ancestors", outcome=shop))["chains"]) == 2
    assert len((await ask.do("outcome_subtree", outcome=boss))["outcomes"]) == 3
    await ask.do("outcome_block", outcome=shop, reason="No money yet", until="3d")
    assert (await ask.no("outcome_block", outcome=shop, reason="x", until="yesterdays"))["rule"] == "arguments"
    assert (await ask.do("outcome_list", which="workable"))["outcomes"] == []
    await ask.do("outcome_block", outcome=shop)
    refused = await ask.no("outcome_complete", outcome=page)
    assert refused["rule"] == "open-descendants"
    await ask.do("outcome_close", outcome=page, rationale="Nobody wants it", cascade=True)
    assert "Write the start page" in str(await ask.do("outcome_list", which="closed"))
    await ask.do("outcome_complete", outcome=shop)
    assert "Open the shop" in str(await ask.do("outcome_list", which="completed"))
    own = await ask.no("outcome_complete", outcome=boss)
    assert own["rule"] == "access"
    assert own["ask"] == (await ask.do("permissions_list"))["boss"]


async def _mail_and_permissions(ask: Checked, boss: Uuid) -> None:
    outcome = (await ask.do("outcome_create", title="Draw the logo", parents=[boss]))["outcome"]
    plan = (await ask.do("kb_create", description="Colours", content="blue"))["file"]
    grants = [{"resource": f"kb:{plan}", "level": "read"}]
    under = (await ask.do("delegate", outcome=outcome, message="Please.", grants=grants))["handler"]
    assert under in str(await ask.do("outcome_list", which="delegated"))
    await ask.do("mail_send", to=under, text="How far is it?", subject="Logo")
    await ask.do("mail_send", to="boss", file=plan)
    await ask.do("mail_send_deferred", to=boss, at="3d", text="Look at the logo.")
    await ask.do("mail_send", to=boss, text="To myself")
    waiting = (await ask.do("mail_inbox"))["mail"]
    assert [one["subject"] for one in waiting] == ["To myself"]
    await ask.do("mail_done", mail=[waiting[0]["mail"]])
    assert (await ask.do("mail_inbox"))["mail"] == []
    granted = await ask.do("permissions_grant", holder=under, resource=f"kb:{plan}", level="write")
    await ask.do("permissions_revoke", grant=granted["grants"][0])
    assert (await ask.no("permissions_grant", holder=under, resource="mcp:gmail", level="use"))["rule"] == "access"
    assert (await ask.no("handler_move", handler=under, boss=boss))["rule"] == "nothing-to-change"
    await ask.do("handler_remove", handler=under)
    again = (await ask.do("delegate", outcome=outcome))["handler"]
    assert (await ask.do("handler_stop", handler=again))["stopped"] == [again]


def test_root_names_the_root_handler_and_its_outcome_where_a_uuid_is_taken(office: Office, server: Server) -> None:
    agent = office.lease(office.handler("Looks upwards"))

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            assert (await ask.do("outcome_view", outcome="root"))["outcome"] == office.head
            refused = await ask.no("outcome_create", title="More", parents=["root"])
            assert refused["rule"] == "access"
            assert office.head in refused["reason"] or office.head[:8] in refused["reason"]
            assert "no UUID" in (await ask.no("kb_read", file="roots"))["reason"]

    talk(work)


def test_a_refusal_says_the_titles_of_what_it_names_and_of_whom_to_ask(office: Office, server: Server) -> None:
    agent = office.lease(office.handler("Sell flowers"))
    other = office.handler("Paint walls")
    told = office.do(SendMail(other, text="Nobody else's.", subject="A secret plan"))
    with office.agency.store.reading() as facts:
        letter = next(one.file for one in facts.pending(other) if one.id == told["mail"][0])

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            answer = await ask("handler_stop", handler=other)
            assert f'{other} ("Paint walls")' in answer.text
            assert (answer.value["ask"], answer.value["ask_title"]) == (office.head, "Help the user")
            refused = await ask("kb_read", file=letter)
            assert refused.refused
            assert "secret plan" not in str(refused), "of a message the subject is for who may read it"

    talk(work)


def test_the_text_of_an_outcome_says_what_it_is_to_clients_that_show_nothing_else(
    office: Office, server: Server
) -> None:
    boss = office.handler("Bake bread")
    agent = office.lease(boss)

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            part = await ask.do("outcome_create", title="Buy flour", parents=[boss], text="Two sacks.")
            await ask.do("outcome_block", outcome=part["outcome"], reason="the mill is shut")
            said = (await ask("outcome_view", outcome=part["outcome"])).text
            assert said.startswith(f"Buy flour: blocked, the mill is shut\nparents:\n  {boss} Bake bread: ")
            assert "Two sacks." in said
            for number in range(20):
                title = f"{number} " + "ö" * 190
                await ask.do("outcome_create", title=title, parents=[part["outcome"]], text="ä" * 20_000)
            answer = await ask("outcome_view", outcome=part["outcome"])
            assert len(answer.text.encode()) <= 3 << 10

    talk(work)


def test_handlers_are_moved_between_two_below_one(office: Office, server: Server) -> None:
    top = office.handler("Top")
    left, right = office.handler("Left", top), office.handler("Right", top)
    low = office.handler("Low", left)

    async def work() -> None:
        async with connect(server, office.lease(top).token) as plain:
            await Checked(plain.client).do("handler_move", handler=low, boss=right)

    talk(work)
    with office.agency.store.reading() as facts:
        row = facts.handler(low)
    assert row
    assert row.boss == right


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("kb_reed", {}, "did you mean 'kb_read'?"),
        ("kb_read", {}, "'file' is missing"),
        ("kb_read", {"file": "x"}, "no UUID of version 4"),
        ("kb_read", {"file": 7}, "it takes a text"),
        ("outcome_list", {"wich": "open"}, "did you mean 'which'?"),
        ("outcome_list", {"which": "all"}, "one of open, workable, delegated"),
        ("kb_list", {"cursor": "1"}, "the 'next' of the answer before"),
        ("kb_create", {"description": "x"}, "one of path, content and content_base64"),
        ("kb_create", {"description": "x", "content": "a", "content_base64": "YQ=="}, "exactly one"),
        ("kb_create", {"description": "x", "content_base64": "?"}, "base64"),
        ("kb_create", {"description": "x", "path": "/etc/passwd"}, "opens no path"),
        ("kb_create", {"description": "two\nlines", "content": "a"}, "write one line"),
        ("mail_send", {"to": "somebody", "text": "x"}, "neither a handler nor a user"),
        ("delegate", {"outcome": "x", "grants": []}, "no UUID"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_with_the_next_step(
    server: Server, root_token: str, tool: str, arguments: dict[str, object], words: str
) -> None:
    async def work() -> None:
        async with connect(server, root_token) as ask:
            answer = await ask(tool, **arguments)
            assert answer.refused
            assert words in answer.text
            assert answer.value["remedy"]

    talk(work)


def test_a_long_list_comes_in_parts_that_a_cursor_joins(office: Office, server: Server) -> None:
    handler = office.handler("Many files")
    agent = office.lease(handler)

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            long = "word " * 30
            made = set[object]()
            for begin in range(0, 250, 10):
                numbers = range(begin, begin + 10)
                calls = [ask.do("kb_create", description=f"{long}{number}", content=str(number)) for number in numbers]
                made |= {one["file"] for one in await asyncio.gather(*calls)}
            found: list[str] = []
            cursor: dict[str, object] = {}
            parts = 0
            while True:
                answer = await ask("kb_list", **cursor)
                assert len(str(answer)) < 64 << 10
                found += [row["file"] for row in answer.value["files"]]
                parts += 1
                if "next" not in answer.value:
                    break
                cursor = {"cursor": answer.value["next"]}
            assert parts > 1
            assert len(found) == len(set(found))
            assert made <= set(found)

    talk(work)


def test_a_long_text_is_read_in_steps_over_http(office: Office, server: Server) -> None:
    agent = office.lease(office.handler("A long text"))
    text = "zäh ☃ " * 20_000

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            file = (await ask.do("kb_create", description="Long", content=text))["file"]
            found, offset = "", 0
            while True:
                part = await ask.do("kb_read", file=file, offset=offset)
                found += part["content"]
                if "next" not in part:
                    break
                offset = part["next"]
            assert found == text

    talk(work)


def test_access_is_that_of_the_handler_and_changes_at_once(office: Office, server: Server) -> None:
    top = office.handler("Has a secret plan")
    low = office.handler("Wants it", top)
    boss, agent = office.lease(top), office.lease(low)

    async def work() -> None:
        async with connect(server, boss.token) as mine, connect(server, agent.token) as theirs:
            file = (await mine.do("kb_create", description="The plan", content="ours"))["file"]
            refused = await theirs.no("kb_read", file=file)
            assert (refused["rule"], refused["ask"]) == ("access", top)
            grant = (await mine.do("permissions_grant", holder=low, resource=f"kb:{file}", level="read"))["grants"][0]
            assert (await theirs.do("kb_read", file=file))["content"] == "ours"
            await mine.do("permissions_revoke", grant=grant)
            assert (await theirs.no("kb_read", file=file))["rule"] == "access"

    talk(work)
