"""No secret gets into a commit or a push by cn's doing, on any of the ways; and nothing is lost by it."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cn.protocol.layout import MESSAGE
from cn.protocol.message import Message, seal
from cn.protocol.outbox_entry import Deliver, format_entry, outbox_path
from cn.protocol.own_thread import parse_own
from cn.protocol.thread_file import holds_section
from cn.secrets.scanner import MASK
from cn.values.names import Branch, HubPath, Name
from cn.values.timestamps import parse_stamp
from tests.support.desk import answer, archived, asked, clean, current, shown, work_queue
from tests.support.hubs import branches, git, push, read, write_commit
from tests.support.studio import CHAT, Studio, write
from tests.support.world import Node, World, content
from tests.transaction.test_origin_pusher import plant

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----"


def holds(node: Node, secret: str = TOKEN) -> list[str]:
    """Which repositories and logs hold it: any object at all, reachable or not."""
    found = [str(folder) for folder in {node.root, node.home} if secret.encode() in _objects(folder)]
    log = node.root / "logs/cn.log"
    return found + ([str(log)] if log.exists() and secret in log.read_text() else [])


def _objects(folder: Path) -> bytes:
    words = ["git", "-C", str(folder), "cat-file", "--batch", "--batch-all-objects"]
    return subprocess.run(words, check=True, capture_output=True, timeout=60).stdout


def withheld(node: Node, path: str) -> bytes:
    """What of a masked file is kept on this machine, for its owner only."""
    kept = node.root / ".git/cn/withheld" / path
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    return kept.read_bytes()


@pytest.fixture
def agent(world: World, sigma: Node, pi: Node) -> Node:
    """sigma works a queue; a thread of pi's is in flight."""
    work_queue(sigma)
    world.propose(pi, sigma, "one")
    sigma.sync()
    return sigma


OUTPUTS: dict[str, str | bytes] = {
    "refused for it": f"---\nid: ID\nreply: ID|the token is {TOKEN}\n---\n\n{KEY}\n",
    "refused for more": f"---\nid: ID\nreply: ID|x\ndelegate: ID|{TOKEN}\n---\n",
    "unreadable": f"---\nid: ID\nreply: {TOKEN} [\n: ---\n",
    "of another id": f"---\nid: {TOKEN}\nreply: {TOKEN}|x\n---\n> {TOKEN}\n",
    "of another time": f"---\nid: 20200101-000000-abcdef\nack: 20200101-000000-abcdef|{TOKEN}\n---\n",
    "good but for what it is silent of": f"I use {TOKEN} now.\n\n---\nid: ID\n{TOKEN}: x\nack: ID\n---\n",
    "UTF-16": f"---\nid: ID\nreply: ID|{TOKEN}\n---\n".encode("utf-16"),
}


def test_the_archive_of_an_answer_with_a_secret_is_masked(agent: Node) -> None:
    agent.configure("max_attempts: 20\n")
    agent.sync()
    known: set[str] = set()
    for what, text in OUTPUTS.items():
        first = current(agent)
        data = answer(agent, text)
        done = agent.cn("inbox", "process", check=None)
        assert holds(agent) == [], what
        assert holds(agent, "b3BlbnNzaC1rZXk") == [], what
        assert TOKEN not in done.stdout + done.stderr + shown(agent), what
        found = archived(agent, "output")
        (name,) = set(found) - known
        known.add(name)
        path, kept = f"logs/output/{name}.md", found[name]
        assert withheld(agent, path) == data, what
        assert f".git/cn/withheld/{path}".encode() in kept, what
        assert MASK.encode() in kept, what
        assert f"{path}: what looks like a secret is masked" in done.stdout, what
        if what == "refused for it":
            assert "no-secrets" in done.stderr
            whole = f"---\nid: {first}\nreply: {MASK}\n---\n\n{MASK}\n{MASK}\n{MASK}\n"
            assert kept.startswith(whole.encode())
            assert "no-secrets" in shown(agent)
        again = agent.cn("inbox", "process", check=None)
        assert (again.stdout, again.stderr) == ("", ""), what
        clean(agent)


def test_what_hub_yaml_allows_is_archived_as_it_was(agent: Node) -> None:
    data = answer(agent, f"---\nid: ID\nreply: ID|fine\n---\n\nThe example {TOKEN} is in the manual.\n")
    mark = agent.process(check=1).stderr.partition('allow: ["')[2][:16]
    agent.configure(f'secrets:\n  allow: ["{mark}"]\n')
    answer(agent, data)
    agent.process()
    (again,) = [text for name, text in archived(agent, "output").items() if name.endswith("-2")]
    assert again == data
    assert len(list((agent.root / ".git/cn/withheld/logs/output").iterdir())) == 1


def test_a_hub_that_keeps_its_answers_here_keeps_them_whole(agent: Node) -> None:
    agent.configure("local: [logs/output]\n")
    agent.sync()
    data = answer(agent, OUTPUTS["refused for it"])
    agent.process(check=1)
    ((kept),) = [p.read_bytes() for p in (agent.root / "logs/output").glob("*.md")]
    assert kept == data
    assert holds(agent) == []


@pytest.mark.sliced(2)
@pytest.mark.parametrize("decision", ["delete", "defer"])
def test_a_reason_with_a_secret_is_refused(world: World, sigma: Node, pi: Node, decision: str) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    done = sigma.cn(decision, "pi/proposal", "--reason", f"use {TOKEN}", check=1)
    assert "no-secrets" in done.stderr
    assert holds(sigma) == []
    assert TOKEN not in done.stdout + done.stderr


def test_a_decision_with_a_secret_that_becomes_void_is_quoted_without(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "one")
    sigma.sync()
    sigma.write_triage(sigma.only_thread(), f"delete:no {TOKEN}")
    path = f"threads/inbox/{sigma.only_thread()}"
    before = (sigma.root / path).read_bytes()
    shown = sigma.cn("status", "-v").stdout + sigma.cn("status", "--json").stdout
    assert TOKEN not in shown + sigma.cn("inbox", "list", "--json").stdout
    world.propose(pi, sigma, "one", {"docs/x.md": "more\n"}, force=True)
    sigma.sync()
    text = (content(sigma, path) or b"").decode()
    assert "## Void triage" in text
    assert f"> decision: {MASK}" in text
    assert withheld(sigma, path) == before
    assert holds(sigma) == []
    clean(sigma)


def test_a_peers_secret_in_a_subject_does_not_prevent_an_answer(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("peer", "list")
    person = world.person(pi, sigma)
    text = f'---\ncn: message/1\nkind: message\nfrom: pi\nto: sigma\nsubject: "{TOKEN}"\n'
    text += "created: 2026-02-05T12:00Z\n---\nhello\n"
    for topic in ("ask", "more", TOKEN):
        head = write_commit(person, {"message.md": text + topic.replace(TOKEN, "z")}, "x")
        push(person, sigma.url, f"{head}:refs/heads/pi/{topic}")
    sigma.sync()
    sigma.cn("reply", "pi/ask", "fine by me")
    subject = read(pi.home, "sigma/re-ask:message.md").decode()
    assert f'subject: "Re: {MASK}"\n' in subject or 'subject: "fine by me"\n' in subject
    sigma.decide("pi/more", "do:reply:answer", "--body", "fine")
    assert f'subject: "Re: {MASK}"\n' in read(pi.home, "sigma/answer:message.md").decode()
    sigma.cn("reply", "pi/more", "and one thing more")
    assert f'subject: "Re: {MASK}"\n' in read(pi.home, "sigma/re-more:message.md").decode()
    sigma.cn("reply", f"pi/{TOKEN}", "this name is odd")
    assert any(name.startswith(f"sigma/re-{TOKEN}") for name in branches(pi.home))


def test_a_secret_in_a_chat_is_taken_out_before_it_is_queued(studio: Studio) -> None:
    studio.model.answer = write("reply: ID|I got it")
    studio.receive(f"my token is {TOKEN}, use it\n{KEY}\nthanks")
    studio.turn()
    assert holds(studio.node) == []
    assert holds(studio.node, "b3BlbnNzaC1rZXk") == []
    (request,) = studio.requests
    assert TOKEN not in str(request)
    assert MASK in str(request)
    assert "cn took out what looks like a secret: GitHub Token, Private Key" in str(request)
    assert "thanks" in str(request)
    studio.sound()


def test_a_conversation_in_which_something_is_masked_can_still_be_read(studio: Studio) -> None:
    at = datetime.now(UTC)
    days = {f"{at - timedelta(days=n):%Y-%m-%dT%H:%M:%SZ}": n for n in (9, 0)}
    texts = {9: f'old\n{TOKEN}\n"Grüße"', 0: f"new\n{KEY}\nmore"}
    old = [{"at": day, "chat": CHAT, "role": "user", "text": texts[n], "input": f"x{n}"} for day, n in days.items()]
    studio.node.write({"state/conversation.json": json.dumps(old)})
    studio.model.answer = write("reply: ID|fine")
    said = "it runs at http://localhost:8080\n@alice please look"
    studio.receive(said)
    studio.turn()
    studio.receive("and now?")
    studio.turn()

    def told(path: str) -> list[str]:
        return [entry["text"] for entry in json.loads(content(studio.node, path) or b"")]

    day = f"state/conversation/{at - timedelta(days=9):%Y/%Y%m%d}.json"
    assert told(day) == [f'old\n{MASK}\n"Grüße"']
    kept = [f"new\n{MASK}\n{MASK}\n{MASK}\nmore", said, "fine", "and now?", "fine"]
    assert told("state/conversation.json") == kept
    assert TOKEN.encode() in withheld(studio.node, day)
    assert b"b3BlbnNzaC1rZXk" in withheld(studio.node, "state/conversation.json")
    studio.sound()


def test_a_concern_about_a_branch_named_like_a_secret_keeps_its_head(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, TOKEN)
    sigma.sync()
    sigma.decide(f"pi/{TOKEN}", "do:custom:look into it")
    (path,) = (sigma.root / "state/mca").glob("*.md")
    own = parse_own(HubPath(f"state/mca/{path.name}"), path.read_text())
    assert own.title == "look into it"
    assert [key for key, _ in own.fields] == ["State", "Opened", "By", "Source", "Thread"]
    assert own.get("Source") == own.get("Thread") == MASK
    assert "**" not in own.body


def test_an_edited_thread_of_our_own_with_a_secret_is_refused(sigma: Node) -> None:
    work_queue(sigma)
    sigma.cn("adhoc", "Keys", "--body", "where they are")
    (path,) = (sigma.root / "threads/adhoc").glob("*.md")
    path.write_text(path.read_text() + f"\n> {TOKEN}\n")
    done = sigma.cn("thread", "close", path.stem, check=1)
    assert "no-secrets" in done.stderr
    assert sigma.cn("commit", check=1).stderr.count("no-secrets") == 1
    assert holds(sigma) == []
    assert TOKEN in path.read_text()


def test_a_secret_of_a_peer_arrives_as_it_is(world: World, agent: Node, pi: Node) -> None:
    world.propose(pi, agent, "two", {"docs/x.md": f"{TOKEN}\n"})
    agent.sync()
    answer(agent, "---\nid: ID\nack: ID\n---\n")
    agent.process()
    assert asked(agent).endswith("-pi-two")
    assert TOKEN in shown(agent)
    assert not (Path(agent.root) / ".git/cn/withheld").exists()


def refused(node: Node, *words: str, secret: str = TOKEN) -> str:
    """What the command says, which neither tells the secret nor brings it into any repository."""
    done = node.cn(*words, check=None)
    assert done.returncode != 0
    assert "no-secrets" in done.stderr
    assert secret not in done.stdout + done.stderr
    assert holds(node, secret) == []
    return done.stderr


def allow(node: Node, told: str) -> None:
    marks = told.partition("allow: [")[2].partition("]")[0]
    node.configure(f"secrets:\n  allow: [{marks}]\n")


@pytest.mark.parametrize("command", ["commit", "save"])
def test_a_commit_message_with_a_secret_is_refused(sigma: Node, command: str) -> None:
    (sigma.root / "threads/adhoc/note.md").write_text("x\n")
    words = (command, "--message", f"Keys\n\nused {TOKEN}")
    told = refused(sigma, *words)
    assert "the commit message, line 3: looks like a secret (GitHub Token)" in told
    allow(sigma, told)
    sigma.cn(*words)
    assert TOKEN in subprocess.run(
        ["git", "-C", str(sigma.root), "log", "-1", "--format=%B"], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip


@pytest.mark.parametrize("command", ["commit", "save"])
def test_a_file_whose_name_holds_a_secret_is_left_out(sigma: Node, command: str) -> None:
    (sigma.root / "threads/adhoc/good.md").write_text("x\n")
    (sigma.root / f"threads/adhoc/20261121-{TOKEN}.md").write_text("x\n")
    done = sigma.cn(command, check=1)
    assert f"threads/adhoc/{MASK} is refused: no-secrets: the file's name: looks like a secret" in done.stderr
    assert TOKEN not in done.stdout + done.stderr
    assert holds(sigma) == []
    assert content(sigma, "threads/adhoc/good.md") == b"x\n"
    allow(sigma, done.stderr)
    sigma.cn(command)
    assert content(sigma, f"threads/adhoc/20261121-{TOKEN}.md") == b"x\n"


@pytest.mark.parametrize(
    "words",
    [
        (f"https://{TOKEN}@example.org/x.git",),
        (f"https://oauth2:{TOKEN}@example.org/x.git",),
        ("https://example.org/x.git?private_token=hunter2", "hunter2"),
        ("https://example.org/x.git", TOKEN, "--kind", TOKEN),
        ("https://example.org/x.git", TOKEN, "--kind", "x" * 40 + f" {TOKEN}"),
    ],
)
def test_a_peer_whose_entry_holds_a_secret_is_refused(sigma: Node, words: tuple[str, ...]) -> None:
    url, secret, *more = (*words, TOKEN)[: max(2, len(words))]
    told = refused(sigma, "peer", "add", "omega", url, *more, secret=secret)
    assert "a git credential helper, or an ssh URL" in told
    assert "omega" not in sigma.cn("peer", "list").stdout


def test_a_peer_named_like_a_secret_is_refused(sigma: Node) -> None:
    refused(sigma, "peer", "add", TOKEN, "https://example.org/x.git")


def test_what_hub_yaml_allows_may_be_a_peer(sigma: Node) -> None:
    words = ("peer", "add", "omega", "https://example.org/x.git", "--kind", TOKEN)
    allow(sigma, refused(sigma, *words))
    sigma.cn(*words)
    assert TOKEN.encode() in (content(sigma, "state/peers.md") or b"")
    sigma.cn("peer", "add", "psi", "https://example.org/y.git")
    sigma.configure("lock_wait: 30\n")
    sigma.cn("peer", "remove", "psi")  # what main holds already stands in nobody's way


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    "words",
    [
        ("adhoc", f"Keys {TOKEN}"),
        ("adhoc", "Keys", "--body", f"one\n{TOKEN}"),
        ("mca", "add", f"the key {TOKEN}"),
        ("send", "pi", f"the key {TOKEN}"),
        ("send", "pi", "the key", "--body", TOKEN),
        ("send", "pi", "glpat-abcdefghijklmnopqrst"),  # its topic is that too
    ],
)
def test_no_command_commits_a_secret(sigma: Node, pi: Node, words: tuple[str, ...]) -> None:
    pi.cn("peer", "list")
    refused(sigma, *words)


def test_a_hub_named_like_a_secret_is_not_made(world: World, sigma: Node) -> None:
    done = sigma.cn("init", TOKEN, "--path", str(world.folder / "new"), check=None)
    assert "no-secrets" in done.stderr
    assert TOKEN not in done.stderr
    assert not (world.folder / "new").exists()


@pytest.mark.sliced(3)
@pytest.mark.parametrize("place", ["body", "subject", "commit"])
def test_a_planted_message_with_a_secret_is_held(world: World, sigma: Node, pi: Node, place: str) -> None:
    """Well-formed, in our name, to a peer of ours; but cn would never have queued it."""
    when = parse_stamp("2026-11-21T10:00Z")
    subject, body = f"Keys {TOKEN}" if place == "subject" else "Keys", f"one\n{TOKEN}" * (place == "body")
    message = Message(MESSAGE, Name("sigma"), Name("pi"), subject, when, body)
    sealed = seal(message, (f"sigma {TOKEN}" if place == "commit" else "sigma", "sigma@example.org"))
    entry = Deliver(
        sealed.id, Name("pi"), Branch("sigma/keys"), MESSAGE, when, "Keys", source=f"pi/{TOKEN}",
        commit=sealed.commit, content=sealed.content,
    )  # fmt: skip
    data = format_entry(entry).decode()
    path = outbox_path(entry)
    plant(sigma, world, {path: data})
    lines = [number for number, line in enumerate(data.split("\n"), 1) if TOKEN in line][1:]
    done = sigma.cn("sync", check=1)
    assert f"sigma/keys for pi is not delivered: no-secrets: {path}, line {lines[0]}: looks" in done.stderr
    assert f"{path}, line {lines[-1]}: looks like a secret (GitHub Token)" in done.stderr
    assert TOKEN not in done.stderr + sigma.cn("status").stdout
    assert "no-secrets" in sigma.cn("status").stdout
    assert sigma.cn("sync").stderr == ""
    assert "sigma/keys" not in branches(pi.home)
    allow(sigma, done.stderr)
    sigma.sync()
    assert "sigma/keys" in branches(pi.home)


def test_what_was_allowed_is_delivered(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("peer", "list")
    words = ("send", "pi", f'the "key" is {TOKEN}', "--body", f"as said:\n{TOKEN}, good")
    allow(sigma, refused(sigma, *words))
    assert "✓ delivered" in sigma.cn(*words).stdout


LONG = "sk-ant-api03-" + "1a2B3c4D5e" * 9
WRONG = {
    "approval": f"decision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\napproval: {LONG}\n",
    "actor": f"decision: do:merge\nactor: x {LONG}\ntimestamp: 2026-02-05T15:00Z\n",
    "decision": f"decision: merge it with the very long {TOKEN}\nactor: sigma\ntimestamp: 2026-02-05\n",
    "far": f"decision: {'m' * 60}{TOKEN}\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n",
    "a key": f"decision: do:merge\n{'x' * 20}{TOKEN}: x\nactor: sigma\n",
}


@pytest.mark.sliced(6)
@pytest.mark.parametrize("what", WRONG)
def test_no_piece_of_a_secret_is_told(world: World, sigma: Node, pi: Node, what: str) -> None:
    """What is cut to be quoted has no form any more by which a detector would know it."""
    world.propose(pi, sigma)
    sigma.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    path.write_text(f"{path.read_text()}\n---\n\n## Triage\n\n{WRONG[what]}")
    secret = LONG if LONG in WRONG[what] else TOKEN
    shown = sigma.cn("status", "-v").stdout + sigma.cn("inbox", "list", "--json").stdout
    done = sigma.process(check=1)
    shown += done.stdout + done.stderr + sigma.cn("status", "-v").stdout + sigma.cn("log", "-v").stdout
    piece = secret[:14] if secret == TOKEN else secret[:20]
    assert piece not in shown
    assert holds(sigma, piece) == []


def test_an_answers_fault_tells_no_piece_of_a_secret(agent: Node) -> None:
    agent.configure("max_attempts: 20\n")
    agent.sync()
    for text in (
        f"{'x' * 30}{TOKEN}: y\nack: ID",
        f"delegate: ID|{LONG}",
        f"ack: {'x' * 30}{TOKEN}",
        f"commit: {LONG}",
    ):
        answer(agent, f"---\nid: ID\n{text}\n---\n")
        done = agent.cn("inbox", "process", check=None)
        assert TOKEN[:14] not in done.stdout + done.stderr + shown(agent), text
        assert LONG[:20] not in done.stdout + done.stderr + shown(agent), text
        assert holds(agent, TOKEN[:14]) + holds(agent, LONG[:20]) == [], text


def test_what_is_cut_is_searched_before(sigma: Node, pi: Node) -> None:
    pi.cn("peer", "list")
    for length in (100, 180, 280):
        text = "x" * length + " " + LONG
        for words in (("adhoc", text), ("mca", "add", text), ("send", "pi", text, "--body", "fine")):
            assert holds(sigma, LONG[:20]) == []
            refused(sigma, *words, secret=LONG[:20])


def test_a_finding_names_what_a_person_can_edit(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    thread = sigma.only_thread()
    sigma.write_triage(thread, f"delete:no {TOKEN}")
    file = sigma.root / "threads/inbox" / thread
    line = file.read_text().split("\n").index(f"decision: delete:no {TOKEN}") + 1
    assert f"threads/inbox/{thread}, line {line}: looks" in sigma.process(check=1).stderr
    git(sigma.root, "checkout", "--", ".")
    assert "the decision: looks" in refused(sigma, "delete", "pi/proposal", "--reason", TOKEN)
    file.write_text(file.read_text() + f"\nnote\n{TOKEN}\n")
    line = file.read_text().split("\n").index(TOKEN) + 1
    assert f"threads/inbox/{thread}, line {line}: looks" in refused(sigma, "delete", "pi/proposal", "--reason", "x")
    git(sigma.root, "checkout", "--", ".")
    assert "the title, line 1: looks" in refused(sigma, "mca", "add", f"the key {TOKEN}")
    told = refused(sigma, "adhoc", "Keys", "--body", f"one\n{TOKEN}")
    assert "the text, line 2: looks" in told
    assert ".md" not in told
    told = refused(sigma, "delete", "pi/proposal", "--reason", f"use {TOKEN}")
    allow(sigma, told)
    sigma.cn("delete", "pi/proposal", "--reason", f"use {TOKEN}")


def test_one_secret_is_allowed_once(world: World, sigma: Node, pi: Node) -> None:
    """It stands in decision, thread, notice, log and commit: one fingerprint is enough."""
    pi.cn("peer", "list")
    world.propose(pi, sigma, "one")
    world.propose(pi, sigma, "two")
    sigma.sync()
    told = refused(sigma, "delete", "pi/one", "--reason", f"use {TOKEN}")
    assert re.search(r'allow: \["[0-9a-f]{16}"\]', told), told
    (sigma.root / "threads/adhoc/note.md").write_text(f"as in\n{TOKEN}\n")
    for words in (("commit",), ("send", "pi", f"the key {TOKEN}", "--body", f"see {TOKEN}"), ("adhoc", TOKEN)):
        assert told.partition("allow:")[2] == refused(sigma, *words).partition("allow:")[2]
    allow(sigma, told)
    sigma.cn("delete", "pi/one", "--reason", f"use {TOKEN}")
    sigma.cn("commit")
    assert "✓ delivered" in sigma.cn("send", "pi", f"the key {TOKEN}", "--body", f"see {TOKEN}").stdout
    sigma.decide("pi/two", "do:reply:answer", "--body", f"it was `{TOKEN}`")
    assert "sigma/answer" in branches(pi.home)


TYPED = {
    "delete": (f"delete:use {TOKEN}",),
    "custom": (f"do:custom:{TOKEN}",),
    "body": ("do:reply:answer", "--body", f"one\n{TOKEN}"),
    "key": ("do:reply:answer", "--body", KEY),
    "approval": ("do:merge", "--approval", f"{'x' * 30}{TOKEN}"),
    "until": ("defer:later", "--until", TOKEN),
    "actor": ("do:merge", "--actor", f"{TOKEN}"),
    "topic": (f"do:reply:{TOKEN}",),
    "no decision": (f"{'merge it ' * 5}{TOKEN}",),
}


@pytest.mark.sliced(9)
@pytest.mark.parametrize("what", TYPED)
def test_a_triage_with_a_secret_is_refused_at_once(world: World, sigma: Node, pi: Node, what: str) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    before = path.read_bytes()
    for more in ((), ("--dry-run",)):
        done = sigma.triage("pi/proposal", *TYPED[what], *more, check=1)
        assert "no-secrets: " in done.stderr
        assert "take it out" in done.stderr
        assert TOKEN[:12] not in done.stdout + done.stderr
        assert path.read_bytes() == before
    sigma.idle()


AWS = "aws_secret_access_key:\nwJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12"
"""No secret, until its two lines are one."""


@pytest.mark.sliced(3)
@pytest.mark.parametrize("note", [f"{TOKEN}\n", f"> {TOKEN}\n"], ids=["own", "quoted"])
@pytest.mark.parametrize("decision", ["do:merge", "delete:x"])
def test_a_decision_in_a_thread_where_somebody_wrote_a_secret_is_refused_at_once(
    world: World, sigma: Node, pi: Node, decision: str, note: str
) -> None:
    """In the words of the run that would execute it."""
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    path = sigma.root / "threads/inbox" / name
    clean = path.read_text()
    end = max(number for number, line in enumerate(clean.split("\n"), 1) if line.startswith(">"))

    def write_note() -> None:
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines[:end], note, *lines[end:]]))

    write_note()
    told = sigma.triage("pi/proposal", decision, check=1).stderr
    assert not holds_section(path.read_text())
    path.write_text(clean)
    sigma.triage("pi/proposal", decision)
    write_note()
    later = sigma.process(check=1).stderr
    assert told.partition("no-secrets: ")[2] == later.partition("no-secrets: ")[2] != ""


@pytest.mark.sliced(2)
@pytest.mark.parametrize("body", ["", f"about {TOKEN}"])
def test_a_branch_named_like_a_secret_is_handed_to_nobody_else(world: World, sigma: Node, pi: Node, body: str) -> None:
    world.link(sigma, world.hub("omega"))
    world.propose(pi, sigma, TOKEN)
    sigma.sync()
    assert "no-secrets" in sigma.triage(f"pi/{TOKEN}", "delegate:omega", "--body", body, check=1).stderr
    work_queue(sigma)
    sigma.sync()
    for words in (("delegate", "--to", "omega"), ("do", "send", "--to", "omega", "--message", f"about {TOKEN}")):
        assert "no-secrets" in sigma.cn("out", *words, check=1).stderr
    sigma.cn("out", "do", "send", "--to", "pi", "--message", f"about {TOKEN}")
    sigma.process()


def test_what_hub_yaml_allows_may_be_decided(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    allow(sigma, sigma.triage("pi/proposal", f"delete:use {TOKEN}", check=1).stderr)
    sigma.decide("pi/proposal", f"delete:use {TOKEN}")
    assert sigma.threads() == []


def test_the_name_of_the_branch_may_be_said(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, TOKEN)
    sigma.sync()
    done = sigma.triage(f"pi/{TOKEN}", f"delete:no more like {TOKEN}, use {TOKEN[:-1]}Z", check=1)
    assert "no-secrets" in done.stderr
    sigma.decide(f"pi/{TOKEN}", f"delete:no more like {TOKEN}")
    assert sigma.threads() == []


def test_the_name_of_the_branch_may_be_answered_with(world: World, sigma: Node, pi: Node) -> None:
    work_queue(sigma)
    world.propose(pi, sigma, TOKEN)
    sigma.sync()
    assert "no-secrets" in sigma.cn("out", "delete", "--reason", f"use {TOKEN[:-1]}Z", check=1).stderr
    sigma.cn("out", "delete", "--reason", f"no more like {TOKEN}")
    sigma.process()
    assert sigma.threads() == []


ANSWERS = {
    "ack": ("do", "ack", "--reason", f"found {TOKEN} in it"),
    "noop": ("do", "noop", "--reason", f"found {TOKEN} in it"),
    "reply": ("do", "reply", "--message", f"one\n{TOKEN}"),
    "send": ("do", "send", "--to", "pi", "--message", "x", "--body", f"one\n{KEY}"),
    "send to": ("do", "send", "--to", TOKEN, "--message", "x"),
    "surface": ("do", "surface", "--desc", f"rotate {TOKEN}"),
    "commit": ("do", "commit", "--artifact", f"docs/{TOKEN}"),
    "defer": ("defer", "--reason", TOKEN),
    "until": ("defer", "--reason", "later", "--until", TOKEN),
    "delegate": ("delegate", "--to", TOKEN),
    "delete": ("delete", "--reason", f"use {TOKEN}"),
    "two lines": ("do", "ack", "--reason", AWS),
    "two lines of a concern": ("do", "surface", "--desc", AWS),
}


@pytest.mark.sliced(9)
@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_with_a_secret_is_refused_at_once(agent: Node, what: str) -> None:
    for more in ((), ("--dry-run",)):
        done = agent.cn("out", *ANSWERS[what], *more, check=1)
        assert "no-secrets: --" in done.stderr
        assert "take it out" in done.stderr
        assert TOKEN[:12] not in done.stdout + done.stderr
        assert "b3Bl" not in done.stdout + done.stderr
        assert not (agent.root / "state/output.md").exists()
    agent.cn("out", "do", "reply", "--message", "fine")  # the item waits for its answer as before


def test_what_hub_yaml_allows_may_be_answered(agent: Node) -> None:
    words = ("out", "delete", "--reason", f"use {TOKEN}")
    allow(agent, agent.cn(*words, check=1).stderr)
    agent.sync()
    agent.cn(*words)
    agent.process()
    assert agent.threads() == []


@pytest.mark.sliced(12)
@pytest.mark.parametrize(
    "words",
    [
        ("inbox", "show", f"pi/{TOKEN}"),
        ("inbox", "triage", f"{'x' * 60}{TOKEN}", "do:merge"),
        ("delete", f"{'x' * 60} {TOKEN}"),
        ("done", LONG),
        ("delegate", "pi/x", LONG),
        ("defer", "pi/x", "--until", TOKEN),
        ("reply", TOKEN, "hi"),
        ("send", TOKEN, "hi"),
        ("read", TOKEN),
        ("why", TOKEN),
        ("context", TOKEN),
        ("replay", TOKEN),
        ("queue", "retry", TOKEN),
        ("mca", "done", TOKEN),
        ("thread", "close", TOKEN),
        ("peer", "remove", TOKEN),
        ("peer", "sync", TOKEN),
        ("log", "--since", TOKEN),
        ("usage", "--since", TOKEN),
        (TOKEN,),
        ("inbox", TOKEN),
        ("status", f"--{TOKEN}"),
        ("inbox", "triage", "pi/x", "do:merge", "--body-file", TOKEN),
        ("adhoc", "x", "--body-file", TOKEN),
        ("log", "--limit", TOKEN),
        ("status", "--hub", f"/nowhere/{TOKEN}"),
        ("read", KEY),
        ("read", "https://bob:hunter2pass@git.example.org/x"),
    ],
)
def test_no_error_repeats_a_secret_that_was_typed(sigma: Node, words: tuple[str, ...]) -> None:
    done = sigma.cn(*words, check=None)
    assert done.returncode != 0
    assert done.stderr
    shown = done.stdout + done.stderr + "".join(p.read_text() for p in (sigma.root / ".git/cn").glob("*.json"))
    for piece in (TOKEN[:12], LONG[:20], "b3Bl", "hunter2"):
        assert piece not in shown
    assert holds(sigma) == []


def test_what_was_masked_long_ago_is_swept_by_a_sync(agent: Node) -> None:
    answer(agent, OUTPUTS["refused for it"])
    agent.process(check=1)
    (kept,) = (agent.root / ".git/cn/withheld/logs/output").iterdir()
    os.utime(kept, (0, 0))
    local = agent.root / ".git/cn/local.json"
    local.write_text(local.read_text().replace('"sweep": "', '"sweep": "another day, not '))
    agent.cn("sync", check=None)
    assert not (agent.root / ".git/cn/withheld").exists()


@pytest.mark.sliced(3)
@pytest.mark.parametrize("words", [("inbox", "process"), ("commit",), ("done", "pi/proposal")])
def test_what_a_person_quotes_is_no_peers(world: World, sigma: Node, pi: Node, words: tuple[str, ...]) -> None:
    world.propose(pi, sigma, "proposal", {"docs/x.md": f"{TOKEN}\n"})
    sigma.sync()
    name = sigma.only_thread()
    path = sigma.root / "threads/inbox" / name
    secret = TOKEN[:-1] + "Z"
    path.write_text(f"{path.read_text()}\n> {secret}\n")
    if words[0] == "inbox":
        sigma.write_triage(name, "delete:no")
    line = path.read_text().split("\n").index(f"> {secret}") + 1
    told = refused(sigma, *words, secret=secret)
    assert f"threads/inbox/{name}, line {line}: looks like a secret" in told
    assert told.count("looks like") == 1  # the peer's own is none of ours
    allow(sigma, told)
    sigma.cn(*words)


@pytest.mark.sliced(3)
@pytest.mark.parametrize("place", ["below", "triage", "above"])
def test_what_a_person_quotes_is_masked_where_the_branch_moved_first(
    world: World, sigma: Node, pi: Node, place: str
) -> None:
    theirs = TOKEN[:-1] + "Z"
    world.propose(pi, sigma, "one", {"docs/x.md": f"{theirs}\n"})
    sigma.sync()
    name = sigma.only_thread()
    path = sigma.root / "threads/inbox" / name
    if place == "above":
        path.write_text(path.read_text().replace("\n---\n", f"\n---\n\n> {TOKEN}\n", 1))
    else:
        path.write_text(f"{path.read_text()}\nOf the log:\n\n> {TOKEN}\n")
    if place == "triage":
        path.write_text(path.read_text().replace("Of the log:\n", "")[: -len(f"> {TOKEN}\n")])
        sigma.write_triage(name, "delete:no")
        path.write_text(f"{path.read_text()}\n> {TOKEN}\n")
    before = path.read_bytes()
    world.propose(pi, sigma, "one", {"docs/y.md": f"{theirs} again\n"}, force=True)
    sigma.sync()
    text = (content(sigma, f"threads/inbox/{name}") or b"").decode()
    assert f"{theirs} again" in text, "a peer's own is none of ours"
    assert holds(sigma) == []
    assert withheld(sigma, f"threads/inbox/{name}") == before
    clean(sigma)


def test_what_a_person_quotes_is_searched_where_main_was_first(world: World, sigma: Node, pi: Node) -> None:
    theirs = TOKEN[:-1] + "Z"
    world.propose(pi, sigma, "one", {"docs/x.md": f"{theirs}\n"})
    sigma.sync()
    second = world.second(sigma)
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    path.write_text(path.read_text().replace("\n---\n", f"\n---\n\n> {TOKEN}\n", 1))
    world.propose(pi, sigma, "one", {"docs/y.md": f"{theirs} again\n"}, force=True)
    second.sync()
    sigma.cn("sync", check=None)
    assert TOKEN in path.read_text()
    told = refused(sigma, "commit", secret=TOKEN)
    assert told.count("looks like") == 1


def test_a_quoted_triage_decides_nothing(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    section = "## Triage\n\ndecision: delete:no\nactor: sigma\ntimestamp: 2026-02-05T15:00Z"
    path.write_text(path.read_text() + "\n" + "".join(f"> {one}\n" for one in section.split("\n")))
    sigma.process()
    assert len(sigma.threads()) == 1


@pytest.mark.parametrize("words", [("adhoc",), ("mca", "add")])
def test_the_name_of_a_new_thread_tells_no_secret_of_its_title(sigma: Node, words: tuple[str, ...]) -> None:
    for title in (f"secret title {TOKEN}", f"of_an escaped {TOKEN.replace('_', chr(92) + '_')}"):
        done = sigma.cn(*words, title, check=1)
        assert "no-secrets: the title, line 1: looks like a secret (GitHub Token)" in done.stderr
        assert TOKEN[4:] not in done.stderr + done.stdout
    assert holds(sigma) == []
