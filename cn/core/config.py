"""``.cn/hub.yaml``: what people configured for a hub (DESIGN 4 and 16)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from cn.core.errors import ConfigError
from cn.core.names import HubPath, Name, NameRefused, parse_branch, parse_hub_path, parse_name

PATH = HubPath(".cn/hub.yaml")
AGENT_PATH = HubPath(".cn/agent.yaml")


@dataclass(frozen=True)
class Reviewer:
    """A person who may decide beside the hub's agent; ``email`` identifies commits."""

    name: Name
    email: str = ""


@dataclass(frozen=True)
class Limits:
    """Bounds of one run. Seconds, counts and bytes as named."""

    peer_seconds: float = 60.0
    branches_per_peer: int = 200
    file_bytes: int = 64 * 1024
    thread_bytes: int = 256 * 1024
    files_per_thread: int = 200
    fetch_bytes: int = 512 * 1024 * 1024
    hops: int = 8


@dataclass(frozen=True)
class HubConfig:
    """The parsed ``hub.yaml``. Ages in days, ``lock_wait`` in seconds."""

    name: Name
    main: str = "main"
    interface: str = "triage"
    reviewers: tuple[Reviewer, ...] = ()
    mailbox: str = ""
    mailbox_trusted: bool = False
    local: tuple[HubPath, ...] = ()
    explicit_approval: bool = False
    notice_days: int = 30
    warn_after: int = 3
    cron_period_min: int = 5
    timeout_cycles: int = 3
    max_attempts: int = 3
    lock_wait: float = 10.0
    limits: Limits = field(default_factory=Limits)

    def is_actor(self, name: str) -> bool:
        """May this name decide: the hub's agent or a listed reviewer?"""
        return name == self.name or any(r.name == name for r in self.reviewers)


_MAY_BE_LOCAL = ("logs/input", "logs/output", "state/conversation.json")


def is_local(path: str, local: tuple[HubPath, ...]) -> bool:
    """Does the hub keep this path on its machine (``local:``)?"""
    return any(path == part or path.startswith(f"{part}/") for part in local)


def _int(low: int, high: int) -> tuple[type, int, int]:
    return (int, low, high)


_NUMBERS = {
    "notice_days": _int(1, 3650),
    "warn_after": _int(1, 3650),
    "cron_period_min": _int(1, 1440),
    "timeout_cycles": _int(1, 1000),
    "max_attempts": _int(1, 1000),
    "lock_wait": (float, 0, 3600),
}
_LIMITS = {
    "peer_seconds": (float, 1, 3600),
    "branches_per_peer": _int(1, 100_000),
    "file_bytes": _int(0, 16 << 20),
    "thread_bytes": _int(1024, 64 << 20),
    "files_per_thread": _int(1, 100_000),
    "fetch_bytes": _int(1 << 16, 1 << 40),
    "hops": _int(0, 100),
}
_KEYS = {
    "name",
    "main",
    "interface",
    "reviewers",
    "mailbox",
    "mailbox_trusted",
    "local",
    "merge",
    "limits",
} | set(_NUMBERS)


def load_yaml(text: str, path: str) -> Any:
    """Parse YAML with string keys only once each; errors name file and line."""
    import yaml

    class Strict(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key_node.start_mark)
            if key in found:
                raise yaml.MarkedYAMLError(problem=f"{key} is given twice", problem_mark=key_node.start_mark)
            if key == "name" and isinstance(value_node, yaml.ScalarNode):
                found[key] = value_node.value  # as it is written: 'no' and '007' are names too
            else:
                found[key] = loader.construct_object(value_node, deep=True)
        return found

    Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Strict)  # noqa: S506  a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = getattr(error, "position", None)
        if isinstance(error, yaml.reader.ReaderError) and isinstance(position, int):
            line, problem = text.count("\n", 0, position) + 1, "it holds a character that YAML does not allow"
        else:
            line, problem = mark.line + 1 if mark else 1, getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{path}:{line}: {problem}", f"correct {path} and commit it") from None
    except Exception:  # what PyYAML's constructors raise is open: KeyError for "!!bool x", …
        raise ConfigError(f"{path}:1: a value is none of its type", f"correct {path} and commit it") from None


def line_of(text: str, key: str) -> int:
    """The line (from 1) on which a key of a YAML text stands, for error messages."""
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    in_block = [n for n, line in enumerate(lines, 1) if line.lstrip(" -").startswith(f"{key}:")]
    in_flow = [n for n, line in enumerate(lines, 1) if re.search(rf"^[^#]*[{{,] *{re.escape(key)} *:", line)]
    return min(in_block or in_flow or [1])


def parse_config(text: str) -> HubConfig:
    """Read ``hub.yaml``; raises :class:`ConfigError` with file, line and remedy."""
    data = load_yaml(text, PATH)
    at = _At(text)
    if not isinstance(data, dict):
        raise at("name", "it must hold keys such as 'name: sigma'")
    for key in data:
        if key not in _KEYS:
            raise at(key, f"unknown key {key!r}; known: {', '.join(sorted(_KEYS))}")
    if "name" not in data:
        raise at("name", "the key 'name' is missing")
    numbers = {k: at.number(data, k, bounds) for k, bounds in _NUMBERS.items() if k in data}
    limits = at.mapping(data, "limits")
    for key in limits:
        if key not in _LIMITS:
            raise at(key, f"unknown limit {key!r}; known: {', '.join(sorted(_LIMITS))}")
    merge = at.mapping(data, "merge")
    if set(merge) - {"explicit_approval"}:
        raise at("merge", "the only key under 'merge' is explicit_approval")
    interface = at.text(data, "interface", "triage")
    if interface not in ("triage", "queue"):
        raise at("interface", "interface is 'triage' or 'queue'")
    main = at.text(data, "main", "main")
    if main.startswith("-") or not _is_branch(main):
        raise at("main", f"{main!r} is no branch name")
    mailbox = at.text(data, "mailbox", "")
    if mailbox.startswith("-"):
        raise at("mailbox", "mailbox is the name of a git remote")
    name = at.name(data["name"], "name")
    reviewers = tuple(_reviewer(at, item) for item in at.list(data, "reviewers"))
    names = [name, *(r.name for r in reviewers)]
    if len(set(names)) < len(names):
        raise at("reviewers", "a name is listed twice, or is the hub's own")
    return HubConfig(
        name=name,
        main=main,
        interface=interface,
        reviewers=reviewers,
        mailbox=mailbox,
        mailbox_trusted=at.flag(data, "mailbox_trusted"),
        local=tuple(at.path(p) for p in at.list(data, "local")),
        explicit_approval=at.flag(merge, "explicit_approval"),
        limits=Limits(**{k: at.number(limits, k, b) for k, b in _LIMITS.items() if k in limits}),
        **numbers,
    )


def _is_branch(name: str) -> bool:
    try:
        return bool(parse_branch(f"x/{name}"))
    except NameRefused:
        return False


def _reviewer(at: _At, item: object) -> Reviewer:
    if isinstance(item, str):
        return Reviewer(at.name(item, "reviewers"))
    if not isinstance(item, dict) or set(item) - {"name", "email"} or "name" not in item:
        raise at("reviewers", "a reviewer is a name, or {name: …, email: …}")
    return Reviewer(at.name(item["name"], "reviewers"), at.text(item, "email", ""))


class _At:
    """Typed access to parsed YAML; every complaint names the line of its key."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, key: str, problem: str) -> ConfigError:
        return ConfigError(f"{PATH}:{line_of(self._text, key)}: {problem}", f"correct {PATH} and commit it")

    def text(self, data: Mapping[str, object], key: str, default: str) -> str:
        value = data.get(key, default)
        if not isinstance(value, str):
            raise self(key, f"{key} must be text")
        return value

    def flag(self, data: Mapping[str, object], key: str) -> bool:
        value = data.get(key, False)
        if not isinstance(value, bool):
            raise self(key, f"{key} is true or false")
        return value

    def list(self, data: Mapping[str, object], key: str) -> list[object]:
        value = data.get(key)
        if value is not None and not isinstance(value, list):
            raise self(key, f"{key} is a list")
        return value or []

    def mapping(self, data: Mapping[str, object], key: str) -> dict[str, object]:
        value = data.get(key)
        if value is not None and not isinstance(value, dict):
            raise self(key, f"{key} holds keys of its own")
        return value or {}

    def name(self, value: object, key: str) -> Name:
        if not isinstance(value, str):
            raise self(key, "a name must be text; put it in quotes")
        try:
            return parse_name(value)
        except NameRefused as refused:
            raise self(key, f"{refused.text}: {refused.hint}") from None

    def path(self, value: object) -> HubPath:
        if not isinstance(value, str):
            raise self("local", "a path must be text; put it in quotes")
        try:
            path = parse_hub_path(value.rstrip("/"))
        except NameRefused as refused:
            raise self("local", refused.text) from None
        if path not in _MAY_BE_LOCAL:
            raise self("local", f"{value!r} cannot stay local; {', '.join(_MAY_BE_LOCAL)} can")
        return path

    def number(self, data: Mapping[str, object], key: str, bounds: tuple[type, float, float]) -> Any:
        kind, low, high = bounds
        value = data[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self(key, f"{key} must be a number")
        if not low <= value <= high:
            raise self(key, f"{key} must lie between {low} and {high}")
        if kind is int and value != int(value):
            raise self(key, f"{key} must be a whole number")
        return cast("Any", kind)(value)
