"""``cn doctor --fix``: the repairs that cannot lose anything.

Under the lock, after the hub was examined again, and after a rescue ref: main and the pins
that change stay reachable at ``refs/cn/rescue/<stamp>``, locks are moved, not removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import assert_never

from cn.doctor import examine
from cn.doctor.finding import Finding, FinishRun, Fix, MoveLock, RebuildOpen, SetPin, SweepFailed, repaired
from cn.doctor.records import fold_history, read_history
from cn.git.fast_import import FileChange
from cn.git.objects import list_refs, resolve, update_refs
from cn.git.repository import Hub
from cn.git.running import git_processes
from cn.protocol import ledger
from cn.protocol.hub_config import LOCK_WAIT
from cn.run.settings import read_head_settings
from cn.run.snapshot import Snapshot
from cn.system.clock import now
from cn.system.files import free_name, move
from cn.transaction.base import Base
from cn.transaction.commit import Draft, commit, recover
from cn.transaction.housekeeping import sweep_failed
from cn.transaction.lock import hub_lock
from cn.values.errors import CnError, Refused
from cn.values.names import Name, Oid
from cn.values.report import Report
from cn.values.text import visible

_ORDER: tuple[type[Fix], ...] = (SweepFailed, MoveLock, FinishRun, SetPin, RebuildOpen)


def describe(fix: Fix) -> str:
    """One line for a dry run."""
    match fix:
        case FinishRun():
            return "finish or take back the interrupted run"
        case MoveLock(path, _, _):
            return f"move the stale lock {visible(str(path))} to .git/cn/rescue"
        case SweepFailed():
            return "remove unfinished files of git"
        case RebuildOpen(peer):
            return f"rebuild {ledger.open_path(peer)} from the history"
        case SetPin(ref, _, None):
            return f"drop the pin {visible(ref)}"
        case SetPin(ref, _, new):
            return f"set the pin {visible(ref)} to {str(new)[:12]}"


def plan_repairs(findings: list[Finding]) -> Report:
    """What ``--fix`` would do."""
    report = Report()
    for finding in findings:
        if finding.fix is not None:
            report.plan(describe(finding.fix))
    return report


def repair(hub: Hub, *, full: bool = False) -> tuple[list[Finding], Report]:
    """Repair what can be repaired; the findings afterwards, and what was done."""
    report = Report()
    wait = LOCK_WAIT
    with suppress(CnError):
        hub, settings = read_head_settings(hub)
        wait = settings.config.lock_wait
    with hub_lock(hub, wait) as held:
        before = examine(held, full=full, locked=True)
        fixes = [f.fix for f in before if f.fix is not None]
        if not fixes:
            return before, report
        stamp = f"{now():%Y%m%dT%H%M%SZ}"
        try:
            _rescue(held, stamp, fixes, report)
        except CnError as error:
            report.failed(f"nothing was repaired, because no rescue ref could be made: {error.text}", error.hint)
            return before, report
        for fix in sorted(fixes, key=lambda f: _ORDER.index(type(f))):
            try:
                report.done(_apply(held, stamp, fix))
            except CnError as error:
                report.failed(f"could not {describe(fix)}: {error.text}", error.hint)
            except OSError as error:
                report.failed(f"could not {describe(fix)}: {error.strerror}")
        after = examine(held, full=full, locked=True)
    still = {(f.check, f.what) for f in after}
    mended = [repaired(f) for f in before if f.fix is not None and (f.check, f.what) not in still]
    return [*mended, *after], report


def _rescue(hub: Hub, stamp: str, fixes: Sequence[Fix], report: Report) -> None:
    """Keep main and the pins that go at one ref."""
    main = resolve(hub.git, hub.main_ref)
    olds = [f.old for f in fixes if isinstance(f, SetPin) and f.old is not None]
    heads = [h for h in dict.fromkeys([main, *olds]) if h is not None and resolve(hub.git, h)]
    if not heads:
        return
    taken = list_refs(hub.git, "refs/cn/rescue/")
    ref = next(r for n in range(1, 1000) if (r := f"refs/cn/rescue/{stamp}{f'-{n}' if n > 1 else ''}") not in taken)
    tip = heads[0]
    if len(heads) > 1:
        name, email = hub.identity
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
               for key, value in (("NAME", name), ("EMAIL", email))}  # fmt: skip
        parents = [word for head in heads for word in ("-p", str(head))]
        lines = [f"{f.ref} {f.old}" for f in fixes if isinstance(f, SetPin)]
        message = "\n".join(["cn: before doctor --fix", "", *lines, ""]).encode("utf-8", "replace")
        git = hub.git.with_env(**who)
        tip = Oid(git.run("commit-tree", *parents, "-F", "-", f"{heads[0]}^{{tree}}", stdin=message).text)
    update_refs(hub.git, [(ref, tip)])
    report.info(f"what was there before is kept at {ref}")


def _apply(hub: Hub, stamp: str, fix: Fix) -> str:
    match fix:
        case FinishRun():
            return "; ".join(recover(hub)) or "there was nothing left to finish"
        case MoveLock():
            return _move_lock(hub, stamp, fix)
        case SetPin(ref, old, new):
            zero = "0" * len(old or new or "")
            lines = f"update {ref}\0{new}\0{zero}\0" if new else f"delete {ref}\0{old}\0"
            hub.git.run("update-ref", "-z", "--stdin", stdin=lines.encode("utf-8", "surrogateescape"))
            return f"set the pin {visible(ref)}" if new else f"dropped the pin {visible(ref)}"
        case SweepFailed():
            return f"removed {sweep_failed(hub)} unfinished files of git"
        case RebuildOpen(peer):
            return _rebuild(hub, peer)
        case _:
            assert_never(fix)


def _move_lock(hub: Hub, stamp: str, fix: MoveLock) -> str:
    state = fix.path.lstat()
    if (state.st_ino, state.st_mtime_ns) != (fix.inode, fix.changed_ns) or git_processes(hub):
        raise Refused("somebody uses it now", "run 'cn doctor' again")
    kept = free_name(hub.state / "rescue" / stamp / fix.path.name)
    move(fix.path, kept)
    return f"moved the stale lock {visible(fix.path.name)} to {visible(str(kept.relative_to(hub.root)))}"


def _rebuild(hub: Hub, peer: Name) -> str:
    """Write ``open`` from the history that the authority has, in the usual transaction."""
    path = ledger.open_path(peer)

    def plan(base: Base) -> Draft | None:
        history = read_history(Snapshot(hub.git, base.tip), peer)
        if history.bad:
            raise Refused(f"the ledger of {peer} is damaged", "mend its lines first")
        data = ledger.format_open(fold_history(history)).encode()
        return Draft(base.tip, (FileChange(path, data),), f"cn: doctor: rebuild {path}", now(), {})

    commit(hub, plan)
    return f"rebuilt {path} from the history"
