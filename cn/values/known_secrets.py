"""Secrets that cn knows, and every way in which a text may show one of them.

What masks and what refuses ask the same question, so it is answered once. A secret is found whatever the case of its
letters, since libraries and hosts capitalise what they were told; in a URL, in hexadecimal digits, as JSON and Python
write it, and in base64, whatever stands before and behind it there; and however it is broken into lines. Where another
program wrote the text, also its parts are found (:meth:`KnownSecrets.mask_broken`).
"""

from __future__ import annotations

import bisect
import itertools
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from cn.values.text import redact

SHORTEST = 6
"""Characters: what is shorter stands in words of its own."""
_UNBROKEN = 8
"""Characters of a line, or of an encoded form, that no text has by chance, also where its spaces are left out."""
_LONG = 12
"""Characters of a part of a token that no other text has by chance: also of twelve hexadecimal digits there are more
than all texts hold.
"""
_IN_A_ROW = 32
"""Letters and digits, whatever signs stand between them, that no other text has by chance, of whatever a secret is
made: about six words, the same ones in the same order. A line of ``hexdump`` shows as many.
"""
_WORD = 16
"""Characters of a token, and of a word that counts as one in a secret that has more than that."""
_HAS_WORDS = re.compile(r"\s|://|\":")
"""A key's file, a sentence, a URL, JSON: what has parts that stand elsewhere, too."""
_BESIDE_WORDS = re.compile(r"[\s\"'`]+")
_IN_URL = re.compile(r"[/:@?&=#]+")
_RUN = re.compile(r"[^\W_]{12,}")
_VARIED = 4
"""Different characters among these."""
_SMALL = 8 << 10
"""Characters of one of which also parts of its encoded forms are known: each has some thousands."""
_SPACES = r"[\s│┃║]+|\\{1,3}[nrt]"
"""Spaces, also as JSON shows them, and what is drawn at the edge of a table."""
_SIGNS = r"[^\w\x1b\\]+|\x1b\[[0-9;]*[a-z]|\\{1,3}(?:[nrt]|u001b\[[0-9;]*[a-z]|u[0-9a-f]{4})|[_\x1b\\]"
"""All but letters and digits, also as JSON shows it, and colours of a terminal (ECMA-48)."""
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
        self._tokens = [word for value in values for word in _tokens(value)]

    def __bool__(self) -> bool:
        return bool(self._forms)

    def __repr__(self) -> str:
        return f"KnownSecrets({len(self._forms)})"

    def mask(self, text: str) -> str:
        """The text with ``***`` in the place of each secret."""
        return _without(text, self.places(text))

    def mask_parts(self, text: str) -> str:
        """The same of a line that may hold a part of one: who wrote it has broken it, and drawn a table around it."""
        return _without(text, _merged([*self.places(text), *self._short_parts.find(_fold(text))]))

    def mask_broken(self, text: str) -> str:
        """The same of a text in which they were broken, whatever stands between the parts.

        Of a token, and of a long word with digits in another secret, each part of 12 characters is hidden, since no
        other text has it. Of any secret 32 letters and digits in a row are, or all of them if it has fewer, also where
        signs and spaces stand between them: shorter parts of what has words in it stand elsewhere, too.
        """
        return self.mask_all_broken([text])[0]

    def mask_all_broken(self, texts: Sequence[str]) -> list[str]:
        """The same of texts that follow each other, as the elements of a list do: one may go on in the next."""
        if not self._values:
            return [*texts]
        text = "\n".join(texts)
        folded = _fold(text)
        spans = _merged([*self.places(text), *self._long_parts.find(folded), *self._in_a_row(folded)])
        shown, start, first = list[str](), 0, 0
        for one in texts:
            stop, here = start + len(one), list[tuple[int, int]]()
            while first < len(spans) and spans[first][0] < stop:
                begin, end = max(spans[first][0], start), min(spans[first][1], stop)
                here += [(begin - start, end - start)] if begin < end else []
                if spans[first][1] > stop:
                    break  # it goes on in the next text
                first += 1
            shown.append(_without(one, here))
            start = stop + 1
        return shown

    def _in_a_row(self, folded: str) -> Iterator[tuple[int, int]]:
        """Where letters and digits of one follow each other, whatever signs stand between them."""
        bare = _Without(_SIGNS, folded)
        wholes = (span for whole in self._wholes for span in _find(bare.text, whole))
        yield from bare.places(_merged([*wholes, *self._rows.find(bare.text)]))

    @cached_property
    def _short_parts(self) -> _Parts:
        return _Parts(_with_encoded(self._values), _UNBROKEN)

    @cached_property
    def _long_parts(self) -> _Parts:
        return _Parts(_with_encoded(self._tokens), _LONG)

    @cached_property
    def _rows(self) -> _Parts:
        return _Parts((re.sub(_SIGNS, "", form) for form in _with_encoded(self._values)), _IN_A_ROW)

    @cached_property
    def _wholes(self) -> frozenset[str]:
        """Letters and digits of those that have too few for a row, and of forms of which no parts are known."""
        forms = (_fold(form) for value in self._values for form in (value, *_encoded(value)))
        bare = {re.sub(_SIGNS, "", form) for form in forms}
        known = (one for one in bare if _UNBROKEN <= len(one) < _IN_A_ROW or len(one) > _SMALL)
        return frozenset(one for one in known if _is_varied(one))

    def places(self, text: str) -> list[tuple[int, int]]:
        """From where to where a text shows one, in order; none of these spans meets another."""
        if not self._forms or len(text) < self._shortest:
            return []
        folded = _fold(text)
        found = [span for form in self._forms for span in _find(folded, form)]
        return _merged([*found, *self._broken(folded)])

    def _broken(self, folded: str) -> Iterator[tuple[int, int]]:
        """Where one is broken into lines, or by other spaces."""
        if self._cores:
            bare = _Without(_SPACES, folded)
            yield from bare.places([span for core in self._cores for span in _find(bare.text, core)])


class _Without:
    """A ``text`` without all that matches ``signs``, and where its characters stood."""

    def __init__(self, signs: str, text: str) -> None:
        self._signs, self._whole = signs, text
        self.text = re.sub(signs, "", text)

    def places(self, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """From where to where these parts stood."""
        if not spans:
            return
        gaps = [found.span() for found in re.finditer(self._signs, self._whole)]
        starts = [0, *(stop for _, stop in gaps)]
        ends = [*(start for start, _ in gaps), len(self._whole)]
        behind = [*itertools.accumulate(end - start for start, end in zip(starts, ends, strict=True))]

        def place(at: int) -> int:
            """Where this character of all pieces stands in the text."""
            piece = bisect.bisect_right(behind, at)
            return ends[piece] - (behind[piece] - at)

        yield from ((place(start), place(stop - 1) + 1) for start, stop in spans)


class _Parts:
    """All parts of ``size`` characters of some texts, but rulers and the like."""

    def __init__(self, texts: Iterable[str], size: int) -> None:
        cut = (text[at : at + size] for text in texts for at in range(len(text) - size + 1))
        self._size, self._parts = size, frozenset(part for part in cut if _is_varied(part))
        self._half = size // 2
        self._halves = frozenset(
            part[at : at + self._half] for part in self._parts for at in range(size - self._half + 1)
        )

    def find(self, text: str) -> list[tuple[int, int]]:
        """Where they stand. A part has its half at one of any few places in a row, so no others are looked at first."""
        size, half, parts, halves = self._size, self._half, self._parts, self._halves
        if not parts:
            return []
        step = size - half + 1
        tried = (at for at in range(0, len(text), step) if text[at : at + half] in halves)
        found = (start for at in tried for start in range(max(0, at - step + 1), at + 1))
        return _merged((start, start + size) for start in found if text[start : start + size] in parts)


NOTHING_KNOWN = KnownSecrets(())


def hide(text: str, *secrets: str) -> str:
    """The text without these secrets, however they are written, and without credentials of URLs."""
    return redact(KnownSecrets(secrets).mask(text))


def _with_encoded(values: Iterable[str]) -> Iterator[str]:
    """These, and the encoded forms of those that are not long, in one case."""
    for value in values:
        yield from map(_fold, (value, *(_encoded(value) if len(value) <= _SMALL else ())))


def _tokens(value: str) -> list[str]:
    """What is itself known by its parts: the secret if it is one word, else its long words that no language has."""
    if not _HAS_WORDS.search(value):
        return [value] if len(value) >= _WORD else []
    pieces = _BESIDE_WORDS.split(value)
    words = [word for one in pieces for word in (_IN_URL.split(one) if "://" in one else [one])]
    return [word for word in words if len(word) >= _WORD and any(map(_is_mixed, _RUN.findall(word)))]


def _is_mixed(run: str) -> bool:
    return not run.isalpha() and not run.isdecimal()


def _is_varied(text: str) -> bool:
    return len(set(text)) >= _VARIED


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
