"""Read frontmatter that people and peers write: python-frontmatter, with YAML that can do no harm.

What stays out: records of cn's own (:mod:`cn.values.record_header`), which are exact bytes and are read
at every run, and a model's answer (:mod:`cn.agent.plan.output_block`), which repeats keys and is no YAML.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MOST = 16 * 1024
"""Characters of frontmatter; more is refused."""
_MAX_DEPTH = 20


class FrontmatterRefused(Exception):
    """It is too long, no mapping, or no YAML that is read here; the text says which."""


def read_frontmatter(text: str, *, typed: bool = True) -> tuple[dict[str, Any], str]:
    """The fields, and the text below without empty lines around it; no fields where no frontmatter begins.

    Values have YAML's types, or with ``typed`` off are texts as they are written: ``no`` and ``007`` too.
    Refused are aliases, a few of which nested fill any memory, depth, and a key that is given twice.
    """
    import frontmatter
    import yaml
    from frontmatter.default_handlers import YAMLHandler

    class Handler(YAMLHandler):
        def load(self, fm: str, **_: object) -> Any:
            if len(fm) > MOST:
                raise FrontmatterRefused("its frontmatter is too long")
            slow = yaml.SafeLoader if typed else yaml.BaseLoader
            try:  # libyaml's takes 0.12 ms for a message, the one in Python 0.7
                return _load(fm, getattr(yaml, f"C{slow.__name__}", slow))
            except yaml.YAMLError:  # libyaml takes no character as two escapes, as JSON writes it
                return _load(fm, slow)

    handler = Handler()
    if not handler.detect(text):  # else it would look for the first of two rules anywhere
        return {}, text
    try:
        return frontmatter.parse(text, handler=handler)
    except FrontmatterRefused:
        raise
    except Exception:  # what PyYAML's constructors raise is open: KeyError for "!!bool x", …
        raise FrontmatterRefused("its frontmatter is no YAML") from None


def _load(text: str, loader: Any) -> dict[str, Any]:
    import yaml

    depth = 1
    for event in yaml.parse(text, loader):
        too_deep = depth > _MAX_DEPTH and isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.AliasEvent) or too_deep:
            raise yaml.YAMLError("aliases and deep nesting are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
    for mapping in _mappings(yaml.compose(text, loader)):
        keys = [(key.tag, key.value) for key, _ in mapping.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) != len(set(keys)):
            raise yaml.YAMLError("a key is given twice")
    found = yaml.load(text, loader)  # noqa: S506  a safe one
    if found is not None and not isinstance(found, dict):
        raise yaml.YAMLError("it is no mapping")
    return found or {}


def _mappings(node: Any) -> Iterator[Any]:
    """The mappings of a YAML document; the depth is bounded before."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _mappings(item)
