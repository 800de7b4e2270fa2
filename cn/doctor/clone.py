"""Checks of this clone (HEAD, lock, journal, leftover files) and of what it has against its origin."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from cn.actions.trust import find_broken, find_pending
from cn.doctor.finding import Finding, Fix, HubFacts, Step, from_error, info, problem
from cn.git.damage import find_damage
from cn.git.entries import read_index, read_tree
from cn.git.remote import is_no_repository
from cn.git.repository import Hub
from cn.git.running import find_locks, git_processes
from cn.inbox.in_conflict import find_conflicts
from cn.outbox.deliver import PUBLISH
from cn.outbox.our_branches import UNHEARD
from cn.outbox.our_names import AWAY, COPIED, FORWARD, LOST, REPLACED, TAKEN_DOWN
from cn.outbox.told_again import UNTOLD
from cn.peers.hosts import look_at_origin, look_at_peer, look_at_places
from cn.peers.links import ONE_NAME, find_former, find_routes, open_at
from cn.peers.observe import FETCH, MOVED, NOT_TAKEN, SILENT, STRAY
from cn.peers.older_state import OLDER
from cn.peers.peer_main import named_main
from cn.peers.routes import THEIRS
from cn.protocol.hub_config import AGENT_PATH
from cn.protocol.peers_file import say_moved
from cn.run.links import by_links
from cn.run.memory import ANOTHER, MISNAMED, NAMELESS, Memory
from cn.run.run import PINS, scratch_objects
from cn.system.files import free_name, move
from cn.transaction.base import Base, list_origin, observe_base, open_work, origin_url, work_place
from cn.transaction.housekeeping import sweep_failed, unfinished
from cn.transaction.journal import journal_path, read_journal, sort_pushes
from cn.transaction.lock import LOCK, TURN, WAKE, find_holder, find_links
from cn.transaction.moved_main import find_left_behind
from cn.transaction.publish import recover
from cn.transaction.push import locks_at_origin, refuses_push, replaced_at_origin
from cn.transaction.unplaced import read_unplaced
from cn.values.errors import Blocked, CnError, Refused
from cn.values.names import Name, ThreadName, never_blocks
from cn.values.shell_words import command
from cn.values.text import one_line, redact, visible
from cn.values.timestamps import format_age, parse_stamp

_MOMENT = 60.0
_HOUR = 3600.0
_LONG = 900.0
_MOVES = "-20"
"""So many of main's last moves are compared with the index."""
_WHY_LOCK = "git refuses to change what it locks, and so does cn"


def check_place(facts: HubFacts) -> Iterator[Finding]:
    """HEAD is main, nothing is half done, no other work tree holds main."""
    try:
        work_place(facts.hub)
    except CnError as error:
        yield from_error(error, "cn works on main only, and never into somebody's unfinished work")


def check_damage(facts: HubFacts) -> Iterator[Finding]:
    """No ref, object, pack or index is as a crash of the machine leaves it; a broken main is told by its place."""
    found = find_damage(facts.hub.git, facts.hub.git_dir)
    if found and not found.text.startswith(f"{facts.hub.main_ref} is broken"):
        yield from_error(found, "git cannot read all that this clone has")


def check_state(facts: HubFacts) -> Iterator[Finding]:
    """What cn keeps in the git directory is there, and not behind a link."""
    if linked := find_links(facts.hub.state):
        yield problem(linked[0], "no run can work: it would write and remove files behind it", linked[1])


def check_writers(facts: HubFacts) -> Iterator[Finding]:
    """Nobody else may write a thread: a decision in it would be carried out as the user's own."""
    root = facts.hub.root
    places = [root, facts.hub.git_dir]
    for here, folders, names in os.walk(root / "threads"):
        places += [Path(here), *(Path(here) / name for name in (*folders, *names))]
    for path in places:
        with suppress(OSError):
            state = path.lstat()
            if not stat.S_ISLNK(state.st_mode) and state.st_mode & stat.S_IWOTH:
                what = f"every user of this machine may write {visible(os.path.relpath(path, root))}"
                why = "a decision that is written into a thread counts as yours"
                kind = info if facts.hub.any_mode else problem  # where modes say nothing, chmod changes none
                yield kind(what, why, command("chmod -R o-w -- {}", str(root)))
                return


def check_stop(facts: HubFacts) -> Iterator[Finding]:
    """What stopped the last run, until one works again."""
    stop = Memory(facts.hub, facts.now).stopped
    if not stop or stop.get("kind") == "BadPlace" or open_work(facts.hub):  # the check of the place looks at it now
        return
    since = format_age(facts.now - parse_stamp(str(stop["since"])))
    why = f"no run can work (since {since}); the next one that does clears this"
    yield problem(str(stop["text"]), why, str(stop["hint"]))


def check_lock(facts: HubFacts) -> Iterator[Finding]:
    """Could a run start, and wake the agent? One that is at work now explains some of the findings."""
    if facts.locked:
        return
    hub = facts.hub
    for path in (hub.state / name for name in (LOCK, TURN, WAKE)):
        if path.exists() and not (path.is_file() and os.access(path, os.R_OK | os.W_OK)):
            yield problem(f"{path} cannot be opened", "no run can start", "check its owner")
    for names, why in (((TURN, LOCK), "no run can start"), ((WAKE,), "the agent is not told when something arrives")):
        if (holder := find_holder(hub, *names)) is None:
            continue
        age = facts.now.timestamp() - holder.since
        if holder.remedy:
            yield problem(holder.text, why, holder.remedy)
        elif age > _LONG:
            remedy = "see what it waits for; it may be ended, and the next run finishes its work"
            yield problem(f"{holder.text}, for {format_age(timedelta(seconds=age))}", why, remedy)
        else:
            why = "what is found now may be its unfinished work"
            yield info(holder.text, why, "run 'cn doctor' again when it has ended")


def check_journal(facts: HubFacts) -> Iterator[Finding]:
    """No run was interrupted in the middle."""
    hub = facts.hub
    remedy = "the next run does it by itself, such as 'cn sync'"
    try:
        if read_journal(journal_path(hub)) is not None:
            what = "a run was interrupted while it changed this clone"
            why = "it must be finished or taken back; until then index and files may lag behind main"
            yield problem(what, why, remedy, Fix(Step.FINISH_RUN, "finish or take back the interrupted run", _finish))
        notes, stray = sort_pushes(hub)
    except Refused as error:
        yield from_error(error, "it may hold a promise that was made to origin")
        return
    for note in notes:
        told = one_line(note.message.partition("\n")[0], 80)
        why = "if origin took it, the next run does its share here; if not, it is forgotten once main there moves on"
        yield info(f"a push to origin was interrupted: {told}", why, f"{remedy}; what is not there then, type again")
    for name in (os.path.relpath(path, hub.root) for path in stray):
        why = "a tool that copies files may have made it; no run does anything for it"
        yield info(f"{visible(name)} is no note of a push", why, command("rm -- {}", name))


def _finish(hub: Hub, rescue: str) -> str:
    return "; ".join(recover(hub)) or "there was nothing left to finish"


def check_leftovers(facts: HubFacts) -> Iterator[Finding]:
    """No lock files of git were left by a crash."""
    users: list[str] | None = None
    for path in find_locks(facts.hub.git_dir, facts.hub.work_git_dir):
        try:
            state = path.lstat()
        except OSError:
            continue
        age = max(0.0, facts.now.timestamp() - state.st_mtime)
        users = git_processes(facts.hub) if users is None else users
        name = os.path.relpath(path, facts.hub.root)
        what = f"{visible(name)} is there, for {format_age(timedelta(seconds=age))}"
        if users:
            yield info(what, f"a git is at work here: {', '.join(users[:3])}", "let it end")
        elif age < _HOUR:
            remedy = "if no git, editor or IDE works here, remove it; after an hour 'cn doctor --fix' does"
            yield problem(what, _WHY_LOCK, remedy)
        else:
            why = f"{_WHY_LOCK}; no git is at work here: a crash left it"
            yield problem(what, why, command("rm -- {}", name), _move_lock(path, state))


def _move_lock(path: Path, found: os.stat_result) -> Fix:
    """Move a stale lock of git away, if it is still that very file."""

    def apply(hub: Hub, rescue: str) -> str:
        state = path.lstat()
        if (state.st_ino, state.st_mtime_ns) != (found.st_ino, found.st_mtime_ns) or git_processes(hub):
            raise Refused("somebody uses it now", "run 'cn doctor' again")
        kept = free_name(hub.state / "rescue" / rescue / path.name)
        move(path, kept)
        return f"moved the stale lock {visible(path.name)} to {visible(str(kept.relative_to(hub.root)))}"

    return Fix(Step.MOVE_LOCK, f"move the stale lock {visible(str(path))} to .git/cn/rescue", apply)


def check_unfinished(facts: HubFacts) -> Iterator[Finding]:
    """No files of a git that failed take up room."""
    hub = facts.hub
    found, size = unfinished(hub), 0
    for path in found:
        with suppress(OSError):
            size += path.lstat().st_size
    if found:
        name = visible(os.path.relpath(found[0], hub.root))
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield info(
            f"a git that failed left {name}{more}, {size} bytes",
            "nothing needs them; a git that is at work now has such files too",
            "the next run that works here removes them, or 'cn doctor --fix'",
            Fix(Step.SWEEP, "remove unfinished files of git", _sweep),
        )


def _sweep(hub: Hub, rescue: str) -> str:
    return f"removed {sweep_failed(hub)} unfinished files of git"


def check_files(facts: HubFacts) -> Iterator[Finding]:
    """Nothing that a run put aside waits to be looked at."""
    kept: list[str] = []
    for here, _, names in os.walk(facts.hub.state / "aside"):
        whole = [name for name in names if not name.startswith(".cn-tmp-")]
        kept += [os.path.relpath(Path(here) / name, facts.hub.root) for name in whole]
    if kept:
        shown = ", ".join(visible(k) for k in sorted(kept)[:5])
        more = f" and {len(kept) - 5} more" if len(kept) > 5 else ""
        yield info(
            f"files that differed from main were kept: {shown}{more}",
            "main decides in cn's folders, and nothing of yours is thrown away",
            "take what you need out of them, then remove them",
        )


def check_index(facts: HubFacts) -> Iterator[Finding]:
    """The index holds what cn brought to main: it lags behind where a run was cut off and its journal moved away."""
    git, ref = facts.hub.git, facts.hub.main_ref
    staged = git.run("diff-index", "--cached", "--no-renames", "--name-only", "-z", ref, check=False).fields
    if not staged:
        return
    index, lagging = read_index(git), set[str]()
    moves = [line.split(" ", 1) for line in git.run("log", "-g", _MOVES, "--format=%H %gs", ref, check=False).lines]
    for (new, message), (old, _) in pairwise(moves):
        if message.startswith("cn: "):
            before, after = read_tree(git, old, staged), read_tree(git, new, staged)
            lagging |= {path for path in staged if index.get(path) == before.get(path) != after.get(path)}
    if lagging:
        first, *more = sorted(lagging, key=lambda path: (never_blocks(path), path))
        others = f" and {len(more)} more" if more else ""
        text = f"the index has {visible(first)}{others} as main had it before a commit of cn"
        restore = command("git restore --source=HEAD --staged --worktree -- {}", first)
        remedy = f"where you did not stage that yourself, {restore} brings main's back"
        yield problem(text, "the next commit takes back what came to main", remedy)


def check_conflicts(facts: HubFacts) -> Iterator[Finding]:
    """Git's index holds no conflict in cn's folders that a stash left (git-stash(1))."""
    names = [ThreadName(item.get("thread")) for _, item in facts.snapshot.pending()]
    for found in find_conflicts(facts.hub, facts.settings, names):
        yield problem(found.text, "", found.remedy)


def check_hidden(facts: HubFacts) -> Iterator[Finding]:
    """Git watches every file (git-update-index(1), "Skip-worktree bit")."""
    if facts.hub.git.run("config", "--bool", "core.sparseCheckout", check=False).text == "true":
        return
    noted = read_unplaced(facts.hub).hidden
    marked = (field.partition(" ") for field in facts.hub.git.run("ls-files", "-t", "-z", "--full-name").fields)
    paths = [path for mark, _, path in marked if mark == "S" and path not in noted]
    if paths:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        remedy = command("git update-index --no-skip-worktree -- {}", paths[0])
        why = "an edit of it is seen neither by git nor by 'cn commit'"
        yield info(f"git is told to overlook {visible(paths[0])}{more}", why, remedy)


def check_origin(facts: HubFacts) -> Iterator[Finding]:
    """A run could plan on what origin and this clone have; looks only, keeps nothing."""
    try:
        work_place(facts.hub)
    except CnError:
        return  # told by the check of the place
    yield from _held(facts.hub)
    yield from _further_urls(facts.hub)
    with tempfile.TemporaryDirectory(prefix="cn-doctor-") as scratch:
        hub = scratch_objects(facts.hub, scratch)
        try:
            base = observe_base(hub, dry_run=True, check_trust=False)
        except CnError as error:
            yield from_error(error, "every run stops here")
            return
        if base.origin is not None and base.origin != base.local:
            done = hub.git.run("rev-list", "--left-right", "--count", f"{base.local}...{base.origin}", check=False)
            ahead, behind = done.text.split() if done.ok else ("?", "?")
            commits = "commit" if ahead == "1" else "commits"
            what = f"{hub.main} here is {ahead} {commits} ahead of origin's and {behind} behind"
            yield info(what, "", "the next run brings them together")
        elif facts.hub.origin and base.origin is None:
            push = command("git push origin {}", facts.hub.main_ref)
            yield info("origin has no main yet", "the first run pushes it", f"or {push}")
        yield from _left_behind(hub, base)
        ours = base.origin is None or base.tip == base.local  # what is wrong here is told already
        if base.origin and not ours and (broken := find_broken(hub, base.origin, base.local)) is not None:
            what = "the runtime does not start" if AGENT_PATH in broken.text else "no run works"
            yield from_error(broken, f"{what} before it is mended", check="configuration")
        if facts.hub.origin and (refused := refuses_push(hub, base)):
            said, remedy = refused
            why = "every run that has something to commit stops here"
            yield problem(f"nothing can be pushed to origin: {said}", why, remedy)
        if (pending := find_pending(hub, base)) is not None:
            names = ", ".join(f.path for f in pending.files)
            what = f"protected files were changed elsewhere, and this clone has not accepted it: {names}"
            why = "every run stops: who can push to origin must not be able to replace a key or a reviewer"
            if pending.trusted is None:
                what = "this clone has not accepted what it was cloned with"
                why = f"every run stops: by it cn would act as {facts.hub.name or 'that hub'}, with all that you may do"
            yield problem(what, why, "'cn trust' shows the change and accepts it", check="trust")


def _left_behind(hub: Hub, base: Base) -> Iterator[Finding]:
    """A colleague's git, or a clone that runs no cn, goes on with what was main before."""
    if base.origin is None:
        return
    for name, remedy in find_left_behind(hub, base.origin, origin_url(hub), lambda: list_origin(hub)):
        what = f"origin's {visible(name)}, which was main before, has commits that {hub.main} lacks"
        yield problem(what, "somebody goes on with it, and no run reads what is pushed there", remedy)


def _held(hub: Hub) -> Iterator[Finding]:
    """What keeps an origin on this machine from being pushed to."""
    for lock in locks_at_origin(hub) if hub.origin else ():
        what = f"{visible(str(lock.path))} is there, for {format_age(timedelta(seconds=lock.age))}"
        at_work = bool(lock.users) or lock.age < _MOMENT
        yield (info if at_work else problem)(
            what, "git refuses to change what it locks: nothing is pushed", lock.remedy
        )
    if hub.origin and (replaced := replaced_at_origin(hub)):
        what = f"somebody put {visible(replaced[0])} at origin"
        yield problem(what, "an object that is replaced there cannot be pushed upon", replaced[1])


def _further_urls(hub: Hub) -> Iterator[Finding]:
    """git pushes to every push URL, one by one (git-push(1)); cn to one, or main could be here and not there."""
    urls = hub.config.all("remote.origin.pushurl") or hub.config.all("remote.origin.url")
    if len(urls) > 1:
        others = ", ".join(visible(redact(url)) for url in urls[1:])
        what = f"origin has {len(urls)} URLs to push to; cn pushes to the first alone, not to {others}"
        yield info(what, "what is pushed to several hosts is not one decision", "let the first mirror to the others")


def check_host(facts: HubFacts) -> Iterator[Finding]:
    """Our host has main as HEAD, and gives the rights that cn needs; with ``--full`` every peer's does."""
    if facts.settings is None:
        return
    peers = facts.settings.peers.values() if facts.full else ()
    if peers and facts.accepted is None:
        yield info("no peer was asked: this clone has not accepted main's configuration", "", "see 'cn trust'")
        peers = ()
    memory = Memory(facts.hub, facts.now)
    with tempfile.TemporaryDirectory(prefix="cn-doctor-") as scratch:
        hub = scratch_objects(facts.hub, scratch)
        try:
            lacks = list(look_at_origin(hub, facts.settings)) if facts.hub.origin else []
            for peer in peers:
                lacks += look_at_peer(hub, facts.settings, peer, known=named_main(memory, peer.hub))
        except Blocked as error:
            yield info(f"what the host allows was not tried: {error.text}", "", error.hint)
            return
    for lack in lacks:
        yield (problem if lack.needed else info)(lack.text, lack.why, lack.remedy)


def check_shared(facts: HubFacts) -> Iterator[Finding]:
    """No repository that is reached by its path can be written by others; nobody is contacted."""
    for lack in look_at_places(facts.hub, facts.settings):
        yield info(lack.text, lack.why, lack.remedy)


def check_peers(facts: HubFacts) -> Iterator[Finding]:
    """Who could not be reached, and what did not come or was lost (from memory; nobody is contacted)."""
    memory = Memory(facts.hub, facts.now).know_hubs(facts.settings.hubs if facts.settings is not None else {})
    peers = facts.settings.peers if facts.settings is not None else {}
    for name, entry in memory.unreachable.entries.items():
        if name not in peers and not name.startswith("("):
            continue
        since = entry.get("since")
        what = f"{'the mailbox' if name.startswith('(') else name} has been unreachable since {since}"
        reason = one_line(redact(str(entry.get("reason"))))
        moved = f"; if its hub moved, {say_moved('URL')}" if name in peers and is_no_repository(reason) else ""
        yield problem(what, reason, f"'cn peer sync' tries again now{moved}")
    for kind in _FROM_PEERS:
        for text, remedy in memory.conditions.of(kind):
            yield problem(one_line(redact(text), 400), "", remedy)
    yield from _check_links(facts)
    # Some hosts take no pins, and all else works there; the others may be somebody's own doing.
    for kind in (PINS, STRAY, MOVED, AWAY, COPIED, FORWARD, TAKEN_DOWN, NAMELESS):
        for text, remedy in memory.conditions.of(kind):
            yield info(one_line(redact(text), 400), "", remedy)


_FROM_PEERS = (FETCH, NOT_TAKEN, SILENT, OLDER, ANOTHER, LOST, UNHEARD, UNTOLD, REPLACED, PUBLISH, THEIRS, MISNAMED)


def _check_links(facts: HubFacts) -> Iterator[Finding]:
    """Routes and names that were changed while something was open, and peers of one URL."""
    if facts.settings is None or facts.main is None:
        return
    settings = by_links(facts.settings, facts.snapshot)
    items = open_at(facts.snapshot)
    for told in (*find_routes(settings, items).values(), *find_former(settings, items).values()):
        yield info(told.text, "", told.remedy)
    same: dict[str, list[Name]] = {}
    for name, peer in settings.peers.items():
        same.setdefault(peer.hub, []).append(name)
    for url, names in same.items():
        if len(names) > 1:
            what = f"{' and '.join(names)} have the same URL, {redact(url)}"
            remove = " or ".join(command("cn peer remove {}", name) for name in names)
            yield info(what, ONE_NAME, f"{remove}, whichever it is not called")
