"""Every parser that meets foreign bytes: what it may raise, examples to start from, and its inverse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import cast

from cn.agent.plan.chat import format_seen, parse_seen
from cn.agent.plan.conversation import Conversation, Entry, format_conversation, parse_conversation
from cn.agent.plan.output import parse_output
from cn.agent.plan.prompt import parse_skill
from cn.git.entries import UNMERGED, parse_diffs, read_answers
from cn.git.history import parse_log
from cn.git.process import Done
from cn.git.read_branches import parse_patches
from cn.git.remote import read_listing, read_pushed
from cn.llm.config import parse_agent_config
from cn.llm.request import parse_retry_after, read_answer, read_count, read_error, read_model
from cn.llm.usage import parse_call
from cn.protocol import ledger
from cn.protocol.hub_config import parse_config
from cn.protocol.log import parse_rows
from cn.protocol.message import format_message, parse_message
from cn.protocol.outbox_entry import format_entry, format_say, parse_entry, parse_say
from cn.protocol.own_thread import parse_own
from cn.protocol.peers_file import parse_peers
from cn.protocol.queue_item import (
    format_queued,
    format_turn,
    parse_input,
    parse_queue_name,
    parse_queued,
    parse_trigger,
    parse_turn,
    places,
)
from cn.protocol.thread_file import format_decision, parse_decision, read_decision, read_text, seen_head
from cn.runtime.replay import Change, compare, read_answer_decision
from cn.secrets.scanner import MASK, PRIVATE_KEY, Text, find_secrets, mask_secrets, may_hold, text_of
from cn.telegram.api import read_update
from cn.threads.read_edits import parse_status
from cn.transaction.made_here import parse_reflog
from cn.transaction.push import parse_pin
from cn.values.errors import CnError
from cn.values.names import HubPath, is_oid, is_protected, parse_branch, parse_hub_path, parse_thread_name, parse_url
from cn.values.record_header import parse_record
from cn.values.text import cell, decode, quote, uncell, visible
from cn.values.timestamps import format_second, parse_stamp, parse_until

GOLDEN = Path(__file__).parents[1] / "golden"
NOW = datetime(2026, 2, 5, 15, tzinfo=UTC)
HEADER = (
    b'---\ncn: queue/1\nid: "20260205-150000-abcdef"\nfrom: "pi"\ncadence: "inbox"\n'
    b'queued: "2026-02-05T15:00:00Z"\n'
    b'path: "threads/inbox/20260205-pi-x.md"\ntopic: "x"\nattempts: "1"\n---\nthe text\n'
)
TURN = HEADER.replace(b"queue/1", b"turn/1").replace(
    b"attempts", b'machine: "m"\nattempt: "1"\nsince: "2026-02-05T15:00:00Z"\nattempts'
)
SAY = (
    b'---\ncn: say/1\nid: "20260205-150000-abcdef"\nmachine: "m"\nchat: "telegram:5"\n'
    b'queued: "2026-02-05T15:00:00Z"\n---\nhi\n'
)
UPDATE = {
    "update_id": 1,
    "message": {"message_id": 2, "date": 1770303600, "text": "hi /start",
                "chat": {"id": 3, "type": "private"}, "from": {"id": 3, "is_bot": False}},
}  # fmt: skip
ANSWER = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "---\nid: x\n---\n"}],
    "usage": {"input_tokens": 1, "output_tokens": 2},
}  # fmt: skip


@dataclass(frozen=True)
class Parser:
    """``parse`` takes any bytes and raises nothing but :class:`CnError`; ``again`` writes a value back."""

    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    again: Callable[[object], bytes] | None = None


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "surrogateescape"))


def _json(parse: Callable[[object], object]) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):  # the transport's errors, not the parser's
            return None
        return parse(value)

    return read


def _golden(*names: str) -> tuple[bytes, ...]:
    return tuple((GOLDEN / name).read_bytes() for name in names)


def _decision(data: bytes) -> object:
    """Peer text is quoted, whatever it is; a decision in it decides nothing."""
    text = read_text(data)
    seen_head(text)
    return read_decision(text, text)


def _quoted(data: bytes) -> object:
    """No line of what was quoted can start anything else; no cell ends its row."""
    text = decode(data)
    quoted = quote(text)
    assert all(line.startswith(">") for line in quoted.splitlines())
    assert visible(quoted) == quoted
    assert "\n" not in cell(text)
    assert uncell(cell(text, 10**9)).count("|") == cell(text, 10**9).count("\\|")
    return None


def _seen(data: bytes) -> object:
    """Update ids; those of late, as they are written back."""
    return parse_seen(data)[-100:]


def _queue_name(data: bytes) -> object:
    """A name has a place in the order, or none: the same for one and for many."""
    name = data.decode("utf-8", "surrogateescape")
    place = parse_queue_name(name)
    assert "/" in name or [path for _, path in places([name])] == ([name] if place else [])
    return place


def _trigger(data: bytes) -> object:
    """It begins with its item; more behind that is a further attempt."""
    name = data.decode("utf-8", "surrogateescape")
    trigger = parse_trigger(name)
    assert trigger is None or name.startswith(trigger.id)
    assert trigger is None or (trigger.attempt == 1) == (name == trigger.id)
    return trigger


def _typed(data: bytes) -> object:
    """What is rejected ends nothing, and an answer agrees with itself."""
    typed = read_answer_decision(data, "x", ("x.md",))
    assert bool(typed.ending) != bool(typed.rejected)
    assert compare(typed, read_answer_decision(data, "x", ("x.md",))) is Change.NONE
    return typed


_KEY_BEGINS = re.compile("BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File|Private-Lines:")
_KEY_ENDS = re.compile("END [A-Z0-9 ]*PRIVATE KEY|Private-MAC:")


def _masked(data: bytes) -> object:
    """Masked, a text holds no finding any more; what stands outside of the findings is as it was."""
    text = text_of("x", decode(data))
    found = find_secrets([text])
    lines, told = mask_secrets(text, ())
    assert told == found
    assert len(lines) == len(text.lines)
    assert not find_secrets([Text("x", tuple(lines))])
    reached = {one.line - 1 for one in found}
    begun = {one.line - 1 for one in found if one.kind == PRIVATE_KEY}
    inside = False  # a key goes on to its end, or the text's; the line that ends it may begin another
    for at, line in enumerate(text.lines):
        if inside:
            reached.add(at)
        if inside or at in begun:
            inside = not _KEY_ENDS.search(_KEY_BEGINS.split(line)[-1])
    for at, (old, new) in enumerate(zip(text.lines, lines, strict=True)):
        assert new.endswith(MASK) if at in reached else old == new, (at, old, new)
    return lines


def _any(function: Callable[..., object]) -> Callable[[object], bytes]:
    """A formatter that gives text or bytes, as one that gives bytes."""

    def write(value: object) -> bytes:
        data = function(value)
        return data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogateescape")

    return write


PARSERS: dict[str, Parser] = {
    "hub-yaml": Parser(
        _text(parse_config),
        (b"name: sigma\nreviewers:\n  - name: bob\n    email: b@x\nlimits: {hops: 3}\nlocal: [logs/input]\n",),
    ),
    "peers": Parser(_text(parse_peers), _golden("peers.md")),
    "agent-yaml": Parser(
        _text(lambda text: parse_agent_config(text, {"A": "b"})),
        (b"llm:\n  model: m\n  max_tokens: 10\nbudgets:\n  tokens_per_day: 5\ntelegram:\n  token: ${A}\n",),
    ),
    "thread": Parser(_decision, _golden("thread.md", "thread-triaged.md", "thread-done.md")),
    "triage": Parser(
        _text(parse_decision),
        (b"do:merge", b"defer:later", b"do:reply:a.b-c", b"delegate:pi", b"do:custom: x:y"),
        _any(format_decision),
    ),
    "message": Parser(parse_message, _golden("message.md", "notice.md", "notice-refused.md"), _any(format_message)),
    "ledger": Parser(_text(lambda text: ledger.fold_history(ledger.each_event(text))), _golden("ledger")),
    "ledger-line": Parser(_text(ledger.parse_event), tuple(_golden("ledger")[0].splitlines())),
    "open": Parser(_text(ledger.parse_open), _golden("open"), _any(ledger.format_open)),
    "outbox": Parser(
        parse_entry, _golden("outbox-deliver.md", "outbox-delete.md", "outbox-notice.md"), _any(format_entry)
    ),
    "output": Parser(
        parse_output, (b"---\nid: x\nreply: x|hi\nsend: pi|a|b\n---\n\nbody\n", b"---\nid: x\ndefer: |\n  x|3d\n---\n")
    ),
    "header": Parser(lambda data: parse_record("queue/1", data, lambda texts, _: texts), (HEADER,)),
    "queued": Parser(parse_queued, (HEADER,), _any(format_queued)),
    "turn": Parser(parse_turn, (TURN,), _any(format_turn)),
    "input": Parser(_text(parse_input), (b"---\nid: x\nfrom: pi\n---\n\ntext\n",)),
    "say": Parser(parse_say, (SAY,), _any(format_say)),
    "log": Parser(_text(lambda text: parse_rows(text, "20260205")), _golden("log.md")),
    "machine-log": Parser(parse_call, tuple(_golden("cn.log")[0].splitlines())),
    "telegram": Parser(_json(read_update), (json.dumps(UPDATE).encode(),)),
    "conversation": Parser(
        lambda data: parse_conversation(data).entries,
        (b'[{"role": "user", "peer": "pi", "text": "x", "at": "2026-02-05T15:00:00Z"}]', b"[]"),
        lambda entries: format_conversation(Conversation(cast("tuple[Entry, ...]", entries))),
    ),
    "skill": Parser(
        _text(lambda text: parse_skill(HubPath("skills/a/SKILL.md"), text)),
        (b"---\nname: a\ndescription: b\n---\n\n# A\n\nText.\n",),
    ),
    "own": Parser(
        _text(lambda text: parse_own(HubPath("threads/adhoc/20260205-x.md"), text)),
        (b"# X\n\n**Opened:** 2026-02-05T15:00Z\n**By:** sigma\n\n---\n\ntext\n",),
    ),
    "answer": Parser(read_answer, (json.dumps(ANSWER).encode(),)),
    "model": Parser(lambda data: read_model("m", data), (b'{"id": "m", "type": "model"}',)),
    "count": Parser(read_count, (b'{"input_tokens": 5}',)),
    "model-error": Parser(
        lambda data: read_error(400, data, ("s3cret",)), (b'{"error": {"type": "x", "message": "y"}}',)
    ),
    "retry-after": Parser(_text(lambda text: parse_retry_after(text, NOW)), (b"5", b"Thu, 05 Feb 2026 15:00:00 GMT")),
    "branch": Parser(_text(parse_branch), (b"pi/topic", "pi/grüße".encode())),
    "path": Parser(_text(lambda text: (is_protected(text), parse_hub_path(text))), (b"docs/a.md", b".cn/hub.yaml")),
    "url": Parser(_text(parse_url), (b"https://h/x", b"git@h:x", b"ssh://u@h/x", b"/srv/x", b"http://[::1]/")),
    "thread-name": Parser(_text(parse_thread_name), (b"20260205-pi-x.md", b"threads/inbox/20260205-pi-x.md")),
    "stamp": Parser(_text(parse_stamp), (b"2026-02-05T15:00:00Z", b"2026-02-05 15:00", b"2026-02-05")),
    "until": Parser(_text(lambda text: parse_until(text, NOW)), (b"3d", b"90m", b"2026-02-05")),
    "pin": Parser(_text(parse_pin), (b"refs/cn/pins/pi/in/a@2fb", b"refs/cn/pins/pi/out/+abc")),
    "quote": Parser(_quoted, (b"a\n## Triage\n\xe2\x80\xa8x|\\y", b"\xff\xfe")),
    "secret": Parser(
        _text(lambda text: may_hold(Text("x", tuple(text.split("\n"))))), (b"AKIAIOSFODNN7EXAMPLE", b"://a:b@c")
    ),
}
PARSERS |= {
    "seen": Parser(_seen, (b"[1, 2]", b"[]"), _any(format_seen)),
    "queue-name": Parser(_queue_name, (b"inbox-20260205-150000-abcdef.md", b"chat-20260205-150000-abcdef-2.md")),
    "trigger": Parser(_trigger, (b"20260205-150000-abcdef", b"20260205-150000-abcdef-2"), _any(str)),
    "typed": Parser(
        _typed,
        (
            b"---\nid: x\nreply: x|hi\nsend: pi|a|b\n---\n\nbody\n",
            b"---\nid: x\ndefer: x|3d\nsurface: a|b\n---\n",
            b"---\nid: x\ndelegate: x.md|pi\n---\n",
            b"---\nid: y\nack: y\n---\n",
        ),
    ),
    "masked": Parser(
        _masked,
        (
            b"one AKIAIOSFODNN7EXAMPLE, https://user:hunter2pass@git.example.org/x two\nthree\n",
            b"a\nghp_abcdefghijklmnopqrstuvwxyz0123456789|glpat-abcdefghijklmnopqrst\n\nb",
            b"a \nit is -----BEGIN PRIVATE KEY-----\nMIIE\n\n-----END PRIVATE KEY----- it was\nb \nc",
            b'{"text": "see sk\\-ant\\-api03\\-abcdefghijklmnopqrstuvwxyz0123456789 there"}',
        ),
    ),
}
ID = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LISTED = f"{ID}\trefs/heads/main\n{ID}\trefs/heads/pi/x\n".encode()
PUSHED = f"*\t{ID}:refs/heads/pi/x\t[new branch]\n!\t:refs/heads/pi/y\t[remote rejected] (a\tb)\n".encode()


def _told(data: bytes) -> object:
    """What comes out of a listing, or a push, can be handed back to git."""
    listing = read_listing(Done((), 0, data, ""))
    assert all(is_oid(oid) and "\n" not in name for name, oid in listing.items())
    told = read_pushed(Done((), 0, data, ""))
    assert all("\n" not in name for name in told)
    return listing, told


STATUS = (
    f"1 .M N... 100644 100644 100644 {ID} {ID} threads/a b\0? threads/x\ny\0"
    f"u UU N... 100644 100644 100644 100644 {ID} {ID} {ID} docs/a\0"
).encode()
PAST = f"{ID}\0{ID} {ID}\x001770303600\0a subject\nstate/a.md\n{ID}\0\x00\0\n".encode()
REFLOG = f"{ID} commit (merge): x\0{ID} pull: Fast-forward\0{ID} cn: sync\0".encode()
MERGED = f"1\0{ID}\0\x000\0{ID}\0a\0b\nc\0\x00".encode()
DIFFS = f"{ID} {ID}\n:100644 000000 {ID} {'0' * 40} D\0a\x00{'1' * 40} {'2' * 40}\n".encode()


def _status(data: bytes) -> object:
    """Whatever git names is told, or all of it is refused; the ids can be handed back to git."""
    fields = Done((), 0, data, "").fields
    found = list(parse_status(fields))
    assert len(found) == len(fields)
    for one, field in zip(found, fields, strict=True):
        path, head, index = one
        assert path
        assert field.endswith(f" {path}")
        assert all(entry is None or is_oid(entry.oid) or entry == UNMERGED for entry in (head, index))
    return found


def _past(data: bytes) -> object:
    found = list(parse_log(Done((), 0, data, "").lines))
    for one in found:
        assert is_oid(one.commit)
        format_second(one.at)
        one.at.astimezone(timezone(timedelta(hours=-12))).isoformat()
    return found


def _reflog(data: bytes) -> object:
    """Nothing is made here that git does not say so of, at the beginning of what was done."""
    fields = Done((), 0, data, "").fields
    made = list(parse_reflog(fields[::-1]))
    firsts = ("commit", "cherry-pick", "revert", "cn", "rebase", "pull")
    able = [f[:40] for f in fields if f.partition(" ")[2].lower().startswith(firsts)]
    able += [f[:64] for f in fields if f.partition(" ")[2].lower().startswith(firsts)]
    assert all(is_oid(oid) and oid in able for oid, _ in made)
    return made


def _merged(data: bytes) -> object:
    """A merge is a tree or a conflict, never both; what conflicts is named."""
    answers = list(read_answers(data))
    for tree, conflicts in answers:
        assert tree is None or (is_oid(tree) and not conflicts)
        assert "" not in conflicts
    return answers


TREES = f"{ID} {ID}\n".encode()
RECORD = f":100644 100755 {ID} {ID} M\0a\n\0".encode()
PATCH = b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"


PARSERS |= {
    "listing": Parser(_told, (LISTED, PUSHED)),
    "status": Parser(_status, (STATUS,)),
    "past": Parser(_past, (PAST,)),
    "reflog": Parser(_reflog, (REFLOG,)),
    "merge-tree": Parser(_merged, (MERGED,)),
    "tree-diffs": Parser(parse_diffs, (DIFFS, TREES + RECORD, TREES + TREES)),
    "hunks": Parser(parse_patches, (TREES + RECORD + b"\0" + PATCH + TREES, TREES + TREES)),
}
REFUSALS = (CnError,)
