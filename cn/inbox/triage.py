"""``cn inbox triage``: write the ``## Triage`` section of a thread by a command."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cn.git.lost_branch import head_branch
from cn.git.objects import resolve
from cn.git.repository import Hub
from cn.git.taken_in import held, read_taken_back
from cn.git.work_clone import work_trees
from cn.inbox.plan.decisions import Facts, check_decision, plan_decision, quoted_of
from cn.inbox.working_copies import ANEW, ANEW_WITH_WORDS, Working, is_stale, lenient_text, renewed, use_working
from cn.protocol.effects import Plan, Put
from cn.protocol.finality import is_final
from cn.protocol.layout import END_IN_MAIN, IN_MAIN, inbox_path
from cn.protocol.thread_file import (
    Defer,
    Merge,
    Reply,
    Triage,
    TriageRefused,
    check_section,
    count_words,
    format_decision,
    parse_decision,
    read_decision,
    read_text,
    set_triage,
    showing_of,
)
from cn.run.find_thread import NoThread, find_pending
from cn.run.secret_gate import check_plan, check_words, mask_line
from cn.run.settings import Settings, read_head_settings
from cn.run.shown import check_head, refuse_unseen
from cn.run.snapshot import Snapshot
from cn.secrets.scanner import own_lines, text_of, text_of_word
from cn.system.clock import now
from cn.system.files import write_file
from cn.transaction.base import open_work, waits_for
from cn.transaction.lock import hub_lock
from cn.transaction.unplaced import forget_left
from cn.values.errors import Refusal, Refused, UsageError
from cn.values.names import HubPath, NameRefused, Oid, ThreadName, parse_name
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import is_text, one_line, visible
from cn.values.timestamps import StampRefused, format_stamp, parse_until


class Changed(Refused):
    """A thread is not any more as it was shown to who decides."""


def write_triage(
    hub: Hub,
    thread: str,
    decision: str,
    *,
    body: str = "",
    until: str = "",
    actor: str = "",
    approval: str = "",
    head: str = "",
    dry_run: bool = False,
    shown: bytes | None = None,
) -> Report:
    """Write or replace the section in the working copy. Nothing is executed here.

    ``shown`` is the file as the actor saw it, where that is known: :class:`Changed` if it is another now. Else the
    decision is about ``head``, if that is given, or the head that who decides was shown last. Raises :class:`Refused`
    where the branch is at another one, and for a secret: who decides is told now, not by the run that executes it.
    """
    report = Report()
    check_head(head)
    _refuse_elsewhere(hub)
    if not is_text(decision + body + until + actor + approval):
        raise UsageError("the words hold bytes that are not UTF-8", "write them as UTF-8")
    hub, settings = read_head_settings(hub)
    words = {"the decision": decision, "--until": until, "--actor": actor, "--approval": approval}
    texts = [*(text_of_word(where, word) for where, word in words.items()), text_of("the text", body)]
    if secret := check_words(texts, settings, lambda: _topic(hub, thread)):
        raise Refused.by(secret)
    try:
        parsed = parse_decision(decision)
        who = parse_name(actor, "actor") if actor else settings.us
        if until and not isinstance(parsed, Defer):
            raise UsageError("--until is for defer: nothing else comes back", "leave it out, or write defer:<reason>")
        if until:
            parse_until(until, now())
        if isinstance(parsed, Reply) and not body.strip():
            raise UsageError("do:reply needs the text of the reply", "give it with --body or --body-file")
        triage = Triage(parsed, who, now(), body.replace("\r\n", "\n"), until, approval)
        check_section(triage)
    except (TriageRefused, NameRefused, StampRefused) as refused:
        raise UsageError(refused.text, refused.hint) from None
    with nullcontext(hub) if dry_run else hub_lock(hub, settings.config.lock_wait) as held:
        written = _write(held, settings, thread, triage, head, dry_run=dry_run, shown=shown)
    name = written.thread
    ends = f"final, the thread ends and {written.end}"
    stays = f"it stays, until {format_stamp(parse_until(until, triage.at))}" if until else "it stays"
    ends = f"({ends if is_final(parsed, settings.config) else stays}); head {written.head[:8]}"
    ends += f"; in place of '{written.instead}'" if written.instead else ""
    if dry_run:
        report.plan(f"write '{format_decision(parsed)}' by {who} to {inbox_path(name)} {ends}")
    else:
        then = "'cn inbox process' executes it"
        if written.waits:  # until then 'cn status' reads main's files, not these
            then = f"it waits until {written.waits}, then {then}"
        report.done(f"{name}: {format_decision(parsed)} by {who} {ends}; {then}")
    if written.in_main:
        report.info(f"{IN_MAIN}: {END_IN_MAIN}", source=name)
    return report


def _refuse_elsewhere(hub: Hub) -> None:
    """Raise :class:`Refused` in a work tree that no run reads: where git has main checked out in another one. And where
    something of git's is open, which goes on over no changed file (git-rebase(1)).
    """
    if half_done := open_work(hub):
        raise Refused(
            f"{half_done} is open in {visible(str(hub.root))}, and git does not go on with it over a changed file, "
            "such as one with a decision in it: nothing was decided",
            "finish or abort it, then decide ('git status' tells how)",
        )
    if hub.apart or head_branch(hub) == hub.main:
        return
    for there in filter(Path.is_dir, work_trees(hub.git).get(hub.main_ref, [])):
        raise Refused(
            f"{hub.main} is checked out in {visible(str(there))}, and decisions count only there: nothing was decided",
            f"run {command('cd {}', str(there))}, then decide; or say it as {command('cn --hub {} …', str(there))}",
        )


def _topic(hub: Hub, thread: str) -> str:
    """The topic of a pending thread; empty: there is none, which is told later."""
    with suppress(NoThread):
        return find_pending(_snapshot(hub), thread)[1].topic
    return ""


def _snapshot(hub: Hub) -> Snapshot:
    main = resolve(hub.git, hub.main_ref)
    if main is None:
        raise Refused(f"there is no branch {hub.main}", "see 'cn doctor'")
    return Snapshot(hub.git, main)


class _Written(NamedTuple):
    """The thread, the head that is decided about, whether main holds its proposal already, and what becomes of its
    branch where it ends; ``instead`` is the decision that stood there, and whose it was, ``waits`` what has to be
    before a run reads this one.
    """

    thread: ThreadName
    head: Oid
    in_main: bool
    end: str
    instead: str
    waits: str


def _write(
    hub: Hub, settings: Settings, thread: str, triage: Triage, head: str, *, dry_run: bool, shown: bytes | None
) -> _Written:
    snapshot = _snapshot(hub)
    peer, item = find_pending(snapshot, thread)
    name = ThreadName(item.get("thread"))
    path = inbox_path(name)
    waits, working = waits_for(hub, path), use_working(hub, name)
    data = working.data if working is not None else snapshot.read(path)
    if data is None:
        raise Refused(f"{path} is missing", "'cn inbox sync' puts it back")
    if shown is not None and data != shown:
        raise Changed(f"{path} has changed since it was shown", "nothing was written; read it again")
    if is_stale(snapshot, path, data, peer, item):  # whoever read it saw another branch, or an old copy
        text, why = renewed(snapshot, settings.us, peer, item, lenient_text(data), triage.body)
        if not dry_run:
            _save(hub, path, text, working)
        anew = ANEW_WITH_WORDS if triage.body.strip() else ANEW
        raise Refused(f"{path}: {why}", anew.replace("is written", "would be written") if dry_run else anew)
    if shown is None:
        words = count_words(lenient_text(data), peer)
        refuse_unseen(hub, snapshot, peer, item, head, words=words)
    try:
        text = read_text(data)
    except TriageRefused as refused:
        raise Refused(f"{path}: {refused.text}", refused.hint) from None
    triage = replace(triage, head=showing_of(item).name)
    committed = (snapshot.read(path) or b"").decode("utf-8", "replace")
    instead = _instead(text, committed, triage)
    try:
        text = set_triage(text, triage)
    except TriageRefused:  # the section that it replaces stands before the quotation
        text = set_triage(renewed(snapshot, settings.us, peer, item, text)[0], triage)
    about = mask_line(item.get("subject"), settings)
    facts = Facts(settings.config, settings.peers, peer, item, text, triage.at, committed=committed, about=about)
    # What the run that executes it would refuse: it stands in the thread, or would be told to somebody else.
    merging = isinstance(triage.decision, Merge)
    outcome = check_decision(facts, triage) if merging else plan_decision(facts, triage)
    plan = outcome if isinstance(outcome, Plan) else Plan(facts.source, (Put(path, text),))
    if secret := check_plan(plan, settings, [own_lines(path, text)], [quoted_of(facts)]):
        raise Refused.by(secret)
    if isinstance(outcome, Refusal):
        raise Refused.by(outcome)
    if not dry_run:
        _save(hub, path, text, working)
    mergeable = facts.is_proposal and not item.is_withdrawn and peer in settings.peers
    in_main = mergeable and item.head in held(hub.git, snapshot.commit, [item.head])
    in_main = in_main and not read_taken_back(hub.git, snapshot.commit, [(item.head, item.get("base"))])
    return _Written(name, item.head, in_main, _end_of(facts), instead, waits)


def _instead(before: str, committed: str, triage: Triage) -> str:
    with suppress(TriageRefused):
        old = read_decision(before, committed)
        if old and (old.decision, old.actor) != (triage.decision, triage.actor):
            return f"{one_line(format_decision(old.decision), 100)} by {old.actor}"
    return ""


def _end_of(facts: Facts) -> str:
    if facts.peer not in facts.peers:
        return f"{facts.peer} is told when it is added again"
    gone = facts.is_proposal and facts.item.get("gone")
    return "its branch is gone already" if gone else "its creator deletes the branch"


def _save(hub: Hub, path: HubPath, text: str, working: Working | None) -> None:
    write_file(hub.root / path, text.encode(), root=hub.root)
    if working is None:  # main's text is here now, and this is an edit of it
        forget_left(hub, path)
