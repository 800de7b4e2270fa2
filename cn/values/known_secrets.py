"""Secrets that cn knows, and every way in which a text may show one of them.

What masks and what refuses ask the same question, so it is answered once. A secret is found whatever the case of its
letters, since libraries and hosts capitalise what they were told; in a URL, in hexadecimal digits, as JSON and Python
write it, and in base64, whatever stands before and behind it there; and however it is broken into lines.
"""

from __future__ import annotations

import bisect
import itertools
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import cached_property

from cn.values.text import redact

SHORTEST = 6
"""Characters: what is shorter stands in words of its own."""
_UNBROKEN = 8
"""Characters of a line, or of an encoded form, that no text has by chance, also where its spaces are left out."""
_LONG = 12
"""Characters of a part of a token that no other text has by chance."""
_TOKEN = re.compile(r"(?!.*://)[!-~]{16,512}")
"""One word, and no URL."""
_VARIED = 4
"""Different characters among these."""
_SMALL = 8 << 10
"""Characters of one of which also parts of its encoded forms are known: each has some thousands."""
_SPACES = r"(?:[\s│┃║]|\\{1,3}[nrt])+"
"""Spaces, also as JSON shows them, and what is drawn at the edge of a table."""
_HEX = r"\\u[0-9a-f]{4}"
_HIDDEN = "***"


class KnownSecrets:
    """Some secrets, of which none with fewer than ``shortest`` characters counts. ``repr`` shows none of them."""

    def __init__(self, values: Iterable[str], shortest: int = SHORTEST) -> None:
        values = [value for value in dict.fromkeys(values) if len(value) >= shortest]
        forms = {_fold(form) for value in values for form in _forms(value)}
        self._forms = sorted((form for form in forms if len(form) >= shortest), key=len, reverse=True)
        whole = {value: re.sub(_SPACES, "", value) for value in values}
        broken = (core for value in values for core in (whole[value], *_encoded(value)))
        cores = {_fold(core) for core in broken if len(core) >= _UNBROKEN}
        self._cores = sorted(cores, key=len, reverse=True)
        self._shortest = min(map(len, [*self._forms, *self._cores]), default=0)
        self._values = values

    def __bool__(self) -> bool:
        return bool(self._forms)

    def __repr__(self) -> str:
        return f"KnownSecrets({len(self._forms)})"

    def mask(self, text: str) -> str:
        """The text with ``***`` in the place of each secret."""
        return _without(text, self.places(text))

    def mask_parts(self, text: str) -> str:
        """The same of a line that may hold a part of one: who wrote it has broken it, and drawn a table around it."""
        return self._mask_runs(text, self._runs, _UNBROKEN)

    def mask_broken(self, text: str) -> str:
        """The same of a text in which lines were broken, with whatever stands between them: of one that is a token each
        long part is hidden. What has words in it, as a key's file, has parts that stand elsewhere, too.
        """
        return self._mask_runs(text, self._long_runs, _LONG)

    def _mask_runs(self, text: str, runs: frozenset[str], size: int) -> str:
        folded = _fold(text)
        places = ((at, at + size) for at in range(len(folded) - size + 1)) if runs else ()
        parts = [place for place in places if folded[slice(*place)] in runs]
        return _without(text, _merged([*self.places(text), *parts]))

    @cached_property
    def _runs(self) -> frozenset[str]:
        """What stands in them, but rulers and the like."""
        return frozenset(run for run in _cut(self._values, _UNBROKEN) if len(set(run)) >= _VARIED)

    @cached_property
    def _long_runs(self) -> frozenset[str]:
        return frozenset(_cut([value for value in self._values if _TOKEN.fullmatch(value)], _LONG))

    def places(self, text: str) -> list[tuple[int, int]]:
        """From where to where a text shows one, in order; none of these spans meets another."""
        if not self._forms or len(text) < self._shortest:
            return []
        folded = _fold(text)
        found = [span for form in self._forms for span in _find(folded, form)]
        return _merged([*found, *self._broken(text, folded)])

    def _broken(self, text: str, folded: str) -> Iterator[tuple[int, int]]:
        """Where one is broken into lines, or by other spaces."""
        whole = re.sub(_SPACES, "", folded)
        spans = [span for core in self._cores for span in _find(whole, core)]
        if not spans:
            return
        blanks = [found.span() for found in re.finditer(_SPACES, folded)]
        starts = [0, *(stop for _, stop in blanks)]
        ends = [*(start for start, _ in blanks), len(text)]
        behind = [*itertools.accumulate(end - start for start, end in zip(starts, ends, strict=True))]

        def place(at: int) -> int:
            """Where this character of all pieces stands in the text."""
            piece = bisect.bisect_right(behind, at)
            return ends[piece] - (behind[piece] - at)

        yield from ((place(start), place(stop - 1) + 1) for start, stop in spans)


NOTHING_KNOWN = KnownSecrets(())


def hide(text: str, *secrets: str) -> str:
    """The text without these secrets, however they are written, and without credentials of URLs."""
    return redact(KnownSecrets(secrets).mask(text))


def _cut(values: Iterable[str], size: int) -> Iterator[str]:
    """All parts of this size, also of encoded forms."""
    for value in values:
        for one in (value, *(_encoded(value) if len(value) <= _SMALL else ())):
            folded = _fold(one)
            yield from (folded[at : at + size] for at in range(len(folded) - size + 1))


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged = list[tuple[int, int]]()
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    shown, upto = list[str](), 0
    for start, stop in spans:
        shown += [text[upto:start], _HIDDEN]
        upto = stop
    return "".join([*shown, text[upto:]]) if shown else text


def _find(text: str, form: str) -> Iterator[tuple[int, int]]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _fold(text: str) -> str:
    """The text in one case, each character in its place: of all letters only ``İ`` has two in lower case."""
    return text.lower() if text.isascii() else text.replace("İ", "i").lower().replace("ς", "σ")


def _forms(value: str) -> Iterator[str]:
    """A secret and its lines, also as strings of JSON and Python show them, in URLs, and encoded."""
    from urllib.parse import quote

    for one in (value, *(line for line in value.splitlines() if len(line) >= _UNBROKEN)):
        yield from (one, one.strip())
        yield from _in_json(one)
        yield from (repr(one)[1:-1], ascii(one)[1:-1], repr(one.encode("utf-8", "surrogatepass"))[2:-1])
        quoted = [quote(one, safe=safe, errors="surrogatepass") for safe in ("", "/")]
        yield from (*quoted, *(one.replace("%20", "+") for one in quoted))
    yield from _encoded(value)


def _encoded(value: str) -> Iterator[str]:
    yield from in_base64(value)
    data = value.encode("utf-8", "surrogatepass")
    for before in range(3):  # also to the end, where nothing stands behind it
        yield b64encode(bytes(before) + data).decode()[-(-before * 8 // 6) :].rstrip("=")
    yield from (data.hex(), data.hex(":"), "".join(f"\\x{byte:02x}" for byte in data))


def _in_json(value: str) -> set[str]:
    """How it stands in a string of JSON (RFC 8259, section 7), and in one of JSON within JSON."""
    import json

    found = {value}
    for _ in range(2):
        dumped = {json.dumps(one, ensure_ascii=ascii)[1:-1] for one in found for ascii in (True, False)}
        dumped |= {one.replace("/", "\\/") for one in dumped}
        found |= dumped | {re.sub(_HEX, lambda match: match[0][:2] + match[0][2:].upper(), one) for one in dumped}
    return found


def in_base64(secret: str) -> list[str]:
    """How a secret stands in base64, whatever stands before and behind it: NAME:SECRET, say.

    Of each the characters that the secret alone decides (RFC 4648, sections 4 and 5).
    """
    from binascii import b2a_base64

    data, found = secret.encode("utf-8", "surrogatepass"), list[str]()
    for before in range(3):
        first, end = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        found.append(b2a_base64(bytes(before) + data, newline=False).decode()[first:end])
    return [*found, *(form.replace("+", "-").replace("/", "_") for form in found)]
