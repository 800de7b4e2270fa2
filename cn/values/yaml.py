"""The YAML of configuration files: strict loading, the lines of keys, typed access."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from cn.values.errors import ConfigError
from cn.values.names import Name, NameRefused, parse_name

if TYPE_CHECKING:
    import yaml


_DEEPEST = 50


def load_yaml(text: str, path: str) -> Any:
    """Parse YAML with string keys only once each; errors name file and line."""
    import yaml

    if loader := _quick_loader(text):
        with suppress(Exception):  # what is wrong the other one tells, in its words
            return yaml.load(text, _strict(loader))  # noqa: S506  a SafeLoader
    try:
        return yaml.load(text, _strict(yaml.SafeLoader))  # noqa: S506
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


def compose_yaml(text: str) -> yaml.Node | None:
    """The nodes of a YAML text that :func:`load_yaml` took, with their places."""
    import yaml

    return yaml.compose(text, _quick_loader(text) or yaml.SafeLoader)


def _quick_loader(text: str) -> Any:
    """libyaml's loader, 20 times as fast; None where it is not there, or cannot read this text.

    It calls itself for each level: what is nested a hundred thousand times would end the process.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", None)
    depth = 1
    try:
        for event in yaml.parse(text, loader) if loader else ():
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                return None
    except (yaml.YAMLError, UnicodeError):  # libyaml takes no half characters
        return None
    return loader


def _strict(base: Any) -> Any:
    """A safe loader that takes each key once, and only text as a key."""
    import yaml

    class Strict(base):  # type: ignore[misc]
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key_node.start_mark)
            if key in found:
                raise yaml.MarkedYAMLError(
                    problem=f"{key} is given twice: keep one, with all that belongs in it",
                    problem_mark=key_node.start_mark,
                )
            if key == "name" and isinstance(value_node, yaml.ScalarNode):
                found[key] = value_node.value  # as it is written: 'no' and '007' are names too
            else:
                found[key] = loader.construct_object(value_node, deep=True)
        return found

    Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return Strict


def line_of(text: str, key: str) -> int:
    """The line (from 1) on which a key of a YAML text stands, for error messages."""
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    in_block = [n for n, line in enumerate(lines, 1) if line.lstrip(" -").startswith(f"{key}:")]
    in_flow = [n for n, line in enumerate(lines, 1) if re.search(rf"^[^#]*[{{,] *{re.escape(key)} *:", line)]
    return min(in_block or in_flow or [1])


class At:
    """Typed access to parsed YAML; every complaint names the file, the line of its key, and the remedy."""

    def __init__(self, text: str, path: str, line: Callable[[str], int] | None = None) -> None:
        self._path = path
        self._line = line or (lambda key: line_of(text, key))

    def __call__(self, key: str, problem: str) -> ConfigError:
        """The error to raise."""
        return ConfigError(f"{self.where(key)}: {problem}", self.remedy)

    @property
    def remedy(self) -> str:
        """What a person does about it."""
        return f"correct {self._path} and commit it"

    def where(self, key: str) -> str:
        """``file:line`` of a key."""
        return f"{self._path}:{self._line(key)}"

    def text(self, data: Mapping[str, object], key: str, default: str) -> str:
        """A text."""
        value = data.get(key, default)
        if not isinstance(value, str):
            raise self(key, f"{key} must be text")
        return value

    def flag(self, data: Mapping[str, object], key: str) -> bool:
        """``true`` or ``false``; false when it is missing."""
        value = data.get(key, False)
        if not isinstance(value, bool):
            raise self(key, f"{key} is true or false")
        return value

    def list(self, data: Mapping[str, object], key: str) -> list[object]:
        """A list, empty when it is missing."""
        value = data.get(key)
        if value is not None and not isinstance(value, list):
            raise self(key, f"{key} is a list")
        return value or []

    def mapping(self, data: Mapping[str, object], key: str) -> dict[str, object]:
        """Keys with values, none when it is missing."""
        value = data.get(key)
        if value is not None and not isinstance(value, dict):
            raise self(key, f"{key} holds keys of its own")
        return value or {}

    def name(self, value: object, key: str) -> Name:
        """A hub, peer or actor."""
        if not isinstance(value, str):
            raise self(key, "a name must be text; put it in quotes")
        try:
            return parse_name(value)
        except NameRefused as refused:
            raise self(key, f"{refused.text}: {refused.hint}") from None

    def number(self, data: Mapping[str, object], key: str, bounds: tuple[type, float, float]) -> Any:
        """A number of a type within bounds."""
        return self.checked(data[key], key, bounds)

    def checked(self, value: object, key: str, bounds: tuple[type, float, float]) -> Any:
        """The same for a value already taken out."""
        kind, low, high = bounds
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self(key, f"{key} must be a number")
        if not low <= value <= high:
            raise self(key, f"{key} must lie between {low} and {high}")
        if kind is int and value != int(value):
            raise self(key, f"{key} must be a whole number")
        return cast("Any", kind)(value)


def key_lines(text: str) -> Callable[[str], int]:
    """The line (from 1) of a key named with its parents: ``llm.model``; list items by number.

    Exact where :func:`line_of` guesses; a key that is not there has the line of its parent.
    """
    found: dict[str, int] = {}

    def line(key: str) -> int:
        if not found:
            found.update(_positions(text))
        while key and key not in found:
            key = key.rpartition(".")[0]
        return found.get(key, 1)

    return line


def _positions(text: str) -> dict[str, int]:
    import yaml

    found = {"": 1}

    def walk(node: yaml.Node | None, above: str, depth: int) -> None:
        if depth > 4:  # no key of ours lies deeper, and an alias may point to its own parent
            return
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                name = f"{above}{key.value}"
                found[name] = key.start_mark.line + 1
                walk(value, f"{name}.", depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                found[f"{above}{number}"] = item.start_mark.line + 1

    walk(compose_yaml(text), "", 0)
    return found
