"""The thread document: one markdown file per inbound branch, and its ``## Triage`` (``docs/protocol/thread.md``).

The trust boundary runs through it. What a peer wrote stands behind ``"> "``; who sent
which head is known from the ledger, never from the file.

``decision := delete:<reason> | defer:<reason> | delegate:<actor> | do:merge |
do:reply:<branch> | do:custom:<description>``. If it is not in the type, it cannot be
decided.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import datetime
from itertools import dropwhile, takewhile
from typing import NamedTuple

from cn.protocol.ledger import Item
from cn.values.errors import CnError
from cn.values.names import Branch, Name, NameRefused, Oid, Topic, parse_name, parse_topic, short_ids
from cn.values.text import one_line, quote, shown_name, visible
from cn.values.timestamps import StampRefused, format_stamp, parse_stamp

# The typed decision, and the section that carries it.

VOCABULARY = "delete:<reason>, defer:<reason>, delegate:<actor>, do:merge, do:reply:<branch> or do:custom:<description>"


class TriageRefused(CnError):
    """A Triage section that decides nothing: malformed, doubled, or misplaced."""


@dataclass(frozen=True)
class Delete:
    """Discard the thread."""

    reason: str


@dataclass(frozen=True)
class Defer:
    """Keep it for later."""

    reason: str


@dataclass(frozen=True)
class Delegate:
    """Hand it to a peer, or assign it to a reviewer."""

    actor: Name


@dataclass(frozen=True)
class Merge:
    """Merge the branch into main."""


@dataclass(frozen=True)
class Reply:
    """Answer with a message on the branch ``<us>/<topic>``; ``topic`` is as written, and may begin with ``<us>/``."""

    topic: Topic


@dataclass(frozen=True)
class Custom:
    """Open a managed concern."""

    description: str


Decision = Delete | Defer | Delegate | Merge | Reply | Custom


@dataclass(frozen=True)
class Triage:
    """A complete section. ``until``, ``approval`` and ``head`` are as written, empty when absent.

    ``head`` is what it is about (:func:`showing`): git may merge a section with a header that came later.
    """

    decision: Decision
    actor: Name
    at: datetime
    body: str = ""
    until: str = ""
    approval: str = ""
    head: str = ""


def _read_reply_branch(text: str) -> Topic:
    """The topic of a reply, as written: with the prefix of its creator, which is us, or without."""
    prefix, slash, topic = text.partition("/")
    if not slash:
        return parse_topic(text)
    return Topic(f"{parse_name(prefix, 'prefix')}/{parse_topic(topic)}")


_READERS: dict[str, Callable[[str], Decision]] = {
    "delete": Delete,
    "defer": Defer,
    "delegate": lambda payload: Delegate(parse_name(payload, "actor")),
    "do:reply": lambda payload: Reply(_read_reply_branch(payload)),
    "do:custom": Custom,
}


def parse_decision(text: str) -> Decision:
    """Read one decision; raises :class:`TriageRefused` for anything outside the type."""
    verb, _, payload = text.strip().partition(":")
    if verb == "do":
        verb, colon, payload = payload.strip().partition(":")
        if verb == "merge" and not colon:
            return Merge()
        verb = f"do:{verb}"
    payload = payload.strip()
    if verb not in _READERS:
        raise TriageRefused(f"{one_line(text, 60)!r} is not a decision", f"write {VOCABULARY}")
    if not payload:
        raise TriageRefused(f"decision {one_line(text, 60)!r} lacks its payload", f"write {VOCABULARY}")
    if visible(payload) != payload or "\n" in payload:
        raise TriageRefused("the decision holds control or hidden characters", "write it as plain text")
    try:
        return _READERS[verb](payload)
    except NameRefused as refused:
        raise TriageRefused(refused.text, refused.hint) from None


def format_decision(decision: Decision) -> str:
    """The inverse of :func:`parse_decision`: the name of its class is its verb."""
    verb = type(decision).__name__.lower()
    return ":".join([verb if verb in _READERS else f"do:{verb}", *astuple(decision)])


def format_triage(triage: Triage) -> str:
    """The section as it stands in a thread, from its heading to the end of the file."""
    fields = {
        # On one line, whoever wrote it: a line feed in a reason could begin another section.
        "decision": visible(" ".join(format_decision(triage.decision).splitlines())),
        "actor": triage.actor,
        "timestamp": format_stamp(triage.at),
        "head": one_line(triage.head),
        "until": one_line(triage.until),
        "approval": one_line(triage.approval),
    }
    lines = ["## Triage", "", *(f"{key}: {value}" for key, value in fields.items() if value)]
    body = triage.body.strip("\n")
    if _FIELD.fullmatch(body.lstrip().partition("\n")[0]) or _without_form_end(body) != body:
        body = f"{_BODY}\n\n{body}"  # else its first line would be read as a field, or one as the form's last
    return "\n".join([*lines, "", body] if body else lines) + "\n"


def check_section(triage: Triage) -> None:
    """Is the section read back as this one? Raises :class:`TriageRefused` for a text that begins another."""
    if find_headings(format_triage(triage).split("\n")) != [0]:
        raise TriageRefused(
            "the text has a line '## Triage', which would begin another section",
            "quote that line ('> ') or put it into a code fence; 'cn reply' sends any text",
        )
    if _conflict(triage.body.split("\n")):
        raise TriageRefused(
            "the text has the marks of a conflict of git's at its margin", "indent or quote these lines"
        )


_HEADING = re.compile(r" {0,3}##[ \t]+Triage[ \t]*#*[ \t]*", re.I | re.A)
_FIELD = re.compile(r"[ \t]*(decision|actor|timestamp|head|until|approval)[ \t]*:(.*)", re.I)
_SHOWING = re.compile(r"([0-9a-f]{7,64})(?:[ \t]*,[ \t]*time[ \t]+([1-9][0-9]*))?", re.I | re.A)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*\Z)|~{3,})")
"""A code fence; what follows backticks holds none (CommonMark 0.31, "Fenced code blocks")."""
_BODY = "<!-- body -->"


def find_headings(lines: list[str]) -> list[int]:
    """Indices of unquoted ``## Triage`` lines outside code fences and HTML comments."""
    return _scan(lines)[0]


def closing(text: str) -> str:
    """The line that ends a code fence or comment still open at the end of a text, or nothing."""
    return _scan(text.split("\n"))[1]


def _scan(lines: list[str]) -> tuple[list[int], str]:
    found: list[int] = []
    fence = ""
    comment = False
    for index, line in enumerate(lines):
        if comment:
            comment = _opens_comment(line.partition("-->")[2]) if "-->" in line else True
            continue
        if line.startswith(">"):
            continue  # quoted: it opens and closes nothing
        mark = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence:
            rest = line.strip()
            if mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not rest.strip(fence[0]):
                fence = ""
            continue
        if mark:
            fence = mark[1]
        elif "##" in line and _HEADING.fullmatch(line):
            found.append(index)
        else:
            comment = "<!--" in line and _opens_comment(line)
    return found, "-->" if comment else fence


def _opens_comment(line: str) -> bool:
    opened = line.rfind("<!--")
    return opened >= 0 and "-->" not in line[opened:]


def parse_triage(lines: list[str], heading: int, peer_lines: list[str]) -> Triage:
    """Read the section that starts at ``lines[heading]`` and runs to the end.

    ``peer_lines`` is the peer's text without its quotation marks: a section whose three
    deciding fields all stand there verbatim is the peer's, not an actor's.
    """
    fields: dict[str, str] = {}
    raw: dict[str, str] = {}
    for key, value, line in _fields(lines, heading):
        if key in fields:
            raise TriageRefused(f"the Triage section gives {key} twice", "keep one")
        fields[key], raw[key] = value, line.strip()
    if empty := [key for key in ("head", "until", "approval") if fields.get(key) == ""]:
        raise TriageRefused(
            f"the Triage section has nothing after {' and '.join(empty)}", "write it, or leave the line out"
        )
    missing = [key for key in ("decision", "actor", "timestamp") if not fields.get(key)]
    if missing:
        raise TriageRefused(
            f"the Triage section lacks {' and '.join(missing)}",
            "give decision, actor and timestamp, a line each, or delete the section to decide later",
        )
    theirs = {line.strip() for line in peer_lines}
    if all(raw[key] in theirs for key in ("decision", "actor", "timestamp")):
        raise TriageRefused(
            "the Triage section stands word for word in what the peer wrote", "decide in your own words"
        )
    try:
        actor = parse_name(fields["actor"].lower(), "actor")
        at = parse_stamp(fields["timestamp"])
    except (NameRefused, StampRefused) as refused:
        raise TriageRefused(refused.text, refused.hint) from None
    head = fields.get("head", "")
    if head and not _SHOWING.fullmatch(head):
        raise TriageRefused(
            f"{one_line(head, 60)!r} after head: is no id of a commit",
            "write what Head says above, or leave the line out",
        )
    body = "\n".join(dropwhile(_is_above, lines[heading + 1 :])).strip("\n")
    body = body.removeprefix(_BODY).strip("\n") if body.startswith(_BODY) else _without_form_end(body)
    decision = parse_decision(fields["decision"])
    if "until" in fields and not isinstance(decision, Defer):
        raise TriageRefused("until: is for defer, nothing else comes back", "leave it out, or write defer:<reason>")
    return Triage(decision, actor, at, body, fields.get("until", ""), fields.get("approval", ""), head)


def _fields(lines: Sequence[str], heading: int) -> Iterator[tuple[str, str, str]]:
    """Key, value and line of each field of a section; the form's end may stand behind that of its last one."""
    for line in takewhile(_is_above, lines[heading + 1 :]):
        if field := _FIELD.fullmatch(line):
            key, value = field[1].lower(), field[2].strip(" \t")
            yield key, value.removesuffix("-->").rstrip(" \t") if key == "head" else value, line


def _is_above(line: str) -> bool:
    """Is it a field or blank? The first other line begins the body."""
    return not line.strip() or bool(_FIELD.fullmatch(line))


def _without_form_end(body: str) -> str:
    """The last line of the form, whose first one was deleted, stands above or below what somebody wrote."""
    if "<!--" in body:
        return body
    lines = body.split("\n")
    lines = lines[1:] if lines[0].strip() == "-->" else lines
    lines = lines[:-1] if lines and lines[-1].strip() == "-->" else lines
    return "\n".join(lines).strip("\n")


# The document.

_BRANCH = "**Branch:** "
_SIGNATURE = "**Signature:** "
_HEAD = re.compile(r"\*\*Head:\*\*[ \t]*([0-9a-f]+)[ \t]*")
_CAUTION = re.compile(r"\*\*Caution:\*\*[ \t]*(.*?)[ \t]*")
_ANEW = re.compile(r"\*\*Shown:\*\*[ \t]*anew, time ([0-9]{1,9}):.*")
_AGAIN = re.compile(r"(?:gone at|withdrawn|went (?:back|on)) .*?(?:\(time ([0-9]{1,9})\))?", re.DOTALL)
"""A caution of a head that came back; the first has no number. A file may hold any number of digits."""
_MARKS = ("<<<<<<<", "=======", ">>>>>>>")
_LAST_RULE = re.compile(r"\n---\s*\Z")


class Header(NamedTuple):
    """What cn itself says of a thread. ``signature`` is ``verified SHA256:…``, ``unverified`` or ``bad``.

    ``caution`` says that its creator need not have put the branch where it is, ``assigned_to`` whom it stayed assigned
    to when it moved to this head, ``anew`` how often it was shown against another base since it came (digits).
    """

    peer: Name
    topic: str
    branch: Branch
    received: datetime
    head: Oid
    signature: str
    earlier: str = ""
    caution: str = ""
    assigned_to: str = ""
    anew: str = ""


_FORM = re.compile(r"^<!-- To decide, [^\n]*\n(.*?)(?:-->[ \t]*(?:\n|\Z)|\Z)", re.DOTALL | re.M)
_FILLED = re.compile(r"^[ \t]*decision[ \t]*:[ \t]*\S", re.I | re.M)
_FORM_FIELD = re.compile(r"[ \t]*(decision|actor|timestamp|head)[ \t]*:", re.I)
_HISTORY = ("## Deferred", "## Assigned")
_LINE = "---"
"""What stands above a section of cn's."""
_OPENING, _RULE = "<!-- To decide, ", f"{VOCABULARY}."  # in the form of older threads the rule is a line of its own
_HOW = "delete this line, and fill in decision and timestamp (a day will do, such as 2026-02-05)."


def add_form(text: str, actor: Name) -> str:
    """A pending thread with what it ends with: a Triage section to fill in, as a comment, where it decides nothing.

    Its first and its last line name what the thread shows. So git merges a section that stands in its place, above or
    below it, with no later thread: it calls that a conflict.
    """
    about = seen_showing(text).name
    lines = (
        f"{_OPENING}{_HOW} A decision is {_RULE}{f' It is about {about}.' if about else ''}",
        *("", "## Triage", "", "decision:", f"actor: {actor}", "timestamp:"),
        f"head: {about} -->" if about else "-->",
    )
    return "\n".join([text, *lines]) + "\n"


def has_form(text: str) -> bool:
    """Does a thread end with a form, empty or filled in?"""
    return _FORM.search(text) is not None


def _split_form(text: str) -> tuple[str, str]:
    """The text without its form, and the form; what a person wrote into one, or left of it, is text."""
    found = _FORM.search(text)
    if found is None or _FILLED.search(found[1]):
        return text, ""
    form, written = list[str](), list[str]()
    for line in found[0].rstrip("\n").split("\n"):
        known = line in ("", _RULE, "## Triage", "-->") or line.startswith(_OPENING) or _FORM_FIELD.match(line)
        (form if known else written).append(line)
    note = "".join(f"{line}\n" for line in written)
    rest = f"{text[: found.start()]}{note}{text[found.end() :]}".rstrip("\n")
    return f"{rest}\n", "\n".join(form) + "\n"


def holds_section(text: str) -> bool:
    """A section, or a form that somebody filled in and left a comment, or a decision that is none where it stands."""
    form, lines = _FORM.search(text), text.split("\n")
    return bool(find_headings(lines) or (form and _FILLED.search(form[1])) or _decision_elsewhere(lines))


def _decision_elsewhere(lines: Sequence[str]) -> int:
    """The number of a line that gives a decision without being one, as in a code fence; 0: there is none.

    What is quoted is a peer's, or void, and what was put off or given to somebody keeps its decision.
    """
    kept = False
    for number, line in enumerate(lines, 1):
        if line.startswith(("## ", "---", _OPENING)):
            kept = line.rstrip() in _HISTORY
        field = None if kept else _FIELD.fullmatch(line)
        if field and field[1].lower() == "decision":
            with suppress(TriageRefused):
                parse_decision(field[2].strip())
                return number
    return 0


def without_form(text: str) -> str:
    """What a thread says."""
    return _split_form(text)[0]


def format_thread(header: Header, content: str) -> str:
    """A new thread; every line of ``content`` is quoted."""
    lines = [
        f"# {header.peer}/{_shown(header.topic)}",
        "",
        f"**From:** {header.peer}",
        f"{_BRANCH}{_shown(header.branch)}",
        f"**Received:** {format_stamp(header.received)}",
        f"**Head:** {header.head}",
        f"{_SIGNATURE}{header.signature}",
    ]
    if header.earlier:
        lines.append(f"**Earlier:** {one_line(header.earlier)}")
    if header.caution:
        lines.append(f"**Caution:** {_caution(header.caution)}")
    if header.anew:
        lines.append(f"**Shown:** anew, time {header.anew}: what main has of it is not shown any more")
    if header.assigned_to:
        lines.append(f"**Assigned:** to {header.assigned_to} before it was as it is here, and it stays so")
    return "\n".join([*lines, "", "---", "", quote(content)]) + "\n"


def set_verdict(text: str, signature: str, caution: str) -> str:
    """The thread with another ``Signature`` and ``Caution`` in its header."""
    header, rest = _split_header(text)
    top = [line for line in header if not line.startswith("**Caution:** ")]
    top = [f"{_SIGNATURE}{signature}" if line.startswith(_SIGNATURE) else line for line in top]
    fields = [at for at, line in enumerate(top) if line.startswith((_SIGNATURE, "**Earlier:** "))]
    if caution and fields:
        top.insert(fields[-1] + 1, f"**Caution:** {_caution(caution)}")
    return "\n".join([*top, *rest])


def add_caution(text: str, said: str) -> str:
    """The thread with further words in the ``Caution`` of its header."""
    header, _ = _split_header(text)
    signature = next((line for line in header if line.startswith(_SIGNATURE)), "").removeprefix(_SIGNATURE)
    return set_verdict(text, signature, "; ".join(filter(None, (_in_header(text, _CAUTION), said))))


def _caution(back: str) -> str:
    return one_line(back, 500)


def _shown(name: str) -> str:
    """A name on an unquoted line; it must not open a comment that would hide all that follows."""
    return shown_name(name, 300).replace("<!--", "&lt;!--")


def read_text(data: bytes) -> str:
    """The text of a thread file: UTF-8, one byte order mark dropped, CRLF as LF."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError:
        raise TriageRefused("the file is not UTF-8 text", "save it as UTF-8") from None
    return text.replace("\r\n", "\n")


def peer_block(committed: str) -> list[str]:
    """The quoted lines of the peer, as cn wrote them: the first run of ``>`` lines."""
    lines = dropwhile(lambda line: not line.startswith(">"), committed.split("\n"))
    return list(takewhile(lambda line: line.startswith(">"), lines))


def _block_end(lines: list[str], block: list[str]) -> int | None:
    """Where the peer's block ends in the working copy; None if it was edited.

    White space at the end of a line does not count: editors take it away.
    """
    size = len(block)
    wanted = [line.rstrip() for line in block]
    have = [line.rstrip() for line in lines]
    for start in range(len(have) - size + 1):
        if have[start] == wanted[0] and have[start : start + size] == wanted:
            return start + size
    return None


def seen_head(text: str) -> str:
    """The ``Head:`` an actor had before the eyes; empty when there is none."""
    return _in_header(text, _HEAD)


def _split_header(text: str) -> tuple[list[str], list[str]]:
    """The lines above what is quoted, and all from there on."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines) if line.startswith(">")), len(lines))
    return lines[:end], lines[end:]


def _in_header(text: str, field: re.Pattern[str]) -> str:
    above, _ = _split_header(text)
    return next((match[1] for line in above if (match := field.fullmatch(line))), "")


def name_branch(text: str, branch: Branch) -> str:
    """A thread as it is, but for its ``Branch:``."""
    header, rest = _split_header(text)
    at = next((number for number, line in enumerate(header) if line.startswith(_BRANCH)), None)
    if at is not None:
        header[at] = f"{_BRANCH}{_shown(branch)}"
    return "\n".join([*header, *rest])


class Showing(NamedTuple):
    """What of a branch its thread shows: the head, what is said of one that came ``back`` to it (empty: it did not),
    and how often it was shown ``anew`` against another base, in digits (empty: never).
    """

    head: str
    back: str = ""
    anew: str = ""

    @property
    def time(self) -> int:
        """How often this head was shown before as something else: it came back, or main got a part of it."""
        again = _AGAIN.fullmatch(_caution(self.back))
        return (int(again[1] or 1) if again else 0) + int(self.anew or 0)

    @property
    def name(self) -> str:
        """What a decision names as that which it is about."""
        return f"{self.head}, time {self.time}" if self.time else self.head


def seen_showing(text: str) -> Showing:
    """What a thread says that it shows; one of an older cn may say no head."""
    return Showing(seen_head(text), _in_header(text, _CAUTION), _in_header(text, _ANEW))


def showing_of(item: Item) -> Showing:
    """What the ledger says that the thread of an item shows."""
    return Showing(item.head, item.get("back"), item.get("anew"))


def shows(text: str, showing: Showing) -> bool:
    """Does a thread show this?

    A head that comes back, or that is shown anew, is another thing to decide: what was decided before that is no
    decision about it. Nor is a section that names something else, whatever the header says: git merges the two line by
    line.
    """
    if seen_showing(text) != showing._replace(back=_caution(showing.back).rstrip()):
        return False
    return not (_names_other(text, showing.name) or _conflict(text.split("\n")))


def _names_other(text: str, about: str) -> str:
    """What its section names, where that is not ``about``; empty where it names that, nothing, or no head at all."""
    lines = text.split("\n")
    named = (value for at in find_headings(lines)[:1] for key, value, _ in _fields(lines, at) if key == "head")
    found, wanted = _SHOWING.fullmatch(next(named, "")), _SHOWING.fullmatch(about)
    if found is None or wanted is None or (wanted[1].startswith(found[1].lower()) and found[2] == wanted[2]):
        return ""
    return f"{found[1].lower()}, time {found[2]}" if found[2] else found[1].lower()


def _conflict(lines: Sequence[str]) -> bool:
    """Are there git's marks of a conflict, all three of them?"""
    rest = iter(lines)
    return all(any(line.split(" ")[0] == mark for line in rest) for mark in _MARKS)


def _written_in_conflict(text: str, mains: Sequence[str]) -> list[str]:
    """What somebody wrote where git merged two texts line by line: which section it belongs to is not known."""
    cns = {line.rstrip() for one in mains for line in one.split("\n")} | {"", "---", "-->"}
    written = (line for line in text.split("\n") if line.split(" ")[0] not in _MARKS and not line.startswith(_OPENING))
    return [line for line in written if line.rstrip() not in cns or re.match(r"actor:[ \t]*\S", line)]


def came_back(back: str) -> str:
    """What became of a branch of which ``back`` is said, as a sentence without its end."""
    return f"the branch {'was ' if back.startswith(('gone', 'withdrawn')) else ''}{back}"


def _short(*abouts: str) -> list[str]:
    """What decisions name, each head as short as tells it from the others."""
    heads, times = zip(*(about.partition(",")[::2] for about in abouts), strict=True)
    return [f"{head},{time}" if time else head for head, time in zip(short_ids(heads), times, strict=True)]


def named_head(triage: Triage) -> str:
    """The id, or the part of one, that a section names; empty where it names none."""
    return triage.head.partition(",")[0].strip().lower()


def why_void(text: str, showing: Showing) -> tuple[str, str]:
    """Why a file does not show this (:func:`shows`): in a few words, and as its thread says it; empty: it does."""
    head, back, anew = showing
    shown = seen_head(text)
    if shown != head:
        here, there = short_ids([head, shown])
        what = f"shows the head {there}" if shown else "has lost its Head line"
        reason = f"The file named the head {shown or '(none)'}; the branch is at {head}. Decide again."
        return f"void: the thread {what}, the branch is at {here}", reason
    if shows(text, showing):
        return "", ""
    about = showing.name
    if named := _names_other(text, about):
        reason = f"The decision named the head {named}; the branch is at {about}. Decide again."
        here, there = _short(about, named)
        return f"void: the decision names the head {there}, the branch is at {here}", reason
    if _conflict(text.split("\n")):
        return "void: git left the marks of a conflict in the thread", "Git left the marks of a conflict; decide again."
    what = f"does not say that {came_back(back)}" if back else "has a Caution line of another time"
    if anew != _in_header(text, _ANEW):
        what = "does not show what is left, since main got a part of it"
    return f"void: the thread {what}", f"The file {what.replace('does', 'did').replace('has', 'had')}; decide again."


def read_decision(working: str, committed: str) -> Triage | None:
    """The Triage of a thread, or None while it is pending.

    ``committed`` is the version in main, from which the peer's text is known. Raises
    :class:`TriageRefused` for sections that must not decide.
    """
    lines = working.split("\n")
    headings = find_headings(lines)
    if not headings:
        form = _FORM.search(working)
        if form and _FILLED.search(form[1]):
            raise TriageRefused(
                "the form is filled in, but is a comment still", "delete its first line, '<!-- To decide, …'"
            )
        if at := _decision_elsewhere(lines):
            raise TriageRefused(
                f"line {at} is a decision, but no line '## Triage' stands above it outside code fences and comments",
                "write that line, with no fence around both, as the last thing in the file",
            )
        return None
    if len(headings) > 1:
        raise TriageRefused("there are two ## Triage sections", "keep one, the last thing in the file")
    heading = headings[0]
    block = peer_block(committed)
    end = _block_end(lines, block) if block else 0
    later = any(line.startswith(">") for line in lines[heading:])
    if (end is not None and heading < end) or (end is None and later):
        raise TriageRefused("## Triage stands before the peer's text", "move it to the end of the file")
    plain = [re.sub(r"^> ?(?:> ?)?", "", line) for line in (*block, *_said(committed))]
    return parse_triage(lines, heading, plain)


def _cut(text: str) -> tuple[str, str]:
    """The text before its Triage section, and that section."""
    lines = without_form(text).split("\n")
    headings = find_headings(lines)
    if not headings:
        return "\n".join(lines), ""
    return "\n".join(lines[: headings[0]]), "\n".join(lines[headings[0] :])


def _trimmed(text: str) -> str:
    """Without the rule at its end; a code fence or comment left open is closed."""
    end = closing(text)
    text = f"{text.rstrip()}\n{end}" if end else text
    return _LAST_RULE.sub("", text.rstrip()).rstrip()


def set_triage(text: str, triage: Triage) -> str:
    """The thread with this section; one that is not yet processed is replaced."""
    before, after = _cut(text)
    if after and not peer_block(before) and peer_block(after):
        raise TriageRefused("## Triage stands before the peer's text", "move it to the end of the file")
    return f"{_trimmed(before)}\n\n---\n\n{format_triage(triage)}"


def set_record(text: str, words: str, actor: str, at: datetime, head: str, body: str = "") -> str:
    """The thread with the section of a decision that only an output can bring (``ack``, ``fail``)."""
    before, _ = _cut(text)
    fields = [f"decision: {one_line(words)}", f"actor: {actor}", f"timestamp: {format_stamp(at)}", f"head: {head}"]
    section = "\n".join(["## Triage", "", *fields, *(["", body] if body else [])])
    return f"{_trimmed(before)}\n\n---\n\n{section}\n"


def mark_triage(text: str, heading: str, line: str) -> str:
    """The thread with its Triage kept as history under ``## heading``, so it decides no more."""
    before, section = _cut(text)
    kept = _trimmed("\n".join(section.split("\n")[1:]).strip("\n"))
    return f"{_trimmed(before)}\n\n---\n\n## {heading}\n\n{line}\n\n{kept}\n"


class _Parts(NamedTuple):
    """The lines of a thread: header and quotation, what follows them, the Triage section with its heading."""

    top: list[str]
    notes: list[str]
    section: list[str]


def _parts(text: str, blocks: Iterable[list[str]] = ()) -> _Parts:
    """``blocks`` are what the quotation may be; else the first quoted lines are it."""
    before, section = _cut(text)
    lines = before.split("\n")
    ends = (_block_end(lines, block) for block in (*blocks, peer_block(before)) if block)
    end = next((end for end in ends if end is not None), len(lines))
    return _Parts(lines[:end], lines[end:], section.split("\n") if section else [])


def refresh(text: str, fresh: str, reason: str, known: Sequence[str] = ()) -> str:
    """The thread ``fresh`` with what people wrote into ``text``; a Triage in either is void for ``reason``.

    ``known`` are versions that main had: a line of their header or quotation is no person's.
    """
    new, old = _parts(fresh), _parts(text, map(peer_block, known))
    if _conflict(text.split("\n")):
        old = _Parts([], [], ["", *_written_in_conflict(text, (fresh, *known))])
    cns = {line.rstrip() for one in (fresh, *known) for line in _parts(one).top}
    above = [line for line in old.top if line.strip() and line.rstrip() not in cns]
    there = {line.rstrip() for line in new.notes if line.strip()}
    notes = _trimmed("\n" + "\n".join(line for line in old.notes if line.rstrip() not in there)).strip()
    if find_headings(notes.split("\n")):  # a fence or comment hid it, which began above the quotation
        notes = quote(notes)
    void = [line for line in old.section[1:] if not (line.startswith(">") and line.rstrip() in cns)]
    if new.section != old.section:
        void += new.section[1:]
    parts = [_trimmed("\n".join([*new.top, *new.notes])), *([notes] if notes else [])]
    if above or old.section or new.section:
        heading = "Void triage" if old.section or new.section else "Set aside"
        quoted = quote("\n".join([*above, *void]).strip("\n"))
        parts.append(f"---\n\n## {heading}\n\n{reason}\n\n{quoted}")
    return "\n\n".join([*parts, _split_form(fresh)[1]]).rstrip("\n") + "\n"


def keep_mains(text: str, base: str, main: str) -> str:
    """``text``, an edit of ``base`` which ``main`` has overtaken, with what main says since, quoted.

    It stands before the Triage, whose section runs to the end of the file. Header and the peer's
    text are not taken along: those are renewed from the branch.
    """
    known = Counter(base.split("\n")) | Counter(text.split("\n"))
    mains, since = _parts(main), list[str]()
    for line in (*mains.notes, *mains.section):
        if not known[line]:
            since.append(line)
        elif _WROTE.match(line):  # one says several things in a minute
            known[line] -= 1
    if not since:
        return text
    before, section = _cut(text)
    end = f"---\n\n{section}" if section else _split_form(text)[1]
    parts = [_trimmed(before), f"---\n\n## Written elsewhere meanwhile\n\n{quote(chr(10).join(since))}", end]
    return "\n\n".join(parts).rstrip("\n") + "\n"


def was_executed(text: str, main: str) -> bool:
    """Is ``text`` an old copy, whose Triage ``main`` keeps as history? Then it says nothing that main does not."""
    _, section = _cut(text)
    heading = section.split("\n")[0].rstrip()
    here, there = ({line.rstrip() for line in without_form(one).split("\n")} for one in (text, main))
    return bool(section) and heading not in there and here - {heading, ""} < there


class Words(NamedTuple):
    """What was said about a thread once its branch was shown; ``what`` it is: a comment, or a message of theirs."""

    who: Name
    at: datetime
    what: str
    text: str


WROTE = "**{} wrote, {}** ({})"
"""Who, when, and what it was or where it came from."""
PROPOSED = "**{} proposed, {}** ({} at {})"
"""Who, when, the branch and its head."""
_WROTE = re.compile(r"\*\*[^*]+ wrote, [^*]+\*\* \(")


def said_in(text: str) -> list[list[str]]:
    """All :class:`Words` of a thread, oldest first: of each the line that says whose they are, and its quoted lines."""
    found, within = list[list[str]](), False
    for line in text.split("\n"):
        begins = bool(_WROTE.match(line))
        within = begins or (within and (line.startswith(">") or not line))
        if begins:
            found.append([line])
        elif within and line:
            found[-1].append(line)
    return found


def _said(text: str) -> list[str]:
    """The quoted lines of all :class:`Words`."""
    return [line for _, *quoted in said_in(text) for line in quoted]


UNREAD_WORDS = "Words came that were not shown to who decided. Decide again."
"""Why a decision is void in a thread in which something was said since."""


def count_words(text: str, who: Name) -> int:
    """How often ``who`` has said something in a thread; no line that a peer wrote is counted."""
    return sum(line.startswith(f"**{who} wrote, ") and bool(_WROTE.match(line)) for line in text.split("\n"))


def _sections_in(text: str) -> list[list[str]]:
    """Each section in which cn keeps a decision that left the thread open, from its heading on."""
    found, within = list[list[str]](), False
    for line in text.split("\n"):
        if line.rstrip() in _HISTORY:
            found.append([])
            within = True
        elif line.rstrip() == _LINE or line.startswith(_OPENING) or _WROTE.match(line):
            within = False
        if within:
            found[-1].append(line)
    return found


def lacks_words(text: str, main: str, who: str = "") -> bool:
    """Does ``main`` show words in a thread of which ``text`` has none, or that it was put off or assigned? Who wrote
    that has not read them. ``who``: words of that one alone.

    They are counted: one says several things in a minute, and their lines are the same.
    """

    def count(lines: Iterable[str]) -> Counter[str]:
        if who:
            return Counter(x.rstrip() for x in lines if x.startswith(f"**{who} wrote, ") and _WROTE.match(x))
        return Counter(x.rstrip() for x in lines if _WROTE.match(x) or x.rstrip() in _HISTORY)

    return bool(count(main.split("\n")) - count(text.split("\n")))


def what_it_lacks(text: str, main: str) -> tuple[str, str]:
    """The same in words: in a few, and as the thread says it; empty where it lacks nothing."""
    if not lacks_words(text, main):
        return "", ""
    begins = {line.partition(" wrote, ")[0].removeprefix("**") for line in main.split("\n") if _WROTE.match(line)}
    if any(lacks_words(text, main, who) for who in begins):
        return "void: words came meanwhile that the thread did not show", UNREAD_WORDS
    return (
        "void: it was deferred or assigned meanwhile, which the thread did not show",
        "It was deferred or assigned, which was not shown to who decided. Decide again.",
    )


def add_words(text: str, words: Words) -> str:
    """The thread with these words below all that was said, each line behind ``> ``, and above a Triage section."""
    line = WROTE.format(words.who, format_stamp(words.at), _shown(words.what))
    return _add_said(text, f"{line}\n\n{quote(words.text)}")


def set_aside(text: str, words: str) -> str:
    """The thread with words that somebody wrote with a command of which nothing came, quoted."""
    reason = "Nothing came of this: the thread was written anew first. Say it again."
    return _add_said(text, f"---\n\n## Set aside\n\n{reason}\n\n{quote(words)}") if words.strip() else text


def with_words(text: str, other: str) -> str:
    """The thread with the :class:`Words` of another state of it which it lacks, and with what was decided there."""
    here = Counter(line.rstrip() for line, *_ in (*said_in(text), *_sections_in(text)))
    blocks = [f"{line}\n\n{chr(10).join(quoted)}" for line, *quoted in said_in(other)]
    blocks += [f"{_LINE}\n\n" + "\n".join(lines).strip() for lines in _sections_in(other)]
    for block in blocks:
        first = block.removeprefix(f"{_LINE}\n\n").partition("\n")[0].rstrip()
        if here[first]:
            here[first] -= 1
        else:
            text = _add_said(text, block)
    return text


def _add_said(text: str, said: str) -> str:
    before, section = _cut(text)
    form = _FORM.search(text)
    if not section and form and _FILLED.search(form[1]):  # somebody is about to decide there
        before, section = text[: form.start()], text[form.start() :]
    end = f"---\n\n{section}" if section else _split_form(text)[1]
    return "\n\n".join([_trimmed(before), said, end]).rstrip("\n") + "\n"


def append_section(text: str, heading: str, lines: list[str]) -> str:
    """The thread with one more section of cn's at its end."""
    end = closing(text)
    return "\n".join([text.rstrip(), *([end] if end else []), "", f"## {heading}", "", *lines]) + "\n"
