"""Read from main what a model is to see, and ask it; look it up before the first item is claimed.

A model that is not there fails every call, and would use up the attempts of every item. When it was looked up, a good
answer holds for a day, "nobody can tell" for an hour: a turn is not slowed by it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

from cn.agent.execute import read_conversation
from cn.agent.plan import prompt
from cn.git.objects import ensure_absent, list_tree, read_info, read_objects
from cn.git.repository import Hub
from cn.llm import client
from cn.llm.config import AgentConfig
from cn.llm.request import Answer, Failure, Kind, Request, Usage, unchecked
from cn.llm.usage import ASKED, Call, end_call, log_call
from cn.protocol.queue_item import REFLECTIONS, Cadence, period, reflection_path
from cn.run.memory import Memory, put_bounded
from cn.run.snapshot import Snapshot
from cn.run.view import Accepted, View
from cn.system.clock import now
from cn.system.extras import template_dir
from cn.system.files import read_regular
from cn.values.errors import CnError, ConfigError, Refused
from cn.values.names import HubPath, digest
from cn.values.report import Report
from cn.values.text import decode
from cn.values.timestamps import StampRefused, format_second, parse_stamp
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


def measure(packed: prompt.Packed, config: AgentConfig, accepted: Accepted) -> Measured:
    """Count by the API, free of charge, where there are a key and a model; else estimate."""
    llm = config.llm
    if not llm.api_key or not llm.model:
        return Measured(packed.tokens, why="there is no API key in the environment, or no model")
    url, key = llm.base_url, llm.api_key.open(accepted)
    try:
        found = client.count_tokens(packed.request, api_key=key, base_url=url, seconds=COUNT_SECONDS)
    except CnError as error:  # the client is not installed
        return Measured(packed.tokens, why=error.text)
    return (
        Measured(found, "counted") if found else Measured(packed.tokens, why=f"{urlsplit(url).hostname} does not count")
    )


def pack_item(view: View, config: AgentConfig, id: str | None = None) -> prompt.Packed:
    """What would be sent for an item; raises :class:`Refused` when there is none of that name."""
    asked = find_item(view, id)
    if asked is None:
        raise Refused("nothing waits for the agent", "'cn queue' shows what does; an archived ID works too")
    return pack_text(view, config, asked.text, asked.at)


def pack_text(view: View, config: AgentConfig, text: str, at: datetime, *, before: str = "") -> prompt.Packed:
    """What would be sent for this text of ``state/input.md``; ``at`` is the day that "recent" refers to.

    With ``before`` (an id) only what was said before that item. The same main, text and time give the
    same bytes.
    """
    snapshot, settings, notes = view.snapshot, view.settings, list[str]()
    days = (e.path.removesuffix(".md") for e in snapshot.folder(f"{REFLECTIONS}/daily") if e.kind == "blob")
    wanted = [prompt.SOUL, prompt.USER_PAGE, prompt.HUB_PAGE]
    wanted += [
        reflection_path(Cadence.DAILY, d) for d in prompt.reflection_names(days, at, config.context.daily_threads)
    ]
    if config.context.weekly_thread:
        wanted.append(reflection_path(Cadence.WEEKLY, period(Cadence.WEEKLY, at)))
    texts = _read(snapshot, [*_skill_paths(snapshot, notes), *wanted], notes)
    skills = prompt.parse_skills(texts)
    conversation = read_conversation(view.hub, settings.config, snapshot.read)
    material = prompt.Material(
        settings.us,
        [r.name for r in settings.config.reviewers],
        settings.peers.values(),
        {path: texts[path] for path in wanted if path in texts},
        prompt.find_contract(skills) or _shipped_contract(notes),
        skills,
        conversation.until(before) if before else conversation,
        text,
    )
    return prompt.pack(material, config, notes)


def ask_packed(
    view: View, packed: prompt.Packed, ask: Ask, source: str, trigger: str = "", *, replay: bool = False
) -> tuple[Answer | Failure, Call]:
    """Make a call that counts, even if this process dies meanwhile; what came of it, and its event.

    ``source`` is where the item came from, ``trigger`` the attempt where it is not the first. Raises
    :class:`CnError` before the call where it could not be written down.
    """
    root = view.hub.root
    item = packed.id, source, packed.sender, packed.request.model
    main, parts = view.snapshot.commit, packed.part_sizes
    id = secrets.token_hex(8)
    begun = Call(now(), *item, Usage(packed.tokens), None, 0.0, ASKED, 1, True, trigger, main, parts, replay, id)
    log_call(root, begun)
    outcome = ask(packed.request)
    call = end_call(begun, outcome, now())
    log_call(root, call)
    return outcome, call


def asker(config: AgentConfig, accepted: Accepted) -> Ask:
    """Asks the configured model; raises :class:`ConfigError` where its name or the key is missing."""
    llm = config.require_llm(accepted)
    return partial(client.call, api_key=llm.api_key, base_url=llm.base_url)


# Pages and skills.


def _skill_paths(snapshot: Snapshot, notes: list[str]) -> list[HubPath]:
    """All skills of the hub."""
    found = [
        f"{folder}/{entry.path}"
        for folder in prompt.FOLDERS
        for entry in list_tree(snapshot.git, snapshot.commit, folder, recursive=True)
        if entry.kind == "blob" and entry.mode != "120000"
    ]
    paths = prompt.find_skills(found)
    if len(paths) > MOST_SKILLS:
        notes.append(f"{len(paths) - MOST_SKILLS} skills beyond the first {MOST_SKILLS} are left out")
    return paths[:MOST_SKILLS]


def _read(snapshot: Snapshot, paths: list[HubPath], notes: list[str]) -> dict[HubPath, str]:
    """Those that are files of a size that can be shown; what is too large is noted."""
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
    found = read_objects(snapshot.git, [f"{snapshot.commit}:{path}" for path in good])
    return {path: decode(data) for path, data in zip(good, found, strict=True) if data is not None}


def _shipped_contract(notes: list[str]) -> prompt.Skill | None:
    """The agent-ops of this installation, for a hub that has none."""
    data = read_regular(template_dir() / prompt.CONTRACT_PATH, FILE_BYTES)
    if data is None:
        return None
    notes.append(f"the hub has no skill {prompt.CONTRACT}: the one of this installation is used")
    return prompt.parse_skill(prompt.CONTRACT_PATH, decode(data))


# Looking the model up.

_SURE, _UNSURE = timedelta(days=1), timedelta(hours=1)
_MODELS = 20


def is_due(memory: Memory, config: AgentConfig) -> bool:
    """Is it time to ask?"""
    try:
        until = parse_stamp(str(memory.section("models")[_key(config)]))
    except (KeyError, StampRefused):
        return True
    return not memory.at < until <= memory.at + _SURE  # a clock that went backwards ends the pause


def look_up(hub: Hub, config: AgentConfig, report: Report, accepted: Accepted) -> None:
    """Ask the Models API, and remember; raises :class:`ConfigError` for what no call can work with."""
    llm = config.require_llm(accepted)
    found = client.check_model(llm.model, api_key=llm.api_key, base_url=llm.base_url)
    if isinstance(found, Failure):
        if found.kind is not Kind.PERMISSION:
            hint = "name another one" if config.path == "--model" else found.hint
            raise ConfigError(f"{config.path}: {found.text}", hint)
        # A key may be good for messages alone.
        found = unchecked(llm.model, found.text)
    memory = Memory(hub, now())
    until = format_second(memory.at + (_SURE if found.known else _UNSURE))
    put_bounded(memory.section("models"), _key(config), until, most=_MODELS)
    if found.note:
        report.info(found.note, told_before=memory.told("model", _key(config), found.note))
    memory.save()


def _key(config: AgentConfig) -> str:
    return digest("model", config.llm.model, config.llm.base_url)[:16]
