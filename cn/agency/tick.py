"""Do what is due: deliver messages whose time has come, pack what writes left loose, bring the copy up to date."""

from __future__ import annotations

from typing import NamedTuple

from cn.agency.agency import Agency
from cn.agency.operations import BySystem, DeliverDue
from cn.agency.perform import Asked, Done, perform
from cn.agency.store.behind import follow
from cn.agency.store.copies import copy_url, is_copied
from cn.agency.store.copy_notes import copy_failure
from cn.system.clock import now
from cn.values.errors import Refusal

_BATCH = 100


class Ticked(NamedTuple):
    """What was done; ``told`` is what was in the way, ``refused`` why the copy lacks something, or can be none;
    ``pushed`` is the URL of the copy that was brought to main.
    """

    done: tuple[Done, ...]
    told: tuple[str, ...]
    refused: Refusal | None
    pushed: str = ""


def tick(agency: Agency, *, dry_run: bool = False) -> Ticked:
    """All that is due now; with ``dry_run`` what would be delivered."""
    done: list[Done] = []
    told = [one.told for one in agency.misread]
    while asked := _due(agency):
        performed = perform(agency.store, asked, agency.limits, rehearse=dry_run)
        accepted = [one for one in performed.answers if isinstance(one, Done)]
        done += accepted
        told += performed.told
        if dry_run or not accepted:
            break
    if dry_run:
        return Ticked(tuple(done), (), None)
    url = copy_url(agency.hub)
    repository = agency.store.repository
    if isinstance(url, Refusal):
        told += follow(repository, "")
        return Ticked(tuple(done), tuple(told), url)
    lacked = bool(url) and not is_copied(repository, url)
    told += follow(repository, url)
    refused = copy_failure(repository.places, url)
    if refused is not None and refused.reason not in told:
        refused = None
    told = [one for one in told if refused is None or one != refused.reason]
    pushed = url if lacked and is_copied(repository, url) else ""
    return Ticked(tuple(done), tuple(told), refused, pushed)


def _due(agency: Agency) -> list[Asked]:
    with agency.store.reading() as facts:
        return [Asked(DeliverDue(one.id), BySystem()) for one in facts.due(now(), _BATCH)]
