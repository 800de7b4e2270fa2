"""``cn propose``: a branch of ours for a peer, from the clone where somebody works (``docs/protocol/branches.md``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cn.actions.drafts import telling_what_waits
from cn.actions.signed import refuse_unsigned, refuse_withdrawn, will_be_refused
from cn.git.entries import read_changes
from cn.git.fetch import fetch_commits
from cn.git.lfs import POINTER
from cn.git.objects import is_ancestor, merge_bases, read_info, read_objects
from cn.git.process import GitError
from cn.git.read_branches import Patience, first_title, read_histories
from cn.git.remote import HEADS, list_refs_of
from cn.git.repository import Hub, open_hub, share
from cn.git.told import OWN_CLONE
from cn.git.work_clone import WorkClone, find_work_clone, work_trees
from cn.inbox.merges import own_base, read_facts
from cn.outbox.deliver import deliver, is_ours, was_there
from cn.outbox.moved_hubs import is_upon_former_main
from cn.outbox.our_names import REPLACED, ends_it, keep_step, steps_back, told_of
from cn.outbox.plan.receipts import plan_ours_gone
from cn.peers.known_mains import known_main
from cn.peers.observe import bring_mains, main_of
from cn.peers.peer_main import NO_MAIN
from cn.peers.strangers import refuse_stranger
from cn.protocol import rules
from cn.protocol.effects import Drop, Effect, Offer, Plan, Post
from cn.protocol.hub_config import NO_HUB, PATH
from cn.protocol.layout import FINAL, MESSAGE, PROPOSAL, TO_MEND
from cn.protocol.ledger import OUT, Event, Item
from cn.protocol.message import Message
from cn.protocol.outbox_entry import Propose, is_deletion_of
from cn.protocol.peers_file import PATH as PEERS
from cn.protocol.peers_file import Peer, parse_peers
from cn.protocol.sent_life import BEGINS
from cn.protocol.sent_mend import signing_text
from cn.protocol.twins import THERE, is_refused_as_twin, rename_to, twin_of
from cn.run.executor import Executor
from cn.run.run import Run, open_run
from cn.run.secret_gate import check_change, check_plan, check_texts
from cn.run.settings import lies_at_mailbox, read_settings
from cn.run.snapshot import Snapshot
from cn.secrets.scanner import Text, text_of
from cn.transaction.protected_files import TRUSTED_REF, refuse_foreign
from cn.values.errors import CnError, ConfigError, Refused, UsageError
from cn.values.names import Branch, HubPath, Oid, Topic, is_owned, join_branch, parse_topic
from cn.values.report import Report
from cn.values.shell_words import command, push_step
from cn.values.text import decode, in_quotes, is_text, one_line, redact, some_of, visible
from cn.values.timestamps import format_stamp

_HEADS = 20
"""Earlier heads of a proposal that are looked for in a new one."""
_LARGE = 1 << 20
"""Bytes of a file in which no secret is looked for any more."""


class Target(NamedTuple):
    """Where a proposal goes: the peer, its main by name and tip (which is here), and the branch to be.

    ``hub`` and ``place`` are the peer's hub and where our branch lies, as git is told in the clone where somebody
    works: by the name of a remote, else by URL. ``theirs``: that is a clone in which cn runs for another hub.
    """

    peer: Peer
    main: str
    tip: Oid
    topic: Topic
    branch: Branch
    hub: str
    place: str
    theirs: bool

    @property
    def source(self) -> str:
        """What the proposal is called in logs."""
        return f"{self.peer.name}/{self.topic}"


def find_proposing_hub(given: str, folder: Path) -> tuple[Hub, WorkClone]:
    """Whose hub proposes, and from where: the hub that was given, else the one noted in the clone around ``folder``,
    else the one that this is.

    A clone that accepted nothing is nobody's hub: it may be a peer's, and in its name nothing is proposed.
    """
    if given:
        hub = _on_main(share(open_hub(Path(given))))
        with suppress(Refused):
            return hub, find_work_clone(folder)
        return hub, find_work_clone(hub.root)
    work = find_work_clone(folder)
    try:
        hub = share(open_hub(None, cwd=work.root))
    except ConfigError as error:
        remedy = f"{command('cn propose TOPIC --hub {}', 'DIR')} names it, and the clone remembers it"
        raise ConfigError(f"which hub proposes from {work.root} is not known", f"{remedy} ({error.text})") from None
    if hub.git_dir == work.git_dir:
        refuse_foreign(hub, work.root, "name your own with '--hub DIR', the clone remembers it")
    return _on_main(hub), work


def _on_main(hub: Hub) -> Hub:
    """The hub in the work tree that is on main; where there is none, apart from main."""
    try:
        main = read_settings(hub, TRUSTED_REF).config.main
    except ConfigError:
        return hub  # no run was here yet: the first one works on main only
    hub = replace(hub, main=main)
    trees = work_trees(hub.git)
    there = [path for path in trees.get(hub.main_ref, []) if path.is_dir()]
    if hub.root in there:
        return hub
    return replace(share(open_hub(there[0])), main=main) if there else replace(hub, apart=True)


@contextmanager
def open_run_for(hub: Hub, work: WorkClone, *, dry_run: bool) -> Iterator[Run]:
    """A run of the hub; what keeps one from beginning is to be mended there, and not in the clone where one works."""
    with ExitStack() as stack:
        try:
            run = stack.enter_context(open_run(hub, dry_run=dry_run))
        except CnError as why:
            if work.git_dir != hub.git_dir and why.hint:
                why.hint = f"in {visible(str(hub.root))}: {why.hint}"
            raise
        yield run


def propose(
    hub: Hub,
    work: WorkClone,
    topic: str,
    peer: str = "",
    *,
    message: str = "",
    rev: str = "",
    replaces: bool = False,
    dry_run: bool = False,
) -> Report:
    """Propose a commit of ``work`` (HEAD, or ``rev``) to a peer, under the topic; one that is there moves.

    What is there and was never in ``work``, another clone's, or what somebody else pushed there, is replaced only where
    ``replaces`` says so.
    """

    def may_replace(old: Oid) -> bool:
        return replaces or is_ancestor(work.git, old, head) or work.had(old)

    if not is_text(message):
        raise Refused("the message holds bytes that are not UTF-8", "write it as UTF-8")
    if refused := rules.check_length(message, "the message"):
        raise Refused.by(refused)
    head = work.commit(rev or "HEAD")
    if not rev:
        _require_branch(work, topic, head)
    nothing = "nothing was proposed, and your commits are as they were"
    with telling_what_waits(nothing), open_run_for(hub, work, dry_run=dry_run) as run:
        target = find_target(run, _peer(run, work, peer, topic, head), topic, work)
        note_whose(run, work, dry_run=dry_run)
        _bring(run, work, head)
        if left := [path for path in work.uncommitted() if not (rev or is_owned(path))]:
            run.report.info(f"not part of it: {some_of(left, 3, 80)}, with changes that are not committed")
        before = run.snapshot.item(target.peer.name, OUT, target.topic)
        there = _look_there(run, target, before)
        if there and work.had(there) and _is_made_anew(run, there, head):
            replaces = True
        queued = queue_proposal(run, target, head, may_replace, message=message, there=there, replaces=replaces)
        if queued and before is not None and not is_ancestor(work.git, before.head, head):
            title = f" ({title})" if (title := one_line(before.get("subject"), 80)) else ""
            run.report.info(f"it replaces {before.head[:8]}{title}, which is no part of it", source=target.source)
        deliver(run, force=True, over={(target.peer.name, target.branch): there} if replaces and there else {})
        if queued and (now := run.snapshot.item(target.peer.name, OUT, target.topic)) and not dry_run:
            _tell_what_follows(run, target, now)
    return run.report


def note_whose(run: Run, work: WorkClone, *, dry_run: bool) -> None:
    """Note in a clone which hub proposes from it. That stays known also where this proposal is refused."""
    hub = run.hub
    if not dry_run and work.git_dir != hub.git_dir and not work.decides and work.note_hub(hub.root):
        run.report.info(f"noted in {work.root}: its proposals are made by the hub {run.settings.us} at {hub.root}")


def _require_branch(work: WorkClone, topic: str, head: Oid) -> None:
    """A branch that is called like the topic was meant, most likely, also where what one is on builds on it."""
    if half_done := work.half_done:
        text = f"{half_done} is open in {work.root}, and HEAD is in the middle of it: nothing was proposed"
        raise Refused(text, "finish or abort it, then run it again ('git status' tells how)")
    for name in dict.fromkeys((topic, topic.rpartition("/")[2])):
        tip = work.tip(name)
        if tip is None or tip == head:
            continue
        switch = command("git switch {}", name)
        insist = command("cn propose {} --commit HEAD", topic)
        where = f"on {one_line(work.branch, 80)}" if work.branch else "on no branch"
        raise UsageError(
            f"your branch {name} is at {str(tip)[:8]}, and you are {where}, at {head[:8]}: nothing was proposed",
            f"{switch} goes to it, to propose that; {insist} proposes what you are on",
        )


def _open_at(run: Run, topic: str) -> list[Peer]:
    """The peers at which a proposal of this topic is open."""
    peers, at = run.settings.peers, run.snapshot.outbound()
    open_ = [peer for peer, item in at if item.topic == topic and item.get("kind") in ("", PROPOSAL)]
    return [peers[name] for name in open_ if name in peers]


def _peer(run: Run, work: WorkClone, given: str, topic: str, head: Oid) -> Peer:
    """To whom: who was named, else the peer of whose hub this is a clone, else the one who has that proposal from
    topic, as where its hub has another URL now, else the only one.
    """
    settings, hub = run.settings, run.hub
    if given:
        return settings.peer(given)
    before = _open_at(run, topic)
    found = [peer for peer in settings.peers.values() if work.place(peer.hub) != peer.hub] or before
    if work.git_dir == hub.git_dir and not found:
        found = list(settings.peers.values())
    if len(found) == 1:
        return found[0]
    if work.git_dir == hub.git_dir and not before and (ours := _to_ourselves(run, topic, head)):
        fit = [peer.name for peer in found if _may_fit(run, peer, head)]
        known = f"; for a peer, name it behind the topic: {', '.join(fit)}" if fit else ""
        raise Refused(f"to whom is not clear: {work.root} is a clone of {settings.us} itself", f"{ours}{known}")
    if work.git_dir != hub.git_dir and not found and (url := work.config.last("remote.origin.url")):
        shown = url if redact(url) == url else "URL"  # a password is never part of a command
        add = command("cn peer add NAME {} --hub {}", shown, str(hub.root))
        text = f"{settings.us} has no peer at {redact(url)}, from which {work.root} was cloned"
        # Those that it has are other projects' hubs, most likely, and take nothing of this one.
        known = "; if it is a peer's hub by another URL, name that peer behind the topic" if settings.peers else ""
        raise Refused(text, f"{add} adds it{known}")
    known = f"name the peer behind the topic: {', '.join(settings.peers)}" if settings.peers else ""
    raise Refused(f"to whom is not clear from {work.root}", known or "add a peer with 'cn peer add'")


def _to_ourselves(run: Run, topic: str, head: Oid) -> str:
    """How a commit upon this hub's own main is proposed to it: by another hub. Empty: it is not upon that."""
    if not merge_bases(run.hub.git, run.base.tip, head):
        return ""
    return f"for {run.settings.us} itself, {command('cn propose {} --hub DIR', topic)}, with DIR your own hub"


def _may_fit(run: Run, peer: Peer, head: Oid) -> bool:
    """Has a commit history in common with the peer's main, as far as that is known here?"""
    main = known_main(run, peer.hub)
    if main is None or read_info(run.hub.git, [main.tip]) == [None]:
        return True
    return bool(merge_bases(run.hub.git, main.tip, head))


def find_target(run: Run, peer: Peer, topic: str, work: WorkClone) -> Target:
    """Fetch the peer's main, against which a proposal is checked; raises :class:`Refused`."""
    prefix = run.settings.outbound_prefix(peer)
    given = topic.partition("/")
    name = parse_topic(given[2] if run.settings.is_outbound(peer, Branch(topic)) and given[1] else topic)
    item = run.snapshot.item(peer.name, OUT, name)  # one that is open goes on as it is called there
    called = Branch(item.get("branch")) if item is not None else Branch("")
    branch = called if run.settings.is_outbound(peer, called) else join_branch(prefix, name)
    main = main_of(run, peer.hub)
    if isinstance(main, str):
        later = "a proposal is checked against its main; try again later"
        accept = f"{command('cn peer accept {}', peer.name)} looks for it anew"
        hint = f"{later}; where its main has another name now, {accept}" if main == NO_MAIN else later
        raise Refused(f"{peer.name} is unreachable: {main}", hint)
    if why := bring_mains(run, {peer.name: main}).get(peer.name):
        raise Refused(f"{peer.name}'s {main[0]} cannot be fetched: {why}", "try again later")
    refuse_stranger(run, peer, main[1])
    url = run.settings.delivery_url(run.hub, peer, branch)
    place = run.hub.config.last(f"remote.{url}.url") or url
    theirs = work.git_dir != run.hub.git_dir and work.decides
    return Target(peer, *main, name, branch, work.place(peer.hub), work.place(place), theirs)


def _bring(run: Run, work: WorkClone, head: Oid) -> None:
    """The commit into the hub's objects, with git's checks."""
    if read_info(run.hub.git, [head]) == [None] and (
        why := fetch_commits(run.hub.git, str(work.root), [head], run.settings.config.limits.peer_seconds, OWN_CLONE)
    ):
        shallow = "'git fetch --unshallow' there brings the rest"
        remedy = shallow if "shallow" in why else "'git fsck' there tells what is wrong"
        raise Refused(f"{head[:8]} cannot be fetched from {work.root}: {why}", remedy)


def queue_proposal(
    run: Run,
    target: Target,
    head: Oid,
    may_replace: Callable[[Oid], bool],
    *,
    message: str = "",
    subject: str = "cn: propose",
    there: Oid | None = None,
    replaces: bool = False,
) -> bool:
    """Put it into the outbox in one commit; refuses what can never be merged, and what was answered already.

    ``may_replace`` is asked about the commit that was proposed before, ``there`` is what :func:`_look_there` found, and
    ``replaces`` says that it may go, whoever pushed it. False: it is there as it is.
    """
    peer = target.peer.name
    told = _settled(run, run.snapshot, target, head, may_replace)
    if (lost := _lost(run, target, head, there, replaces=replaces) if told else None) is not None:
        gone = f"{target.branch} is not there any more"
        gone = f"{target.branch} is at {there[:8]} there, which is replaced" if there else gone
        run.report.info(f"{gone}: it goes there again", source=target.source)
    elif told:
        if message.strip():
            raise Refused(f"{told}, and the message was not sent", f"{command('cn send {} MESSAGE', peer)} sends it")
        run.report.info(told, source=target.source)
        return False
    if twin := _twin(run.snapshot, target, head):
        raise _same_as(target, twin, head)
    base = _check(run, target, head)
    entry = Propose(peer, target.branch, head, run.now, "")
    if there and not replaces and there != head and not is_ours(run, entry, there):
        raise _moved_there(run, target, there)
    history = read_histories(run.hub.git, target.tip, [head], Patience()).get(head)
    others = {item.head for to, item in run.snapshot.outbound() if to == peer and item.topic != target.topic}
    title = first_title(history, others) if history is not None else ""

    def propose_it(executor: Executor) -> tuple[str | None, bool]:
        told = _settled(run, executor.snapshot, target, head, may_replace)
        if told and executor.item(peer, OUT, target.topic) != lost:  # by another clone, meanwhile
            executor.notes.info(told, source=target.source)
            return None, False
        if told and lost is not None:
            executor.perform(plan_ours_gone(peer, lost, executor.now))
        entry = Propose(peer, target.branch, head, executor.now, title)
        waiting = [path for path, one in executor.snapshot.outbox()[0] if _is_of(one, target)]
        effects: list[Effect] = [Drop(path) for path in waiting]
        effects.append(Offer(entry, base))
        if message.strip():
            about = title or target.branch
            mail = Message(MESSAGE, run.settings.us, peer, about, executor.now, message, in_reply_to=head)
            effects.append(Post(mail, f"about-{target.topic}"[:100], "", target.source))
        plan = Plan(target.source, tuple(effects))
        given = [Text("the topic", (target.topic,), 0), text_of("the message", message)]
        if secret := check_plan(plan, run.settings, given=given):
            raise Refused.by(secret)
        executor.perform(plan)
        return subject, True

    return run.commit_for(propose_it)


def _look_there(run: Run, target: Target, item: Item | None) -> Oid | None:
    """Where the branch of what we sent is now; empty: nowhere, None: nobody can tell, or it was never there."""
    entry = Propose(target.peer.name, target.branch, item.head, run.now, "") if item is not None else None
    if item is None or entry is None or item.state not in (*THERE, "queued") or not was_there(run.snapshot, entry):
        return None
    ref, url = HEADS + target.branch, run.settings.delivery_url(run.hub, target.peer, target.branch)
    there = list_refs_of(run.hub.git, url, [ref], run.settings.config.limits.peer_seconds)
    return None if isinstance(there, str) else Oid(there.get(ref, ""))


def _is_made_anew(run: Run, there: Oid, head: Oid) -> bool:
    """Do both commits hold the same files? Then the one that somebody pushed was only signed, or given other words."""
    if None in read_info(run.hub.git, [there, head]):
        return False
    trees = run.hub.git.run("rev-parse", f"{there}^{{tree}}", f"{head}^{{tree}}").lines
    return trees[0] == trees[1]


def _lost(run: Run, target: Target, head: Oid, there: Oid | None, *, replaces: bool) -> Item | None:
    """Our record of a proposal that is not there any more, as its next sync would find; None: it is there, or nobody
    can tell. Raises :class:`Refused` where somebody else's commit stands in its place, and stays.
    """
    item = run.snapshot.item(target.peer.name, OUT, target.topic)
    if item is None or item.head != head or item.state not in THERE or there is None or there == head:
        return None
    if there and not replaces:
        if back := bring_back(run, target, item, there):
            knows = f"{target.branch} is at {there[:8]} there, and cn knows {head[:8]}"
            raise Refused(f"{knows}: nothing was proposed", back)
        raise _moved_there(run, target, there)
    return item


def bring_back(run: Run, target: Target, item: Item, there: Oid) -> str:
    """What brings what we sent last there again, where an earlier state of it stands: its host has an old copy, or
    somebody set it back. It is for the clone in which that is checked out. Empty: no state of ours stands there.
    """
    if not is_ours(run, Propose(target.peer.name, target.branch, item.head, run.now, ""), there):
        return ""
    push = push_step(target.place, item.head, HEADS + target.branch, there)
    gone = command("git push {} {}", target.place, f":{HEADS}{target.branch}")
    return steps_back(push, gone, target.peer.name, item)


def _moved_there(run: Run, target: Target, tip: Oid) -> Refused:
    """Somebody pushed to our branch there, as a forge lets its maintainers: on what to go on, and what ends it."""
    item = run.snapshot.item(target.peer.name, OUT, target.topic)
    knows = f", and cn knows {item.head[:8]}" if item is not None else ""
    text = f"{target.branch} is at {tip[:8]} there{knows}: nothing was proposed"
    gone = command("git push {} {}", target.place, f":{HEADS}{target.branch}")
    over = command("cn propose {} {} --replace", target.topic, target.peer.name)
    ends = ends_it(gone, target.peer.name, target.topic)
    return Refused(text, f"{take_there(target)}; {over} replaces it; {ends}")


def take_later(target: Target) -> str:
    """How a branch at an earlier state comes to the later one. Nothing of it is laid upon that: what was taken out
    since would come back.
    """
    return f"{command('git fetch {} {}', target.place, HEADS + target.branch)}, then 'git reset --keep FETCH_HEAD'"


def take_there(target: Target) -> str:
    """How one goes on from what somebody pushed to a branch of ours: where nothing of one's own is new it is a plain
    move forward.
    """
    fetch = command("git fetch {} {}", target.place, HEADS + target.branch)
    again = command("cn propose {} {}", target.topic, target.peer.name)
    onto = f"'git rebase FETCH_HEAD', where {target.topic} is checked out, goes on from it"
    return f"{fetch} and 'git log ..FETCH_HEAD' show what somebody pushed there; {onto}, then {again}"


def _is_of(entry: object, target: Target) -> bool:
    return isinstance(entry, Propose) and (entry.to, entry.branch) == (target.peer.name, target.branch)


@contextmanager
def comparing(target: Target, head: Oid) -> Iterator[None]:
    """Where git does not come to an end within limits of time and memory, the peer's main is to blame, and named."""
    try:
        yield
    except GitError as error:
        if not (error.done.limited or error.done.died):
            raise
        whose = f"{target.peer.name}'s {target.main}"
        push = push_step(target.hub, head, HEADS + target.branch)
        text = f"{whose} has more or larger files, or more that changed since {head[:8]} left it, than cn compares"
        asks = command("cn send {} MESSAGE", target.peer.name)
        remedy = f"{asks} asks whether that is meant; {push} does without cn what the host allows"
        raise Refused(text, remedy) from error


def _check(run: Run, target: Target, head: Oid) -> Oid:
    """Where it leaves the peer's main. Raises :class:`Refused` for what can never be merged, or holds a secret."""
    peer, git = target.peer, run.hub.git
    whose = f"{peer.name}'s {target.main}"
    with comparing(target, head):
        facts = read_facts(git, target.tip, head)
    if not facts.common:
        clone = command("git clone {}", peer.hub)
        remedy = f"commit in a clone of its hub ({clone}), and propose from there"
        remedy = _to_ourselves(run, target.topic, head) or remedy
        item = run.snapshot.item(peer.name, OUT, target.topic)
        if item is not None and item.head == head and item.get("base") and is_upon_former_main(run, peer, item):
            remedy = f"{command('cn rebase {}', f'{peer.name}:{target.topic}')} lays it upon that"
        raise Refused(f"{head[:8]} has no history in common with {whose}", remedy)
    takes = ""
    if run.snapshot.item(peer.name, OUT, target.topic) is not None:  # it waits at an older head
        moved = told_of(run.memory.conditions, f"{peer.name}:{target.topic}")
        back = f"{command('cn withdraw {}', f'{peer.name}:{target.topic}')} takes back what is there"
        takes = f"; {moved.remedy if moved else back}"
        replaced = run.memory.conditions.get(REPLACED, f"{peer.name}:{target.topic}")
        if facts.merged_already and replaced is not None and f" {head[:8]}" in replaced.text:  # merged since
            takes = f"; if somebody here pushed {head[:8]} there, {keep_step(run.hub.root, head)} says so"
    if facts.merged_already or facts.all_there:
        remedy = f"commit something new, then propose that{takes}"
        has = head[:8] if facts.merged_already else f"all that {head[:8]} changes"
        raise Refused(f"{whose} has {has} already", remedy)
    limits = rules.within_limits(facts)
    if not facts.changes and not limits:
        raise Refused(f"{head[:8]} changes nothing against {whose}", f"commit something, then propose that{takes}")
    found = [rules.no_protected_path(facts.changes), rules.only_fit_names(facts.changes), limits, rules.clean(facts)]
    if refused := rules.join_refusals(found):
        fetch, onto = command("git fetch {} {}", target.hub, HEADS + target.main), "git rebase --onto FETCH_HEAD"
        hint = f"; a branch that began elsewhere: {fetch}, then '{onto} START' moves what follows START there"
        raise Refused.by(refused, refused.remedy + (hint if refused.rule == rules.PROTECTED_PATHS else ""))
    if facts.stale:
        rebase = command("cn rebase {}", target.topic)
        text = f"{whose} changed since: {some_of(facts.stale, 3, 80)}"
        text += f"; as it stands it will be refused, {rebase} mends that"
        run.report.info(text, source=target.source)
    refuse_unsigned(run, target.peer, target.tip, head, others=target.theirs)
    if unsigned := will_be_refused(run, target.peer, target.tip):
        run.report.info(unsigned, source=target.source)
    refuse_withdrawn(run, target.peer, target.tip, target.topic, head)
    base = own_base(git, target.tip, head)
    assert base is not None, "it has history in common with main"
    if pointers := _read_leaving(run, base, head):
        push = command("git lfs push --all {}", target.hub)
        text = f"git-lfs keeps the contents of {some_of(pointers, 3, 80)}: no proposal brings them"
        run.report.info(f"{text}, {push} does", source=target.source)
    return base


def _read_leaving(run: Run, base: Oid, head: Oid) -> list[str]:
    """What would leave: the messages of the commits, and what they bring in text files. Raises :class:`Refused` for a
    secret in it; the paths of files of which git has only a pointer of git-lfs.
    """
    pointers = list[str]()
    git, settings = run.hub.git, run.settings
    commits = git.run("rev-list", f"{base}..{head}", "--").lines
    texts = zip(commits, read_objects(git, commits), strict=True)
    said = [text_of(f"the message of {oid[:8]}", decode(data or b"").partition("\n\n")[2]) for oid, data in texts]
    refused = check_texts(said, settings)
    for change in read_changes(git, base, head) if not refused else ():
        ids = [entry.oid for entry in (change.new, change.old) if entry is not None and entry.mode.startswith("100")]
        sizes = [info.size for info in read_info(git, ids) if info is not None]
        if change.new is None or not ids or max(sizes, default=0) > _LARGE:
            continue
        new, *old = (data or b"" for data in read_objects(git, ids))
        pointers += [change.path] if new.startswith(POINTER) else []
        if refused := check_change(HubPath(change.path), new, old[0] if old else None, settings):
            break
    if refused:
        raise Refused.by(refused)
    return pointers


def _settled(run: Run, snapshot: Snapshot, target: Target, head: Oid, may_replace: Callable[[Oid], bool]) -> str:
    """What is told of a proposal with which nothing is to be done; raises :class:`Refused` where it may not be made."""
    item = snapshot.item(target.peer.name, OUT, target.topic)
    past = snapshot.events_of_topic(target.peer.name, OUT, target.topic)
    if refused := _answered(run, target, item, past, head):
        raise refused
    if item is not None and item.head != head and not may_replace(item.head):
        raise _by_another_clone(run, target, item, head, past)
    return _stands(target, item, head, _twin(snapshot, target, head))


def _by_another_clone(run: Run, target: Target, item: Item, head: Oid, past: Sequence[Event]) -> Refused:
    """What was proposed from elsewhere, and is no part of what is proposed now, would be lost from the branch."""
    with comparing(target, head):
        # What was proposed from here before, that one holds, or has replaced: only what follows goes upon it.
        base = _last_proposed(run, past, item, head) or own_base(run.hub.git, target.tip, head)
    title = f" ({title})" if (title := one_line(item.get("subject"), 80)) else ""
    text = f"{target.branch} is at {item.head[:8]}{title}, which this clone never had"
    text += " (another one proposed it, or cn rebase made it)"
    text += f", and {head[:8]} does not hold it: nothing was proposed"
    fetch = command("git fetch {} {}", target.place, HEADS + target.branch)
    # What main got since that one began stays out of it: as copies it could not be merged.
    onto = command("git rebase --onto FETCH_HEAD {}", base) if base else "'git rebase FETCH_HEAD'"
    take = f"{fetch} and 'git log ..FETCH_HEAD' show it, {onto} puts yours onto it"
    if item.state == "queued":
        take = f"it waits in the outbox: 'cn outbox flush' delivers it; then {take}"
    return Refused(text, f"{take}; {command('cn propose {} --replace', target.topic)} replaces it")


def _last_proposed(run: Run, past: Sequence[Event], item: Item, head: Oid) -> Oid | None:
    """The newest of what was proposed before by this name that a head holds; None: there is none."""
    heads = dict.fromkeys(event.head for event in reversed(past) if event.head != item.head)
    return next((old for old in list(heads)[:_HEADS] if is_ancestor(run.hub.git, old, head)), None)


def follow_moved(target: Target, old: Oid) -> str:
    """How a branch at ``old``, or upon it, follows what was laid upon a main without history in common."""
    fetch = command("git fetch {} {}", target.place, HEADS + target.branch)
    return f"{fetch} and {command('git rebase --onto FETCH_HEAD {}', old)}"


def _same_as(target: Target, twin: str, head: Oid) -> Refused:
    """Two branches at one commit give one thread: the second would only be refused there."""
    text = f"{head[:8]} is {twin}, which waits at {target.peer.name}: as {target.branch} it gives no thread of its own"
    delete = command("cn withdraw {}", f"{target.peer.name}:{twin.partition('/')[2]}")
    again = command("cn propose {}", target.topic)
    hint = f"commit something of its own, then propose that; to have it called {target.branch}, {delete}"
    return Refused(f"{text}, and nothing was proposed", f"{hint}, then {again}")


def _twin(snapshot: Snapshot, target: Target, head: Oid) -> str:
    """The other branch of ours there that this commit is known as; empty: there is none."""
    return twin_of(target.topic, head, (item for peer, item in snapshot.outbound() if peer == target.peer.name))


def _stands(target: Target, item: Item | None, head: Oid, twin: str) -> str:
    """What is told of a proposal that is there as it is."""
    if item is None or item.head != head or item.get("kind") not in ("", PROPOSAL) or item.state == "queued":
        return ""
    status = item.get("status")
    answer = (
        f"{status}{f': {in_quotes(reason)}' if (reason := one_line(item.get('reason'))) else ''}"
        if status
        else "no answer yet"
    )
    told = f"{target.branch} is at {head[:8]} already, proposed to {target.peer.name}: {answer}"
    if twin and is_refused_as_twin(item):
        return f"{told}; here: {rename_to(twin, target.branch, target.peer.name)}"
    mend = signing_text(item, target.peer.name) or "mend it, commit"
    return f"{told}; {f'{mend}, then propose that' if status in TO_MEND else 'nothing to do'}"


def _answered(run: Run, target: Target, item: Item | None, past: Sequence[Event], head: Oid) -> Refused | None:
    """Why this cannot be proposed under this name (any more)."""
    if item is not None and item.get("kind") not in ("", PROPOSAL):
        return Refused(f"{target.branch} is a {item.get('kind')} of ours", "choose another topic")
    if item is not None and item.state == "deleting":
        moved = told_of(run.memory.conditions, f"{target.peer.name}:{target.topic}")
        asks = f"{command('cn withdraw {}', f'{target.peer.name}:{target.topic}')} asks for that again"
        waits = any(is_deletion_of(one, target.peer.name, target.topic) for _, one in run.snapshot.outbox()[0])
        remedy = moved.remedy if moved else "run 'cn sync', then again" if waits else asks
        was = f": it was {item.get('status')}" if item.get("status") else ""
        return Refused(f"{target.branch} is about to be deleted{was}", remedy)
    for topic, events in {**_elsewhere(run, target, head), target.topic: past}.items():
        if ended := _ended(target, topic, events, head):
            return ended
    if item is not None and item.head != head and any(e.head == head for e in past):
        pull = take_later(target)
        if read_info(run.hub.git, [item.head]) != [None] and not merge_bases(run.hub.git, head, item.head):
            pull = follow_moved(target, head)
        text = f"{head[:8]} is an earlier state of {target.branch}, which is at {item.head[:8]} now"
        again = command("cn propose {} {}", target.topic, target.peer.name)
        anew = f"to take out what came since, 'git commit --amend --no-edit', then {again}"
        begun = [e.kind for e in past if e.head == item.head and e.kind in BEGINS]
        if begun[-1:] == ["adopted"]:  # by whoever may push there
            text = f"somebody moved {target.branch} from {head[:8]} to {item.head[:8]}"
            return Refused(text, f"{take_there(target)}; {anew}")
        return Refused(text, f"{pull} brings your branch there; {anew}")
    return None


def _elsewhere(run: Run, target: Target, head: Oid) -> dict[str, list[Event]]:
    """The histories of other topics under which this commit went there before."""
    found = run.snapshot.events_at_heads(target.peer.name, OUT, [head]).get(head, [])
    return run.snapshot.events_of_topics(target.peer.name, OUT, {event.topic for event in found} - {target.topic})


def _ended(target: Target, topic: str, past: Sequence[Event], head: Oid) -> Refused | None:
    """That a commit was decided under this topic, or was replaced by one that was: it is not looked at again."""
    sent = [number for number, event in enumerate(past) if event.head == head and event.kind in BEGINS]
    later = [e for e in past[sent[-1] :] if e.kind == "answered" and not e.fields.get("unproven")] if sent else []
    answers = [event for event in later if event.fields.get("status") in FINAL]
    if not answers:
        return None
    last = next((event for event in reversed(answers) if event.head == head), answers[-1])
    status, merge, at = last.fields["status"], last.fields.get("merge", ""), format_stamp(last.at)
    words = f"{status}{f' as {merge[:12]}' if merge else ''} by {target.peer.name} ({at})"
    branch = f"{target.branch.removesuffix(target.topic)}{one_line(topic, 80)}"
    new = "commit something new, then propose that"
    if last.head == head:
        return Refused(f"{branch} at {head[:8]} was {words}", new)
    pull = command("git pull --rebase {} {}", target.hub, HEADS + target.main)
    text = f"{head[:8]} is an earlier state of {branch}, which was {words} at {last.head[:8]}"
    return Refused(text, f"{pull} brings your branch to what was decided; {new}")


def _is_stranger_to(run: Run, target: Target) -> bool:
    """Does the peer's main show a list of peers without us? Where it shows none (a separate mailbox), nobody knows."""
    place = f"{target.tip}:{PEERS}"
    (info,) = read_info(run.hub.git, [place])
    if info is None or info.kind != "blob" or info.size > _LARGE:
        return False
    (data,) = read_objects(run.hub.git, [place])
    with suppress(ConfigError):
        known = {peer.name for peer in parse_peers(decode(data or b""))}
        return not known.intersection(run.settings.names_for(target.peer.name))
    return False


def _tell_what_follows(run: Run, target: Target, item: Item) -> None:
    """Who decides, how we learn of it, what we may do."""
    peer, topic, source = target.peer, target.topic, target.source
    if item.state == "queued":
        run.report.info("it stays in the outbox, and the next 'cn sync' tries again; 'cn outbox' shows why it waits")
        return
    near = lies_at_mailbox(peer.name, target.branch)
    where = "" if not near else f" (it lies at our {run.settings.mailbox or 'own repository'})"
    if read_info(run.hub.git, [f"{target.tip}:{PATH}"]) == [None]:
        text = f"{peer.name}'s {target.main} has no {PATH}: {NO_HUB}"
        text += f"; its people see {target.branch} with git{where}, and no cn answers"
        take = command("cn withdraw {}", f"{peer.name}:{topic}")
        remove = command("cn peer remove {}", peer.name)
        run.report.info(f"{text}. {take} takes it back, {remove} takes {peer.name} out", source=source)
        return
    if _is_stranger_to(run, target):
        text = f"{peer.name}'s {target.main} lists no peer {run.settings.us}: its cn leaves {target.branch} alone"
        adds = command("cn peer add {} URL", run.settings.us)
        run.report.info(f"{text} until its people run {adds}, with the URL of our hub", source=source)
    text = f"{peer.name} decides, once its cn has fetched it{where}; 'cn sync' brings the answer here"
    run.report.info(f"{text}, {command('cn why {}', f'{peer.name}:{topic}')} tells where it stands", source=source)
    more, onto = command("cn propose {}", topic), command("cn rebase {}", topic)
    run.report.info(f"{more} again moves it to what you committed since, {onto} onto the latest main", source=source)
