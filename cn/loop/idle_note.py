"""Note that a sync found nothing to do, for :mod:`cn.loop.idle_check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cn.agent.reflections import next_look
from cn.agent.wake_command import has_pending
from cn.git.remote import HEADS
from cn.inbox.due import due_since
from cn.loop.idle_check import AS_OURS, LONGEST, NOTE, files_text, rows_of, seen_text
from cn.peers.observe import Observation
from cn.protocol.queue_item import QUEUE, TURN
from cn.run.run import Run
from cn.run.settings import MAILBOX_KEY
from cn.transaction.origin import ORIGIN_REF
from cn.transaction.pins import parse_pin
from cn.transaction.unplaced import read_left
from cn.values.timestamps import parse_stamp

_DAY = 86400


class Watch:
    """Notes a quiet run: what it began with on this machine must be there at its end too."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files = self._look()

    def _look(self) -> str:
        try:
            return files_text(str(self._root))
        except OSError:
            return ""

    def note(self, run: Run, seen: Observation) -> None:
        """Write the note, or remove it, at the end of a run that holds the lock."""
        path = run.hub.state / NOTE
        until = min(_ends(run)) if _found_nothing(run, seen) else 0.0
        prefixes = [run.hub.main_ref if run.settings.mailbox else HEADS, "refs/cn/"]
        refs = run.hub.git.run("for-each-ref", AS_OURS, *prefixes, check=False).out if until else b""
        if not until or not _as_planned(run, seen, refs) or not self._files or self._look() != self._files:
            path.unlink(missing_ok=True)
            return
        facts = {
            "until": str(until),
            "direct": "yes" * run.hub.git.direct,
            "seconds": str(run.settings.config.limits.peer_seconds),
            "refs": " ".join(prefixes),
            "files": self._files,
            "seen": seen_text(refs, {key: rows_of(dict(found)) for key, found in seen.listings.items()}),
        }
        lines = [f"{key} {value}\n" for key, value in facts.items()]
        lines += [f"url {key}\t{url}\n" for key, url in seen.urls.items()]
        # Not flushed to the disk: one that was cut off has no match, and the next run is ordinary.
        beside = path.with_name(f"{NOTE}.new")
        beside.write_text("".join(lines), "utf-8", "surrogateescape")
        beside.replace(path)


def _found_nothing(run: Run, seen: Observation) -> bool:
    """Did the run say nothing, leave nothing to do, reach everybody, and is nobody to be woken?

    Where an agent is at an item, or another remote than origin is the mailbox, runs stay ordinary.
    """
    hub, snapshot = run.hub, run.snapshot()
    plain = hub.git_dir == hub.work_git_dir == hub.root / ".git" and not (hub.git_dir / "worktrees").exists()
    asked = set(seen.urls) == set(seen.listings) and not has_pending(hub)
    at_rest = (
        not snapshot.outbox_paths() and not run.memory.unreachable.entries and snapshot.read(TURN) is None
    )
    at_rest = at_rest and not run.memory.stop.entries
    # What moved while it was fetched may be back; a refused thread counts as soon as somebody decides it.
    at_rest = at_rest and not read_left(hub)
    at_rest = at_rest and not (seen.missing or seen.missing_ours)
    at_rest = at_rest and not any(item.get("rule") for _, item in snapshot.pending())
    if run.settings.config.interface == "queue":
        waiting = [
            entry for entry in snapshot.folder(QUEUE) if entry.path.endswith(".md") or entry.kind == "tree"
        ]
        at_rest = at_rest and not waiting
    return plain and asked and at_rest and not run.report.notes and not run.settings.separate_mailbox


def _as_planned(run: Run, seen: Observation, refs: bytes) -> bool:
    """Are our refs, and origin's main, still those that the run planned on?"""
    rows = [line.split(" ", 1) for line in refs.decode("utf-8", "surrogateescape").split("\n") if line]
    found = {name: oid.rstrip("* ") for name, oid in rows}
    pins = {key: oid for name, oid in found.items() if (key := parse_pin(name)) is not None}
    heads = {name.removeprefix(HEADS): oid for name, oid in found.items() if name.startswith(HEADS)}
    base = run.base
    if found.get(run.hub.main_ref) != base.tip or pins != seen.pins:
        return False
    if not run.settings.mailbox and heads != seen.heads:
        return False
    if not run.hub.origin:
        return True
    listed = seen.listings.get(MAILBOX_KEY, {}).get(run.hub.main)
    return listed == base.origin == found.get(ORIGIN_REF) == base.tip


def _ends(run: Run) -> Iterator[float]:
    """Seconds since the epoch up to which nothing happens by time alone (see ``record_due``)."""
    start = run.now.timestamp()
    yield start + LONGEST
    yield start // _DAY * _DAY + _DAY
    if run.settings.config.interface == "queue" and (look := next_look(run.memory)):
        yield look.timestamp()
    for _, item in run.snapshot().pending():
        if item.state == "deferred" and item.get("until"):
            yield parse_stamp(item.get("until")).timestamp()
    for peer, item in run.snapshot().outbound():
        if item.get("about") or item.get("kind") == "notice":
            old = item.since.timestamp() + run.settings.config.notice_days * _DAY
            seen = due_since(run.memory).get(f"{peer}/{item.topic} {item.head}")
            yield seen.timestamp() + _DAY if seen else old
