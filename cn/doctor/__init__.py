"""``cn doctor``: check everything a run relies on, and explain what is wrong.

Looking changes nothing. A check that fails itself is a finding, never the end: the doctor
is for hubs in any state. With ``--fix`` what cannot lose anything is repaired, under the lock, after the hub was
examined again, and after a rescue ref: main and the pins that change stay reachable at
``refs/cn/rescue/<stamp>``, locks are moved, not removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from cn.actions.trust import lock_damaged
from cn.doctor import agency, agent, clone, config, group, records
from cn.doctor.finding import Finding, Fix, HubFacts, Level, examine_from, from_error, ok, problem
from cn.git.lost_branch import head_branch
from cn.git.objects import list_refs, resolve, update_refs
from cn.git.repository import Hub
from cn.run.memory import Memory
from cn.run.run import clear_stop
from cn.system.clock import now
from cn.system.closed import blame
from cn.system.limits import beyond_limit
from cn.values.errors import CnError
from cn.values.names import Oid
from cn.values.report import Mark, Report
from cn.values.text import one_line

_UNFINISHED = "the check '"


class Check(NamedTuple):
    """One check. ``fine`` is what is said when it finds nothing; ``needs`` what must be there: a repository that git
    can read, a main in it, or main in the work tree (``tree``).
    """

    name: str
    fine: str
    look: Callable[[HubFacts], Iterator[Finding]]
    needs: str = "git"


_CHECKS = (
    Check("versions", "git and Python are new enough", config.check_versions, ""),
    Check("repository", "the repository can be read and written", config.check_repository, ""),
    Check("state", "cn's own folder holds no links", clone.check_state, ""),
    Check("damage", "no ref, object or index of git's is broken", clone.check_damage),
    Check("writers", "no other user may write a thread", clone.check_writers, ""),
    Check("group", "whoever shares this hub can work in it, or nobody does", group.check_group, ""),
    Check("lock", "no run is at work here now", clone.check_lock, ""),
    Check("journal", "no run was interrupted", clone.check_journal, ""),
    Check("locks", "git left no locks behind", clone.check_leftovers, ""),
    Check("stopped", "nothing stopped the last run", clone.check_stop),
    Check("unfinished", "no git left unfinished files", clone.check_unfinished, ""),
    Check("place", "HEAD is on main and nothing is half done", clone.check_place),
    Check("configuration", "the configuration in main can be read", config.check_configuration),
    Check("uncommitted", "protected files have no uncommitted changes", config.check_working_configuration, "tree"),
    Check("objects", "the objects of main are here", records.check_objects, "main"),
    Check("identity", "the repository has a name and an email", config.check_identity),
    Check("signing", "signatures can be made and checked", config.check_signing),
    Check("wake", "the wake command can be started, or there is none", config.check_wake),
    Check("credentials", "no URL holds a password, and no header goes to every host", config.check_credentials),
    Check("mailbox", "senders can be told apart", config.check_mailbox),
    Check("ledger", "every line of the ledger is an event", records.check_ledger, "main"),
    Check("open", "what is open agrees with the ledger", records.check_open, "main"),
    Check("clock", "the clock is not behind main", records.check_clock, "main"),
    Check("folders", "cn's folders are folders in main", records.check_folders, "main"),
    Check("threads", "pending threads are in their place", records.check_threads, "tree"),
    Check("queue", "nothing in the agent's queue needs a person", agent.check_queue, "main"),
    Check("runtime", "nothing speaks against the runtime's configuration", agent.check_runtime, "main"),
    Check("daemon", "no daemon is missing, and it gave up no message", agent.check_daemon),
    Check("says", "what is to be said in chats waits on this machine", agent.check_says, "main"),
    Check("local", "what stays on this machine is ignored by git", agent.check_local, "main"),
    Check("outbox", "the outbox is as cn wrote it", records.check_outbox, "main"),
    Check("pins", "pins agree with the ledger", records.check_pins, "main"),
    Check("origin", "origin and this clone can be brought together", clone.check_origin, "main"),
    Check("host", "the host gives what cn needs", clone.check_host, "main"),
    Check("shared", "no repository that is reached by its path can be written by others", clone.check_shared),
    Check("peers", "peers were reached of late, and nothing from or for them is missing", clone.check_peers),
    Check("aside", "nothing waits that was put aside", clone.check_files),
    Check("index", "the index takes nothing back that came to main", clone.check_index, "tree"),
    Check("conflicts", "git left no conflict in cn's folders", clone.check_conflicts, "tree"),
    Check("hidden", "git watches every file", clone.check_hidden),
    Check("agency", "Agency's records are sound, or there are none", agency.check_records),
    Check("modes", "Agency's records are their owner's alone", agency.check_modes),
    Check("settings", "what git's configuration says of Agency can be read", agency.check_settings),
    Check("agents", "What this machine defines for agents makes sense, and their wraps hold", agency.check_agents),
    Check("crontab", "the crontab runs this hub", config.check_crontab, ""),
)


def examine(hub: Hub, *, full: bool = False, locked: bool = False) -> list[Finding]:
    """Every finding, in the order of the checks. Changes nothing, raises nothing."""
    facts = examine_from(hub, full=full, locked=locked)
    there = {"", *(["git"] if facts.readable else []), *(["main"] if facts.main else [])}
    if facts.main and head_branch(facts.hub) == facts.hub.main:  # else the files are those of another branch
        there.add("tree")
    found = [finding for check in _CHECKS if check.needs in there for finding in _run(check, facts)]
    found = _told_once(found)
    seen = {one.what for one in found if one.check != "stopped"}  # what is so now, and stopped the last run, is one
    found = [one for one in found if one.check != "stopped" or one.what not in seen]
    once: dict[tuple[Level, str], Finding] = {}  # a host says what a run remembers as well
    for one in found:
        once.setdefault((one.level, one.what), one)
    return list(once.values())


def _told_once(found: Sequence[Finding]) -> list[Finding]:
    """Without the checks that could not be finished for what another one could not: one damage, one finding."""
    told: set[tuple[str, str]] = set()
    kept = []
    for one in found:
        cause = (one.what.partition(": ")[2], one.remedy)
        if not (one.why.startswith(_UNFINISHED) and cause in told):
            kept.append(one)
        if one.level is Level.PROBLEM:
            told.add(cause)
    return kept


def _run(check: Check, facts: HubFacts) -> list[Finding]:
    found: list[Finding] = []
    unfinished = f"{_UNFINISHED}{check.name}' could not be finished"
    try:
        found.extend(check.look(facts))
    except CnError as error:
        found.append(from_error(error, unfinished))
    except OSError as error:
        what, remedy = (
            blame(error)
            or beyond_limit(error)
            or (f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), "mend this")
        )
        found.append(problem(f"{unfinished}: {one_line(what, 800)}", "what it would find is not known", remedy))
    except Exception as error:
        # Whatever the damage: the other checks still have something to say.
        text = f"{unfinished}: {type(error).__name__}: {one_line(str(error))}"
        found.append(problem(text, "something is damaged in a way the doctor does not know", ""))
    return [f if f.check else f._replace(check=check.name) for f in found or [ok(check.fine)]]


def repair(hub: Hub, *, full: bool = False) -> tuple[list[Finding], Report]:
    """Repair what can be repaired; the findings afterwards, and what was done."""
    report = Report()
    with lock_damaged(hub) as held:
        before = examine(held, full=full, locked=True)
        fixes = [f.fix for f in before if f.fix is not None]
        if not fixes:
            if any(f.check == "stopped" and f.level is Level.PROBLEM for f in before) and not _other_problems(before):
                _forget_stop(held)  # a person mended it; else the next run says it again
                return examine(held, full=full, locked=True), report
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
        if any(note.mark is Mark.DONE for note in report.notes):
            _forget_stop(held)
        after = examine(held, full=full, locked=True)
    still = {(f.check, f.what) for f in after}
    mended = [f for f in before if f.fix is not None and (f.check, f.what) not in still]
    return [*(f._replace(level=Level.OK, repaired=True, fix=None) for f in mended), *after], report


def _other_problems(findings: Sequence[Finding]) -> bool:
    return any(f.level is Level.PROBLEM and f.check != "stopped" for f in findings)


def _forget_stop(hub: Hub) -> None:
    memory = Memory(hub, now())
    clear_stop(hub, memory)
    with suppress(CnError):  # the disk may be full
        memory.save()


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
