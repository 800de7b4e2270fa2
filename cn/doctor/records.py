"""Checks of cn's records in main: ledger, open items, threads, outbox, pins."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

from cn.doctor.finding import Finding, Fix, HubFacts, Step, info, problem, read_history
from cn.git.fast_import import FileChange
from cn.git.objects import list_refs, list_tree, read_info
from cn.git.process import Git, mend_objects
from cn.git.remote import PINS
from cn.git.repository import ORIGIN_REF, Hub
from cn.inbox.working_copies import may_be_of, unread
from cn.protocol import ledger
from cn.protocol.layout import DONE, INBOX, inbox_path
from cn.protocol.ledger import IN, Item, LedgerRefused
from cn.protocol.outbox_entry import take_out
from cn.run.memory import Memory
from cn.run.run import find_displaced
from cn.run.snapshot import Snapshot
from cn.system.clock import now
from cn.transaction.base import Base
from cn.transaction.commit import Draft, commit
from cn.transaction.push import Key, encode, parse_pin, pin_ref
from cn.transaction.unplaced import read_unplaced
from cn.values.errors import Refused
from cn.values.names import Name, Oid, ThreadName, is_name
from cn.values.shell_words import command
from cn.values.text import counted, one_line, visible
from cn.values.timestamps import format_age, from_epoch

_FEW = 5
_AGAIN = 3
"""After so many attempts in vain a delivery needs somebody."""
_BEHIND = timedelta(hours=1)


def _few(words: Sequence[object], more: str = "") -> str:
    """The first of many; ``more`` is added with the number of the others, where there are."""
    return ", ".join(map(str, words[:_FEW])) + (more.format(len(words) - _FEW) if len(words) > _FEW else "")


def check_ledger(facts: HubFacts) -> Iterator[Finding]:
    """Every line of the ledger is an event."""
    for entry in facts.snapshot.folder(ledger.FOLDER):
        if not (entry.kind == "tree" and is_name(entry.path)) and not entry.path.startswith("."):
            yield info(f"{ledger.FOLDER}/{visible(entry.path)} is no peer's ledger", "", "cn does not read it")
    for peer, history in facts.histories.items():
        for path, lines in history.bad.items():
            if not lines:
                continue  # told by the check of the objects
            log = command("git log -p -- {}", path)
            remedy = f"{log} shows what they were; correct or remove the lines, and commit."
            if facts.hub.origin:
                push = command("git push origin {}", facts.hub.main_ref)
                known = command("git update-ref {} {}", ORIGIN_REF, facts.hub.main_ref)
                remedy += f" Then {push} and {known}; other clones say what to do there"
            why = f"what became of branches of {peer} cannot be read, and nothing is decided on a guess"
            yield problem(f"{path}: no event in line {_few(lines, ' …')}", why, remedy)


def check_open(facts: HubFacts) -> Iterator[Finding]:
    """``open`` is the fold of the history."""
    for peer, history in facts.histories.items():
        path = ledger.open_path(peer)
        wanted = ledger.fold_history(history.events)
        fix: Fix | None = Fix(Step.REBUILD_OPEN, f"rebuild {path} from the history", partial(_rebuild, peer))
        remedy = "'cn doctor --fix' rebuilds it from the history"
        if history.bad:  # nothing is rebuilt: what a bad line said is not known
            fix, remedy = None, "first mend the ledger"
        try:
            items = ledger.parse_open((facts.snapshot.read(path) or b"").decode("utf-8"))
        except (LedgerRefused, UnicodeDecodeError) as error:
            why = one_line(error.text if isinstance(error, LedgerRefused) else str(error))
            yield problem(f"{path} is damaged: {why}", "runs cannot tell what is unfinished", remedy, fix)
            continue
        if items != wanted:
            keys = [key for key in items.keys() | wanted.keys() if items.get(key) != wanted.get(key)]
            topics = sorted(f"{side} {visible(topic)}" for side, topic in keys)
            what = f"{path} differs from the history: {_few(topics, ' and {} more')}"
            yield problem(what, "what is unfinished would be forgotten or done again", remedy, fix)


def _rebuild(peer: Name, hub: Hub, rescue: str) -> str:
    """Write ``open`` from the history that the authority has, in the usual transaction."""
    path = ledger.open_path(peer)

    def plan(base: Base) -> Draft | None:
        history = read_history(Snapshot(hub.git, base.tip), peer)
        if history.bad:
            raise Refused(f"the ledger of {peer} is damaged", "mend its lines first")
        data = ledger.format_open(ledger.fold_history(history.events)).encode()
        return Draft(base.tip, (FileChange(path, data),), f"cn: doctor: rebuild {path}", now(), {})

    commit(hub, plan)
    return f"rebuilt {path} from the history"


def _damaged(facts: HubFacts) -> set[Name]:
    """The peers whose history cannot be read: nothing is told of what it does not say."""
    return {peer for peer, history in facts.histories.items() if history.bad}


def _pending(facts: HubFacts) -> list[tuple[Name, Item]]:
    """Threads that wait, by the history, so that a damaged ``open`` hides none; by none that cannot be read."""
    found = []
    for peer, history in facts.histories.items():
        if history.bad:
            continue
        items = ledger.fold_history(history.events)
        found += [(peer, i) for (side, _), i in sorted(items.items()) if side == IN and i.get("thread")]
    return found


def check_clock(facts: HubFacts) -> Iterator[Finding]:
    """This machine's clock is not behind what others have committed."""
    latest = from_epoch(facts.hub.git.run("show", "-s", "--format=%ct", str(facts.main)).text)
    if latest - facts.now > _BEHIND:
        what = f"the clock here is {format_age(latest - facts.now)} behind the last commit of {facts.hub.main}"
        why = "git goes by the dates of commits: where these are older than all before them, it finds no common history"
        yield info(what, why, "set the clock of this machine, or of the one that made that commit, whichever is wrong")


def check_folders(facts: HubFacts) -> Iterator[Finding]:
    """Nothing else lies in main where a folder of cn belongs."""
    for one in find_displaced(facts.hub, facts.snapshot).values():
        yield problem(one.text, "what belongs there can be neither read nor written", one.remedy)


def check_threads(facts: HubFacts) -> Iterator[Finding]:
    """Pending threads are where they belong, and nothing else is there."""
    in_main = {e.path for e in facts.snapshot.folder(INBOX) if e.kind == "blob"}
    known = {item.get("thread") for _, item in _pending(facts)}
    remedy = "'cn sync' restores it from main"
    for name in (item.get("thread") for _, item in _pending(facts)):
        path = inbox_path(ThreadName(name))
        if name not in in_main:
            why = "the ledger says that it waits for a decision"
            yield problem(f"{visible(path)} is missing from main", why, "'cn sync' restores it from history")
            continue
        try:
            mode = (facts.hub.root / path).lstat().st_mode
        except OSError:
            yield problem(f"{visible(path)} is missing from the work tree", "nobody can decide it", remedy)
            continue
        if not stat.S_ISREG(mode):
            yield problem(f"{visible(path)} is no regular file", "it is not read", "move it away; " + remedy)
        for text, help_ in unread(facts.hub, [ThreadName(name)]).values():
            yield problem(text, "nobody else can decide it", help_)
    yield from _strays(facts, known, in_main)


def _strays(facts: HubFacts, known: set[str], in_main: set[str]) -> Iterator[Finding]:
    here: dict[str, bool] = {}
    try:
        with os.scandir(facts.hub.root / INBOX) as entries:
            for e in entries:
                here[os.fsencode(e.name).decode("utf-8", "surrogateescape")] = e.is_dir(follow_symlinks=False)
    except OSError:
        here = {}
    left = {path.removeprefix(f"{INBOX}/") for path in read_unplaced(facts.hub).left}  # cn's own, told elsewhere
    damaged = _damaged(facts)
    for name in sorted((here.keys() | in_main) - known - left - {DONE.rpartition("/")[2]}):
        if name.startswith(".") or name.endswith("~"):
            continue
        if may_be_of(name, damaged):
            what = f"whether {INBOX}/{visible(name)} waits for a decision cannot be told"
            yield info(what, "the ledger of its peer cannot be read", "first mend the ledger", check="inbox")
            continue
        what = f"{INBOX}/{visible(name)} is no thread cn knows"
        where = "move it elsewhere, for example to threads/adhoc/"
        if name in in_main:
            where = f"{command('git rm -- {}', f'{INBOX}/{name}')}, a commit and its push take it out of main"
        if name.endswith(".md") and not here.get(name):
            yield problem(what, "it is never executed", where, check="inbox")
        else:
            yield info(what, "cn does not look at it", where, check="inbox")


def check_outbox(facts: HubFacts) -> Iterator[Finding]:
    """Every entry of the outbox can be delivered as it was written."""
    entries, broken = facts.snapshot.outbox()
    for path, why in broken:
        what = f"{visible(path)}: {why}"
        yield problem(what, "it is not sent as long as its bytes are not what cn wrote", take_out(path))
    memory = Memory(facts.hub, facts.now)
    attempts = (memory.know_hubs(facts.settings.hubs) if facts.settings is not None else memory).attempts.entries
    for path, entry in entries:
        if tried := attempts.get(path.rpartition("/")[2]):
            what = f"{path.rpartition('/')[2]} to {entry.to}: {counted(int(tried.get('count') or 0), 'attempt')} failed"
            remedy = str(tried.get("hint") or "") or "'cn outbox flush' tries again now"
            again = int(tried.get("count", 0)) >= _AGAIN
            yield (problem if again else info)(what, one_line(str(tried.get("reason"))), remedy)


def _set_pin(ref: str, old: Oid | None, new: Oid | None) -> Fix:
    """Set a pin, or with None drop it. ``old`` is what it holds now (None: nothing)."""
    pin = f"the pin {visible(ref)}"

    def apply(hub: Hub, rescue: str) -> str:
        line = f"update {ref}\0{new}\0{'0' * len(new)}\0" if new else f"delete {ref}\0{old}\0"
        hub.git.run("update-ref", "-z", "--stdin", stdin=line.encode("utf-8", "surrogateescape"))
        return f"set {pin}" if new else f"dropped {pin}"

    return Fix(Step.SET_PIN, f"set {pin} to {new[:12]}" if new else f"drop {pin}", apply, (ref, old))


def check_pins(facts: HubFacts) -> Iterator[Finding]:
    """Pins agree with the ledger, and what they name is here."""
    refs = list_refs(facts.hub.git, PINS)
    names = {key: ref for ref in refs if (key := parse_pin(ref))}
    pins = {key: refs[ref] for key, ref in names.items()}
    drops = "'cn doctor --fix' drops it"
    for ref, oid in refs.items():
        if parse_pin(ref) is None:
            why = "cn did not write it; it is not read as a pin"
            yield problem(f"{visible(ref)} is no pin", why, drops, _set_pin(ref, oid, None))
    infos = read_info(facts.hub.git, list(pins.values()))
    known = {
        (peer, encode(event.topic), event.head)
        for peer, history in facts.histories.items()
        for event in history.events
        if event.side == IN and event.kind != "refused"
    }
    damaged = _damaged(facts)
    for (key, oid), found in zip(pins.items(), infos, strict=True):
        (peer, side, component), ref = key, names[key]
        fix = _set_pin(ref, oid, None)
        if found is None or found.kind != "commit":
            what = f"the pin {visible(ref)} names {oid[:12]}, which is not here"
            why = "git cannot clean up or check the repository while a ref names nothing"
            yield problem(what, why, f"{drops}; 'cn sync' fetches the branch again", fix)
        elif side == IN and peer not in damaged and (peer, component, oid) not in known:
            what = f"the pin {visible(ref)} holds {oid[:12]}, and the ledger knows nothing of it"
            why = "a branch at this commit would never become a thread"
            yield problem(what, why, f"{drops}; 'cn sync' looks at the branch again", fix)
    yield from _unpinned(facts, pins)


def _unpinned(facts: HubFacts, pins: Mapping[Key, Oid]) -> Iterator[Finding]:
    pending = [(p, i) for p, i in _pending(facts) if not i.get("gone")]
    bare = [(p, i) for p, i in pending if (p, IN, encode(i.topic)) not in pins]
    infos = read_info(facts.hub.git, [i.head for _, i in bare])
    for (peer, item), found in zip(bare, infos, strict=True):
        here = found is not None and found.kind == "commit"
        fix = _set_pin(pin_ref(peer, IN, item.topic), None, item.head) if here else None
        what = f"{peer}/{visible(item.topic)} is pending and has no pin"
        sets = "'cn sync' sets it, or says that the branch is gone (where a mirror may lag, after a day)"
        yield info(what, "a fresh clone has none, and git may prune the reviewed commit", sets, fix)


def check_objects(facts: HubFacts) -> Iterator[Finding]:
    """Main's tree is whole here: each file of it is read to its end (``--full`` asks git to check everything)."""
    git, main = facts.hub.git, facts.snapshot.commit
    entries = list_tree(git, main, recursive=True)
    oids = list(dict.fromkeys(e.oid for e in entries if e.kind == "blob"))
    missing = {o for o, found in zip(oids, read_info(git, oids), strict=True) if found is None}
    names = [visible(e.path) for e in entries if e.oid in missing]
    damaged, again = "the repository is damaged", mend_objects(str(facts.hub.git_dir / "objects"), facts.hub.main_ref)
    if not git.run("rev-parse", "--verify", "--quiet", f"{main}^{{tree}}", check=False).ok or missing:
        what = f"objects of main are missing: {_few(names) or 'its tree'}"
        yield problem(what, damaged, again)
    if cut := _unreadable(git, [oid for oid in oids if oid not in missing]):
        names = [visible(e.path) for e in entries if e.oid in cut]
        what = f"{_few(names) or 'a file of main'} cannot be read: {one_line(cut, 400)}"
        yield problem(what, damaged, f"move the file that git names away; {again}")
    if not facts.full:
        return
    done = git.run("fsck", "--no-dangling", "--no-progress", check=False)
    if not done.ok:
        lines = [line for line in (*done.lines, *done.err.splitlines()) if line.strip()]
        what = f"git fsck: {one_line('; '.join(lines[:_FEW]), 400)}"
        yield problem(what, damaged, f"{again}, or clone the hub anew")


def _unreadable(git: Git, blobs: list[Oid]) -> str:
    """What git says of the first that it cannot read to its end (git-cat-file(1), ``--batch``), or nothing."""
    with tempfile.TemporaryFile() as names:
        names.write("".join(f"{oid}\n" for oid in blobs).encode())
        names.seek(0)
        with git.start("cat-file", "--batch", "--buffer", stdin=names) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            while child.stdout.read(1 << 20):
                pass
            err = child.stderr.read().decode("utf-8", "replace")
    return "" if child.returncode == 0 else err.strip() or f"git cat-file ended with {child.returncode}"
