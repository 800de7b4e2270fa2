"""Working copies of pending threads: the only files a run takes decisions from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from cn.git.objects import read_raw
from cn.git.repository import Hub
from cn.protocol.layout import INBOX, inbox_path
from cn.protocol.ledger import Item, names_thread
from cn.run.snapshot import Snapshot
from cn.system.closed import is_closed
from cn.system.files import blocked_parent, read_below
from cn.transaction.unplaced import is_left, read_unplaced
from cn.values.names import Branch, HubPath, Name, ThreadName
from cn.values.text import decode, one_line

if TYPE_CHECKING:  # who only looks imports what reads decisions where there is one
    from cn.protocol.thread_life import Written
    from cn.run.executor import Executor
    from cn.run.view import View

ANEW = "it is written anew, what stood there is quoted in it: read it, then decide again"
"""What to do after :func:`renewed`."""
ANEW_WITH_WORDS = ANEW.replace("is quoted", "and your words are quoted")
"""The same where words of a command are kept in it."""
_WRITTEN_ANEW = "'cn inbox process' writes it anew, what stands there is quoted in it: read it then, and decide again"
"""The same before it."""
_LARGEST = 8 << 20
_WORD = re.compile(rb"(?i)triage")
"""What no section is without."""
_DECIDES = re.compile(rb"(?im)^[ \t]*decision[ \t]*:[ \t]*[a-z]+:")
"""What no decision is without, wherever it stands."""
_EMPTY = re.compile(
    rb"^<!-- To decide, [^\n]*\n(?:delete:[^\n]*\n)?\n## Triage\n\ndecision:\nactor: [^\n]*\ntimestamp:\n"
    rb"(?:head: [^\n]* )?-->$",
    re.M,
)
"""The form that cn writes, as long as nobody has."""
_MARK = re.compile(rb"^<<<<<<<", re.M)
"""How git marks the beginning of a conflict (git-merge(1), "HOW CONFLICTS ARE PRESENTED")."""
_CLOCKS = timedelta(days=2)
"""By so much the clocks of a hub's clones may differ."""


class Working(NamedTuple):
    """A pending thread as it lies in the work tree."""

    path: HubPath
    data: bytes


def read_working(hub: Hub, name: ThreadName) -> Working | None:
    """The working copy of a pending thread.

    None when it is missing, no regular file or behind a link, or an old one that cn could not replace yet.
    """
    path = inbox_path(name)
    data = read_below(hub.root, path, _LARGEST)
    return None if data is None or is_left(hub, path, data) else Working(path, data)


def use_working(hub: Hub, name: ThreadName) -> Working | None:
    """The same for who decides or writes: raises :class:`Refused` where there is one that we may not read."""
    path = inbox_path(name)
    if is_closed(f"{hub.root}/{path}") and blocked_parent(hub.root, f"{hub.root}/{path}") is None:
        from cn.system.closed import check_open  # few are

        check_open(hub.root / path, path)
    return read_working(hub, name)


def edition(hub: Hub, path: HubPath) -> str:
    """Which writing of a file this is: who decides again writes it again, may the words be the same."""
    try:
        found = os.stat(hub.root / path, follow_symlinks=False)
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_mtime_ns}"


def unread(hub: Hub, names: Iterable[ThreadName]) -> dict[HubPath, tuple[str, str]]:
    """The files of these threads that we may not read, each with what to say of it and what helps.

    A decision in one would be overlooked: its file counts as none.
    """
    found: dict[HubPath, tuple[str, str]] = {}
    for name in names:
        path = inbox_path(name)
        if is_closed(f"{hub.root}/{path}"):
            from cn.system.closed import closed_words  # few are

            if words := closed_words(hub.root / path, path):
                found[path] = f"{words[0]}, and what is decided in it is not carried out", words[1]
    return found


def versions(snapshot: Snapshot, path: HubPath, *, aside: bool = False) -> list[bytes]:
    """What main had of a file, newest first; a folder that took its place is none. ``aside``: also what a merge had on
    its other side, and took nothing of (git-log(1), "--full-history").
    """
    way = ("--full-history",) if aside else ()
    log = ("log", *way, "--diff-filter=AM", "--format=%H", "--no-color", snapshot.commit, "--", path)
    asked = [f"{commit}:{path}" for commit in snapshot.git.run(*log).lines]
    return [found.data for found in read_raw(snapshot.git, asked) if found is not None and found.kind == "blob"]


def shows_item(data: bytes, item: Item) -> bool:
    """Does a thread's file show what the ledger names: the head, and that it came back, where it did?

    Nearly all say yes, and need no parser then.
    """
    if b"\n**Head:** " + item.head.encode() not in data:
        return False
    is_plain = not (item.get("back") or item.get("anew") or b"\n**Caution:**" in data or b"\n**Shown:**" in data)
    if is_plain and not _holds_section(data) and not _MARK.search(data):
        return True
    from cn.protocol.thread_file import showing_of, shows

    return shows(lenient_text(data), showing_of(item))


def is_stale(snapshot: Snapshot, path: HubPath, data: bytes, peer: Name, item: Item) -> bool:
    """Does a thread's file show something else than is there, lack words that main showed there, or decide what main
    keeps as decided before?
    """
    if not shows_item(data, item):
        return True
    main = snapshot.read(path) or b""
    if data != main and _holds_section(data):
        from cn.protocol.thread_file import was_executed

        if was_executed(lenient_text(data), lenient_text(main)):
            return True
    return lacks_said(snapshot, Working(path, data), peer, item)


def lacks_said(snapshot: Snapshot, working: Working, peer: Name, item: Item, who: str = "") -> bool:
    """Was something said in main's thread, by ``who`` or by anybody, that this text of it does not show?

    Main's own may be such a text: somebody had it open in an editor when words came, saved it, and committed that. What
    is said there goes to its creator, or is told as shown: the ledger names the thread then, as where it is put off,
    and else main's past, which is long, is not asked.
    """
    if not names_thread(snapshot.history(peer, f"{item.since - _CLOCKS:%Y%m}"), item.get("thread")):
        return False
    from cn.protocol.thread_file import lacks_words

    text, main = lenient_text(working.data), lenient_text(snapshot.read(working.path) or b"")
    if lacks_words(text, main, who):
        return True
    known = [lenient_text(data) for data in versions(snapshot, working.path, aside=True)]
    return lacks_words(text, _shown(known, item), who)


def _shown(known: Sequence[str], item: Item) -> str:
    """What the thread of an item shows, of what main had of it, newest first: all that was said in it belongs to it,
    also where somebody's commit has taken words out. Empty where none shows what is there.
    """
    from cn.protocol.thread_file import lacks_words, showing_of, shows, with_words

    newest, *earlier = [one for one in known if shows(one, showing_of(item))] or [""]
    for one in earlier:
        if lacks_words(newest, one):
            newest = with_words(newest, one)
    return newest


def lenient_text(data: bytes) -> str:
    """The text of a thread's file, whatever an editor made of it."""
    return decode(data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n")


def own_text(snapshot: Snapshot, us: Name, peer: Name, item: Item) -> tuple[str, list[str]]:
    """A pending thread as main last had it for this head, and for the last time that it came back, and all that main
    had of it. Where a rewritten history has none, the ledger tells.
    """
    from cn.protocol.thread_file import Header, add_form, format_thread

    path = inbox_path(ThreadName(item.get("thread")))
    known = [lenient_text(data) for data in versions(snapshot, path, aside=True)]
    if fresh := _shown(known, item):
        return fresh, known
    branch, signature = Branch(item.get("branch")), item.get("signature") or "unverified"
    header = Header(peer, item.topic, branch, item.since, item.head, signature, item.get("earlier"), item.get("back"))
    header = header._replace(anew=item.get("anew"))
    fresh = format_thread(header, f"(what this branch holds is lost here; look at {item.head} with git)")
    return add_form(fresh, us), known


def renewed(snapshot: Snapshot, us: Name, peer: Name, item: Item, text: str, words: str = "") -> tuple[str, str]:
    """A pending thread with its own header and quotation, what people wrote in ``text``, and why it is so.

    ``words`` came with the command that met it, and nothing comes of that: they are kept in the thread too.
    """
    from cn.protocol.thread_file import (
        add_form,
        has_form,
        refresh,
        set_aside,
        showing_of,
        was_executed,
        what_it_lacks,
        why_void,
    )

    fresh, known = own_text(snapshot, us, peer, item)
    why, reason = why_void(text, showing_of(item))
    if was_executed(text, fresh):
        reason, why = "It was carried out before. Decide again.", "void: it was carried out before"
    elif not why:
        why, reason = what_it_lacks(text, fresh)
    anew = refresh(text, fresh, reason or "It stood before the quotation.", known)
    anew = anew if has_form(anew) else add_form(anew, us)  # what somebody committed as decided has none
    return set_aside(anew, words), why


def unknown_files(hub: Hub, snapshot: Snapshot, pending: list[tuple[Name, Item]]) -> list[str]:
    """The names of markdown files in the inbox, here or in main, that are no pending thread.

    Not what cn itself could not take away or replace yet: that is told of elsewhere.
    """
    known = {item.fields["thread"] for _, item in pending}
    folder = hub.root / INBOX
    try:
        real = blocked_parent(hub.root, folder / "x") is None
        names = sorted(e.name for e in os.scandir(folder) if not e.is_dir(follow_symlinks=False)) if real else []
    except OSError:
        return []
    stray = [n for n in names if n not in known and n.endswith(".md") and not n.startswith(".")]
    stray += [n for n in snapshot.thread_names() if n not in known and n not in stray]
    if stray:
        left = read_unplaced(hub).left
        stray = [n for n in stray if f"{INBOX}/{n}" not in left]
    # Whose records are damaged, whose threads are not known as such: that is told of the peer.
    return [n for n in stray if not may_be_of(n, snapshot.damaged)]


def may_be_of(name: str, peers: Iterable[Name]) -> bool:
    """By its name, can this file of the inbox be a thread of one of these peers (``YYYYMMDD-peer-topic.md``)?"""
    return name[8:].startswith(tuple(f"-{peer}-" for peer in peers))


def has_triage(hub: Hub, name: ThreadName) -> bool:
    """Does the working copy hold a ``## Triage`` section, or something that must be looked at as one?"""
    working = read_working(hub, name)
    return working is not None and shows_triage(working)


def may_decide(working: Working) -> bool:
    """Could it hold a ``## Triage`` section or something like it, or must it be looked at for another reason?

    Nearly all say no, and need no parser then: who only looks does not import it.
    """
    try:
        working.data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return _holds_section(working.data) or _DECIDES.search(working.data) is not None


def _holds_section(data: bytes) -> bool:
    """Could it, beside an empty form?"""
    return _WORD.search(_EMPTY.sub(b"", data)) is not None


def shows_triage(working: Working) -> bool:
    """Does it hold a ``## Triage`` section, or something that must be looked at as one?"""
    if not may_decide(working):
        return False
    from cn.protocol.thread_file import TriageRefused, holds_section, read_text

    try:
        return holds_section(read_text(working.data))
    except TriageRefused:
        return True


def own_decision(data: bytes, main: bytes, *, mains: bool = True) -> str:
    """The first decision that stands in a file and not in main's, for a log; where there is none the last of all, or
    without ``mains`` nothing.
    """
    known = {line.strip() for line in lenient_text(main).split("\n")}
    lines = [line.strip() for line in lenient_text(data).split("\n")]
    found = [line for line in lines if line.lower().startswith("decision:") and line.partition(":")[2].strip()]
    own = [line for line in found if line not in known] or (found[-1:] if mains else [])
    return one_line(own[0].partition(":")[2], 80) if own else ""


def read_copies(view: View | Executor, copies: Mapping[str, Working]) -> dict[str, Written]:
    """The decisions in working copies, by thread, in the words in which a refusal of them is remembered.

    ``copies`` are those that may hold one.
    """
    from cn.protocol.thread_file import TriageRefused, format_decision, read_decision, read_text, showing_of, why_void
    from cn.protocol.thread_life import Written
    from cn.run.secret_gate import without_secrets
    from cn.secrets.scanner import own_lines

    found: dict[str, Written] = {}
    shown = {name: working for name, working in copies.items() if shows_triage(working)}
    view.snapshot.read_many(working.path for working in shown.values())
    items = {item.get("thread"): item for _, item in view.snapshot.pending()} if shown else {}
    for name, working in shown.items():
        if (item := items.get(name)) is not None and not shows_item(working.data, item):
            why, _ = why_void(lenient_text(working.data), showing_of(item))
            found[name] = Written("", "", None, why, _WRITTEN_ANEW)
            continue
        try:
            triage = read_decision(read_text(working.data), read_text(view.snapshot.read(working.path) or b""))
        except TriageRefused as refused:
            decision, actor, at, problem, remedy = "", "", None, refused.text, refused.hint
        else:
            if triage is None:
                continue
            decision, actor, at, problem, remedy = format_decision(triage.decision), triage.actor, triage.at, "", ""
        whole = own_lines(working.path, working.data.decode("utf-8", "replace"))
        said = (decision, actor, problem, remedy)
        decision, actor, problem, remedy = (without_secrets(text, view.settings, whole) for text in said)
        found[name] = Written(decision, actor, at, problem, remedy)
    return found


def was_refused(item: Item, written: Written, *, known: bool) -> bool:
    """Is this the very decision that was refused before, and does that hold? A refusal stands for its decision only.
    What cannot be read, or is void, decides nothing before a run has said so, too.

    ``known``: its creator is a peer now.
    """
    if written.problem:
        return True
    from cn.inbox.plan.decisions import refusal_digest
    from cn.protocol.rules import is_past

    rule, why = item.get("rule"), item.get("why")
    if is_past(item, known=known):
        return False
    return refusal_digest(written.decision, written.actor, rule, why, item.head) in item.get("digest").split()
