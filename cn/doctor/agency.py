"""Checks of Agency's records, where a hub has some."""

from __future__ import annotations

from collections.abc import Iterator

from cn.doctor.finding import Finding, HubFacts, info, problem
from cn.git.running import RECORDS


def check_records(facts: HubFacts) -> Iterator[Finding]:
    """They are sound, what is derived follows from them, and they are on another machine too."""
    if not (facts.hub.state / RECORDS).is_dir():
        return
    # Most hubs have none, and it brings a database.
    from cn.agency.store.check import check_copy, check_records
    from cn.agency.store.copies import copy_url
    from cn.agency.store.repository import Places, Repository

    repository = Repository(Places(facts.hub.state), facts.hub.identity)
    try:
        for flaw in (
            *check_records(repository, facts.now, full=facts.full),
            *check_copy(repository, copy_url(facts.hub.config), facts.now),
        ):
            yield (problem if flaw.serious else info)(flaw.what, flaw.why, flaw.remedy)
    finally:
        repository.close()
