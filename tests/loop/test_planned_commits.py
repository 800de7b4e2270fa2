"""What a command commits was in its dry run: the files of main, the rows of the log, the merges."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from cn.cli.main import SECTIONS, cli
from cn.protocol.own_thread import ADHOC, CONCERNS
from tests.support.desk import answer, work_queue
from tests.support.hubs import git
from tests.support.kill import Trial, mask
from tests.support.scenes import CODES, SCENES, Scene, Stage, all_decisions, own
from tests.support.world import World

_ROW = re.compile(r"^\+\| \d\d:\d\d \| ((?:\\.|[^|\\])*) \| ((?:\\.|[^|\\])*) \| ((?:\\.|[^|\\])*) \|$")


def one_thread(*words: str) -> Scene:
    """A person decides a peer's thread by a command."""

    def scene(world: World) -> Trial:
        stage = Stage(world)
        stage.propose("one")
        stage.sigma.sync()
        return stage.trial(*words)

    return scene


def answered(world: World) -> Trial:
    """A reply to a thread that is done is a message of its own."""
    stage = Stage(world)
    stage.propose("one")
    stage.sigma.sync()
    stage.sigma.cn("done", "pi/one")
    return stage.trial("reply", "pi/one", "One more thing")


def own_thread(make: tuple[str, ...], *words: str, folder: str) -> Scene:
    """A person ends a thread of our own, written into before."""

    def scene(world: World) -> Trial:
        stage = Stage(world)
        stage.sigma.cn(*make)
        path = next((stage.sigma.root / folder).glob("2*.md"))
        path.write_text(path.read_text() + "\nmore\n")
        return stage.trial(*words, path.stem)

    return scene


def at_work(*words: str, output: str = "", before: tuple[str, ...] = ()) -> Scene:
    """The agent works a queue; two threads wait, of which it has one."""

    def scene(world: World) -> Trial:
        stage = Stage(world)
        work_queue(stage.sigma)
        stage.propose("one", "two")
        stage.sigma.sync()
        if output:
            stage.sigma.cn("input")
            answer(stage.sigma, output)
        if before:
            stage.sigma.cn(*before)
        return stage.trial(*words, codes=CODES)

    return scene


def next_one(world: World) -> Trial:
    """A hub begins to feed its agent; a thread waits already."""
    stage = Stage(world)
    stage.propose("one")
    stage.sigma.sync()
    work_queue(stage.sigma)
    return stage.trial("next")


def separate_mailbox(world: World) -> Trial:
    """Where peers read another remote, main is published there with its own line of commits."""
    stage = Stage(world)
    root = stage.sigma.root
    mailbox = stage.inside.folder / "host/mailbox.git"
    git(mailbox.parent, "init", "--bare", "--quiet", "--initial-branch=main", str(mailbox))
    git(root, "remote", "add", "mailbox", str(mailbox))
    stage.sigma.configure("mailbox: mailbox\n")
    return stage.trial("send", "pi", "hello")


ANSWER = "---\nid: ID\nreply: ID|hello\nsurface: Watch it\n---\n"
BAD = "---\nid: ID\nsend: nobody|hello\n---\n"
HERE: dict[str, Scene] = {
    "inbox process, every decision": all_decisions(True, "mailbox"),
    "inbox process, a merge that is refused": SCENES["refused"],
    "inbox process, an answer of the agent": at_work("inbox", "process", output=ANSWER),
    "inbox process, an answer that is refused": at_work("inbox", "process", output=BAD),
    "inbox sync": SCENES["sync"],
    "inbox sync, by pickup": SCENES["sync-pickup"],
    "inbox sync, after two machines worked": SCENES["brought-together"],
    "sync, answers arrive": SCENES["notices"],
    "sync, answered branches are gone": SCENES["cleanup"],
    "peer sync": SCENES["peer-sync"],
    "peer add": SCENES["peer-add"],
    "peer remove": SCENES["peer-remove"],
    "peer key": SCENES["peer-key"],
    "propose": SCENES["propose"],
    "rebase": SCENES["rebase"],
    "outbox flush": SCENES["delivery"],
    "send": SCENES["send"],
    "withdraw": SCENES["withdraw"],
    "send, where main is published elsewhere": separate_mailbox,
    "reply": one_thread("reply", "pi/one", "Thanks."),
    "reply, to a thread that is done": answered,
    "comment": one_thread("comment", "pi/one", "Why?"),
    "done": one_thread("done", "pi/one"),
    "defer": one_thread("defer", "pi/one", "--until", "3d"),
    "delegate": one_thread("delegate", "pi/one", "omega"),
    "delete": one_thread("delete", "pi/one", "--reason", "no"),
    "next": next_one,
    "queue clear": at_work("queue", "clear"),
    "queue retry": at_work("queue", "retry", "pi/two", before=("queue", "clear")),
    "adhoc": SCENES["adhoc"],
    "mca add": SCENES["mca"],
    "mca done": own_thread(("mca", "add", "Watch it"), "mca", "done", folder=CONCERNS),
    "thread close": own_thread(("adhoc", "A rack"), "thread", "close", folder=ADHOC),
    "commit": SCENES["commit"],
    "save": SCENES["save"],
    "push": one_thread("push"),
    **{name: own(name, path=f"reflections/{name}/20") for name in ("daily", "weekly")},
    **{name: own(name, path=f"reflections/{name}/20") for name in ("monthly", "quarterly", "yearly")},
}
"""By the command, and what is special about it."""
OTHERS = {"init", "trust", "cron install", "cron remove", "doctor", "replay", "agent", "inbox triage"} | {
    "review",
    "sign",
    "peer accept",
}
"""What acts and commits nothing, or no more than one that is here: files of this machine, a new hub."""
RECORDS = SECTIONS["Agency"]
"""These commit nothing to main: their records are a repository of their own."""


def planned(trial: Trial) -> tuple[list[str], list[str], list[str]]:
    """The files, rows and merges of a dry run."""
    done = trial.node.cn("--json", *trial.words, "--dry-run", check=None)
    assert done.returncode in trial.codes, (done.stdout, done.stderr)
    notes: list[dict[str, Any]] = json.loads(done.stdout)["notes"]
    steps = [note for note in notes if note["mark"] == "plan"]
    paths = {mask(path) for step in steps for path in step["paths"]}
    rows = [_masked(row) for step in steps for row in step["rows"]]
    merges = [m[1] for step in steps if (m := re.search(r": merge (\S+) \(as a commit", step["text"]))]
    return sorted(paths), sorted(rows), merges


def committed(trial: Trial) -> tuple[list[str], list[str], list[str]]:
    """The same of the commits that the command makes."""
    root = trial.node.root
    known = git(root, "rev-parse", "HEAD"), git(trial.node.home, "rev-parse", "main")
    done = trial.node.cn(*trial.words, check=None)
    assert done.returncode in trial.codes, (done.stdout, done.stderr)
    git(root, "fetch", "--quiet", *(["origin"] if trial.node.has_origin else ["."]))
    lines = git(root, "log", "--first-parent", "--format=%H %s", "main", "--not", *known).splitlines()
    paths: set[str] = set()
    rows: list[str] = []
    merges: list[str] = []
    for commit, _, subject in (line.partition(" ") for line in lines):
        if subject.startswith("Merge pi/"):
            merges.append(subject.removeprefix("Merge "))
        elif not subject.startswith("cn: integrate"):
            diff = ("diff-tree", "-r", "--no-commit-id", "--no-renames", f"{commit}^1", commit)
            paths |= {mask(path) for path in git(root, *diff, "--name-only").splitlines()}
            added = git(root, *diff, "-p", "-U0", "--", "logs/inbox").splitlines()
            rows += [_masked(m.groups()) for line in added if (m := _ROW.fullmatch(line))]
    return sorted(paths), sorted(rows), sorted(merges)


def _masked(row: Any) -> str:
    source, decision, executed = row
    return mask(f"{source} | {decision} | {re.sub(r'merged [0-9a-f]{7}', 'merged SHA', executed)}")


@pytest.mark.sliced(2)
@pytest.mark.parametrize("name", HERE)
def test_what_a_command_commits_was_in_its_dry_run(world: World, name: str) -> None:
    trial = HERE[name](world)
    assert f"{' '.join(trial.words)} ".startswith(f"{_command(name)} ")
    paths, rows, merges = planned(trial)
    done = committed(trial)
    # An item that is queued and given to the agent at once leaves no file.
    names = {mask(path) for path in git(trial.node.root, "ls-tree", "-r", "--name-only", "main").splitlines()}
    assert done == ([path for path in paths if path in done[0] or path in names], rows, sorted(merges))


def test_every_command_that_commits_has_such_a_scene() -> None:
    acting = {name for name, command in _commands(cli, ()) if _acts(command)}
    here = {_command(name) for name in HERE}
    assert here <= acting
    others = {name for name in acting - here if name not in OTHERS and name.split()[0] not in ("out", *RECORDS)}
    assert others == set()


def _command(name: str) -> str:
    return name.partition(",")[0]


def _commands(group: click.Command, above: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from _commands(command, (*above, name))
    yield " ".join(above), group


def _acts(command: click.Command) -> bool:
    return any("--dry-run" in parameter.opts for parameter in command.params)
