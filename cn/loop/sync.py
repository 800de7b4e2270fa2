"""``cn inbox sync`` and ``cn sync``: fetch, write thread files, log, wake the agent, retry the outbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from cn.agent.hooks import TO_WAKE, WAKING, update_queue, wake
from cn.git.remote import HEADS, OWN, Listing
from cn.git.repository import ORIGIN_REF, Hub, list_included
from cn.inbox.arrivals import record_arrivals, record_moved_on, record_vanished
from cn.inbox.left_answers import believe_signed, look_again
from cn.inbox.pending import check_inbox, due_since, record_due, restore_pending
from cn.inbox.pinned_keys import check_pinned
from cn.inbox.shown_anew import show_anew
from cn.loop.idle_check import (
    AS_OURS,
    FETCHED,
    LONGEST,
    MEMORY,
    NOTE,
    files_text,
    looked,
    read_files,
    rows_of,
    seen_text,
)
from cn.loop.waiting import say_drafts
from cn.outbox.deliver import check_published, deliver, is_owed
from cn.outbox.moved_hubs import bring_moved, hold_back_moved
from cn.outbox.our_branches import record_ours, record_proven, take_back_answers
from cn.outbox.our_names import UNLISTED
from cn.outbox.told_again import tell_again
from cn.peers.first_contact import note_origin, to_fetch, whole_until
from cn.peers.links import tell_links
from cn.peers.observe import Observation, fetch_changed, head_name, observe, report_not_taken, report_strays
from cn.peers.older_state import hold_back_older
from cn.peers.routes import place_by_records
from cn.peers.strangers import hold_back_strangers
from cn.protocol.effects import Move, Plan
from cn.protocol.layout import DONE, SENT
from cn.protocol.ledger import IN, OUT
from cn.protocol.own_thread import DONE_CONCERNS
from cn.protocol.queue_item import LOGS, QUEUE, REFLECTIONS, TURN, Cadence
from cn.run.commit_apart import commit_apart
from cn.run.executor import Executor
from cn.run.run import Run, open_run
from cn.run.settings import MAILBOX_KEY
from cn.run.shown import sweep_shown
from cn.transaction.base import OriginDeclined
from cn.transaction.checkout import has_written_asides
from cn.transaction.housekeeping import sweep_kept, sweep_stale, tidy
from cn.transaction.push import parse_pin
from cn.transaction.unplaced import has_to_place
from cn.values.names import HubPath, Name, Oid, ThreadKey
from cn.values.report import Mark, Progress, Report
from cn.values.timestamps import format_day, parse_stamp

if TYPE_CHECKING:
    from cn.loop.idle_check import Files, Names

_WRITTEN = (MEMORY, TO_WAKE, "old", "push")
"""What a run may leave in its state folder; what of it makes the next one do something is looked at."""
_DAY = 86400
_QUARTER = timedelta(days=92)
_MOST = 500


class IdleNote:
    """The note of one sync, which may have brought something.

    What the run examined on this machine must be there at its end too: what is read and the names in the git
    directory from its begin on, the inbox since its commit was placed there.
    """

    def __init__(self, hub: Hub) -> None:
        self._root = str(hub.root)
        self._included = list_included(hub.git) if hub.config.includes else []
        self._before = self._look()
        self._placed: Files | None = None

    def _look(self) -> Files | None:
        try:
            return read_files(self._root, self._included)
        except OSError:
            return None

    def placed(self) -> None:
        """The commit of the run is in the work tree; what lies there is examined now."""
        self._placed = self._look()

    def write(self, run: Run, seen: Observation) -> None:
        """Write the note, or remove it, at the end of a run that holds the lock."""
        path = run.hub.state / NOTE
        files = self._kept_files()  # before it is asked whether these leave anything to do
        files = files if files is not None and _leaves_nothing(run, seen) else None
        until = min(_ends(run)) if files is not None else 0.0
        prefixes = [run.hub.main_ref if run.settings.mailbox else HEADS, OWN]
        refs = run.hub.git.run("for-each-ref", AS_OURS, *prefixes, check=False).out if until else b""
        if files is None or not _is_settled(run, seen, refs):
            path.unlink(missing_ok=True)
            return
        listings = {key: Listing(found) for key, found in seen.listings.items()}
        if run.hub.origin:
            listings[MAILBOX_KEY][run.hub.main] = run.base.tip  # where it is not, the next run is ordinary
        fetched = to_fetch(run.hub, run.settings, run.memory) if MAILBOX_KEY in seen.urls else None
        if fetched is not None:
            listings[MAILBOX_KEY] = fetched.of(listings[MAILBOX_KEY])
        facts = {
            "until": str(until),
            "direct": "yes" * run.hub.git.direct,
            "seconds": str(run.settings.config.limits.peer_seconds),
            "refs": " ".join(prefixes),
            FETCHED: " ".join((fetched.key, fetched.branch, str(fetched.most), *fetched.prefixes)) if fetched else "",
            "files": files_text(self._root, files),
            "seen": seen_text(refs, {key: rows_of({**found}) for key, found in listings.items()}),
        }
        lines = [f"{key} {value}\n" for key, value in facts.items()]
        lines += [f"config {path}\n" for path in self._included]
        lines += [f"url {key}\t{url}\n" for key, url in seen.urls.items()]
        # Not flushed to the disk: one that was cut off has no match, and the next run is ordinary.
        beside = path.with_name(f"{NOTE}.new")
        beside.write_text("".join(lines), "utf-8", "surrogateescape")
        beside.replace(path)

    def _kept_files(self) -> Files | None:
        """What is there now, if nobody but this run changed it; without the threads to be woken for.

        For these somebody is woken as soon as the lock is free. Where that fails they are still there, and
        the next run is an ordinary one.
        """
        now = self._look()
        if self._before is None or self._placed is None or now is None:
            return None
        (_, *read), (git_dir, state, inbox, drafts), asides = now
        (_, *read_before), (git_dir_before, state_before, _, drafts_before), _ = self._before
        same = read == read_before and git_dir == git_dir_before and inbox == self._placed[1][2]
        same = same and drafts == drafts_before
        same = same and set(_without(state, _WRITTEN)) <= set(state_before)
        return (now[0], [git_dir, _without(state, (TO_WAKE,)), inbox, drafts], asides) if same else None


def _without(names: Names, others: Container[str]) -> Names:
    return [one for one in names if one[0] not in others]


def _leaves_nothing(run: Run, seen: Observation) -> bool:
    """Did the run do all it was to do, reach everybody, and is there nothing that the next one would tell?

    Where an agent is at an item, or another remote than origin is the mailbox, runs stay ordinary.
    """
    hub, snapshot = run.hub, run.snapshot
    plain = hub.git_dir == hub.work_git_dir == hub.root / ".git" and not (hub.git_dir / "worktrees").exists()
    whole = {key for key, listing in seen.listings.items() if listing.whole or listing.fetched is not None}
    reached = set(seen.urls) == whole and not run.memory.unreachable.entries
    entries, broken = snapshot.outbox()
    at_rest = not broken and all(is_owed(run.settings, entry) for _, entry in entries) and snapshot.read(TURN) is None
    at_rest = at_rest and not run.memory.stopped and not run.memory.conditions.names("displaced")
    waits = any(run.memory.section(name) for name in ("absent", "older", UNLISTED))
    at_rest = at_rest and not waits
    at_rest = at_rest and not seen.strange
    # What moved while it was fetched may be back; a refused thread counts as soon as somebody decides it.
    at_rest = at_rest and not has_to_place(hub) and not (hub.state / WAKING).exists()
    at_rest = at_rest and not has_written_asides(hub) and not any(seen.missing.values())
    at_rest = at_rest and not any(item.fields.get("rule") for _, item in snapshot.pending())
    if run.settings.config.interface == "queue":
        waiting = [entry for entry in snapshot.folder(QUEUE) if entry.path.endswith(".md") or entry.kind == "tree"]
        at_rest = at_rest and not waiting
    told = all(note.mark is Mark.DONE for note in run.report.notes)  # the others may be told again
    return plain and reached and at_rest and told and not run.settings.separate_mailbox


def _is_settled(run: Run, seen: Observation, refs: bytes) -> bool:
    """Is main what the run left, here and at origin, and is all that was listed pinned as it is?"""
    rows = [line.split(" ", 1) for line in refs.decode("utf-8", "surrogateescape").split("\n") if line]
    found = {name: oid.rstrip("* ") for name, oid in rows}
    pins = {key: Oid(oid) for name, oid in found.items() if (key := parse_pin(name)) is not None}
    now = replace(seen, pins=pins)
    heads = {name.removeprefix(HEADS): oid for name, oid in found.items() if name.startswith(HEADS)}
    main = run.base.tip
    if run.hub.origin and MAILBOX_KEY not in seen.listings:
        return False  # without peers nobody lists origin, where main may move
    if found.get(run.hub.main_ref) != main or (run.hub.origin and found.get(ORIGIN_REF) != main):
        return False
    if not run.settings.mailbox and heads != {**seen.heads, run.hub.main: main}:
        return False
    return not any(now.changed(side) or now.vanished(side) for side in (IN, OUT))


def _ends(run: Run) -> Iterator[float]:
    """Seconds since the epoch up to which nothing happens by time alone (see ``record_due``)."""
    start = run.now.timestamp()
    yield start + LONGEST
    yield start // _DAY * _DAY + _DAY
    if until := whole_until(run.memory):
        yield until.timestamp()
    if run.settings.config.interface == "queue":
        from cn.agent.queue import next_look

        if look := next_look(run.memory):
            yield look.timestamp()
    snapshot = run.snapshot
    for _, item in snapshot.pending():
        if item.state == "deferred" and item.get("until"):
            yield parse_stamp(item.get("until")).timestamp()
    for peer, item in snapshot.outbound():
        if item.get("about") or item.get("kind") == "notice":
            old = item.since.timestamp() + run.settings.config.notice_days * _DAY
            seen = due_since(run.memory.section("due")).get(f"{peer}/{item.topic} {item.head}")
            yield seen.timestamp() + _DAY if seen else old


def sync(
    hub: Hub,
    *,
    only: Iterable[Name] | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """One sync. ``only`` limits it to some peers, ``force`` ignores back-off."""
    note = None if only is not None or force or dry_run else IdleNote(hub)
    just_looked = looked.pop() if looked and note is not None else None
    fetched = None if note is None else to_fetch
    with open_run(hub, dry_run=dry_run, progress=progress, looked=just_looked, kind="sync", fetched=fetched) as run:
        chosen = None if only is None else [run.settings.peer(name).name for name in only]
        seen = observe(run, only=chosen, force=force)
        place_by_records(run, seen)
        at_origin = seen.urls.get(MAILBOX_KEY) == "origin"
        note_origin(run.memory, run.settings, seen.listings.get(MAILBOX_KEY) if at_origin else None)
        hold_back_strangers(run, seen)
        hold_back_older(run, seen)
        hold_back_moved(run, seen)
        check_published(run, seen.listings.get(MAILBOX_KEY))
        keys = fetch_changed(run, seen, force=force)
        report_strays(run, seen)
        _commit(run, seen, keys, force=force)
        if note is not None:
            note.placed()
        check_inbox(run)
        say_drafts(run)
        deliver(run, force=force)
        if not dry_run and run.memory.begin("sweep"):
            sweep_stale(run.hub)
            sweep_kept(run.hub)
            sweep_shown(run.hub, {item.get("thread") for _, item in run.snapshot.pending()})
        run.report.untidy = not dry_run and run.memory.begin("tidy", "%Y%m%d%H")
        if note is not None:
            run.memory.save()
            note.write(run, seen)
    if not dry_run:
        wake(run)
    return run.report


def _commit(run: Run, seen: Observation, keys: Sequence[ThreadKey], *, force: bool) -> None:
    """Commit what arrived; what origin does not take keeps nothing else out, and is tried by itself later. Its branch
    moved all the same: what was shown and decided of it before is not merged.
    """

    def commit(some: Sequence[ThreadKey], moved: Sequence[ThreadKey] = ()) -> None:
        later = set(keys).difference(some, moved)
        run.commit(lambda executor: gather_sync(run, executor, seen, some, later))

    alone = [key for key in keys if head_name(key, seen.listed[IN][key][1]) in run.memory.not_taken.entries]
    groups: dict[Name, list[ThreadKey]] = {}
    for key in keys:
        if key not in alone:
            groups.setdefault(key[0], []).append(key)
    refused, untried = commit_apart(run, commit, list(groups.values()), alone)
    for key, why in refused:
        report_not_taken(run, seen, key, why, tell=force)
        with suppress(OriginDeclined):
            commit((), [key])
    for peer, count in Counter(peer for peer, _ in untried).items():
        text = f"{peer}: {count} more branches wait for the next run: origin refused others again and again"
        run.report.info(text, source=peer)


def finish(hub: Hub, report: Report) -> None:
    """What can wait until the report was shown, and needs no lock."""
    if report.untidy:
        tidy(hub)


def gather_sync(
    run: Run, executor: Executor, seen: Observation, keys: Sequence[ThreadKey], later: Container[ThreadKey] = ()
) -> str | None:
    """All that a sync decides, on one base, but what is about the branches of ``later``."""
    record_vanished(executor, seen)
    record_arrivals(executor, seen, keys)
    record_moved_on(executor, seen, later)
    look_again(executor, seen, record_ours(executor, seen))
    bring_moved(executor, seen)
    record_proven(executor, seen)
    believe_signed(executor, seen)
    take_back_answers(executor, seen)
    tell_again(executor, seen)
    tell_links(executor, seen)
    record_due(executor)
    check_pinned(executor)
    show_anew(executor)
    restore_pending(executor)
    update_queue(run, executor)
    if not executor.empty and run.memory.begin("rotation"):
        _rotate(executor)
    arrived = sum(row.decision in ("received", "rewritten", "moved") for row in executor.rows)
    return f"cn: sync, {arrived} new" if arrived else "cn: sync"


def _rotate(executor: Executor) -> None:
    """Move at most a bounded number of files older than a quarter of a year to a folder of their year."""
    limit = format_day(executor.now - _QUARTER)
    folders = (DONE, SENT, *LOGS.values(), f"{REFLECTIONS}/{Cadence.DAILY.value}", DONE_CONCERNS)
    for folder, entries in executor.snapshot.folders(folders).items():
        names = [e.path for e in entries if e.kind == "blob"]
        old = [n for n in names if n[:8].isdigit() and n[:8] < limit and f"{folder}/{n}" not in executor.changed]
        old = sorted(old)[:_MOST]
        for name in old:
            new = HubPath(f"{folder}/{name[:4]}/{name}")
            executor.perform(Plan(folder, (Move(HubPath(f"{folder}/{name}"), new),)))
