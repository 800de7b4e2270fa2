"""``docs/protocol/agent.md`` and the skill: every marked example is executed."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import click
import pytest

from cn.actions.init import init
from cn.agent.plan.ops import Order, check_output, plan_order
from cn.agent.plan.output import Output, format_output, parse_output
from cn.agent.plan.turns import Failing, out_of_turn, plan_cleared, plan_lapsed, plan_rejected, plan_retry, time_limit
from cn.cli.main import cli
from cn.protocol.effects import Log, Plan, Post, Put, Record
from cn.protocol.layout import inbox_path
from cn.protocol.ops import ALIASES, USAGE, Op, format_op
from cn.protocol.own_thread import new_own
from cn.protocol.queue_item import (
    Cadence,
    Input,
    Turn,
    dead_path,
    format_input,
    format_queued,
    format_turn,
    parse_input,
    parse_queued,
    parse_turn,
    places,
    queue_path,
)
from cn.threads.plan.decisions import OwnFacts
from cn.values.errors import Refusal
from cn.values.names import HubPath, InputId, ThreadName, is_machine_local
from cn.values.report import Report
from tests.docs.blocks import PROTOCOL, Block, blocks_of, plain
from tests.docs.grammar import Grammar
from tests.docs.terminal import Terminal, commands
from tests.docs.test_protocol import HEAD, MERGE, PI, RECEIVED, SIGMA, _facts
from tests.support.hubs import ROOT, git

PAGE = PROTOCOL / "agent.md"
SKILL = ROOT / "hub-template/skills/agent-ops/SKILL.md"
ID = "20260205-140007-3fa2c1"
ITEM = Input(
    InputId(ID),
    "pi",
    Cadence.INBOX,
    RECEIVED + timedelta(seconds=7),
    inbox_path(ThreadName("20260205-pi-proposal.md")),
    "proposal",
    HEAD,
)
TURN = Turn(ITEM, "0d062693", 1, RECEIVED + timedelta(minutes=5), "")
_ALL = blocks_of(PAGE)


def _first(name: str) -> Block:
    return next(b for b in _ALL if b.name == name)


def _cell(cell: str) -> str:
    """A cell of code, its escaped bars as bars."""
    return plain(cell).replace("\\|", "|")


def _read(lines: str) -> Output:
    """An output whose block starts with the id; ``ID`` stands for it in the rest."""
    return parse_output(f"---\nid: {ID}\n{lines.replace('ID', ID)}".encode())


def _output(cell: str) -> Output:
    """The output of a cell such as "`ack: ID` `done: ID`"."""
    ops = [op.replace("\\|", "|") for op in re.findall(r"`([^`]+)`", cell)]
    return _read("\n".join([*ops, "---", ""]))


def _plan(cell: str, *, own: HubPath | None = None) -> Plan | tuple[Refusal, ...]:
    output = _output(cell)
    refused = check_output(output, ID)
    if refused:
        return tuple(refused)
    facts = _facts()
    facts = replace(facts, item=facts.item._replace(fields={**facts.item.fields, "kind": "message"}))
    order = Order(SIGMA, ITEM.names, output.ops, output.body, ID, {"docs/start.md": MERGE})
    if own is None:
        return plan_order(facts, order)
    thread = new_own(own, "A thread of ours", facts.now, SIGMA)
    return plan_order(OwnFacts(facts.config, facts.peers, thread, facts.now, "clone"), order)


def _files(block: Block) -> None:
    local = {_cell(row[0]): row[2] == "this machine" for row in block.rows}
    for path, here in local.items():
        assert is_machine_local(HubPath(path)) == here, path
    names = {queue_path(ITEM): "state/queue/<cadence>-<id>.md", dead_path(ITEM): "state/queue/dead/<cadence>-<id>.md"}
    for path, shown in names.items():
        assert shown.replace("<cadence>", "inbox").replace("<id>", ID) == path
        assert shown in local
    for kind in ("input", "output"):
        assert f"logs/{kind}/<trigger>.md" in local
        assert TURN.archive_path(kind) == f"logs/{kind}/{ID}.md"
        assert replace(TURN, attempt=2).archive_path(kind) == f"logs/{kind}/{ID}-2.md"
    assert queue_path(replace(ITEM, attempts=1)) == f"state/queue/inbox-{ID}-2.md"


def _queue_file(block: Block) -> None:
    assert format_queued(ITEM) == block.text
    assert parse_queued(block.text.encode()) == ITEM
    assert queue_path(ITEM) == block.argument


def _turn_file(block: Block) -> None:
    turn = parse_turn(block.text.encode())
    assert turn == replace(TURN, text=turn.text)
    assert format_turn(turn) == block.text
    assert turn.text == format_input(ITEM, 1, parse_input(turn.text).content)


def _input_file(block: Block) -> None:
    failed = replace(ITEM, attempts=1, reason="valid-output: it has no id")
    assert format_input(failed, 2, parse_input(block.text).content) == block.text


def _queue_order(block: Block) -> None:
    names = block.text.split()
    mixed = random.Random(7).sample(names, len(names))
    assert [path for _, path in places([*mixed, "notes.md"])] == names


def _cadences(block: Block) -> None:
    assert [plain(row[0]) for row in block.rows] == [c.value for c in Cadence]


def _out_verbs(block: Block) -> None:
    hub = Path("hub").absolute()
    init(SIGMA, hub, Report())
    asked = replace(ITEM, sender="telegram:1", path=HubPath(""), topic="", head="")  # which may be handed to any peer
    text = format_input(asked, 1, "Please look.")
    (hub / "state/input.md").write_text(text)
    (hub / "state/turn.md").write_text(format_turn(replace(TURN, input=asked, text=text)))
    (hub / "state/peers.md").write_text("```yaml\n- name: pi\n  hub: /srv/pi.git\n```\n")
    (hub / "docs").mkdir()
    (hub / "docs/start.md").write_text("start\n")
    git(hub, "add", "state/turn.md", "state/peers.md", "docs")
    git(hub, "commit", "--quiet", "--message", "an item in flight")
    answer = hub / "state/output.md"
    leaves = set()
    for command, op in block.rows:
        words = shlex.split(plain(command))
        cli.main([words[1], "--hub", str(hub), *words[2:], "-q"], standalone_mode=False)
        output = parse_output(answer.read_bytes())
        assert output.id == ID
        assert [f"{key}: {value}" for key, value in map(format_op, output.ops)] == [_cell(op).replace("ID", ID)]
        assert output.body == ("full response" if "--body" in words else "")
        answer.unlink()
        leaves.add(tuple(words[2:4] if words[2] == "do" else words[2:3]))
    assert leaves == {tuple(name) for name in _leaves(cli.get_command(click.Context(cli), "out"))}


def _leaves(command: click.Command | None) -> list[list[str]]:
    assert command is not None
    if not isinstance(command, click.Group):
        return [[]]
    return [[name, *rest] for name, child in command.commands.items() for rest in _leaves(child)]


def _output_example(block: Block) -> None:
    output = parse_output(block.text.encode())
    assert not output.errors
    assert [format_op(op)[0] for op in output.ops] == ["reply", "surface"]
    assert format_output(output.id, output.ops, output.body) == block.text
    assert Grammar(_first("output-ebnf").text).matches("output", block.text)


def _ops(block: Block) -> None:
    assert {plain(row[0]): _cell(row[1]) for row in block.rows} == USAGE
    assert ALIASES == {"mca": "surface"}


def _output_ebnf(block: Block) -> None:
    grammar = Grammar(block.text)
    texts = ["yes", "a: b | c # d", '"quoted"', "a | bar", "> quote", "two\nlines", "it's", "ü", "a  b"]
    for text in texts:
        for key, shape in USAGE.items():
            value = re.sub(r"\[\|.*", "", shape).replace("ID", ID).replace("PEER", "pi")
            for word in ("REASON", "MESSAGE", "DESCRIPTION", "ARTIFACT"):
                value = value.replace(word, text)
            output = _op_output(key, value, text)
            assert grammar.matches("output", output), output
            read = parse_output(output.encode())
            assert not read.errors, output
            assert len(read.ops) == 1
            assert read.body == text
    assert set(re.findall(r'"([a-z]+)"', block.text)) == set(USAGE)
    assert not grammar.matches("output", "---\ndone: x\n---\n")


def _op_output(key: str, value: str, body: str) -> str:
    from cn.protocol.ops import parse_op

    return format_output(ID, [parse_op(key, value)], body)


def _output_lenient(block: Block) -> None:
    for lines, ops, body in json.loads(block.text):
        output = _read(lines)
        assert not output.errors, lines
        assert [list(format_op(op)) for op in output.ops] == [[k, v.replace("ID", ID)] for k, v in ops], lines
        assert output.body.replace(ID, "ID") == body


def _output_refused(block: Block) -> None:
    for lines, error in json.loads(block.text):
        assert any(error in found for found in _read(lines).errors), lines


def _became(plan: Plan | tuple[Refusal, ...]) -> str:
    if not isinstance(plan, Plan):
        return "refused"
    (event,) = [e.event for e in plan.effects if isinstance(e, Record)]
    said = any(isinstance(e, Post) and e.message.about and e.message.about.status == "commented" for e in plan.effects)
    return ("said, then " if said else "") + (event.fields.get("status") or event.kind)


def _contradictions(block: Block) -> None:
    for ops, becomes in block.rows:
        assert _became(_plan(ops)) == becomes, ops


def _endings(block: Block) -> None:
    tried: set[type[Op]] = set()
    for op, words, executed, thread, told in block.rows:
        plan = _plan(op)
        assert isinstance(plan, Plan), (op, plan)
        tried |= {type(found) for found in _output(op).ops}
        (row,) = [e.row for e in plan.effects if isinstance(e, Log)]
        assert (row.decision, row.executed) == (_cell(words), plain(executed)), op
        posts = [e.message.about.status for e in plan.effects if isinstance(e, Post) and e.message.about]
        assert posts == ([plain(told)] if told else []), op
        stays = any(isinstance(e, Put) and e.path == ITEM.path for e in plan.effects)
        assert stays == (thread == "stays"), op
        assert row.input == ID or stays
    assert len(tried) == len(USAGE) - 1, "all but send, which stands beside"


def _own_endings(block: Block) -> None:
    for op, thread, concern in block.rows:
        for path, state in (("threads/adhoc/20260205-x.md", thread), ("state/mca/20260205-x.md", concern)):
            plan = _plan(op, own=HubPath(path))
            assert isinstance(plan, Plan), (op, plan)
            (put,) = [e for e in plan.effects if isinstance(e, Put) and "Opened:** 2026" in e.text and _is_x(e)]
            assert f"**State:** {plain(state)}\n" in put.text, op
            filed = plain(state) not in ("open", "assigned", "deferred") and path.startswith("state/")
            assert put.path.startswith("state/mca/done/") == filed


def _is_x(put: Put) -> bool:
    return put.path.endswith("/20260205-x.md")


def _rows(block: Block) -> None:
    facts = Failing(_facts().config, TURN.since + timedelta(minutes=15), _facts().item, known_peer=True)
    turn = replace(TURN, text=format_input(ITEM, 1, "Please look."))
    last = replace(turn, attempt=3)
    refusals = [Refusal("<rule>", "<reason>")]
    assert not turn.expired(facts.now, time_limit(facts.config))
    assert turn.expired(facts.now + timedelta(seconds=1), time_limit(facts.config))
    plans = [
        plan_rejected(turn, b"x", refusals, facts),
        plan_lapsed(turn, facts),
        plan_rejected(last, b"x", refusals, facts),
        out_of_turn(b"x", ID, facts.now, "…"),
        plan_cleared(ITEM, facts.now),
        plan_retry(ITEM, InputId(ID), facts.now),
    ]
    for (what, words, executed, *_), plan in zip(block.rows, plans, strict=True):
        row = [e.row for e in plan.effects if isinstance(e, Log)][-1]
        assert (row.decision, row.executed) == (_cell(words).replace("<trigger>", ID), plain(executed)), what
    told = [e.message.about.status for p in plans for e in p.effects if isinstance(e, Post) and e.message.about]
    assert told == ["timed-out", "failed"]
    assert PI in _facts().peers


_CHECKS: dict[str, Callable[[Block], None]] = {
    "files": _files,
    "queue-file": _queue_file,
    "turn-file": _turn_file,
    "input-file": _input_file,
    "queue-order": _queue_order,
    "cadences": _cadences,
    "out-verbs": _out_verbs,
    "output": _output_example,
    "ops": _ops,
    "output-ebnf": _output_ebnf,
    "output-lenient": _output_lenient,
    "output-refused": _output_refused,
    "contradictions": _contradictions,
    "endings": _endings,
    "own-endings": _own_endings,
    "rows": _rows,
}


@pytest.mark.parametrize("block", [b for b in _ALL if b.name != "transcript"], ids=str)
def test_the_example_is_true(block: Block) -> None:
    _CHECKS[block.name](block)


def test_every_check_has_an_example() -> None:
    assert {b.name for b in _ALL} == {*_CHECKS, "transcript"}


@pytest.mark.parametrize("block", [b for b in _ALL if b.name == "transcript"], ids=str)
def test_the_transcript_is_what_a_user_sees(block: Block, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for command, expected in commands(block.text):
        said = terminal.run(command)
        pattern = ".*".join(re.escape(part) for part in expected.split("…"))
        assert re.fullmatch(pattern, said, re.S), f"{command}\nsaid:\n{said}\ndocumented:\n{expected}"


# The skill.

_SKILL = SKILL.read_text("utf-8")
_ANSWERS = re.findall(r"^```markdown\n(.*?)^```$", _SKILL, re.M | re.S)


def test_the_skill_has_name_and_description() -> None:
    head = _SKILL.split("---\n")[1]
    assert re.fullmatch(r"name: agent-ops\ndescription: [^\n:]{20,200}\n", head)
    assert SKILL.parent.name == "agent-ops"


@pytest.mark.parametrize("answer", _ANSWERS)
def test_an_answer_of_the_skill_holds(answer: str) -> None:
    output = parse_output(answer.encode())
    assert (output.errors, output.unknown, output.id) == ((), (), ID)
    assert output.ops
    assert format_output(output.id, output.ops, output.body) == answer
    facts = _facts()
    planned = plan_order(facts, Order(SIGMA, ITEM.names, output.ops, output.body, ID))
    assert isinstance(planned, Plan), planned


def test_the_skill_names_every_op_and_no_other() -> None:
    assert len(_ANSWERS) == 3
    listed = re.findall(r"`([a-z]+): [^`]*`", _SKILL.split("## Ops")[1].split("## Text")[0])
    assert set(listed) == set(USAGE)
    assert set(re.findall(r"`([a-z]+):`", _SKILL)) - {"rejected"} == set(ALIASES)


def test_every_command_of_the_skill_exists() -> None:
    for line in re.findall(r"`(cn [^`]*)`", _SKILL):
        command: click.Command = cli
        words = line.split()[1:]
        while isinstance(command, click.Group) and words and words[0][0] != "-":
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, line
            command = found
        options = {name for p in command.params for name in p.opts} | {"--help"}
        assert {word for word in words if word.startswith("--")} <= options, line


# docs/agents.md

_HOW = {(b.name, b.argument): b.text for b in blocks_of(ROOT / "docs/agents.md")}
_BRAIN = """#!/bin/sh
sed -n 's/^thread: .*-pi-/I read /p'
"""
_MODEL = """#!/bin/sh
id=$(sed -n 's/^id: //p' | tail -1)
printf -- '---\\nid: %s\\ndone: %s\\n---\\n' "$id" "$id"
"""


def _programs(folder: Path) -> None:
    scripts = {name: text for (kind, name), text in _HOW.items() if kind == "script"}
    for name, text in {**scripts, "my-brain": _BRAIN, "my-model": _MODEL}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def test_the_scripts_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "tools"))
    terminal = Terminal(tmp_path)
    _programs(tmp_path / "tools")
    (tmp_path / "tools/cn-sigma").symlink_to(terminal.folder / "cn-sigma")
    transcript = commands(_first("transcript").text)
    for command, _ in transcript[: next(i for i, (c, _) in enumerate(transcript) if " send " in c)]:
        terminal.run(command)
    for command, _ in commands(_HOW["wake", ""]):
        terminal.run(f"(cd cn-sigma; {command})")
    terminal.run("cn --hub cn-pi send sigma one; cn --hub cn-pi send sigma two")
    assert "woke the agent" in terminal.run("cn sync cn-sigma")
    assert "|I read " in terminal.run("cat cn-sigma/state/output.md")
    terminal.run("cn inbox process cn-sigma; cn inbox process cn-sigma")
    assert terminal.run("sigma-io input") == "nothing waits for an answer\n"
    assert terminal.run("(cd cn-sigma && turn.sh && runtime.sh)") == ""
    terminal.run("git -C cn-sigma config --unset cn.wake; cn --hub cn-pi send sigma three; cn sync cn-sigma")
    assert "-pi-three\n" in terminal.run("sigma-io input")
    assert "may not run" in terminal.run("sigma-io status 2>&1 || true")
    terminal.run("(cd cn-sigma && runtime.sh)")
    assert "pi/three: done by sigma" in terminal.run("cn inbox process cn-sigma")
    said = terminal.run("cn --hub cn-sigma log")
    assert said.count("✓ delivered") >= 3


def test_behind_the_door_there_is_only_what_it_says(tmp_path: Path) -> None:
    script = (
        _HOW["door", ""].replace("/var/lib/sigma/hub", str(tmp_path)).replace("/usr/local/bin/cn ", "/usr/bin/env ")
    )
    (tmp_path / "door").write_text(script)
    said = subprocess.run(
        ["/bin/sh", tmp_path / "door"],
        env={"CN_ROLE": "", "GIT_DIR": "/x", "PYTHONPATH": "/x", "HOME": "/x", "PATH": "/x"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert sorted(line.partition("=")[0] for line in said.splitlines()) == ["CN_ROLE", "HOME", "LANG", "PATH"]
    assert "CN_ROLE=agent\n" in said
    door = re.search("`(/usr/local/bin/[a-z-]+)`", (ROOT / "docs/agents.md").read_text("utf-8"))
    assert door
    assert _HOW["sudoers", ""] == f"agent ALL=(sigma) NOPASSWD: {door[1]}\n"
    assert f"sudo -n -u sigma {door[1]}" in _HOW["agent-turn", ""]
