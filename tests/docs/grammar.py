"""ISO/IEC 14977 grammars compiled to regular expressions: enough for rules without recursion."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""\s*(?:"(?P<text>[^"]*)"|\?\s(?P<special>.*?)\s\?|(?P<name>[a-z][a-z0-9]*)|(?P<mark>[=;,|()\[\]{}-]))""", re.S
)


class Grammar:
    """Rules by name; :meth:`matches` tells whether a rule derives a text."""

    def __init__(self, source: str) -> None:
        self._rules = dict(_split(source))

    @property
    def names(self) -> set[str]:
        return set(self._rules)

    def matches(self, rule: str, text: str) -> bool:
        return re.fullmatch(self.regex(rule), text, re.S) is not None

    def regex(self, rule: str) -> str:
        tokens = list(self._rules[rule])
        regex = self._choice(tokens)
        assert not tokens, f"left over in {rule}: {tokens}"
        return regex

    def _choice(self, tokens: list[tuple[str, str]]) -> str:
        parts = [self._sequence(tokens)]
        while tokens and tokens[0] == ("mark", "|"):
            tokens.pop(0)
            parts.append(self._sequence(tokens))
        return f"(?:{'|'.join(parts)})"

    def _sequence(self, tokens: list[tuple[str, str]]) -> str:
        parts = [self._factor(tokens)]
        while tokens and tokens[0] == ("mark", ","):
            tokens.pop(0)
            parts.append(self._factor(tokens))
        return "".join(parts)

    def _factor(self, tokens: list[tuple[str, str]]) -> str:
        item = self._primary(tokens)
        if tokens and tokens[0] == ("mark", "-"):
            tokens.pop(0)
            return f"(?!{self._primary(tokens)}\\Z){item}"
        return item

    def _primary(self, tokens: list[tuple[str, str]]) -> str:
        kind, value = tokens.pop(0)
        if kind == "text":
            return re.escape(value)
        if kind == "special":
            return f"(?:{value})"
        if kind == "name":
            return self.regex(value)
        inner = self._choice(tokens)
        closing = tokens.pop(0)[1]
        assert value + closing in ("()", "[]", "{}"), f"unbalanced {value}{closing}"
        return {"(": inner, "[": f"(?:{inner})?", "{": f"(?:{inner})*"}[value]


def _split(source: str) -> list[tuple[str, list[tuple[str, str]]]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while source[at:].strip():
        match = _TOKEN.match(source, at)
        assert match, f"no token at {source[at : at + 30]!r}"
        kind = match.lastgroup
        assert kind
        tokens.append((kind, match[kind]))
        at = match.end()
    rules = []
    while tokens:
        name, equals = tokens.pop(0), tokens.pop(0)
        assert name[0] == "name", name
        assert equals == ("mark", "="), name
        end = tokens.index(("mark", ";"))
        rules.append((name[1], tokens[:end]))
        del tokens[: end + 1]
    return rules
