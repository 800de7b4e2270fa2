"""Checks of cn's records in main: ledger, open items, threads, outbox, pins."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cn.doctor.facts import HubFacts
from cn.doctor.finding import Finding, RebuildOpen, SetPin, info, problem
from cn.git.objects import list_refs, list_tree, read_info
from cn.protocol import ledger
from cn.protocol.layout import DONE, INBOX, inbox_path
from cn.protocol.ledger import IN, Event, Item, LedgerRefused, Open
from cn.protocol.outbox_entry import take_out
from cn.run.checkout_conditions import find_displaced
from cn.run.memory import Memory
from cn.run.snapshot import Snapshot
from cn.system.clock import now
from cn.transaction.origin import ORIGIN_REF
from cn.transaction.pins import PREFIX, Key, encode, parse_pin, pin_ref
from cn.transaction.unplaced import read_left
from cn.values.names import Name, NameRefused, Oid, ThreadName, parse_name
from cn.values.shell_words import command
from cn.values.text import one_line, visible

_FEW = 5


@dataclass
class History:
    """A peer's ledger as far as it can be read: good events in order, and the lines that are none."""

    events: list[Event] = field(default_factory=list)
    bad: dict[str, list[int]] = field(default_factory=dict)


def read_history(snapshot: Snapshot, peer: Name) -> History:
    """Every month of a peer's ledger; whatever the files hold."""
    found = History()
    folder = f"{ledger.FOLDER}/{peer}"
    for name in ledger.months(e.path for e in snapshot.folder(folder)):
        path = f"{folder}/{name}"
        data = snapshot.read(path) or b""
        for number, line in enumerate(data.split(b"\n"), 1):
            if not line:
                continue
            try:
                found.events.append(ledger.parse_event(line.decode("utf-8")))
            except (LedgerRefused, UnicodeDecodeError):
                found.bad.setdefault(path, []).append(number)
    return found


def fold_history(history: History) -> Open:
    """What ``open`` must hold."""
    return _plain(ledger.fold_history(history.events))


def _plain(items: Open) -> Open:
    """Without empty fields, which the ledger's lines do not keep."""
    return {k: i._replace(fields={n: v for n, v in i.fields.items() if v}) for k, i in items.items()}


def _snapshot(facts: HubFacts) -> Snapshot:
    assert facts.main is not None
    return Snapshot(facts.hub.git, facts.main)


def _peers(snapshot: Snapshot) -> tuple[list[Name], list[str]]:
    names, strange = [], []
    for entry in snapshot.folder(ledger.FOLDER):
        try:
            names.append(parse_name(entry.path if entry.kind == "tree" else "/"))
        except NameRefused:
            if not entry.path.startswith("."):
                strange.append(entry.path)
    return names, strange


def check_ledger(facts: HubFacts) -> Iterator[Finding]:
    """Every line of the ledger is an event."""
    snapshot = _snapshot(facts)
    names, strange = _peers(snapshot)
    for name in strange:
        yield info("ledger", f"{ledger.FOLDER}/{visible(name)} is no peer's ledger", "", "cn does not read it")
    for peer in names:
        for path, lines in read_history(snapshot, peer).bad.items():
            shown = ", ".join(map(str, lines[:_FEW])) + (" …" if len(lines) > _FEW else "")
            log = command("git log -p -- {}", path)
            remedy = f"{log} shows what they were; correct or remove the lines, and commit."
            if facts.hub.origin:
                push = command("git push origin {}", facts.hub.main)
                known = command("git update-ref {} {}", ORIGIN_REF, facts.hub.main)
                remedy += f" Then {push} and {known}; other clones say what to do there"
            yield problem(
                "ledger",
                f"{path}: no event in line {shown}",
                f"what became of branches of {peer} cannot be read, and nothing is decided on a guess",
                remedy,
            )


def check_open(facts: HubFacts) -> Iterator[Finding]:
    """``open`` is the fold of the history."""
    snapshot = _snapshot(facts)
    for peer in _peers(snapshot)[0]:
        path = ledger.open_path(peer)
        history = read_history(snapshot, peer)
        wanted = fold_history(history)
        # From a damaged history nothing is rebuilt: what a bad line said is not known.
        fix = None if history.bad else RebuildOpen(peer)
        remedy = "first mend the ledger's lines" if history.bad else "'cn doctor --fix' rebuilds it from the history"
        try:
            items = _plain(ledger.parse_open((snapshot.read(path) or b"").decode("utf-8")))
        except (LedgerRefused, UnicodeDecodeError) as error:
            why = one_line(error.text if isinstance(error, LedgerRefused) else str(error))
            yield problem("open", f"{path} is damaged: {why}", "runs cannot tell what is unfinished", remedy, fix)
            continue
        if items != wanted:
            topics = sorted(f"{s} {visible(t)}" for s, t in items.keys() | wanted.keys()
                            if items.get((s, t)) != wanted.get((s, t)))  # fmt: skip
            shown = ", ".join(topics[:_FEW]) + (f" and {len(topics) - _FEW} more" if len(topics) > _FEW else "")
            what = f"{path} differs from the history: {shown}"
            yield problem("open", what, "what is unfinished would be forgotten or done again", remedy, fix)


def _pending(snapshot: Snapshot) -> list[tuple[Name, Item]]:
    """Threads that wait, by the history, so that a damaged ``open`` hides none."""
    found = []
    for peer in _peers(snapshot)[0]:
        items = ledger.fold_history(read_history(snapshot, peer).events)
        found += [(peer, i) for (side, _), i in sorted(items.items()) if side == IN and i.get("thread")]
    return found


def check_folders(facts: HubFacts) -> Iterator[Finding]:
    """Nothing else lies in main where a folder of cn belongs."""
    for text, remedy, _ in find_displaced(facts.hub, _snapshot(facts)).values():
        yield problem("folders", text, "what belongs there can be neither read nor written", remedy)


def check_threads(facts: HubFacts) -> Iterator[Finding]:
    """Pending threads are where they belong, and nothing else is there."""
    snapshot = _snapshot(facts)
    pending = _pending(snapshot)
    in_main = {e.path for e in snapshot.folder(INBOX) if e.kind == "blob"}
    known = {item.get("thread") for _, item in pending}
    remedy = "'cn sync' restores it from main"
    for _, item in pending:
        path = inbox_path(ThreadName(item.get("thread")))
        name = path.rpartition("/")[2]
        if name not in in_main:
            why = "the ledger says that it waits for a decision"
            yield problem("threads", f"{visible(path)} is missing from main", why, "'cn sync' restores it from history")
            continue
        try:
            mode = (facts.hub.root / path).lstat().st_mode
        except OSError:
            yield problem("threads", f"{visible(path)} is missing from the work tree", "nobody can decide it", remedy)
            continue
        if not stat.S_ISREG(mode):
            yield problem("threads", f"{visible(path)} is no regular file", "it is not read", "move it away; " + remedy)
    yield from _strays(facts, known, in_main)


def _strays(facts: HubFacts, known: set[str], in_main: set[str]) -> Iterator[Finding]:
    try:
        with os.scandir(facts.hub.root / INBOX) as entries:
            here = {
                os.fsencode(e.name).decode("utf-8", "surrogateescape"): e.is_dir(follow_symlinks=False) for e in entries
            }
    except OSError:
        here = {}
    done = DONE.rpartition("/")[2]
    left = {path.removeprefix(f"{INBOX}/") for path in read_left(facts.hub)}  # cn's own, told elsewhere
    for name in sorted((here.keys() | in_main) - known - left - {done}):
        if name.startswith(".") or name.endswith("~"):
            continue
        what = f"{INBOX}/{visible(name)} is no thread cn knows"
        if name.endswith(".md") and not here.get(name):
            yield problem("inbox", what, "it is never executed", "move it elsewhere, for example to threads/adhoc/")
        else:
            yield info("inbox", what, "cn does not look at it", "move it elsewhere, for example to threads/adhoc/")


def check_outbox(facts: HubFacts) -> Iterator[Finding]:
    """Every entry of the outbox can be delivered as it was written."""
    entries, broken = _snapshot(facts).outbox()
    for path, why in broken:
        yield problem(
            "outbox", f"{visible(path)}: {why}", "it is not sent as long as its bytes are not what cn wrote",
            take_out(path),
        )  # fmt: skip
    attempts = Memory(facts.hub, now()).attempts.entries
    for path, entry in entries:
        tried = attempts.get(path.rpartition("/")[2])
        if tried:
            what = f"{path.rpartition('/')[2]} to {entry.to}: {tried.get('count')} attempts failed"
            remedy = str(tried.get("hint") or "") or "'cn outbox flush' tries again now"
            yield info("outbox", what, one_line(str(tried.get("reason"))), remedy)


def check_pins(facts: HubFacts) -> Iterator[Finding]:
    """Pins agree with the ledger, and what they name is here."""
    git = facts.hub.git
    snapshot = _snapshot(facts)
    refs = list_refs(git, PREFIX)
    pins = {key: oid for ref, oid in refs.items() if (key := parse_pin(ref))}
    for ref, oid in refs.items():
        if parse_pin(ref) is None:
            why = "cn did not write it; it is not read as a pin"
            remedy = "'cn doctor --fix' drops it"
            yield problem("pins", f"{visible(ref)} is no pin", why, remedy, SetPin(ref, oid, None))
    infos = read_info(git, list(pins.values()))
    known: dict[Name, dict[str, set[Oid]]] = {}
    damaged: set[Name] = set()
    for peer in _peers(snapshot)[0]:
        history = read_history(snapshot, peer)
        if history.bad:
            damaged.add(peer)
        for event in history.events:
            if event.side == IN and event.kind != "refused":
                known.setdefault(peer, {}).setdefault(encode(event.topic), set()).add(event.head)
    for (key, oid), found in zip(pins.items(), infos, strict=True):
        peer, side, component = key
        ref = f"refs/cn/pins/{peer}/{side}/{component}"
        if found is None or found.kind != "commit":
            why = "git cannot clean up or check the repository while a ref names nothing"
            remedy = "'cn doctor --fix' drops it; 'cn sync' fetches the branch again"
            what = f"the pin {visible(ref)} names {oid[:12]}, which is not here"
            yield problem("pins", what, why, remedy, SetPin(ref, oid, None))
        elif side == IN and peer not in damaged and oid not in known.get(peer, {}).get(component, set()):
            why = "a branch at this commit would never become a thread"
            remedy = "'cn doctor --fix' drops it; 'cn sync' looks at the branch again"
            what = f"the pin {visible(ref)} holds {oid[:12]}, and the ledger knows nothing of it"
            yield problem("pins", what, why, remedy, SetPin(ref, oid, None))
    yield from _unpinned(facts, snapshot, pins)


def _unpinned(facts: HubFacts, snapshot: Snapshot, pins: Mapping[Key, Oid]) -> Iterator[Finding]:
    pending = [(p, i) for p, i in _pending(snapshot) if not i.get("gone")]
    bare = [(p, i) for p, i in pending if (p, IN, encode(i.topic)) not in pins]
    infos = read_info(facts.hub.git, [i.head for _, i in bare])
    for (peer, item), found in zip(bare, infos, strict=True):
        here = found is not None and found.kind == "commit"
        fix = SetPin(pin_ref(peer, IN, item.topic), None, item.head) if here else None
        what = f"{peer}/{visible(item.topic)} is pending and has no pin"
        yield info(
            "pins", what, "a fresh clone has none, and git may prune the reviewed commit", "'cn sync' sets it", fix
        )


def check_objects(facts: HubFacts) -> Iterator[Finding]:
    """Main's tree is whole here, as far as cn reads it (``--full`` asks git to check everything)."""
    git, main = facts.hub.git, facts.main
    assert main is not None
    entries = list_tree(git, main, recursive=True)
    oids = list(dict.fromkeys(e.oid for e in entries if e.kind == "blob"))
    missing = [o for o, found in zip(oids, read_info(git, oids), strict=True) if found is None]
    names = [visible(e.path) for e in entries if e.oid in set(missing)]
    if not git.run("rev-parse", "--verify", "--quiet", f"{main}^{{tree}}", check=False).ok or missing:
        yield problem(
            "objects",
            f"objects of main are missing: {', '.join(names[:_FEW]) or 'its tree'}",
            "the repository is damaged",
            "'git fetch --refetch origin' brings them again, or copy .git/objects from another clone",
        )
    if not facts.full:
        return
    done = git.run("fsck", "--connectivity-only", "--no-dangling", "--no-progress", check=False)
    if not done.ok:
        lines = [line for line in (*done.lines, *done.err.splitlines()) if line.strip()]
        yield problem(
            "objects", f"git fsck: {one_line('; '.join(lines[:_FEW]), 400)}", "the repository is damaged",
            "'git fetch --refetch origin' brings missing objects again, or clone the hub anew",
        )  # fmt: skip
