"""The YAML that people and peers write, in configuration and frontmatter: strict, and unable to do harm.

What stays out: records of cn's own (:mod:`cn.values.record_header`), which are exact bytes and are read
at every run, and a model's answer (:mod:`cn.agent.plan.output`), which repeats keys and is no YAML.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from cn.values.errors import ConfigError

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")
MOST_FRONTMATTER = 16 * 1024
"""Characters of frontmatter; more is refused."""
_DEEPEST = 20


class YamlRefused(Exception):
    """A text that is no YAML that is read here; ``line`` counts from 1."""

    def __init__(self, problem: str, line: int = 1) -> None:
        super().__init__(problem)
        self.line = line


def parse_yaml(text: str, *, typed: bool = True, aliases: bool = True) -> Any:
    """The value of a YAML text; only text is a key, each is given once, and nothing is nested deeply.

    Values have YAML's types, or with ``typed`` off are texts as they are written: ``no`` and ``007`` too.
    Without ``aliases`` these are refused: a few of them nested fill any memory. Raises :class:`YamlRefused`.
    """
    import yaml

    try:
        return _quickly(lambda loader: _parse(text, loader, aliases), yaml.SafeLoader if typed else yaml.BaseLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlRefused("it holds a character that YAML does not allow", line) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise YamlRefused(getattr(error, "problem", None) or str(error), mark.line + 1 if mark else 1) from None
    except Exception:  # what PyYAML's constructors raise is open: KeyError for "!!bool x", …
        raise YamlRefused("a value is none of its type") from None


def _quickly(read: Callable[[Any], T], slow: Any) -> T:
    """What is read with libyaml's loader, 20 times as fast; else with PyYAML's own, which tells what is wrong.

    libyaml takes no half characters, and no character as two escapes, as JSON writes it.
    """
    import yaml

    if quick := getattr(yaml, f"C{slow.__name__}", None):
        with suppress(Exception):
            return read(quick)
    return read(slow)


def _parse(text: str, loader: Any, aliases: bool) -> Any:
    import yaml

    depth = 0
    for event in yaml.parse(text, loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST or (isinstance(event, yaml.AliasEvent) and not aliases):
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem="aliases or deep nesting are not read", problem_mark=mark)
    return yaml.load(text, _strict(loader))  # noqa: S506  a safe one


@cache
def _strict(base: Any) -> Any:
    """A safe loader that takes each key once, and only text as a key."""
    import yaml

    class Strict(base):  # type: ignore[misc]
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            problem = "" if isinstance(key, str) else "a key must be text"
            if not problem and key in found:
                problem = f"{key} is given twice: keep one, with all that belongs in it"
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            if key == "name" and isinstance(value_node, yaml.ScalarNode):
                found[key] = value_node.value  # as it is written: 'no' and '007' are names too
            else:
                found[key] = loader.construct_object(value_node, deep=True)
        return found

    Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return Strict


def load_yaml(text: str, path: str) -> Any:
    """The value of a configuration file; errors name file and line."""
    try:
        return parse_yaml(text)
    except YamlRefused as refused:
        raise ConfigError(f"{path}:{refused.line}: {refused}", f"correct {path} and commit it") from None


def compose_yaml(text: str) -> yaml.Node | None:
    """The nodes of a YAML text that :func:`load_yaml` took, with their places."""
    import yaml

    return _quickly(lambda loader: yaml.compose(text, loader), yaml.SafeLoader)


def read_frontmatter(text: str) -> tuple[dict[str, Any], str]:
    """The fields, all as text, and the text below without empty lines around it; none where none begins.

    By python-frontmatter, with :func:`parse_yaml`. Raises :class:`YamlRefused`.
    """
    import frontmatter
    from frontmatter.default_handlers import YAMLHandler

    class Handler(YAMLHandler):
        def load(self, fm: str, **_: object) -> Any:
            return parse_fields(fm, typed=False)

    handler = Handler()
    # Else it would look for the first of two rules anywhere.
    return frontmatter.parse(text, handler=handler) if handler.detect(text) else ({}, text)


def parse_fields(text: str, *, typed: bool = True) -> dict[str, Any]:
    """The mapping that stands in frontmatter; raises :class:`YamlRefused`."""
    if len(text) > MOST_FRONTMATTER:
        raise YamlRefused("its frontmatter is too long")
    try:
        fields = parse_yaml(text, typed=typed, aliases=False)
    except YamlRefused:
        raise YamlRefused("its frontmatter is no YAML") from None
    if fields is not None and not isinstance(fields, dict):
        raise YamlRefused("its frontmatter is no mapping")
    return fields or {}
