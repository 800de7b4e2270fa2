"""cn's own agent at work, below the real server: a model that acts, and everything else as it is."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cn.agency.events import AuditSubmitted, FileCreated, FileWritten, MailDelivered
from cn.agency.operations import CompleteOutcome, CreateFile, GrantAccess, SendMail, StopHandler, Wanted, WriteFile
from cn.agency.operations import Seen as SeenVersion
from cn.agency.perform import read_content
from tests.support.agency_server import uuid
from tests.support.firm import BUILTIN, Firm, firm, transcript
from tests.support.hubs import ROOT
from tests.support.model_server import KEY, MODEL
from tests.support.plays import Play, Scene, call


def works(scene: Scene) -> Play:
    """An agent that does what it was given, and says so."""
    (created,) = yield call("outcome_create", title="Write the start page", parents=[scene.handler])
    page = created.value["outcome"]
    (made,) = yield call("kb_create", description="The start page", content="# Welcome\n")
    yield call("outcome_complete", outcome=page, rationale=f"kb://{made.value['file']}")
    yield [call("state_write", content="The page is written.\n"), call("audit_submit", text="I wrote the page.")]
    yield call("mail_send", to="boss", text=f"Please verify: kb://{made.value['file']}")
    if scene.mail:
        yield call("mail_done", mail=scene.mail)
    yield call("outcome_block", outcome=scene.handler, reason="it waits for verification")
    yield "Done."


def late(scene: Scene) -> Play:
    """An agent whose version is stale, and that puts its change into what is there."""
    file = scene.title.rsplit(" ", 1)[-1]
    (read,) = yield call("kb_read", file=file)
    yield call("kb_browse", words="Price list")  # meanwhile somebody else writes
    seen = {"version": 1, "hash": read.value["hash"]}
    (refused,) = yield call("kb_write", file=file, content="mine\n", **seen)
    assert refused.refused, refused
    assert "stale-version" in refused.text, refused
    (again,) = yield call("kb_read", file=file)
    seen = {"version": again.value["version"], "hash": again.value["hash"]}
    (written,) = yield call("kb_write", file=file, content="theirs, and mine\n", **seen)
    assert not written.refused, written
    yield call("outcome_block", outcome=scene.handler, reason="done")


def boss(scene: Scene) -> Play:
    """A boss that delegates, verifies, and completes."""
    if "Pages wait" not in scene.told and not scene.mail:
        (created,) = yield call("outcome_create", title="Build the site", parents=[scene.handler])
        yield call("delegate", outcome=created.value["outcome"], message="Begin with the start page.")
        yield call("outcome_block", outcome=scene.handler, reason="it waits for the site")
        return
    (inbox,) = yield call("mail_inbox")
    for letter in inbox.value["mail"]:
        (text,) = yield call("kb_read", file=letter["file"])
        if letter["from"] != scene.handler and "Please verify" in text.text:
            page = text.text.partition("kb://")[2][:36]
            (seen,) = yield call("kb_read", file=page)
            assert "# Welcome" in seen.text, seen
            yield call("outcome_complete", outcome=letter["from"], rationale="It is a good page.")
        yield call("mail_done", mail=[letter["mail"]])
    yield call("outcome_block", outcome=scene.handler, reason="all is done")


def waits(scene: Scene) -> Play:
    """An agent that looks around until it is told something."""
    for _ in range(500):
        yield call("kb_browse", words=f"nothing {_}")


def rests(scene: Scene) -> Play:
    """An agent that deals with its mail, and ends."""
    if scene.mail:
        yield call("mail_done", mail=scene.mail)
    yield call("outcome_block", outcome=scene.handler, reason="there is nothing to do")


def echoes(scene: Scene) -> Play:
    """A model that says our key back: into the records, and in what it says."""
    coded = base64.b64encode(KEY.encode()).decode()
    for text in (KEY, f"debug {coded}"):
        (refused,) = yield call("audit_submit", text=text)
        assert "no-secrets" in refused.text, refused
    yield call("outcome_block", outcome=scene.handler, reason="done")
    yield f"You sent the key {KEY}, in base64 {coded}."


def halves(scene: Scene) -> Play:
    """An agent that has to end before all is done, and the one that goes on where it was."""
    if "The first half is written." in scene.told:
        yield call("outcome_block", outcome=scene.handler, reason="both halves are written")
        return
    for number in range(3):
        yield call("kb_browse", words=f"page {number}")
    yield [call("state_write", content="The first half is written.\n"), call("audit_submit", text="I wrote half.")]
    for number in range(100):
        yield call("kb_browse", words=f"page {number} once more")


SHORT = f'''
[runners.short]
like = "builtin"
argv = ["{{python}}", "-P", "-m", "cn.agents.builtin", "--model", "{MODEL}", "--turns", "3", "--system", "{{system}}",
        "--prompt", "{{prompt}}"]
'''
PLAYS = {
    "Write both halves": halves,
    "Rest": rests,
    "Build the site": works,
    "Run the web": boss,
    "Look around": waits,
    "Echo": echoes,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firm]:
    """One server for the scenes, each of which has handlers of its own."""
    with firm(tmp_path_factory.mktemp("firm"), PLAYS, BUILTIN + SHORT) as made:
        yield made


def test_an_agent_works_an_outcome_and_everything_lasts(running: Firm) -> None:
    handler = running.handler("Build the site", message="Please begin with the start page.")
    running.until(lambda: running.ends(handler))
    assert running.ends(handler)[0].startswith("it ended; ")
    assert "tokens in" in running.ends(handler)[0]
    (page,) = [one for one in running.titled("Write the start page") if one.responsible == handler]
    assert page.status == "completed"
    changes = running.changes()
    made = next(one for one in changes if isinstance(one, FileCreated) and one.owner == handler)
    assert read_content(running.office.agency.store, made.file, made.hash) == b"# Welcome\n"
    assert [one.text for one in changes if isinstance(one, AuditSubmitted) and one.handler == handler]
    mail = [one for one in changes if isinstance(one, MailDelivered) and one.sender == handler]
    assert [one.to for one in mail] == [running.office.head]
    assert running.outcome(handler).blocked == "it waits for verification"
    with running.office.agency.store.reading() as facts:
        row = facts.handler(handler)
        assert row
        state = facts.file(row.state)
    assert state
    assert state.version == 1
    running.do(CompleteOutcome(handler))


def test_a_stale_version_is_refused_and_the_change_is_put_into_what_is_there(running: Firm) -> None:
    file = uuid(running.do(CreateFile("Price list", b"one\n"))["file"])
    running.stage.plays[f"Correct {file}"] = late

    def write_meanwhile() -> None:
        with running.office.agency.store.reading() as facts:
            row = facts.file(file)
        assert row
        running.do(WriteFile(file, b"theirs\n", SeenVersion(row.version, row.hash)))

    running.stage.pause_before = ("kb_browse", write_meanwhile)
    handler = running.handler(f"Correct {file}", grants=(Wanted(f"kb:{file}", "write"),))
    running.until(lambda: running.ends(handler))
    with running.office.agency.store.reading() as facts:
        row = facts.file(file)
    assert row
    assert row.version == 3
    assert read_content(running.office.agency.store, file, row.hash) == b"theirs, and mine\n"
    written = [one for one in running.changes() if isinstance(one, FileWritten) and one.file == file]
    assert [one.version for one in written] == [2, 3]


def test_a_boss_delegates_verifies_and_completes(running: Firm) -> None:
    top = running.handler("Run the web")
    running.until(lambda: any(one.status == "completed" for one in running.below(top)))
    (site,) = running.below(top)
    assert site.rationale == "It is a good page."
    running.until(lambda: not running.processes(), "no agent has anything to do")
    assert all(why.startswith("it ended") for why in running.ends(top))
    assert len(running.ends(site.id)) == 1
    running.do(CompleteOutcome(top))


def test_mail_that_comes_between_turns_is_told(running: Firm) -> None:
    handler = running.handler("Look around")
    running.until(lambda: any(str(body["system"]).count(handler) for body in running.stage.seen))
    running.do(SendMail(handler, text="Stop looking around."))
    running.until(lambda: any("New mail has arrived" in str(b["messages"][-1]) for b in running.stage.seen))
    told = next(str(b["messages"][-1]) for b in running.stage.seen if "New mail has arrived" in str(b["messages"][-1]))
    assert "Stop looking around." in told
    running.do(StopHandler(handler))
    running.until(lambda: not running.processes())


def test_an_agent_that_has_to_end_early_leaves_its_state_and_the_next_one_goes_on(running: Firm) -> None:
    handler = running.handler("Write both halves", "short")
    running.until(lambda: len(running.ends(handler)) == 2)
    assert all(why.startswith("it ended") for why in running.ends(handler))
    assert running.outcome(handler).blocked == "both halves are written"
    mine = [body for body in running.stage.seen if handler in str(body["system"])]
    (told,) = [number for number, one in enumerate(mine) if "You have to end soon" in str(one["messages"][-1])]
    assert told == 3
    last = [len(one["messages"]) for one in mine].index(1, 1) - told
    assert last == 8, "it did not stop by itself, and had so many turns to save what it knew"
    running.do(CompleteOutcome(handler))


def test_an_agent_whose_lease_is_over_asks_nothing_more(running: Firm) -> None:
    handler = running.handler("Look around")
    running.until(lambda: any(str(body["system"]).count(handler) for body in running.stage.seen))
    (agent,) = running.live()
    running.do(StopHandler(handler))
    running.until(lambda: not running.processes())
    lines = transcript(running, agent)
    assert not [line for line in lines if line["type"] == "tool" and "end;" in line["said"]]


def test_a_key_that_the_model_says_back_is_neither_recorded_nor_kept(running: Firm) -> None:
    handler = running.handler("Echo")
    running.until(lambda: running.ends(handler))
    kept = [text for text in running.kept("output").values() if "You sent the key" in text]
    assert kept
    core = base64.b64encode(KEY.encode()).decode()[:32]
    for text in kept:
        assert KEY not in text
        assert core not in text
    said = [change for change in running.changes() if isinstance(change, AuditSubmitted)]
    assert not [change for change in said if core in repr(change) or KEY in repr(change)]


def test_all_agents_of_a_handler_share_the_stable_part(running: Firm) -> None:
    """What the API caches: tools and system are the same bytes in every request."""
    handler = running.handler("Rest")
    for number in range(2):
        running.until(lambda number=number: len(running.ends(handler)) > number)  # type: ignore[misc]
        running.do(SendMail(handler, text="Look again."))
    bodies = [body for body in running.stage.seen if handler in str(body["system"])]
    assert len(bodies) >= 4
    by_handler: dict[str, set[str]] = {}
    for body in bodies:
        by_handler.setdefault(body["system"][0]["text"][:200], set()).add(str(body["system"]) + str(body["tools"]))
    assert len(by_handler) == 1
    assert all(len(found) == 1 for found in by_handler.values())
    marks = [str(body).count("cache_control") for body in bodies]
    assert set(marks) == {2}


def asks(scene: Scene) -> Play:
    """An agent that lacks a tool, asks for it, and uses it in the same life."""
    (without,) = yield call("mcp_call", server="other", tool="tell", arguments={"words": "early"})
    assert without.refused, without
    yield call("mail_send", to="boss", text="I need the server 'other'.")
    for turn in range(200):
        (found,) = yield call("mcp_tools", server="other")
        if not found.refused and found.value.get("tools"):
            break
        yield call("kb_browse", words=f"wait {turn}")
    (told,) = yield call("other__tell", words="granted")
    if told.refused:  # a client that lists tools once has these two
        (told,) = yield call("mcp_call", server="other", tool="tell", arguments={"words": "granted"})
    yield call("state_write", content=f"{told.text}\n")
    yield call("outcome_block", outcome=scene.handler, reason="done")


def test_a_tool_that_is_granted_is_there_without_a_restart(tmp_path: Path) -> None:
    assert "other__tell" in get_a_tool(tmp_path, BUILTIN)


def get_a_tool(folder: Path, machine: str, *, any_client: bool = False) -> set[str]:
    """An agent gets a tool of another server in its life, and never that one's secret; the tools that it was shown."""
    key = folder / "key"
    key.write_text("kOeV8-Zu1qh-very-secret\n")
    other = f"""
[secrets]
other = {{file = "{key}"}}
[servers.other]
argv = ["{sys.executable}", "{ROOT / "tests/support/other_server.py"}"]
env = {{OTHER_SECRET = "{{secret:other}}"}}
"""
    with firm(folder, {"Use a tool": asks}, machine + other, any_client=any_client) as made:
        handler = made.handler("Use a tool")
        made.until(lambda: any("mail_send" in str(body["messages"]) for body in made.stage.seen))
        (agent,) = made.live()
        made.do(GrantAccess(handler, Wanted("mcp:other", "use")))
        made.until(lambda: made.ends(handler))
        assert made.ends(handler)[0].startswith("it ended"), made.story()
        assert len(made.ends(handler)) == 1
        with made.office.agency.store.reading() as facts:
            row = facts.handler(handler)
            assert row
            state = facts.file(row.state)
        assert state
        told = read_content(made.office.agency.store, state.id, state.hash).decode()
        assert "granted my secret is ***" in told
        (output,) = [path for path in made.state.rglob("output") if path.parent.name == agent]
        assert "very-secret" not in output.read_text()
        assert "very-secret" not in str(made.stage.seen)
        return {tool["name"] for body in made.stage.seen for tool in body.get("tools", ())}
