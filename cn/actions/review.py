"""What a review does to threads: the decisions of :mod:`cn.inbox.triage`, and the way back."""

from __future__ import annotations

from pathlib import Path

from cn.git.repository import Hub
from cn.inbox.plan.review import Review as Review
from cn.inbox.plan.review import Written as Written
from cn.inbox.triage import Changed as Changed
from cn.inbox.triage import write_triage
from cn.inbox.working_copies import read_working
from cn.protocol.finality import is_final
from cn.protocol.layout import inbox_path
from cn.protocol.thread_file import TriageRefused, format_decision, read_decision, read_text
from cn.run.find_thread import NoThread as NoThread
from cn.run.settings import read_head_settings
from cn.run.view import open_view
from cn.system.files import write_file
from cn.transaction.lock import hub_lock
from cn.values.errors import Refused
from cn.values.names import ThreadName
from cn.values.report import Report


def decide(
    hub: Hub,
    thread: ThreadName,
    shown: bytes,
    decision: str,
    *,
    body: str = "",
    until: str = "",
    actor: str = "",
    approval: str = "",
) -> Written:
    """Write a decision about a thread that was shown as these bytes, and read it back.

    Raises what :func:`write_triage` does, :class:`Changed` among it.
    """
    write_triage(hub, thread, decision, body=body, until=until, actor=actor, approval=approval, shown=shown)
    written = read_edit(hub, thread, shown)
    if written is None:
        raise Refused(f"{inbox_path(thread)} does not hold the decision", "somebody else writes it too; look again")
    return written


def rehearse(
    hub: Hub, thread: ThreadName, shown: bytes, decision: str, *, body: str, until: str, actor: str, approval: str
) -> Report:
    """What :func:`decide` would write."""
    given = {"body": body, "until": until, "actor": actor, "approval": approval}
    return write_triage(hub, thread, decision, **given, shown=shown, dry_run=True)


def read_edit(hub: Hub, thread: ThreadName, shown: bytes) -> Written | None:
    """The decision that a thread's working copy holds now; None: it is as it was shown, or decides nothing.

    Raises :class:`Refused` for a section that must not decide.
    """
    view = open_view(hub)
    working, path = read_working(view.hub, thread), inbox_path(thread)
    if working is None or working.data == shown:
        return None
    try:
        triage = read_decision(read_text(working.data), read_text(view.snapshot.read(path) or b""))
    except TriageRefused as refused:
        raise Refused(f"{path}: {refused.text}", refused.hint) from None
    if triage is None:
        return None
    source = next((f"{p}/{i.topic}" for p, i in view.snapshot.pending() if i.get("thread") == thread), str(thread))
    final = is_final(triage.decision, view.settings.config)
    return Written(thread, source, format_decision(triage.decision), final, shown, working.data)


def working_path(hub: Hub, thread: ThreadName, shown: bytes) -> Path:
    """The file to open in an editor; :class:`Changed` if it is not what was shown."""
    working = read_working(hub, thread)
    if working is None or working.data != shown:
        raise Changed(f"{inbox_path(thread)} has changed since it was shown", "read it again")
    return hub.root / working.path


def take_back(hub: Hub, written: Written) -> None:
    """Bring the working copy back to what it was before a decision; :class:`Changed` if it is another by now."""
    hub, settings = read_head_settings(hub)
    with hub_lock(hub, settings.config.lock_wait):
        working, path = read_working(hub, written.thread), inbox_path(written.thread)
        if working is None or working.data != written.after:
            raise Changed(f"{path} has changed since it was written", "it stays as it is; look at it")
        write_file(hub.root / path, written.before, root=hub.root)
