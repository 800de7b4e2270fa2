"""The demo's act about agents: the server runs an organisation whose models are plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.model_server import KEY, model_server
from tests.support.plays import Play, Scene, Stage, call

if TYPE_CHECKING:
    from demo.demo import Stage as DemoStage

_CN = "cn --hub cn-sigma"


def at_work(stage: DemoStage) -> None:
    """Play it in sigma's hub."""
    stage.scene("9  Agents at work")
    stage.tell("""The server starts an agent for each handler with something to do. Here cn's own
        agents work, and what their model says is written in this demo. You write one
        message; the office delegates, its underling works, the office verifies.""")
    stage.run("git -C cn-sigma config agency.user sigma")
    stage.run(f"{_CN} agency init 'Run the office'")
    stage.run(f"{_CN} mail send root 'Please have a start page written.'")
    actors = Stage({"Run the office": office, "Write the start page": page})
    with model_server(actors, takes_tools=True) as model:
        env = {"ANTHROPIC_KEY": KEY, "ANTHROPIC_BASE_URL": model.url}
        with stage.background(f"{_CN} agency serve", **env):
            stage.wait("the office says that it is done", lambda: "The page is there" in stage.ask(f"{_CN} mail"))
            stage.wait("nobody has anything to do", lambda: "agents: 0;" in stage.ask(f"{_CN} agency status"))
    stage.check("each did what its play says", actors.errors == [])
    stage.run(f"{_CN} outcome tree --all")
    stage.tell("Who did what, on whose behalf, is in the records.")
    said = stage.run(f"{_CN} agency log --count 100")
    for what in ("outcome created", "handler made", "file created", "agent leased", "outcome completed"):
        stage.check(f"the log tells: {what}", what in said)


def office(scene: Scene) -> Play:
    """Delegates what a person wants, and verifies what an underling made."""
    (inbox,) = yield call("mail_inbox")
    for letter in inbox.value["mail"]:
        (text,) = yield call("kb_read", file=letter["file"])
        if letter["from"].startswith("user:"):
            (made,) = yield call("outcome_create", title="Write the start page", parents=[scene.handler])
            yield call("delegate", outcome=made.value["outcome"], message="Keep it short, and name the file.")
        else:
            file = text.text.partition("kb://")[2][:36]
            (seen,) = yield call("kb_read", file=file)
            yield call(
                "outcome_complete", outcome=letter["from"], rationale=f"It says: {seen.value['content'].strip()}"
            )
            yield call("mail_send", to="boss", text=f"The page is there: kb://{file}")
        yield call("mail_done", mail=[letter["mail"]])
    yield call("outcome_block", outcome=scene.handler, reason="it waits for mail")
    yield "I have looked after the mail."


def page(scene: Scene) -> Play:
    """Does the work, and asks its boss to verify it."""
    (made,) = yield call("kb_create", description="The start page", content="Welcome to the office.\n")
    yield [
        call("state_write", content="The page is written; the boss has to verify it.\n"),
        call("audit_submit", text="I wrote the page."),
        call("mail_send", to="boss", text=f"Please verify kb://{made.value['file']}"),
    ]
    yield call("mail_done", mail=scene.mail)
    yield call("outcome_block", outcome=scene.handler, reason="it waits for verification")
    yield "I have written the page."
