"""Checks of the hub against its origin: reachable, not rewound, nothing foreign in protected files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from cn.actions.trust import find_broken, find_pending
from cn.doctor.facts import HubFacts
from cn.doctor.finding import Finding, from_error, info, problem
from cn.git.repository import Hub
from cn.protocol.hub_config import AGENT_PATH
from cn.run.memory import Memory
from cn.run.run import scratch_objects
from cn.transaction.base import observe_base, work_place
from cn.transaction.protected_files import trusted_commit
from cn.values.errors import CnError
from cn.values.names import Oid
from cn.values.shell_words import command
from cn.values.text import one_line, redact


def check_origin(facts: HubFacts) -> Iterator[Finding]:
    """A run could plan on what origin and this clone have; looks only, keeps nothing."""
    try:
        work_place(facts.hub)
    except CnError:
        return  # told by the check of the place
    with tempfile.TemporaryDirectory(prefix="cn-doctor-") as scratch:
        hub = scratch_objects(facts.hub, scratch)
        try:
            base = observe_base(hub, dry_run=True, check_trust=False)
        except CnError as error:
            yield from_error(error, "every run stops here")
            return
        if base.origin is not None and base.origin != base.local:
            yield _apart(hub, base.local, base.origin)
        elif facts.hub.origin and base.origin is None:
            push = command("git push origin {}", facts.hub.main)
            yield info("origin has no main yet", "the first run pushes it", f"or {push}")
        if base.tip != base.local and (broken := find_broken(hub, base.tip, base.local)) is not None:
            what = "the runtime does not start" if AGENT_PATH in broken.text else "no run works"
            yield from_error(broken, f"{what} before it is mended", check="configuration")
        trusted = trusted_commit(hub) or base.local
        given = frozenset({base.local, base.origin or base.local})
        pending = find_pending(hub, trusted, base.tip, given)
        if pending is not None:
            names = ", ".join(f.path for f in pending.files)
            what = f"protected files were changed elsewhere, and this clone has not accepted it: {names}"
            why = "every run stops: who can push to origin must not be able to replace a key or a reviewer"
            yield problem(what, why, "'cn trust' shows the change and accepts it", check="trust")


def _apart(hub: Hub, local: Oid, origin: Oid) -> Finding:
    done = hub.git.run("rev-list", "--left-right", "--count", f"{local}...{origin}", check=False)
    ahead, behind = done.text.split() if done.ok else ("?", "?")
    what = f"{hub.main} here is {ahead} commits ahead of origin's and {behind} behind"
    return info(what, "", "the next run brings them together")


def check_peers(facts: HubFacts) -> Iterator[Finding]:
    """Which peers could not be reached of late (from memory; nobody is contacted)."""
    for name, entry in Memory(facts.hub, facts.now).unreachable.entries.items():
        since = entry.get("since")
        what = f"{'the mailbox' if name.startswith('(') else name} has been unreachable since {since}"
        yield info(what, one_line(redact(str(entry.get("reason")))), "'cn peer sync' tries again now")
