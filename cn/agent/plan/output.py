"""Read ``state/output.md``, which a model wrote: ops above, text below (``docs/protocol/agent.md``).

Reading is total: whatever the bytes, there is an :class:`Output`, and time is linear in
them. It is lenient in what decides nothing (a fence, bullets, bold keys, quotes, block scalars, a
few words before it, a missing closing line) and strict in the rest: ops stand in one block of
``key: value`` pairs at the start, and where two readings differ in an op it is an error. The block is
not YAML: models repeat keys, and write values that no YAML reader takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cn.protocol.ops import USAGE, Op, OpRefused, format_whole, op_key, parse_op
from cn.values.text import is_text, one_line

LIMIT = 1024 * 1024
"""Bytes of an output that are read; the text of a model is a small part of it."""
ECHOED = frozenset({"from", "cadence", "queued", "thread", "attempt", "rejected"})
"""Keys of ``state/input.md`` that models copy: they mean nothing here, and are no news."""
_MANY = 20
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls, line boundaries, bidirectional overrides and isolates, bytes that are no UTF-8."""


@dataclass(frozen=True)
class Output:
    """One output, read.

    ``id`` is as written, empty when missing (which is no error here: whoever knows the
    input's id says so). ``unknown`` are keys that were ignored, one visible line each;
    ``errors`` name the line and the op, why, and what to write. With an error nothing of
    the output may be executed. Of very many unknown keys or errors the last says how many more.
    ``is_prose``: it has no block, and nothing in it looks like one: all of it is the answer's text.
    """

    id: str
    ops: tuple[Op, ...]
    body: str
    unknown: tuple[str, ...]
    errors: tuple[str, ...]
    is_prose: bool = False


def format_output(id: str, ops: Sequence[Op], body: str = "") -> str:
    """The text of ``state/output.md`` in its standard format; :func:`parse_output` reads it back."""
    pairs = [("id", one_line(id, len(id) + 1)), *(format_whole(op) for op in ops)]
    text = "\n".join(["---", *(f"{key}: {format_value(value)}".rstrip() for key, value in pairs), "---"])
    body = _plain(body).strip()
    return f"{text}\n\n{body}\n" if body else f"{text}\n"


def parse_output(data: bytes) -> Output:
    """Read an output. Never raises."""
    errors = []
    if len(data) > LIMIT:
        errors.append(f"the output has {len(data)} bytes, at most {LIMIT} are read; write a shorter one")
    text = data[:LIMIT].decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    lines = _plain(text).split("\n")
    # At the start, or behind at most a few lines of talk; without one all is body.
    start = _skip_blank(lines, 0)
    opening = _opening(lines, start)
    block = _read_block(lines, opening) if opening else _behind_talk(lines, start)
    ids: list[str] = []
    ops: list[Op] = []
    unknown: list[str] = []
    for pair in block.pairs:
        if not pair.name:
            if pair.key.lower() not in ECHOED:
                unknown.append(pair.key)
            continue
        value = pair.value
        fault = _fault(pair, value)
        if pair.name == "id":
            value = _decoded(value)
            if ids and value != ids[0]:
                fault = fault or f"there are two ids, {_shown(ids[0])} and {_shown(value)}; give one"
            ids.append(value)
        elif not fault:
            try:
                ops.append(parse_op(pair.name, value))
            except OpRefused as refused:
                fault = f"{refused.text}; {refused.hint}"
        if fault:
            errors.append(f"line {pair.line + 1}: {fault}")
    errors += block.errors
    body = "\n".join(unfenced(lines[block.end :], block.fence)).strip()
    keys = tuple(one_line(_decoded(key), 40) for key in _some(unknown, "keys"))
    prose = not (opening or block.pairs or errors) and _is_prose(lines)
    return Output(ids[0] if ids else "", tuple(ops), _decoded(body), keys, _some(errors, "errors"), prose)


_LIKE_AN_ANSWER = re.compile(r"[\s>`$#*-]*(?:cn out\b|<(?:id|output)>)")


def _is_prose(lines: Sequence[str]) -> bool:
    """Is there text, and no line that was meant to decide? What was is refused, so that its writer learns how."""
    text = "\n".join(lines)
    if not text.strip() or "\0" in text or not is_text(text):
        return False
    return not any(_LIKE_AN_ANSWER.match(line) or _is_meant(line) for line in lines)


def _is_meant(line: str) -> bool:
    name = _decides(line)
    return name == "id" or (bool(name) and "|" in line)


def _plain(text: str) -> str:
    """The text with plain line feeds; only they part lines."""
    return "\n".join(line.rstrip("\r") for line in text.split("\n"))


def _decoded(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _shown(text: str) -> str:
    return repr(one_line(text, 60))


def _some(items: list[str], what: str) -> tuple[str, ...]:
    more = len(items) - _MANY
    return (*items[:_MANY], f"and {more} more {what}") if more > 0 else tuple(items)


def _fault(pair: Pair, value: str) -> str:
    """Why a value cannot be read, whatever the op."""
    if pair.is_list:
        how = f"{pair.name}: {USAGE.get(pair.name, 'ID')}"
        return f"{pair.name} has a list; write {how} on a line of its own for each"
    found = _FORBIDDEN.search(value)
    if not found:
        return ""
    char = ord(found[0])
    if char >= 0xDC80:
        return f"{pair.name} holds the byte 0x{char - 0xDC00:02X}, which is no UTF-8; write UTF-8"
    return f"{pair.name} holds the control character U+{char:04X}; write plain text"


_MOST = 5000
"""Pairs in a block, at most: no answer needs so many, and a flood is told in one line."""
_TALK = 5
"""Lines of talk before the block, at most."""

_PAIR = re.compile(r"(\*\*|__|[*`\"'])?([^\W\d_][\w.-]*)(\*\*|[*`\"'])?[ \t]*:(\*\*|__|[*`])?")
_BULLET = re.compile(r"[-*+•][ \t]+")
_FENCE = re.compile(r"(`{3,}(?=[^`]*\Z)|~{3,})")
_RULE = re.compile(r" {0,3}-{3,}[ \t]*")
_END = re.compile(r" {0,3}\.{3}[ \t]*")
_SCALAR = re.compile(r"[|>](?:[-+][1-9]?|[1-9][-+]?)?")
_ESCAPE = re.compile(r"\\(.)", re.S)
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t"}


@dataclass
class Pair:
    """A key with the lines of its value, first the one beside it."""

    line: int
    key: str
    first: str
    more: list[str] = field(default_factory=list)

    @property
    def is_scalar(self) -> bool:
        """Is it a YAML block scalar (YAML 1.2, 8.1)?"""
        return _SCALAR.fullmatch(self.first) is not None

    @property
    def is_list(self) -> bool:
        """Do items follow instead of a value?"""
        written = [line.strip() for line in self.more if line.strip()]
        return not self.first and bool(written) and all(_BULLET.match(line) for line in written)

    @cached_property
    def name(self) -> str:
        """The op it is, or ``id``; empty for a key that decides nothing."""
        return "id" if self.key.lower() == "id" else op_key(self.key) or ""

    @property
    def value(self) -> str:
        """All of it, without its quotes; line feeds only where YAML has them too."""
        if self.is_scalar:
            return _scalar(self.more, folded=self.first[0] == ">")
        return _unquoted(" ".join(part for part in (self.first, *map(str.strip, self.more)) if part))


@dataclass
class Block:
    """The pairs, the line the body starts at, and the fence that is still open there.

    ``stop`` is the line that is no part of a block and does not close it; -1 in a closed one.
    """

    pairs: list[Pair] = field(default_factory=list)
    end: int = 0
    fence: str = ""
    stop: int = -1
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Opening:
    """Where the first pair is looked for, and what stands before it: a fence, ``---``, or both."""

    start: int
    fence: str
    marked: bool


def _opening(lines: list[str], index: int) -> _Opening | None:
    """Does a block open at this line?"""
    mark = _FENCE.match(lines[index].strip()) if index < len(lines) else None
    fence = mark[1] if mark else ""
    first = _skip_blank(lines, index + 1) if mark else index
    if first >= len(lines):
        return None
    if _RULE.fullmatch(lines[first]):
        return _Opening(first + 1, fence, True)
    return _Opening(first, fence, False) if _decides(lines[first]) == "id" else None


def _read_block(lines: list[str], opening: _Opening) -> Block:
    """The block that opens here; without its closing line, what can be meant by it."""
    closed = _scan(lines, opening, unclosed=False)
    if closed.stop < 0:
        return closed
    block = _scan(lines, opening, unclosed=True)
    close = next((n for n in range(block.stop, len(lines)) if _RULE.fullmatch(lines[n])), None)
    if close is not None:
        between = lines[block.stop : close]
        # Either a closing line is missing and this is a rule in the body, or a line in the block is
        # broken. Where the second would lose an op or the end of a value, it is not for us to choose.
        if any(map(_decides, between)) or (block.pairs and all(line.strip() for line in between)):
            block.errors.append(
                f"line {closed.stop + 1}: {one_line(lines[closed.stop], 60)!r} is no pair of key and value; "
                "write ops as key: value, and the text below the closing ---"
            )
    return block if block.pairs else Block(errors=block.errors)


def _behind_talk(lines: list[str], index: int) -> Block:
    """The block behind "Here is my answer:", if nothing else can be meant.

    It is closed, has an id, no second one follows, and a fence around it reaches to the
    end: else it may be a quotation, and a peer's text would act.
    """
    opening, talk = None, 0
    for line in lines[index:]:
        opening = _opening(lines, index)
        if opening:
            break
        talk += bool(line.strip())
        if talk > _TALK or line.lstrip().startswith(">") or _decides(line):
            return Block()
        index += 1
    if opening is None or not (opening.marked or opening.fence):
        return Block()
    block = _scan(lines, opening, unclosed=False)
    if block.stop >= 0 or not any(pair.name == "id" for pair in block.pairs):
        return Block()
    for later in range(block.end, len(lines)):
        again = _opening(lines, later)
        first = _skip_blank(lines, again.start) if again else len(lines)
        if again and (again.marked or again.fence) and first < len(lines) and _decides(lines[first]):
            fault = f"line {later + 1}: this frontmatter follows text and another one"
            return Block(errors=[f"{fault}; begin the output with the one that counts"])
    if opening.fence:
        last = max(n for n, line in enumerate(lines) if line.strip())
        ends = (n for n in (block.end - 1, _skip_blank(lines, block.end), last) if n < len(lines))
        if next((n for n in ends if _closes(lines[n], opening.fence)), -1) != last:
            return Block()
    return block


def _scan(lines: list[str], opening: _Opening, *, unclosed: bool) -> Block:
    """Read pairs up to the closing line, or to the first line that is none.

    In an ``unclosed`` block an empty line ends it, unless an op or the id follows.
    """
    block = Block(end=opening.start, fence=opening.fence)
    pair: Pair | None = None
    base = 0
    blank = False
    for number in range(opening.start, len(lines)):
        line = lines[number]
        text = line.strip()
        if not text:
            blank = True
            if pair:
                pair.more.append("")
            continue
        parted = unclosed and blank and pair is not None
        deeper = pair is not None and len(line) - len(line.lstrip()) > base
        if not (pair and pair.is_scalar and deeper):
            fenced = bool(opening.fence) and _closes(line, opening.fence)
            if fenced or _RULE.fullmatch(line) or _END.fullmatch(line):
                block.end, block.fence = number + 1, "" if fenced else opening.fence
                return block
        if pair and (deeper or (not pair.first and _BULLET.match(text))):
            if parted and not pair.is_scalar:
                break
            pair.more.append(line)
        elif text.startswith("#"):
            if parted:
                break
            continue
        else:
            found = _pair(number, line)
            if found is None or (parted and not _decides(line)):
                break
            if len(block.pairs) == _MOST:
                block.errors.append(f"line {number + 1}: more than {_MOST} pairs; write fewer ops")
                return block
            pair, column = found
            base = base if block.pairs else column
            block.pairs.append(pair)
        blank = False
        block.end = number + 1
    else:
        number = len(lines)
    block.stop = number
    return block


def _pair(number: int, line: str) -> tuple[Pair, int] | None:
    """The pair on a line, with the column of its key."""
    text = line.strip()
    bullet = _BULLET.match(text)
    text = text[bullet.end() :] if bullet else text
    found = _PAIR.match(text)
    if not found:
        return None
    before, key, inside, after = found.groups()
    rest = text[found.end() :]
    if before == "__" and key.endswith("__"):
        key, inside = key[:-2], before
    if (before or inside) and (not before or before not in (inside, after)):
        return None
    if after and (inside or not before):
        rest = after + rest  # of the value, as in "surface:**now**"
    pair = Pair(number, key, rest.strip())
    if rest and not rest[0].isspace() and not pair.name:
        return None  # "https://…"
    return pair, len(line.rstrip()) - len(text)


def _decides(line: str) -> str:
    """The op a line would be in a block, or ``id``; empty for any other line."""
    found = _pair(0, line)
    return found[0].name if found else ""


def _skip_blank(lines: list[str], index: int) -> int:
    while index < len(lines) and not lines[index].strip():
        index += 1
    return index


def _closes(line: str, fence: str) -> bool:
    """Does the line close a fence (CommonMark 0.31, 4.5)?"""
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0])


def unfenced(lines: list[str], fence: str) -> list[str]:
    """The body without the line that closes the fence around the whole or around the block."""
    if not fence:
        return lines
    first = _skip_blank(lines, 0)
    if first < len(lines) and _closes(lines[first], fence):
        return lines[first + 1 :]
    inner = ""
    bare: list[int] = []
    for number, line in enumerate(lines):
        text = line.strip()
        if inner:
            inner = "" if _closes(line, inner) else inner
        elif _closes(line, fence):
            bare.append(number)
        elif mark := _FENCE.match(text):
            inner = mark[1]
    last = max((n for n, line in enumerate(lines) if line.strip()), default=-1)
    if len(bare) % 2 and (bare[-1] == last or len(bare) == 1):
        return lines[: bare[-1]] + lines[bare[-1] + 1 :]  # what follows it is kept: it may be the text
    return lines


# Values.


def _scalar(lines: list[str], *, folded: bool) -> str:
    indent = min((len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()), default=0)
    text = "\n".join(line[indent:].rstrip() for line in lines).strip()
    if not folded:
        return text
    paragraphs: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            paragraphs[-1].append(line.strip())
        elif paragraphs[-1]:
            paragraphs.append([])
    return "\n".join(" ".join(words) for words in paragraphs)


def _unquoted(text: str) -> str:
    """Without the quotes around the whole, if they are that: no such quote inside but an escaped one."""
    mark = text[:1]
    if len(text) < 2 or mark not in ('"', "'") or text[-1] != mark:
        return text
    inner = text[1:-1]
    if mark == "'":
        return text if "'" in inner.replace("''", "") else inner.replace("''", "'")
    bare = _ESCAPE.sub("", inner)
    if '"' in bare or bare.endswith("\\"):
        return text
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[0]), inner).strip()


def format_value(value: str) -> str:
    """A value as it stands in the block: plain, or in quotes where that would be read otherwise."""
    plain = "\n" not in value and not _SCALAR.fullmatch(value) and _unquoted(value) == value
    if plain:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
