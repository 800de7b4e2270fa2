"""The protocol as documented is the protocol as built: every marked example is executed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from hypothesis import given
from hypothesis import strategies as st

from cn.agent.plan import conversation, prompt
from cn.agent.plan.prompt import Skill
from cn.git.read_branches import format_message_content
from cn.git.signatures import Signature
from cn.inbox.plan.arrivals import Step, classify
from cn.inbox.plan.decisions import Facts, plan_decision
from cn.llm import config as llm_config
from cn.llm import request, usage
from cn.outbox.plan.receipts import notice
from cn.protocol import hub_config, ledger, log, peers_file, rules
from cn.protocol.effects import Log, Post, Put
from cn.protocol.layout import FINAL, MESSAGE, NOT_FINAL, inbox_path
from cn.protocol.ledger import IN, Event, Item
from cn.protocol.log import Row
from cn.protocol.message import About, Message, format_message, own_topic, parse_message, seal
from cn.protocol.message_text import BEFORE, NOW, read_message_text
from cn.protocol.message_text import FORM as MESSAGE_FORM
from cn.protocol.outbox_entry import entry_name, format_entry, parse_entry
from cn.protocol.own_thread import adhoc_path, format_own, is_named, is_own, new_own, parse_own
from cn.protocol.queue_item import PERIODIC, period
from cn.protocol.rules import MergeFacts
from cn.protocol.states import SENDER, THREAD
from cn.protocol.thread_file import (
    Header,
    Merge,
    Reply,
    Triage,
    TriageRefused,
    Words,
    add_form,
    add_words,
    append_section,
    find_headings,
    format_decision,
    format_thread,
    parse_decision,
    parse_triage,
    read_decision,
    refresh,
    set_triage,
    without_form,
)
from cn.secrets import scanner
from cn.secrets.scanner import Text, find_secrets
from cn.threads.plan.edits import Edit, Kind, Left, judge
from cn.transaction.push import pin_ref
from cn.values.errors import CnError, Refusal
from cn.values.names import (
    Branch,
    HubPath,
    Name,
    NameRefused,
    Oid,
    ThreadName,
    fold,
    is_protected,
    parse_branch,
    parse_name,
    parse_url,
    thread_name,
)
from cn.values.report import Mark
from cn.values.text import quote, unquote
from cn.values.timestamps import parse_stamp
from tests.docs.blocks import PROTOCOL, Block, blocks, plain
from tests.docs.grammar import Grammar
from tests.docs.terminal import Terminal, commands
from tests.support.hubs import ROOT, git, work

HEAD = Oid("3f2a9c1be04d7f6582a1c0d94be7f0386d5512aa")
OTHER = Oid("89abcdef0123456789abcdef0123456789abcdef")
MERGE = Oid("1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d")
SIGMA, PI, OMEGA = Name("sigma"), Name("pi"), Name("omega")
WHO = ("sigma", "sigma@cn.invalid")
RECEIVED = datetime(2026, 2, 5, 14, 0, tzinfo=UTC)
DECIDED = datetime(2026, 2, 5, 15, 0, tzinfo=UTC)
EXECUTED = datetime(2026, 2, 5, 15, 15, tzinfo=UTC)

_ALL = [b for b in blocks() if b.page not in ("agent.md", "agency.md", "agency-mcp.md")]  # others test these
_CHECKS: dict[str, Callable[[Block], None]] = {}


def checks(name: str) -> Callable[[Callable[[Block], None]], Callable[[Block], None]]:
    """The function that executes the blocks of that name."""

    def register(function: Callable[[Block], None]) -> Callable[[Block], None]:
        _CHECKS[name] = function
        return function

    return register


@pytest.mark.parametrize("block", [b for b in _ALL if b.name != "transcript"], ids=str)
def test_the_example_is_true(block: Block) -> None:
    _CHECKS[block.name](block)


def test_every_check_has_an_example() -> None:
    assert {b.name for b in _ALL} == {*_CHECKS, "transcript"}


def test_every_page_is_in_the_index() -> None:
    index = (PROTOCOL / "README.md").read_text("utf-8")
    assert {p.name for p in PROTOCOL.glob("*.md")} - {"README.md"} <= set(re.findall(r"\]\(([a-z-]+\.md)\)", index))


def _first(name: str) -> Block:
    return next(b for b in _ALL if b.name == name)


def _yes(cell: str) -> bool:
    assert cell in ("yes", "no"), cell
    return cell == "yes"


def _takes(parser: Callable[[str], object], text: str) -> bool:
    try:
        parser(text)
    except NameRefused:
        return False
    return True


# hub.md


@checks("layout")
def _layout(block: Block) -> None:
    template = ROOT / "hub-template"
    made_later = {"state/ledger/", "state/mca/", "state/mca/done/", "threads/reflections/"}
    made_later |= {"state/queue/", "state/turn.md", "state/published", "logs/input/", "logs/output/"}
    for line in block.text.splitlines():
        path, protected = line.split()[0], line.endswith(" protected")
        assert is_protected(path) == protected, line
        assert path in made_later or (template / path).exists(), line


@checks("hub-yaml")
def _hub_yaml(block: Block) -> None:
    found = hub_config.parse_config(block.text)
    assert found.name == "sigma"
    assert [(r.name, r.email) for r in found.reviewers] == [("alice", ""), ("bob", "bob@example.org")]
    assert found.explicit_approval
    assert found.limits.branches_per_peer == 50


@checks("hub-keys")
def _hub_keys(block: Block) -> None:
    assert {plain(row[0]) for row in block.rows} == set(hub_config._KEYS)
    defaults = hub_config.HubConfig(SIGMA)
    for key, default, _ in block.rows:
        if re.fullmatch(r"`[a-z0-9.]+`", default) and plain(key) != "mailbox":
            value = getattr(defaults, plain(key))
            assert (str(value).lower() if isinstance(value, bool) else str(value)) == plain(default), key
    assert hub_config.parse_config("name: sigma\nmerge:\n  explicit_approval: true\n").explicit_approval


@checks("secrets")
def _secrets(block: Block) -> None:
    allowed = hub_config.parse_config(block.text).allowed_secrets
    text = Text("x", ("key AKIAIOSFODNN7EXAMPLE",))
    assert tuple(one.fingerprint for one in find_secrets([text])) == allowed


@checks("secret-kinds")
def _secret_kinds(block: Block) -> None:
    classes: dict[str, type] = get_mapping_from_secret_type_to_class()
    found = {kind for kind, detector in classes.items() if detector.__name__ in scanner._DETECTORS}
    assert len(found) == len(scanner._DETECTORS)
    assert {row[0] for row in block.rows} == found | set(scanner._MORE)


@checks("limit-keys")
def _limit_keys(block: Block) -> None:
    defaults = hub_config.Limits()._asdict()
    assert {plain(row[0]): plain(row[1]) for row in block.rows} == {k: str(v) for k, v in defaults.items()}
    assert {plain(row[0]) for row in block.rows} == set(hub_config._LIMITS)


@checks("peers-example")
def _peers_example(block: Block) -> None:
    text = block.text.replace("~~~", "```")
    pi, omega = peers_file.parse_peers(text)
    assert (pi.name, pi.deliver, pi.peered) == ("pi", "mailbox", "2026-02-05")
    assert (omega.name, omega.deliver, omega.hub) == ("omega", "pickup", "git@git.example.org:omega/hub.git")
    less = peers_file.remove_peer(text, PI)
    assert peers_file.parse_peers(less) == (omega,)
    assert "Pi writes the documentation." in less
    assert peers_file.parse_peers(peers_file.add_peer(less, pi)) == (omega, pi)
    assert peers_file.format_peer(pi) in text


@checks("peers-keys")
def _peers_keys(block: Block) -> None:
    assert tuple(plain(row[0]) for row in block.rows) == peers_file.Peer._fields
    peer = peers_file.Peer(PI, parse_url("/srv/pi.git"))
    shown = {plain(row[0]): plain(row[1]) for row in block.rows}
    assert (shown["kind"], shown["deliver"], shown["community"]) == (peer.kind, peer.deliver, "no")
    assert not peer.community


@checks("names")
def _names(block: Block) -> None:
    for name, taken in block.rows:
        assert _takes(parse_name, plain(name)) == _yes(taken), name


@checks("urls")
def _urls(block: Block) -> None:
    for url, taken in block.rows:
        assert _takes(parse_url, plain(url)) == _yes(taken), url


@checks("protected")
def _protected(block: Block) -> None:
    for path, protected in block.rows:
        assert is_protected(plain(path)) == _yes(protected), path


# branches.md


@checks("routes")
def _routes(block: Block) -> None:
    from cn.run.settings import Settings

    for route, theirs, _, ours, _ in block.rows:
        peer = peers_file.Peer(PI, parse_url("/srv/pi.git"), deliver=plain(route))
        settings = Settings(hub_config.HubConfig(SIGMA), {PI: peer}, "origin", False)
        assert plain(theirs) == f"{settings.inbound_prefix(peer)}/topic"
        assert plain(ours) == f"{settings.outbound_prefix(peer)}/topic"
    assert [plain(row[0]) for row in block.rows] == [peers_file.MAILBOX, peers_file.PICKUP]


@checks("branch-names")
def _branch_names(block: Block) -> None:
    for branch, taken in block.rows:
        assert _takes(parse_branch, plain(branch)) == _yes(taken), branch


@checks("own-topics")
def _own_topics(block: Block) -> None:
    oid = Oid("8f67dd2d2f442735690c4ae28abb118778157f04")
    for wish, used, topic in block.rows:
        taken = frozenset({plain(wish)} if _yes(used) else set())
        assert own_topic(plain(wish), taken, oid) == plain(topic)


# thread.md


@checks("thread-names")
def _thread_names(block: Block) -> None:
    for peer, topic, taken, name in block.rows:
        used = frozenset({fold(f"20260205-{plain(peer)}-{plain(topic)}.md")} if _yes(taken) else set())
        assert thread_name("20260205", Name(plain(peer)), plain(topic), HEAD, used) == plain(name)


def _content() -> str:
    lines = without_form(_first("thread-new").text).split("---\n\n", 1)[1].rstrip("\n").split("\n")
    return "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines)


def _header(head: Oid = HEAD) -> Header:
    return Header(PI, "proposal", Branch("pi/proposal"), RECEIVED, head, "unverified")


@checks("thread-new")
def _thread_new(block: Block) -> None:
    assert add_form(format_thread(_header(), _content()), SIGMA) == block.text
    assert read_decision(block.text, block.text) is None


@checks("thread-message")
def _thread_message(block: Block) -> None:
    shown = unquote(block.text.rstrip("\n"))
    read = read_message_text(shown)
    assert read is not None
    assert shown.startswith(f"{MESSAGE_FORM}\n\n{BEFORE}\n\n{read.before}\n\n{NOW}\n\n# ")
    assert read.words.startswith("MIT. ")
    assert read.words.endswith("\n\n> Any will do.")
    in_reply_to = "89abcdef0123456789abcdef0123456789abcdef"
    message = Message(MESSAGE, PI, SIGMA, "Re: Which licence?", RECEIVED, read.words, in_reply_to)
    assert shown.endswith(f"\n\n{format_message_content(message, ['attachments/LICENSE'], 1 << 18)}")


@checks("thread-words")
def _thread_words(block: Block) -> None:
    asked = Words(SIGMA, parse_stamp("2026-02-05T14:30Z"), "comment", "Which licence?")
    at = parse_stamp("2026-02-05T14:40Z")
    answer = format_message_content(Message(MESSAGE, PI, SIGMA, "Re: proposal", at, "MIT."), [], 1 << 18)
    said = Words(PI, at, "pi/re-proposal at 89abcdef01, unverified", answer)
    text = add_words(add_words(_first("thread-new").text, asked), said)
    assert without_form(text).endswith(block.text)
    assert without_form(text) != text


@checks("quoting")
def _quoting(block: Block) -> None:
    for text, quoted in json.loads(block.text):
        assert quote(text) == quoted


@checks("triage-section")
def _triage_section(block: Block) -> None:
    thread = _first("thread-new").text
    triage = read_decision(f"{thread}\n---\n\n{block.text}", thread)
    assert triage is not None
    assert isinstance(triage.decision, Reply)
    assert (triage.actor, triage.at) == ("sigma", DECIDED)
    assert triage.body.startswith("MIT, see the file LICENSE.\n\nAny markdown")


@checks("triage-decisions")
def _triage_decisions(block: Block) -> None:
    grammar = Grammar(_first("triage-ebnf").text)
    kinds = set()
    for line in block.text.splitlines():
        decision = parse_decision(line)
        kinds.add(type(decision))
        assert grammar.matches("decision", line), line
        assert parse_decision(format_decision(decision)) == decision
    assert len(kinds) == 6


@checks("triage-not-decisions")
def _triage_not_decisions(block: Block) -> None:
    grammar = Grammar(_first("triage-ebnf").text)
    for line in block.text.splitlines():
        assert not grammar.matches("decision", line), line
        with pytest.raises(TriageRefused):
            parse_decision(line)


@checks("triage-ebnf")
def _triage_ebnf(block: Block) -> None:
    grammar = Grammar(block.text)
    assert {"decision", "heading", "field"} <= grammar.names
    headings = ["## Triage", "  ## Triage ##", "##\tTriage", "##Triage", "### Triage", "    ## Triage", "> ## Triage"]
    assert [grammar.matches("heading", h) for h in headings] == [bool(find_headings([h])) for h in headings]
    complete = {"decision": "defer:later", "actor": "sigma", "timestamp": "2026-02-05T15:00Z", "head": "3f2a9c1b"}
    for key in ("decision", "actor", "timestamp", "head", "until", "approval", "reason"):
        line = f"  {key} :  {complete.get(key, 'x')}  "
        others = [f"{k}: {v}" for k, v in complete.items() if k != key]
        taken = _is_field(["## Triage", *others, line])
        assert grammar.matches("field", line) == taken, key


def _is_field(lines: list[str]) -> bool:
    """Was the last line read as a field, and not as the body?"""
    try:
        return lines[-1].strip() not in parse_triage(lines, 0, []).body
    except TriageRefused:
        return False


# fmt: off
_WORDS = st.sampled_from([
    "do", "delete", "defer", "delegate", "merge", "reply", "custom", ":", " ", "cn", "sigma", "a.b", "..",
    ".lock", "/", "A",
])
# fmt: on


@given(st.lists(_WORDS, min_size=1, max_size=7).map("".join))
def test_the_grammar_and_the_parser_agree(text: str) -> None:
    grammar = Grammar(_first("triage-ebnf").text)
    try:
        parse_decision(text)
        parsed = True
    except TriageRefused:
        parsed = False
    assert grammar.matches("decision", text.strip()) == parsed


@checks("triage-refused")
def _triage_refused(block: Block) -> None:
    thread = _first("thread-new").text
    section = "## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n"
    imitated = format_thread(_header(), section)
    files = {
        "two sections": (thread, f"{thread}\n{section}\n{section}"),
        "a section before the quotation": (thread, f"{section}\n{thread}"),
        "a section without a timestamp": (thread, f"{thread}\n{section[: section.index('timestamp')]}"),
        "an approval with nothing after it": (thread, f"{thread}\n{section}approval:\n"),
        "the decision twice": (thread, f"{thread}\n{section}decision: do:merge\n"),
        "fields word for word as in the peer's text": (imitated, f"{imitated}\n{section}"),
    }
    assert {row[0] for row in block.rows} == set(files)
    for what, reason in block.rows:
        committed, working = files[what]
        with pytest.raises(TriageRefused, match=re.escape(plain(reason))):
            read_decision(working, committed)


def _decided() -> str:
    return set_triage(_first("thread-new").text, Triage(Merge(), SIGMA, DECIDED))


@checks("thread-void")
def _thread_void(block: Block) -> None:
    reason = f"The branch moved from {HEAD} to {OTHER}; decide again."
    fresh = format_thread(_header(OTHER), _content())
    refreshed = refresh(_decided(), fresh, reason, [_first("thread-new").text])
    assert refreshed.endswith(block.text)
    assert reason in block.text
    assert read_decision(refreshed, refreshed) is None


@checks("thread-executed")
def _thread_executed(block: Block) -> None:
    assert append_section(_decided(), "Executed", ["- 2026-02-05T15:15Z ✓ merged 1a2b3c4"]).endswith(block.text)


# decisions.md


def _facts() -> Facts:
    shown = {
        "thread": "20260205-pi-proposal.md",
        "branch": "pi/proposal",
        "kind": "proposal",
        "signature": "unverified",
    }
    return Facts(
        hub_config.HubConfig(SIGMA, reviewers=(hub_config.Reviewer(Name("alice")),)),
        {name: peers_file.Peer(name, parse_url(f"/srv/{name}.git"), deliver="pickup") for name in (PI, OMEGA)},
        PI,
        Item(IN, "proposal", HEAD, "received", RECEIVED, shown),
        _decided(),
        EXECUTED,
        merge=MergeFacts(HEAD, True, commit=MERGE),
    )


@checks("decisions")
def _decisions(block: Block) -> None:
    facts = _facts()
    kinds = set()
    for sentence, executed, thread, status in block.rows:
        decision = parse_decision(plain(sentence.split(" (")[0]))
        kinds.add(type(decision))
        triage = Triage(decision, SIGMA, DECIDED, "A body.", "" if "defer" not in sentence else "3d")
        plan = plan_decision(facts, triage)
        assert not isinstance(plan, Refusal), (sentence, plan)
        told = [e.message.about.status for e in plan.effects if isinstance(e, Post) and e.message.about]
        assert told == ([plain(status)] if status else []), sentence
        stays = any(isinstance(e, Put) and e.path == inbox_path(ThreadName(facts.thread)) for e in plan.effects)
        assert stays == (thread == "stays"), sentence
        logged = [e.row.executed for e in plan.effects if isinstance(e, Log)]
        # What waits for a remote is logged when it is queued, by the outbox.
        assert logged[:1] == [plain(executed)] or (plain(executed) == "queued" and not logged), sentence
    assert len(kinds) == 6


@checks("rules")
def _rules(block: Block) -> None:
    names = {v for k, v in vars(rules).items() if k.isupper() and isinstance(v, str) and re.fullmatch("[a-z-]+", v)}
    assert {plain(row[0]) for row in block.rows} == names
    assert len(block.rows) == len(names)


@checks("statuses")
def _statuses(block: Block) -> None:
    shown = {plain(status): _yes(final) for status, final, _ in block.rows}
    assert shown == dict.fromkeys(FINAL, True) | dict.fromkeys(NOT_FINAL, False)


# messages.md


def _message() -> Message:
    asked = Branch("pi/which-licence-is-it")
    return Message(
        "message",
        SIGMA,
        PI,
        "Re: Which licence is it?",
        DECIDED,
        "MIT, see the file LICENSE.",
        HEAD,
        About(asked, HEAD, "replied"),
        1,
    )


@checks("message")
def _message_example(block: Block) -> None:
    assert format_message(_message()).decode() == block.text
    assert parse_message(block.text.encode()) == _message()


@checks("message-commit")
def _message_commit(block: Block) -> None:
    assert seal(_message(), WHO).commit.decode() == block.text


@checks("message-ids")
def _message_ids(block: Block) -> None:
    repo = work(Path("repo").absolute())
    content, commit = _first("message").text, _first("message-commit").text
    blob = git(repo, "hash-object", "-w", "--stdin", stdin=content)
    tree = git(repo, "mktree", stdin=f"100644 blob {blob}\tmessage.md\n")
    made = git(repo, "hash-object", "-w", "-t", "commit", "--stdin", stdin=commit)
    assert [plain(row[1]) for row in block.rows] == [blob, tree, made]
    assert seal(_message(), WHO).id == made


def _notice() -> Message:
    about = About(Branch("pi/proposal"), HEAD, "merged", MERGE)
    return notice(SIGMA, PI, "proposal", about, DECIDED).message


@checks("notice")
def _notice_example(block: Block) -> None:
    assert format_message(_notice()).decode() == block.text
    assert parse_message(block.text.encode()) == _notice()


@checks("notice-id")
def _notice_id(block: Block) -> None:
    assert plain(block.text.strip().rstrip(".")) == seal(_notice(), WHO).id


# ledger.md


def _events() -> list[Event]:
    return list(ledger.each_event(_first("ledger-events").text))


@checks("ledger-events")
def _ledger_events(block: Block) -> None:
    assert "".join(ledger.format_event(e) + "\n" for e in _events()) == block.text


@checks("ledger-open")
def _ledger_open(block: Block) -> None:
    items = ledger.fold_history(_events())
    assert ledger.format_open(items) == block.text
    assert ledger.parse_open(block.text) == items


@checks("ledger-kinds")
def _ledger_kinds(block: Block) -> None:
    shown: dict[str, set[str]] = {"in": set(), "out": set()}
    for side, kind, _, names in block.rows:
        shown[plain(side)].add(plain(kind))
        for name in filter(None, names.split(", ")):
            assert re.fullmatch(r"[a-z_]+", name), name
    assert shown == {"in": set(THREAD.events), "out": set(SENDER.events)}


@checks("classify")
def _classify(block: Block) -> None:
    item = Item(IN, "proposal", HEAD, "received", RECEIVED, {"thread": "x.md"})
    seen = Event(RECEIVED, IN, "received", "proposal", HEAD)
    decided = seen._replace(kind="decided")
    gone = seen._replace(kind="gone")
    answers = [
        classify(HEAD, None, []),
        classify(HEAD, item, [seen]),
        classify(OTHER, item, [seen]),
        classify(HEAD, None, [seen, decided]),
        classify(HEAD, None, [seen, decided, gone]),
        classify(OTHER, None, [seen, decided]),
    ]
    words = {
        "a new thread": Step.NEW,
        "nothing": Step.KNOWN,
        "a refreshed thread": Step.MOVED,
        "logged once, no thread": Step.REPEATED,
        "a new thread that names the earlier one": Step.REOPENED,
    }
    assert [words[row[3]] for row in block.rows] == answers


@checks("pins")
def _pins(block: Block) -> None:
    for topic, ref in block.rows:
        assert pin_ref(PI, "in", plain(topic)) == plain(ref)


# logs.md


def _rows() -> list[Row]:
    return log.parse_rows(_first("log").text, "20260205")


@checks("log")
def _log(block: Block) -> None:
    assert len(_rows()) == 6
    assert log.append_rows("", _rows()) == block.text
    assert _rows()[4].decision == "delete:a | b"


@checks("log-words")
def _log_words(block: Block) -> None:
    source = "\n".join(p.read_text("utf-8") for p in (ROOT / "cn").rglob("*.py"))
    for decision, _, executed in block.rows:
        for word in [plain(decision), *re.findall(r"`([^`]+)`", executed)]:
            assert f'"{word}"' in source, word


@checks("machine-log")
def _machine_log(block: Block) -> None:
    merged = _rows()[1]
    row = merged._replace(
        thread="20260205-pi-proposal.md", branch="pi/proposal", head=HEAD, outcome="merged", commit=MERGE
    )
    assert log.format_event(row) == block.text.rstrip("\n")


@checks("machine-log-agent")
def _machine_log_agent(block: Block) -> None:
    row = Row(
        EXECUTED,
        "pi/proposal",
        "do:reply:re-proposal",
        "queued",
        "20260205-pi-proposal.md",
        "pi/proposal",
        HEAD,
        "replied",
        input="20260205-140007-3fa2c1",
        note="Approved with one wish",
    )
    assert log.format_event(row) == block.text.rstrip("\n")


@checks("model-log")
def _model_log(block: Block) -> None:
    used = request.Usage(1200, 350, 6400, 0)
    answer = request.Answer("ok", request.Stop.END_TURN, used, "claude-sonnet-5-5", "msg_1", seconds=4.2)
    parts = (("preamble", 1180), ("identity", 512), ("item", 2210))
    begun = usage.Call(
        EXECUTED,
        "20260205-151400-3f2a9c",
        "pi/proposal",
        "pi",
        "claude-sonnet-5-5",
        request.Usage(3000),
        None,
        0.0,
        usage.ASKED,
        unknown=True,
        main=MERGE,
        parts=parts,
        id="9f86d081884c7d65",
    )
    call = usage.end_call(begun, answer, EXECUTED)
    assert usage.format_call(call) == block.text.rstrip("\n")
    assert usage.parse_call(block.text) == call


@checks("model-failures")
def _model_failures(block: Block) -> None:
    assert [plain(row[0]) for row in block.rows] == [kind.value for kind in request.Kind]
    said = (PROTOCOL / block.page).read_text("utf-8")
    assert all(f"`{stop.value}`" in said for stop in request.Stop)


# outbox.md


@checks("outbox-deliver")
def _outbox_deliver(block: Block) -> None:
    _outbox(block)
    assert block.text.endswith(_first("message").text)


@checks("outbox-propose")
def _outbox_propose(block: Block) -> None:
    _outbox(block)


@checks("outbox-delete")
def _outbox_delete(block: Block) -> None:
    _outbox(block)


def _outbox(block: Block) -> None:
    entry = parse_entry(block.text.encode())
    assert entry_name(entry) == block.argument
    assert format_entry(entry).decode() == block.text


# signatures.md


@checks("signature-words")
def _signature_words(block: Block) -> None:
    def word(good: bool, broken: bool, *, unread: bool = False) -> str:
        known = {"good": good, "broken": broken, "present": True, "fingerprint": "SHA256:…", "unread": unread}
        other = {"commit": HEAD, "signer": "pi", "author": "pi", "email": "pi@example.org"}
        return Signature(**known, **other).word  # type: ignore[arg-type]

    words = [word(True, False), word(False, False), word(False, True), word(False, True, unread=True)]
    assert [plain(row[0]) for row in block.rows] == words


@checks("proven-sender")
def _proven_sender(block: Block) -> None:
    for signature, several, trusted, believed in block.rows:
        refusal = rules.proven_sender(plain(signature), _yes(several), _yes(trusted))
        assert (refusal is None) == _yes(believed), signature
        assert refusal is None or refusal.rule == "signature-policy"


# runtime.md


@checks("agent-yaml")
def _agent_yaml(block: Block) -> None:
    env = {"ANTHROPIC_KEY": "k", "TELEGRAM_TOKEN": "t"}
    found = llm_config.parse_agent_config(block.text, env)
    assert (found.llm.max_tokens, found.telegram.allowed_users) == (4096, (498316684,))
    assert found.budgets.total == llm_config.Budget(tokens_per_day=5000000)
    assert found.budgets.of("omega") == llm_config.Budget(turns_per_hour=30)
    assert found.budgets.of("pi") == llm_config.Budget(tokens_per_day=500000)
    assert not found.warnings + found.missing


@checks("agent-keys")
def _agent_keys(block: Block) -> None:
    keys = [f"{section}.{key}" for section, keys in llm_config._KEYS.items() for key in keys]
    assert [plain(row[0]) for row in block.rows] == keys
    found = llm_config.parse_agent_config("", {})
    defaults = {"logging.level": found.log_level, "budgets.per_peer": "none"}
    for section in ("telegram", "llm", "context", "daemon"):
        part = getattr(found, section)
        defaults |= {f"{section}.{f.name}": getattr(part, f.name) for f in fields(part)}
    for key, default, _ in block.rows:
        if re.fullmatch(r"`[a-z0-9.:/]+`", default) and not key.startswith("`budgets"):
            value = defaults[plain(key)]
            assert (str(value).lower() if isinstance(value, bool) else str(value)) == plain(default), key
    assert found.budgets == llm_config.Budgets()


@checks("request-layout")
def _request_layout(block: Block) -> None:
    at = datetime(2026, 2, 19, 14, 12, 9, tzinfo=UTC)
    reflections = [HubPath(f"threads/reflections/{cadence}/x.md") for cadence in ("daily", "weekly")]
    pages = dict.fromkeys([prompt.SOUL, prompt.USER_PAGE, prompt.HUB_PAGE, *reflections], "x")
    skill = Skill(HubPath("skills/x/SKILL.md"), "x", "news", "x")
    parts = prompt.pack(
        prompt.Material(
            SIGMA, (), (), pages, skill, [skill],
            conversation.Conversation((conversation.new_entry(at, "pi", "user", "x"),)),
            "---\nid: x\nfrom: pi\n---\n\nnews\n",
        ),
        llm_config.AgentConfig(),
    ).parts  # fmt: skip
    assert [(row[0], row[1]) for row in block.rows] == [(p.name.split(" ")[0], p.place) for p in parts]
    limits = {"32 KiB": prompt.PAGE_BYTES, "24 KiB": prompt.SKILL_BYTES, "8 KiB": conversation.SAID_BYTES}
    for *_, limit in block.rows:
        size = re.match(r"\d+ KiB", limit)
        assert not size or limits[size[0]] == int(size[0].split()[0]) * 1024
    assert prompt.MOST_PEERS == 200


@checks("conversation")
def _conversation(block: Block) -> None:
    found = conversation.parse_conversation(block.text.encode())
    assert (len(found.entries), found.problems) == (2, ())
    assert conversation.format_conversation(found).decode() == block.text
    assert (conversation.TEXT_BYTES, conversation.MOST_BYTES) == (16 * 1024, 512 * 1024)
    assert (conversation.CARRIED, conversation.CARRIED_DAYS, conversation.MOST_ENTRIES) == (20, 7, 500)


# json.md


@checks("context-shape")
def _context_shape(block: Block) -> None:
    """That it is what is printed, tests/agent/test_context_command.py shows."""
    assert json.loads(block.text)["request"]["messages"]


@checks("replay-shape")
def _replay_shape(block: Block) -> None:
    """That it is what is printed, tests/runtime/test_replay.py shows."""
    assert json.loads(block.text)[0]["changed"] == "decision"


@checks("why-shape")
def _why_shape(block: Block) -> None:
    """That it is what is printed, tests/views/test_why.py shows."""
    assert json.loads(block.text)["attempts"][0]["outcome"] == "executed"


# transaction.md


@checks("refs")
def _refs(block: Block) -> None:
    sources = "\n".join(p.read_text("utf-8") for p in (ROOT / "cn").rglob("*.py"))
    for ref, _ in block.rows:
        assert plain(ref) in sources, ref


# Transcripts: commands as a user types them, with what they print.


@pytest.mark.parametrize("block", [b for b in _ALL if b.name == "transcript"], ids=str)
def test_the_transcript_is_what_a_user_sees(block: Block, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for command, expected in commands(block.text):
        said = terminal.run(command)
        pattern = ".*".join(re.escape(part) for part in expected.split("…"))
        assert re.fullmatch(pattern, said), f"{command}\nsaid:\n{said}\ndocumented:\n{expected}"


def test_a_damaged_outbox_entry_is_refused() -> None:
    text = _first("outbox-deliver").text.replace("MIT", "GPL")
    with pytest.raises(CnError, match="bytes do not give its id"):
        parse_entry(text.encode())


# threads.md


@checks("own-thread")
def _own_thread(block: Block) -> None:
    path = HubPath("threads/adhoc/20260205-buy-a-rack.md")
    own = new_own(path, "Buy a rack", RECEIVED, SIGMA, "The old one is full.")
    assert format_own(own) == block.text
    assert parse_own(path, block.text) == own
    assert adhoc_path("Buy a rack", RECEIVED) == path


@checks("own-fields")
def _own_fields(block: Block) -> None:
    text = "".join(f"**{plain(field)}:** x\n" for field, _ in block.rows)
    own = parse_own(HubPath("threads/adhoc/a.md"), text)
    assert [key for key, _ in own.fields] == [plain(field) for field, _ in block.rows]
    modules = ("protocol/own_thread", "threads/plan/decisions", "agent/plan/turns", "inbox/plan/decisions")
    words = "".join((ROOT / f"cn/{name}.py").read_text() for name in modules)
    for field, _ in block.rows:
        assert f'"{plain(field)}"' in words or f"{plain(field)}=" in words, field


@checks("own-paths")
def _own_paths(block: Block) -> None:
    for path, source, kind in block.rows:
        own = parse_own(HubPath(plain(path)), "")
        assert is_own(own.path)
        assert (own.source, own.kind) == (plain(source), plain(kind))
        assert all(is_named(own.path, name) for name in (plain(path), plain(source), own.title))


@checks("periods")
def _periods(block: Block) -> None:
    for time, *names in block.rows:
        found = [period(cadence, parse_stamp(plain(time))) for cadence in PERIODIC]
        assert found == [plain(name) for name in names]


@checks("saved")
def _saved(block: Block) -> None:
    pending = {"threads/inbox/20260205-pi-proposal.md"}
    words = {Mark.REFUSED: "reported", Mark.INFO: "named"}
    for path, what in block.rows:
        outcome = judge(Edit(plain(path), Kind.FILE), pending)
        found = words[outcome.mark] if isinstance(outcome, Left) else "committed" if outcome else "left alone"
        assert what.partition(",")[0] == found, path
        assert ("git" in what) == (isinstance(outcome, Left) and "git commit" in outcome.why), path
