"""``cn rebase``: a proposal of ours onto the peer's latest main, away from every work tree."""

from __future__ import annotations

from cn.actions.drafts import telling_what_waits
from cn.actions.propose import (
    Target,
    bring_back,
    comparing,
    find_target,
    follow_moved,
    note_whose,
    open_run_for,
    queue_proposal,
    take_later,
    take_there,
)
from cn.git.entries import diff_commits
from cn.git.fetch import fetch_commits
from cn.git.objects import is_ancestor, merge_bases, read_info, resolve
from cn.git.process import Git, GitError
from cn.git.rebase import commits_to_rebase, rebase, says_the_same
from cn.git.remote import HEADS, list_remotes
from cn.git.repository import Hub
from cn.git.signatures import lacks_our_key
from cn.git.work_clone import WorkClone
from cn.inbox.merges import own_main
from cn.outbox.deliver import deliver
from cn.outbox.moved_hubs import is_upon_former_main
from cn.outbox.our_names import find_ours
from cn.protocol.layout import PROPOSAL
from cn.protocol.ledger import OUT, Item
from cn.protocol.sent_life import BEGINS, sent_lives
from cn.run.run import Run
from cn.run.settings import MAILBOX_KEY, lies_at_mailbox
from cn.transaction.mailbox_main import private_in
from cn.values.errors import Refused
from cn.values.names import Name, Oid, is_oid, is_owned
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import one_line


def rebase_topic(hub: Hub, work: WorkClone, topic: str, peer: str = "", *, dry_run: bool = False) -> Report:
    """Rebase a proposal that waits at a peer, and push it with a lease; what conflicts is refused."""
    with telling_what_waits("nothing was proposed"), open_run_for(hub, work, dry_run=dry_run) as run:
        name, item = _find(run, f"{peer}:{topic}" if peer else topic)
        target = find_target(run, run.settings.peer(name), item.topic, work)
        note_whose(run, work, dry_run=dry_run)
        base = _base_of_another_main(run, target, item)
        by_hand, sent = _pushed_by_hand(run, target, item)
        if by_hand and (how := lacks_our_key(run.hub, item.head)):
            whose = "which somebody pushed upon what we sent" if sent else "which was pushed by hand"
            raise Refused(f"{item.head[:8]}, {whose}, is {how}: a rebase would sign it for us", take_there(target))
        _require_there(run, target, work, item, may_lack=bool(base))
        if not base and (needless := _needless(run, target, item.head)):
            run.report.info(needless, source=target.source)
            return run.report
        with comparing(target, item.head):
            where = _where_one_works(hub, work)
            new = _moved(run, target, item.head, base, where) if base else _rebased(run, target, item.head, where)
        queue_proposal(run, target, new, lambda old: old == item.head, subject="cn: rebase")
        deliver(run, force=True)
        now = run.snapshot.item(name, OUT, item.topic)
        if now is not None and now.state == "delivered" and not dry_run:
            if sent:
                look = command("git log {}", f"{sent}..{item.head}")
                text = f"what somebody pushed upon {sent[:8]}, which we sent, went along; {look} shows it"
                run.report.info(text, source=target.source)
            follow = follow_moved(target, item.head) if base else ""
            if not follow and _is_earlier(run, target, work, item):
                follow = take_later(target)
            follow = follow or command("git pull --rebase {} {}", target.place, HEADS + target.branch)
            run.report.info(f"your own branch is as it was; on it, {follow} brings it there", source=target.source)
    return run.report


def _is_earlier(run: Run, target: Target, work: WorkClone, item: Item) -> bool:
    """Is what is checked out an earlier state of the proposal than the one that was rebased?"""
    tip = resolve(work.git, "HEAD")
    past = run.snapshot.events_of_topic(target.peer.name, OUT, target.topic)
    return tip != item.head and any(event.head == tip for event in past)


def _pushed_by_hand(run: Run, target: Target, item: Item) -> tuple[bool, str]:
    """Did somebody push this head, of whom nobody here said who it is, and not cn; and what had we sent below it?"""
    life = sent_lives(run.snapshot.events_of_topic(target.peer.name, OUT, target.topic))[-1]
    begun = [n for n, event in enumerate(life) if event.head == item.head and event.kind in BEGINS]
    if not begun or life[begun[-1]].kind == "queued":
        return False, ""
    sent = [event.head for event in life[: begun[-1]] if event.kind == "queued"]
    return True, sent[-1] if sent else ""


def _where_one_works(hub: Hub, work: WorkClone) -> str:
    """Where a person follows a step for the branch: not on main of the hub itself."""
    is_main = work.git_dir == hub.git_dir and work.branch == hub.main
    return "in the clone where you work on it, on its branch," if is_main else "on your branch"


def _base_of_another_main(run: Run, target: Target, item: Item) -> Oid | None:
    """Where a proposal left the main that the peer showed before: it published another one, as a separate mailbox
    does. None: it has history in common with that of now, or nobody knows.
    """
    git, base = run.hub.git, Oid(item.get("base"))
    if not is_oid(base) or not is_upon_former_main(run, target.peer, item):
        return None
    if None in read_info(git, [base, item.head]) or not is_ancestor(git, base, item.head):
        return None
    return None if merge_bases(git, target.tip, item.head) else base


def _moved(run: Run, target: Target, head: Oid, base: Oid, where: str) -> Oid:
    """The new tip, upon a main without history in common with the one before. Nothing of cn's folders goes along."""
    git, again = run.hub.git, command("cn propose {}", target.topic)
    fetch, whose = command("git fetch {} {}", target.hub, HEADS + target.main), f"{target.peer.name}'s {target.main}"
    onto = command("git rebase --onto FETCH_HEAD {}", base)
    hint = f"{where} {fetch}, then {onto}, resolve as git tells, then {again}"
    if git.run("rev-list", "--merges", "--max-count=1", f"{base}..{head}").lines:
        text = f"{target.branch} holds merges, which cn does not lay upon another main; nothing was changed"
        raise Refused(text, hint)
    new = rebase(run.hub, target.tip, commits_to_rebase(git, base, head), run.now)
    if new.conflicts:
        paths = ", ".join(one_line(path, 80) for path in new.conflicts[:10])
        raise Refused(f"{new.tip[:8]} conflicts with {whose} in {paths}; nothing was changed", hint)
    if private := private_in(git, [new.tip], [target.tip]):
        text = f"{private[:8]} changes threads/, logs/ or state/, which are not published there; nothing was changed"
        raise Refused(text, f"{where} 'git rebase -i' leaves that commit out; then {again}")
    return _changing(target, new.tip)


def _changing(target: Target, tip: Oid) -> Oid:
    if tip == target.tip:
        delete = command("cn withdraw {}", f"{target.peer.name}:{target.topic}")
        text = f"{target.peer.name}'s {target.main} has all that {target.branch} changes; nothing was changed"
        raise Refused(text, f"{delete} takes it back")
    return tip


def _needless(run: Run, target: Target, head: Oid) -> str:
    """Why no rebase is needed: main has changed nothing since but its hub's own records. Empty: it has.

    A new head would void a decision for nothing.
    """
    git, whose = run.hub.git, f"{target.peer.name}'s"
    bases = merge_bases(git, own_main(git, target.tip, head), head)
    if not bases:
        text = f"{target.branch} has no history in common with {whose} {target.main} now: that was replaced"
        remedy = f"ask {target.peer.name} about it, or commit anew in a clone of its hub, and propose from there"
        raise Refused(text, remedy)
    if target.tip in bases:
        return f"{target.branch} is on {whose} latest {target.main} already"
    if any(_changed_records_only(git, base, target.tip) for base in bases):
        only = "only the hub's own records have changed since"
        return f"{target.branch} needs no rebase: in {whose} {target.main} {only}"
    return ""


def _changed_records_only(git: Git, base: Oid, tip: Oid) -> bool:
    """Where more has changed than cn compares, it is more than a hub's records."""
    try:
        changes = diff_commits(git, [(base, tip)])[base, tip]
    except GitError as error:
        if error.done.limited or error.done.died:
            return False
        raise
    return all(is_owned(change.path) for change in changes)


def _find(run: Run, text: str) -> tuple[Name, Item]:
    found = find_ours(run.snapshot, run.settings, text)
    item = run.snapshot.item(found[0], OUT, found[1]) if found else None
    if found is None or item is None or item.get("kind") not in ("", PROPOSAL):
        raise Refused(f"no proposal of ours is called {one_line(text, 80)!r}", "'cn status' shows those that wait")
    if item.state == "queued":
        raise Refused(f"{item.get('branch')} waits in the outbox", "'cn outbox flush' delivers it; then rebase it")
    if item.state == "deleting":
        was = f": it was {item.get('status')}" if item.get("status") else ""
        raise Refused(f"{item.get('branch')} is about to be deleted{was}", "nothing is to be rebased")
    return found[0], item


def _require_there(run: Run, target: Target, work: WorkClone, item: Item, *, may_lack: bool) -> None:
    """The branch has to be where we know it, and its commits here; ``may_lack``: or not yet where the peer is now."""
    git, url = run.hub.git, run.settings.delivery_url(run.hub, target.peer, target.branch)
    seconds, prefix = run.settings.config.limits.peer_seconds, target.branch.partition("/")[0]
    answer = list_remotes(git, {"": url}, seconds, parts={"": [prefix]})[""]
    if isinstance(answer, str):
        raise Refused(f"{target.branch} cannot be seen: {answer}", "try again later")
    tip = answer.get(target.branch)
    if tip is None and may_lack:
        return
    if tip != item.head:
        there = f"is at {tip[:8]} there, and cn knows {item.head[:8]}" if tip else "is not there any more"
        again = command("cn propose {}", target.topic)
        remedy = take_there(target) if tip else f"propose it from your clone, with {again}"
        if tip and (back := bring_back(run, target, item, tip)):
            is_here = read_info(work.git, [item.head]) != [None]
            remedy = back if is_here else f"{again}, where {item.head[:8]} is checked out, tells how it comes back"
        raise Refused(f"{target.branch} {there}", remedy)
    remote = MAILBOX_KEY if lies_at_mailbox(target.peer.name, target.branch) else target.peer.name
    told = run.settings.told_to(run.hub, remote, [target.peer.name])
    if read_info(git, [item.head]) == [None] and (why := fetch_commits(git, url, [item.head], seconds, told)):
        raise Refused(f"{target.branch} cannot be fetched: {why}", "try again later")


def _rebased(run: Run, target: Target, head: Oid, where: str) -> Oid:
    """The new tip. Raises :class:`Refused` with the commands that a person uses where it conflicts."""
    main = own_main(run.hub.git, target.tip, head)
    if roots := run.hub.git.run("rev-list", "--max-parents=0", f"{main}..{head}").lines:
        again = command("cn propose {}", target.topic)
        text = (
            f"{target.branch} takes in a history that began apart, with {roots[0][:8]}: no rebase lays that onto main"
        )
        raise Refused(text, f"{where} merge {target.peer.name}'s {target.main} instead, then {again}")
    commits = commits_to_rebase(run.hub.git, main, head)
    new = rebase(run.hub, target.tip, commits, run.now)
    if new.conflicts:
        paths = ", ".join(one_line(path, 80) for path in new.conflicts[:10])
        fetch = command("git fetch {} {}", target.hub, HEADS + target.main)
        again = command("cn propose {}", target.topic)
        hint = f"{where} {fetch}, then 'git rebase FETCH_HEAD', resolve as git tells, then {again}"
        raise Refused(
            f"{new.tip[:8]} conflicts with {target.peer.name}'s {target.main} in {paths}; nothing was changed", hint
        )
    if not says_the_same(run.hub.git, target.tip, head, new.tip):
        again = command("cn propose {}", target.topic)
        raise Refused(
            f"a merge in {target.branch} changes something itself, which a rebase leaves out; nothing was changed",
            f"{where} 'git rebase --rebase-merges', or merge {target.main} into it, then {again}",
        )
    return _changing(target, new.tip)
