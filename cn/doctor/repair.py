"""``cn doctor --fix``: the repairs that cannot lose anything.

Under the lock, after the hub was examined again, and after a rescue ref: main and the pins
that change stay reachable at ``refs/cn/rescue/<stamp>``, locks are moved, not removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from cn.doctor import examine
from cn.doctor.finding import Finding, Fix, Level
from cn.git.objects import list_refs, resolve, update_refs
from cn.git.repository import Hub
from cn.protocol.hub_config import LOCK_WAIT
from cn.run.settings import read_head_settings
from cn.system.clock import now
from cn.transaction.lock import hub_lock
from cn.values.errors import CnError
from cn.values.names import Oid
from cn.values.report import Report


def plan_repairs(findings: list[Finding]) -> Report:
    """What ``--fix`` would do."""
    report = Report()
    for finding in findings:
        if finding.fix is not None:
            report.plan(finding.fix.text)
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
        for fix in sorted(fixes, key=lambda fix: fix.step.value):
            try:
                report.done(fix.apply(held, stamp))
            except CnError as error:
                report.failed(f"could not {fix.text}: {error.text}", error.hint)
            except OSError as error:
                report.failed(f"could not {fix.text}: {error.strerror}")
        after = examine(held, full=full, locked=True)
    still = {(f.check, f.what) for f in after}
    mended = [f for f in before if f.fix is not None and (f.check, f.what) not in still]
    return [*(f._replace(level=Level.OK, repaired=True, fix=None) for f in mended), *after], report


def _rescue(hub: Hub, stamp: str, fixes: Sequence[Fix], report: Report) -> None:
    """Keep main and the pins that go at one ref."""
    pins = [fix.pin for fix in fixes if fix.pin]
    main = resolve(hub.git, hub.main_ref)
    heads = [h for h in dict.fromkeys([main, *(old for _, old in pins)]) if h is not None and resolve(hub.git, h)]
    if not heads:
        return
    taken = list_refs(hub.git, "refs/cn/rescue/")
    ref = next(r for n in range(1, 1000) if (r := f"refs/cn/rescue/{stamp}{f'-{n}' if n > 1 else ''}") not in taken)
    tip = heads[0]
    if len(heads) > 1:
        who = dict(zip(("NAME", "EMAIL"), hub.identity, strict=True))
        git = hub.git.with_env(**{f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who})
        parents = [word for head in heads for word in ("-p", str(head))]
        message = "\n".join(["cn: before doctor --fix", "", *(f"{pin} {old}" for pin, old in pins), ""])
        data = message.encode("utf-8", "replace")
        tip = Oid(git.run("commit-tree", *parents, "-F", "-", f"{heads[0]}^{{tree}}", stdin=data).text)
    update_refs(hub.git, [(ref, tip)])
    report.info(f"what was there before is kept at {ref}")
