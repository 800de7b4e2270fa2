"""Read from main what a model is to see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

from cn.agent.chat import read_conversation
from cn.agent.plan.prompt import SOUL, USER_PAGE, Material, Packed, Page, pack, reflection_names
from cn.agent.plan.skills import CONTRACT, FILE, FOLDERS, Skill, find_contract, is_skill, parse_skill
from cn.git.objects import ensure_absent, list_tree, read_info
from cn.llm import client
from cn.llm.config import AgentConfig
from cn.llm.request import Answer, Failure, Request, Usage
from cn.llm.usage import ASKED, Call, end_call, log_call
from cn.protocol.cadence import REFLECTIONS, Cadence, period, reflection_path
from cn.run.snapshot import Snapshot
from cn.run.view import View
from cn.system.clock import now
from cn.system.files import read_regular
from cn.system.random import nonce
from cn.system.template import template_dir
from cn.values.errors import CnError, Refused
from cn.values.names import HubPath
from cn.values.text import decode
from cn.views.queue import find_item

MOST_SKILLS = 300
FILE_BYTES = 256 * 1024
"""A page or skill beyond this is not read at all."""

COUNT_SECONDS = 8.0
"""A person waits for the count."""

Ask = Callable[[Request], Answer | Failure]
"""Ask the model once."""


@dataclass(frozen=True)
class Measured:
    """The tokens of a whole request: ``counted`` by the API, or ``estimated`` (and why)."""

    tokens: int
    how: str = "estimated"
    why: str = ""


def measure(packed: Packed, config: AgentConfig) -> Measured:
    """Count by the API, free of charge, where there are a key and a model; else estimate."""
    llm = config.llm
    if not llm.api_key or not llm.model:
        return Measured(packed.tokens, why="there is no API key in the environment, or no model")
    url = llm.base_url
    try:
        found = client.count_tokens(packed.request, api_key=llm.api_key, base_url=url, seconds=COUNT_SECONDS)
    except CnError as error:  # the client is not installed
        return Measured(packed.tokens, why=error.text)
    return (
        Measured(found, "counted") if found else Measured(packed.tokens, why=f"{urlsplit(url).hostname} does not count")
    )


def pack_item(view: View, config: AgentConfig, id: str | None = None) -> Packed:
    """What would be sent for an item; raises :class:`Refused` when there is none of that name."""
    asked = find_item(view, id)
    if asked is None:
        raise Refused("nothing waits for the agent", "'cn queue' shows what does; an archived ID works too")
    return pack_text(view, config, asked.text, asked.at)


def pack_text(view: View, config: AgentConfig, text: str, at: datetime, *, before: str = "") -> Packed:
    """What would be sent for this text of ``state/input.md``; ``at`` is the day that "recent" refers to.

    With ``before`` (an id) only what was said before that item. The same main, text and time give the
    same bytes.
    """
    snapshot, settings = view.snapshot, view.settings
    skills, notes = _skills(snapshot)
    weekly = reflection_path(Cadence.WEEKLY, period(Cadence.WEEKLY, at))
    days = (e.path.removesuffix(".md") for e in snapshot.folder(f"{REFLECTIONS}/daily") if e.kind == "blob")
    dailies = [
        reflection_path(Cadence.DAILY, name) for name in reflection_names(days, at, config.context.daily_threads)
    ]
    wanted = [SOUL, USER_PAGE, *dailies, *([weekly] if config.context.weekly_thread else [])]
    pages = {page.path: page for page in _pages(snapshot, wanted, notes)}
    contract = find_contract(skills) or _shipped_contract(notes)
    conversation = read_conversation(view.hub, settings.config, snapshot.read)
    material = Material(
        settings.us,
        [r.name for r in settings.config.reviewers],
        settings.peers.values(),
        pages.get(SOUL),
        pages.get(USER_PAGE),
        contract,
        skills,
        [pages[path] for path in dailies if path in pages],
        pages.get(weekly),
        conversation.until(before) if before else conversation,
        text,
    )
    return pack(material, config, notes)


def ask_packed(
    view: View, packed: Packed, ask: Ask, source: str, trigger: str = "", *, replay: bool = False
) -> tuple[Answer | Failure, Call]:
    """Make a call that counts, even if this process dies meanwhile; what came of it, and its event.

    ``source`` is where the item came from, ``trigger`` the attempt where it is not the first. Raises
    :class:`CnError` before the call where it could not be written down.
    """
    root = view.hub.root
    item = packed.id, source, packed.sender, packed.request.model
    main, parts = view.snapshot.commit, packed.sizes
    begun = Call(now(), *item, Usage(packed.tokens), None, 0.0, ASKED, 1, True, trigger, main, parts, replay, nonce())
    log_call(root, begun)
    outcome = ask(packed.request)
    call = end_call(begun, outcome, now())
    log_call(root, call)
    return outcome, call


def asker(config: AgentConfig) -> Ask:
    """Asks the configured model; raises :class:`ConfigError` where its name or the key is missing."""
    llm = config.require_llm()
    return partial(client.call, api_key=llm.api_key, base_url=llm.base_url)


# Pages and skills.


def _pages(snapshot: Snapshot, paths: Iterable[HubPath], notes: list[str]) -> list[Page]:
    """Those of the files that are there."""
    there = _readable(snapshot, list(paths), notes)
    snapshot.read_many(there)
    return [Page(path, decode(data)) for path in there if (data := snapshot.read(path)) is not None]


def _skills(snapshot: Snapshot) -> tuple[list[Skill], list[str]]:
    """All skills of the hub, by path, and what is to be said about them."""
    notes: list[str] = []
    found = [
        f"{folder}/{entry.path}"
        for folder in FOLDERS
        for entry in list_tree(snapshot.git, snapshot.commit, folder, recursive=True)
        if entry.kind == "blob" and entry.mode != "120000"
    ]
    paths = sorted(HubPath(path) for path in found if is_skill(path) and "\n" not in path)
    if len(paths) > MOST_SKILLS:
        notes.append(f"{len(paths) - MOST_SKILLS} skills beyond the first {MOST_SKILLS} are left out")
    paths = _readable(snapshot, paths[:MOST_SKILLS], notes)
    snapshot.read_many(paths)
    return [parse_skill(path, decode(snapshot.read(path) or b"")) for path in paths], notes


def _readable(snapshot: Snapshot, paths: list[HubPath], notes: list[str]) -> list[HubPath]:
    """Those that are files of a size that can be shown."""
    names = [f"{snapshot.commit}:{path}" for path in paths]
    infos = read_info(snapshot.git, names)
    ensure_absent(snapshot.git, [name for name, info in zip(names, infos, strict=True) if info is None])
    good = []
    for path, info in zip(paths, infos, strict=True):
        if info is not None and info.kind == "blob":
            if info.size <= FILE_BYTES:
                good.append(path)
            else:
                notes.append(f"{path}: it has {info.size} bytes and is left out")
    return good


def _shipped_contract(notes: list[str]) -> Skill | None:
    """The agent-ops of this installation, for a hub that has none."""
    path = template_dir() / "skills" / CONTRACT / FILE
    data = read_regular(path, FILE_BYTES)
    if data is None:
        return None
    notes.append(f"the hub has no skill {CONTRACT}: the one of this installation is used")
    return parse_skill(HubPath(f"{FOLDERS[0]}/{CONTRACT}/{FILE}"), decode(data))
