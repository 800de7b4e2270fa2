"""``cn peer accept|add|key|list|remove``: list peers, and write ``state/peers.md``; nothing else in cn writes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cn.agent.hooks import update_queue
from cn.git.remote import remedy_of
from cn.git.repository import Hub
from cn.git.work_clone import same_place
from cn.inbox.pinned_keys import check_pinned
from cn.inbox.working_copies import may_decide, read_copies, read_working
from cn.peers.hosts import look_at_peer, look_at_place
from cn.peers.known_mains import believe, note_called
from cn.peers.links import FORMER, ONE_NAME, ROUTE
from cn.peers.observe import main_of
from cn.peers.older_state import forget_older
from cn.peers.peer_main import NO_MAIN
from cn.protocol.effects import Edit, Plan
from cn.protocol.layout import NOTICE
from cn.protocol.ledger import IN, OUT
from cn.protocol.outbox_entry import Deliver
from cn.protocol.peers_file import (
    MAILBOX,
    PATH,
    Peer,
    add_peer,
    check_names,
    fingerprint,
    parse_peers,
    remove_peer,
    replace_peer,
    say_moved,
)
from cn.protocol.rules import NO_SECRETS
from cn.run.executor import Executor
from cn.run.memory import MISNAMED
from cn.run.run import Run, open_run, run_once
from cn.run.secret_gate import check_texts
from cn.run.settings import read_head_settings
from cn.secrets.scanner import Text
from cn.values.errors import Refused
from cn.values.names import Name, NameRefused, ThreadName, Url, is_local, parse_name, parse_url
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import one_line, redact, some_of
from cn.values.timestamps import format_stamp

_INSTEAD = "leave it out: use a git credential helper, or an ssh URL"


def absolute_url(text: str, cwd: Path) -> Url:
    """A local path made absolute, so that it means the same from cron; other URLs as they are.

    A path that a line of text cannot show becomes a ``file://`` URL, whose escapes git reads (RFC 3986, 2.1).
    """
    if is_local(text) and not text.isprintable():
        from urllib.parse import quote

        path = os.path.normpath(cwd / Path(text).expanduser())
        text = "file://" + quote(os.fsencode(path))
    url = parse_url(text)
    shown = redact(url)
    password = shown != url and ":" in url.partition("://")[2].partition("@")[0]
    if password or shown.count("=***") > url.count("=***"):
        what = "a password" if password else "a parameter that looks like a secret"
        raise NameRefused(f"{NO_SECRETS}: the URL holds {what}, and peers.md is committed", _INSTEAD)
    if is_local(url) and not url.startswith("file://"):
        return Url(os.path.normpath(cwd / Path(url).expanduser()))
    return url


def add(hub: Hub, peer: Peer, *, check: bool = False, dry_run: bool = False) -> Report:
    """Add a peer; commits ``state/peers.md`` alone.

    Contacts nobody unless ``check``: then nothing is added where our branches would not get there.
    """
    if same_place(peer.hub, hub.origin_url):
        raise Refused(
            f"{redact(peer.hub)} is this hub's own origin", "a peer has a repository of its own: check the URL"
        )
    with open_run(hub, dry_run=dry_run) as run:
        if check:
            # Nobody is asked to make room for what a dry run would do.
            lacks = look_at_peer(run.hub, run.settings, peer, tries=not dry_run)
            for lack in (*look_at_place(run.hub, peer.hub, f"{peer.name}'s hub"), *lacks):
                if lack.needed:
                    raise Refused(f"{peer.name} was not added: {lack.text}", lack.remedy)
                run.report.info(f"{lack.text}: {lack.why}; {lack.remedy}" if lack.why else lack.text)
            if not dry_run:
                takes = ", and takes our branches" if peer.deliver == MAILBOX else ""
                run.report.done(f"checked: {peer.name}'s hub answers{takes}")
        kind, peered = one_line(peer.kind, 60), peer.peered or format_stamp(run.now)[:10]
        dated = peer._replace(kind=kind, peered=peered)

        def plan(executor: Executor) -> str | None:
            if peer.name in run.settings.peers:
                raise Refused(f"{peer.name} is a peer already", f"{command('cn peer remove {}', peer.name)} first")
            check_names(run.settings.config, (dated,))
            text = add_peer(executor.snapshot.text(PATH), dated)
            parse_peers(text)
            _refuse_secrets(peer, text, executor)
            executor.perform(Plan(peer.name, (Edit(PATH, text.encode(), f"add to {PATH}"),)))
            others = [p for p in run.settings.peers.values() if p.deliver == MAILBOX]
            bare = [p.name for p in (*others, dated) if not p.key]
            if bare and dated.deliver == MAILBOX and others and not run.settings.config.mailbox_trusted:
                executor.notes.info(
                    f"several peers now write one mailbox: notices of {', '.join(bare)} are believed as far as their "
                    "main shows the same, until a --key proves the sender, or hub.yaml says 'mailbox_trusted: true'"
                )
            executor.notes.done(f"added the peer {peer.name} ({redact(peer.hub)}, {peer.deliver})")
            if same := [one.name for one in run.settings.peers.values() if one.hub == peer.hub]:
                executor.notes.info(f"{same[0]} has the same URL: {ONE_NAME}")
            _tell_same_key(executor, peer)
            if owed := [entry for _, entry in executor.snapshot.outbox()[0] if entry.to == peer.name]:
                executor.notes.info(
                    f"in the outbox for {peer.name}, and sent by the next sync: {some_of([one.branch for one in owed])}"
                )
            return f"cn: peer add {peer.name}"

        run.commit(plan)
        # What another address did says nothing of this one.
        believe(run, dated, None)
        forget_older(run, dated, None)
        note_called(run.memory, dated, so=False)
        run.memory.unreachable.worked(peer.name)
        run.memory.silent.worked(f"{peer.name} {peer.name}")
    return run.report


def _tell_same_key(executor: Executor, peer: Peer) -> None:
    """Whose key it is, or was, beside: what that one signed is verified as this one's too."""
    if not peer.key:
        return
    print_, snapshot = fingerprint(peer.key), executor.snapshot
    others = [p.name for p in executor.settings.peers.values() if p.name != peer.name and p.key == peer.key]
    snapshot.read_histories(snapshot.ledgers)
    had = [p for p in snapshot.ledgers if p not in (peer.name, *others) and f"%20{print_}" in snapshot.history(p)]
    for names, verb in ((others, "has"), (had, "had")):
        if names:
            executor.notes.info(
                f"{some_of(names)} {verb} the same key: whoever can push here can show as {peer.name}'s what was "
                f"signed for another; what came before under another name is not merged, a new signed commit is"
            )


def _refuse_secrets(peer: Peer, text: str, executor: Executor) -> None:
    """As any commit does, but before the kind is shortened, and with what to do instead."""
    known = set(executor.snapshot.text(PATH).split("\n"))
    lines = tuple(line for line in text.split("\n") if line not in known)
    cut = [Text("--kind", (peer.kind,), 0)] if one_line(peer.kind, 60) != peer.kind else []
    texts = [Text(f"the entry for {PATH}", lines), *cut]
    if refusal := check_texts(texts, executor.settings):
        remedy = f"{_INSTEAD}; revoke it if it is real; {refusal.remedy.partition('; ')[2]}"
        raise Refused.by(refusal, remedy)


def remove(hub: Hub, name: str, *, dry_run: bool = False) -> Report:
    """Take a peer out. Its ledger and threads stay, and the report says what of them is open."""
    peer = parse_name(name, "peer")

    def plan(run: Run, executor: Executor) -> str | None:
        run.settings.peer(peer)
        text = remove_peer(executor.snapshot.text(PATH), peer)
        executor.perform(Plan(peer, (Edit(PATH, text.encode(), f"remove from {PATH}"),)))
        executor.notes.done(f"removed the peer {name}; its threads and records stay")
        for kind in (ROUTE, FORMER, MISNAMED):  # what was to be done about it
            executor.memory.conditions.clear(kind, peer)
        for text in _left_open(executor, peer):
            executor.notes.info(text)
        return f"cn: peer remove {name}"

    return run_once(hub, plan, dry_run=dry_run)


def _left_open(executor: Executor, peer: Name) -> list[str]:
    """What is open between us and a peer that is taken out, and what becomes of it."""
    pending = [item for item in executor.open(peer, IN) if item.get("thread")]
    copies = {name: read_working(executor.hub, name) for name in (ThreadName(i.get("thread")) for i in pending)}
    copied = {str(name): copy for name, copy in copies.items() if copy is not None and may_decide(copy)}
    written = read_copies(executor, copied) if copied else {}
    threads = [f"{peer}/{item.topic}" for item in pending]
    decided = [
        f"{peer}/{item.topic} ({found.decision or 'cannot be read'})"
        for item in pending
        if (found := written.get(item.get("thread"))) is not None
    ]
    waits = [entry for _, entry in executor.snapshot.outbox()[0] if entry.to == peer]
    owed = [entry.branch for entry in waits if isinstance(entry, Deliver) and entry.about]
    others = [entry.branch for entry in waits if not (isinstance(entry, Deliver) and entry.about)]
    ours = [i.get("branch") for i in executor.open(peer, OUT) if i.get("kind") != NOTICE and i.state in _AT_PEER]
    told: list[tuple[Sequence[str], str]] = [
        (threads, f"waiting: they can be deleted or put off; {peer} is told of it when it is added again"),
        (decided, "decided and not executed: only deletions and deferrals are executed now, all else is refused"),
        (owed, f"what {peer} is not told yet: it stays in the outbox until {peer} is added again"),
        (others, f"in the outbox: it stays there, and is tried when {peer} is added again"),
        (ours, f"ours, without an end: {peer} is not asked about them before it is added again"),
    ]
    return [f"{what}: {some_of(names)}" for names, what in told if names]


_AT_PEER = ("delivered", "adopted", "answered")


def pin_key(hub: Hub, name: str, key: str, *, dry_run: bool = False) -> Report:
    """Pin another SSH public key for a peer; all else of its entry stays."""

    def plan(run: Run, executor: Executor) -> str | None:
        peer = run.settings.peer(name)
        if peer.key == key:
            raise Refused(f"{name} has this key already", "'cn peer list' shows it")
        before = executor.snapshot.text(PATH)  # as people wrote it: a run knows the place of a relative URL
        written = next(one for one in parse_peers(before) if one.name == peer.name)
        text = replace_peer(before, written._replace(key=key))
        pinned = peer._replace(key=key)
        executor.perform(Plan(peer.name, (Edit(PATH, text.encode(), f"pin the key in {PATH}"),)))
        executor.notes.done(f"what {name} sends must be signed with {fingerprint(key)} now")
        _tell_same_key(executor, pinned)
        check_pinned(executor, {peer.name: pinned})
        update_queue(run, executor)
        return f"cn: peer key {name}"

    return run_once(hub, plan, dry_run=dry_run)


def accept(hub: Hub, name: str, *, dry_run: bool = False) -> Report:
    """Take what answers at a peer's URL now for the peer's, whatever was there before."""
    with open_run(hub, dry_run=dry_run) as run:
        peer = run.settings.peer(parse_name(name, "peer"))
        found = main_of(run, peer.hub, anew=True)
        if isinstance(found, str) and found != NO_MAIN:
            remedy = remedy_of(found, "try again", say_moved, run.settings.needs_from(peer))
            raise Refused(f"{name} cannot be reached at {redact(peer.hub)}: {found}", remedy)
        main = None if isinstance(found, str) else found
        what = f"its {main[0]} is at {main[1][:12]}" if main else NO_MAIN
        believe(run, peer, main)
        forget_older(run, peer, main)
        note_called(run.memory, peer)
        run.memory.unreachable.worked(peer.name)
        run.report.done(f"what answers at {redact(peer.hub)} is taken for {name}'s: {what}")
    return run.report


def listed(hub: Hub) -> list[Peer]:
    """The peers as main has them."""
    return list(read_head_settings(hub)[1].peers.values())
