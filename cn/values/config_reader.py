"""Values of a configuration file, typed; every complaint names the file, the line of the key, and the remedy.

Where an environment is given, ``${VAR}`` is what it says, ``${VAR:-default}`` with a default. Only values are
expanded, once, after the YAML was read: what a variable holds can add no key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cn.values.errors import ConfigError
from cn.values.names import Name, NameRefused, parse_name
from cn.values.text import one_line
from cn.values.yaml import compose_yaml, load_yaml

_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}"
_NOTHING = object()
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"


class Missing(NamedTuple):
    """A value that nothing gives: its key (``llm.api_key``), what is wrong, and the remedy."""

    key: str
    text: str
    remedy: str


@dataclass(eq=False, repr=False)
class Reader:
    """One mapping of the file at ``path``, whose text is ``source``.

    Sections share warnings, what is missing, and the environment; without one, values are as they are written.
    ``aliases`` are variables of which any stands for any other.
    """

    path: str
    source: str
    data: Mapping[str, object]
    env: Mapping[str, str] | None = None
    aliases: tuple[str, ...] = ()
    prefix: str = ""
    warnings: list[str] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    @classmethod
    def load(cls, text: str, path: str, env: Mapping[str, str] | None = None, aliases: Iterable[str] = ()) -> Reader:
        """The whole file; an empty one is an empty mapping."""
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        data = load_yaml(text, path)
        reader = cls(path, text, data or {}, env, tuple(aliases))
        if data is not None and not isinstance(data, dict):
            raise reader.complain("", "it must hold keys such as 'name: …'")
        return reader

    def complain(self, key: str, problem: str, remedy: str = "") -> ConfigError:
        """The error to raise about a key of this mapping."""
        return ConfigError(f"{self._where(key)}: {problem}", remedy or f"correct {self.path} and commit it")

    def known(self, keys: Iterable[str]) -> None:
        """Refuse every other key."""
        for key in self.data:
            if key not in keys:
                shown = one_line(self._full(key), 80)
                raise self.complain(key, f"unknown key {shown!r}; known: {', '.join(keys)}")

    def section(self, key: str, where: str = "") -> Reader:
        """The mapping below a key; empty when it is missing."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._bad(key, where or "it holds keys of its own")
        return self.below(key, value or {})

    def below(self, key: str, data: Mapping[str, object]) -> Reader:
        """A mapping that stands below a key."""
        return replace(self, data=data, prefix=f"{self._full(key)}.")

    def lacks(self, key: str, problem: str, remedy: str) -> None:
        """Note a value that nothing gives."""
        full = self._full(key)
        self.missing.append(Missing(full, f"{self._where(key)}: {full}: {problem}", remedy))

    def warn(self, key: str, problem: str, remedy: str) -> None:
        """Note what works and should not stay so."""
        self.warnings.append(f"{self._where(key)}: {self._full(key)}: {problem}; {remedy}")

    # Values.

    def text(self, key: str, default: str, pattern: str = "") -> str:
        """A text, expanded; the default where a variable is missing."""
        value = self.data.get(key, default)
        if not isinstance(value, str):
            raise self._bad(key, "it must be text")
        found = self._expanded(key, value)
        if found is None:
            return default
        if pattern and key in self.data and not re.fullmatch(pattern, found):
            raise self._bad(key, "it does not look like one")
        return found

    def name(self, key: str) -> Name:
        """A hub, peer or actor."""
        value = self.data[key]
        if not isinstance(value, str):
            raise self._bad(key, "a name must be text; put it in quotes")
        try:
            return parse_name(value)
        except NameRefused as refused:
            raise self.complain(key, f"{refused.text}: {refused.hint}") from None

    def secret(self, key: str, variables: tuple[str, ...]) -> str:
        """A secret: from the file's ``${VAR}``, or from these variables of the environment."""
        names = " or ".join(variables)
        if key not in self.data:
            value = next((v for name in variables if (v := self._variable(name))), "")
            if not value:
                self.lacks(key, f"the environment has no {names}", f"set {names} in the environment")
        else:
            value = self.text(key, "")
            if not value and not any(m.key == self._full(key) for m in self.missing):
                self.lacks(key, "it is empty", f"write ${{{variables[0]}}} there, and set that")
            if re.sub(_VARIABLE, r"\2", str(self.data[key])):
                problem = "a secret stands in the file, where all who can read the hub read it"
                self.warn(key, problem, f"write ${{{variables[0]}}} there, and change the secret")
        value = value.strip()
        if not re.fullmatch(r"[!-~]*", value):  # a line feed in it would start a header of its own
            raise self._bad(key, "it holds characters that no key has", f"set {names} anew")
        return value

    def choice(self, key: str, words: tuple[str, ...], default: str) -> str:
        """One of some words."""
        found = self.text(key, default)
        if found not in words:
            raise self._bad(key, f"it is one of {', '.join(words)}")
        return found

    def flag(self, key: str, *, default: bool) -> bool:
        """``true`` or ``false``."""
        value = self._parsed(key, default)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if not isinstance(value, bool):
            raise self._bad(key, "it is true or false")
        return value

    def number(self, key: str, bounds: tuple[type, float, float], default: Any, word: str = "") -> Any:
        """A number within bounds; ``word`` stands for the default None."""
        value = self._parsed(key, _NOTHING)
        if value is _NOTHING or (word and value == word):
            return default
        kind, low, high = bounds
        problem = ""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            problem = "must be a number"
        elif not low <= value <= high:
            problem = f"must lie between {low} and {high}"
        elif kind is int and value != int(value):
            problem = "must be a whole number"
        if problem:
            raise self.complain(key, f"{self._full(key)} {problem}")
        return kind(value)

    def numbers(self, bounds: Mapping[str, tuple[type, float, float]]) -> dict[str, Any]:
        """Those of some numbers that are given."""
        return {key: self.number(key, bound, None) for key, bound in bounds.items() if key in self.data}

    def items(self, key: str) -> Reader:
        """The items of a list by their numbers; empty when it is missing."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, list):
            raise self._bad(key, "it is a list")
        return self.below(key, {str(number): item for number, item in enumerate(value or [])})

    def origin(self, key: str, variable: str, default: str) -> str:
        """``scheme://host[:port]`` of a server, http or https, and nothing else."""
        value = self.text(key, default)
        if key not in self.data and self._variable(variable):
            value, source = self._variable(variable), f"the environment's {variable}"
        else:
            source = f"{self._where(key)}: {self._full(key)}"
        found = parse_origin(value)
        if found is None:
            remedy = "write http:// or https://, a host, and a port if it needs one; no path, user or query"
            raise ConfigError(f"{source} is no origin such as https://host:8443", remedy)
        return found

    # How they are read.

    def _parsed(self, key: str, default: object) -> object:
        """A value; what a variable gives is a number if it looks like one."""
        value = self.data.get(key, default)
        if not isinstance(value, str) or "${" not in value or self.env is None:
            return value
        found = self._expanded(key, value)
        if found is None:
            return default
        if re.fullmatch(r"[+-]?[0-9]{1,20}", found.strip()):
            return int(found)
        return float(found) if re.fullmatch(r"[+-]?[0-9]{0,20}\.[0-9]{1,20}", found.strip()) else found

    def _expanded(self, key: str, value: str) -> str | None:
        """The value with its variables; None (and noted) where one is missing."""
        if self.env is None:
            return value
        if "${" in re.sub(_VARIABLE, "", value):
            raise self._bad(key, "a '${' is not closed", "write ${NAME} or ${NAME:-default}")
        lost = [m[1] for m in re.finditer(_VARIABLE, value) if m[2] is None and not self._variable(m[1])]
        if lost:
            names = " or ".join(self.aliases) if lost[0] in self.aliases else lost[0]
            self.lacks(key, f"the environment has no {names}", f"set {names} in the environment")
            return None
        return re.sub(_VARIABLE, lambda m: self._variable(m[1]) or m[2] or "", value)

    def _variable(self, name: str) -> str:
        names = (name, *self.aliases) if name in self.aliases else (name,)
        return next((found for n in names if (found := (self.env or {}).get(n))), "")

    def _full(self, key: str) -> str:
        return self.prefix + key

    def _where(self, key: str) -> str:
        """``file:line`` of a key; one that is not there has the line of its parent."""
        lines, full = _key_lines(self.source), self._full(key)
        while full and full not in lines:
            full = full.rpartition(".")[0]
        return f"{self.path}:{lines.get(full, 1)}"

    def _bad(self, key: str, problem: str, remedy: str = "") -> ConfigError:
        return self.complain(key, f"{one_line(self._full(key), 80)}: {problem}", remedy)


def _key_lines(text: str) -> dict[str, int]:
    """The lines (from 1) of the keys of a YAML text, named with their parents: ``llm.model``, ``list.0.name``."""
    import yaml

    found: dict[str, int] = {}

    def walk(node: yaml.Node | None, above: str, depth: int) -> None:
        if depth > 4:  # no key of ours lies deeper, and an alias may point to its own parent
            return
        if isinstance(node, yaml.MappingNode):
            parts = [(key.value, key, value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            parts = [(number, item, item) for number, item in enumerate(node.value)]
        else:
            return
        for name, place, value in parts:
            found[f"{above}{name}"] = place.start_mark.line + 1
            walk(value, f"{above}{name}.", depth + 1)

    walk(compose_yaml(text), "", 0)
    return found


def parse_origin(text: str) -> str | None:
    """A server's origin (RFC 6454) without a slash at its end, None for anything else."""
    if not text.isascii() or not text.isprintable() or " " in text:
        return None
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        return None
    bare = url.netloc.rpartition(":")[0] if port is not None else url.netloc
    named = f"[{host}]" if ":" in host else host
    if url.scheme not in ("http", "https") or bare.lower() != named or url.path not in ("", "/"):
        return None
    if "?" in text or "#" in text or (":" not in host and not re.fullmatch(_HOST, host)):
        return None
    return f"{url.scheme}://{named}" + (f":{port}" if port is not None else "")


def is_loopback(origin: str) -> bool:
    """Does it name this machine?"""
    host = urlsplit(origin).hostname or ""
    return host in ("localhost", "::1") or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None
