"""What is left of branches of which main has got a part since they were shown: it is shown, to be decided anew."""

from __future__ import annotations

from cn.git.read_branches import Patience
from cn.inbox.arrivals import assigned_to, mask_thread, own_histories, read_mains, show_proposals, use_working_text
from cn.inbox.merges import in_part
from cn.inbox.plan.arrivals import GOT_PART, plan_shown_anew
from cn.inbox.working_copies import has_triage
from cn.outbox.plan.receipts import Arrival
from cn.protocol.layout import PROPOSAL, inbox_path
from cn.protocol.ledger import IN, Item
from cn.run.executor import Executor
from cn.values.names import Branch, Name, ThreadName, is_oid


def show_anew(executor: Executor) -> None:
    """Show what is left of pending proposals whose commits main has in part, with what these change.

    A branch upon another one, say, when that was merged. As it was shown it cannot be merged any more, and to rebase it
    changes nothing. What was decided of it was about more, and is void.
    """
    git, main = executor.hub.git, executor.snapshot.commit
    waiting = [(peer, item) for peer, item in _pending(executor) if _may_be_shown(executor, item)]
    found = in_part(git, main, [(item.head, item.get("base")) for _, item in waiting]) if waiting else set()
    if not found:
        return
    patience = Patience()
    histories = own_histories(git, main, [head for head, _ in found], patience)
    shows = show_proposals(git, list(histories.values()), executor.settings.config.limits, patience)
    for peer, item in waiting:
        if (item.head, item.get("base")) not in found or item.head not in shows:
            continue
        if (show := shows[item.head]).base == item.get("base"):
            continue
        branch, signature = Branch(item.get("branch")), item.get("signature")
        arrival = Arrival(peer, item.topic, branch, item.head, executor.now, signature, show.text, item=item)
        arrival = arrival._replace(base=show.base, title=show.title, signed=item.get("signed"))
        with executor.apart(arrival.source):
            _show(executor, arrival, item)


def _pending(executor: Executor) -> list[tuple[Name, Item]]:
    """As this run leaves them so far."""
    found = ((peer, executor.item(peer, IN, item.topic)) for peer, item in executor.snapshot.pending())
    return [(peer, item) for peer, item in found if item is not None and item.get("thread")]


def _may_be_shown(executor: Executor, item: Item) -> bool:
    """Is it a proposal that is there, was shown whole, and is not put off undecided?"""
    name = ThreadName(item.get("thread"))
    if item.get("kind") not in ("", PROPOSAL) or item.get("gone") or not is_oid(item.get("base")):
        return False
    if inbox_path(name) in executor.changed:
        return False
    return item.state != "deferred" or has_triage(executor.hub, name)


def _show(executor: Executor, arrival: Arrival, item: Item) -> None:
    name = ThreadName(item.get("thread"))
    void = has_triage(executor.hub, name)
    working, mains = use_working_text(executor, name), read_mains(executor, inbox_path(name))
    if working is not None:
        working = mask_thread(executor, name, working, mains)
    reviewer = assigned_to(executor, item)
    executor.perform(plan_shown_anew(arrival, executor.settings.us, item, working, mains, reviewer))
    told = f"{arrival.source} is shown anew: {GOT_PART}; read {inbox_path(name)}, then decide"
    told = f"{told} again: what was decided is void" if void else told
    executor.notes.info(told, source=arrival.source)
