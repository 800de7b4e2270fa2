"""Look for secrets with detect-secrets, loaded only when a text may hold one.

Of its detectors those that know a form; guesses by entropy or by words such as "password"
would refuse too much of what people write. See its documentation, "plugins". The secret itself is in no
finding: a fingerprint names it, the same one wherever it stands.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from cn.protocol.layout import DONE, INBOX
from cn.protocol.queue_item import INPUT, LOGS, QUEUE, TURN
from cn.values.known_secrets import NOTHING_KNOWN, KnownSecrets

_MAYBE = re.compile(
    r"PRIVATE KEY|Private-Lines:|PuTTY-User-Key-File|\b(?:xox[a-z]|glpat|sk|npm|pypi|hf)\\?[-_]|(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[0-9A-Z]{16}|\d:[\w-]{35}|://[^/\s:@]{1,200}:[^/\s@]{1,200}@"
)
_LONG = r"[A-Za-z0-9_+/=~]"
_MIXED = re.compile(rf"(?<!{_LONG})(?={_LONG}{{16}})(?={_LONG}*[0-9]){_LONG}*[A-Za-z]")
_PLAIN = re.compile(r"\b(?:[0-9a-f]{40}(?:[0-9a-f]{24})?|SHA256:[A-Za-z0-9+/=]+)\b")
_BLOCK = re.compile(r"(?:-----)?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File")
_BEGIN = re.compile(rf"{_BLOCK.pattern}|Private-Lines:")
"""The first line of a private key, and of the second part of PuTTY's."""
_END = re.compile(r"END (?:(?!BEGIN)[A-Z0-9 ]){0,40}PRIVATE KEY(?: BLOCK)?(?:-----)?|Private-MAC: *\w*")
"""Its last line; where another one begins in that, it is none."""
_HEAD_ONLY = rf"(?:{_BEGIN.pattern})(?: BLOCK)?[-\s\d]*"
_LONGEST_USER = 200
_NOT_USER, _NOT_HOST = r"[\s/:@]", r"[^\w.-]"
_ESCAPE = r"\\([_.:/@+=~-])"
"""A character as Markdown may write it."""
_BREAK = r"\\[nr]|[\s\\]"
_PLACEHOLDER = r"[A-Z]+(?:[_-][A-Z]+)*|[xX*.…_-]+|<[^>]*>"
_FILLED = r"[A-Za-z0-9_-]{0,14}?([xX*])\1{7,}[A-Za-z0-9_-]{0,4}"
_WORDS = r"sk-(?:ant|proj|svcacct|admin)-(?:[a-z]+[0-9]{2}-)?(?:[a-z]{1,15}[-_])+[a-z]{1,15}"
_LONG_KEY = r"sk-(?:ant|proj|svcacct|admin)-"
QUOTED = (f"{INBOX}/", f"{DONE}/", f"{QUEUE}/", f"{LOGS['input']}/", TURN, INPUT)
"""Where lines that start with ``>`` are a peer's, as they came."""
_PLACES = ("path: ", "topic: ", "thread: ")
_CUT_OFF = 60
_LONGEST_KEY = 1_000
PRIVATE_KEY = "Private Key"
LOGIN = "Basic Auth Credentials"
"""Kinds whose detectors tell less than what counts: where a key begins, the password of a URL."""
MASK = "(not shown, as it looks like a secret)"
"""Stands for a line that holds a secret. It has no colon, so that YAML takes it as a value."""
_DETECTORS = (
    "AWSKeyDetector",
    "AzureStorageKeyDetector",
    "BasicAuthDetector",
    "DiscordBotTokenDetector",
    "GitLabTokenDetector",
    "JwtTokenDetector",
    "MailchimpDetector",
    "NpmDetector",
    "PrivateKeyDetector",
    "PypiTokenDetector",
    "SendGridDetector",
    "SlackDetector",
    "SquareOAuthDetector",
    "StripeDetector",
    "TwilioKeyDetector",
)
_MORE = {
    "Age Secret Key": r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}",
    "Anthropic API Key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "AWS Secret Key": (
        r"(?i)(?:aws_?secret_?|secret_?access_?)(?:access_?)?key[\"']?\s{0,3}(?::|=>?)\s{0,3}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
    ),
    "DigitalOcean Token": r"\bdo[opr]_v1_[0-9a-f]{64}\b",
    "GitHub Token": r"gh[opusr]_[A-Za-z0-9_]{36,}|\bgithub_pat_[A-Za-z0-9_]{22,}",
    "Google API Key": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "Hugging Face Token": r"\bhf_[A-Za-z0-9]{34}\b",
    "NPM tokens": r"\bnpm_[A-Za-z0-9]{36}\b",
    "OpenAI Token": (
        r"\bsk-(?:(?:proj|svcacct|admin)-(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{20,}|(?=[A-Za-z]{0,47}[0-9])[A-Za-z0-9]{48}(?![A-Za-z0-9_-]))"
    ),
    "Private Key": r"BEGIN ENCRYPTED[ ]PRIVATE KEY|PuTTY-User-Key-File-[13]|\bPrivate-Lines: ?\d",
    "Telegram Bot Token": r"\b\d{8,10}:[0-9A-Za-z_-]{35,}",
}
"""Forms that detect-secrets 1.5 does not know, or not alone, or of which it tells only the beginning."""
_OPENAI_MIDDLE = re.compile(r"[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}")
_NOT_OPENAI = re.compile(r"[^A-Za-z0-9_-]")
"""Of an older key of OpenAI's what all have, and what none has. One expression for all of it, as detect-secrets has,
takes the square of a word's length.
"""
_OURS = ("ANTHROPIC_KEY", "ANTHROPIC_API_KEY", "TELEGRAM_TOKEN", "TELEGRAM_BOT_TOKEN")
"""Variables whose very values must not leave, however they are written (:mod:`cn.values.known_secrets`)."""
_SHORTEST_OF_OURS = 9
OUR_KEY = "a key of this hub"
_GUESSES = (
    "detect_secrets.filters.allowlist.is_line_allowlisted",
    "detect_secrets.filters.heuristic.is_indirect_reference",
    "detect_secrets.filters.heuristic.is_likely_id_string",
)
"""Filters by what stands beside a secret: a remark in the text, a call, a word such as "id". Only
``hub.yaml`` lets something pass."""
_HALF = "[\ud800-\udfff]"
"""What a byte that is no UTF-8 was read as; detect-secrets hashes no such character."""
_KEPT = r"(?:#{1,6} |- )?(?:(?:refused: )?(?:\*\*)?[A-Za-z][A-Za-z_-]{0,19}:(?:\*\*)?)?"
"""What of a masked line stays: the mark of a heading or a list, the key of a field, the rule of a log row."""
_LONGEST = 2_000
_PIECE, _OVERLAP = 1 << 16, 1_000
"""Characters that are looked through at a time for whether there may be a secret, and those that a part has of the one
before: more than the longest form."""
_Hit = tuple[str, str]
"""A kind, and what a detector found of it."""
_FORMS: list[re.Pattern[str]] = []
_SETTING_UP = threading.Lock()


class Text(NamedTuple):
    """One text that is about to leave or to be committed. ``where`` is its file, or what it is."""

    where: str
    lines: tuple[str, ...]
    first: int = 1


def text_of(where: str, text: str) -> Text:
    """A text of any lines."""
    return Text(where, tuple(text.split("\n")))


def own_lines(path: str, text: str) -> Text:
    """A document without what is a peer's: the lines that cn quoted, and what a head says of its branch.

    Line numbers stay.
    """
    lines = text.split("\n")
    theirs = path.startswith(QUOTED)
    kept = ["" if theirs and line.startswith(">") else line for line in lines]
    if path.startswith(f"{INBOX}/") and "---" in lines:
        end = lines.index("---")
        kept[:end] = [""] * end
    elif theirs:  # what an agent is asked; a turn has the head of its input below its own
        at = 0
        while lines[at : at + 1] == ["---"] and "---" in lines[at + 1 :]:
            end = lines.index("---", at + 1)
            kept[at:end] = ["" if line.startswith(_PLACES) else line for line in lines[at:end]]
            at = end + 1
    return Text(path, tuple(kept))


def text_of_word(where: str, word: str) -> Text:
    """A word of a command: of one line, without a number, or of several."""
    lines = tuple(word.split("\n"))
    return Text(where, lines, 1 if len(lines) > 1 else 0)


def joined(texts: Sequence[Text]) -> Text:
    """Several as one."""
    return Text("", tuple(line for text in texts for line in text.lines))


class Finding(NamedTuple):
    """Something in line ``line`` of ``where`` (0: it has no lines) that looks like a secret of this kind."""

    where: str
    line: int
    kind: str
    fingerprint: str


def may_hold(text: Text, ours: KnownSecrets = NOTHING_KNOWN) -> bool:
    """Is it worth to load the detector, or is one of ``ours`` there? Ids of git and times are no secrets."""
    if ours and _shows("\n".join(text.lines), ours):
        return True
    return any(_MAYBE.search(piece) or _is_mixed(piece) for piece in _pieces(text.lines))


def _is_mixed(piece: str) -> bool:
    """Is there a long word of letters and digits? In one pass, however long a line is."""
    return _MIXED.search(piece) is not None and _MIXED.search(_PLAIN.sub("", piece)) is not None


def _pieces(lines: Sequence[str]) -> Iterator[str]:
    """Many lines at once, which none of the patterns goes beyond: a run asks of thousands of texts. Of megabytes a part
    at a time, of a long line in overlapping ones: while a pattern is looked for no other thread of the process goes on.
    """
    taken, size = list[str](), 0
    for line in lines:
        if size + len(line) > _PIECE and taken:
            yield "\n".join(taken)
            taken, size = [], 0
        if len(line) > _PIECE:
            yield from (line[max(0, at - _OVERLAP) : at + _PIECE] for at in range(0, len(line), _PIECE))
            continue
        taken.append(line)
        size += len(line) + 1
    if taken:
        yield "\n".join(taken)


def _shows(text: str, ours: KnownSecrets) -> bool:
    return bool(ours) and bool(ours.places(text) or ("\\" in text and ours.places(plain(text))))


def plain(text: str) -> str:
    """A text without the escapes of Markdown."""
    return re.sub(_ESCAPE, r"\1", text)


def fingerprint(secret: str) -> str:
    """16 hex digits that stand for a secret, whatever kinds it is of and wherever it stands."""
    return hashlib.sha256(plain(secret).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def whole(kind: str, found: str, lines: Sequence[str], at: int, start: int = 0) -> str:
    """All of the secret of which a detector found this in line ``at``, from its character ``start`` on.

    A private key to its end, however it is broken into lines; a password with its user and host, because
    a word alone is soon guessed from its fingerprint.
    """
    if kind == LOGIN:
        colon = lines[at].find(f":{found}@")
        if colon < 0:
            return found
        before, after = lines[at][max(0, colon - _LONGEST_USER) : colon], lines[at][colon + len(found) + 2 :]
        return f"{re.split(_NOT_USER, before)[-1]}:{found}@{re.split(_NOT_HOST, after, maxsplit=1)[0]}"
    if kind != PRIVATE_KEY:
        return found
    end = end_of_key(lines, at, start)
    if end is None:
        another = _BLOCK.search(lines[at], _behind_begin(lines[at], start))
        text = lines[at][start : another.start() if another else None]
        if not another and re.fullmatch(_HEAD_ONLY, text) and at + 1 < len(lines):
            text += lines[at + 1]
    else:
        last, column = end
        text = "".join([*lines[at:last], lines[last][:column]])[start:]
    return re.sub(_BREAK, "", text)


def key_starts(lines: Sequence[str]) -> list[tuple[int, int]]:
    """From where on there may be private keys: index of a line, character in it."""
    return [(at, begin.start()) for at, line in enumerate(lines) for begin in _BEGIN.finditer(line)]


def end_of_key(lines: Sequence[str], at: int, start: int) -> tuple[int, int] | None:
    """Behind which line and character the private key ends that begins there; None: nowhere near.

    Where another one begins first it has no end.
    """
    pos = _behind_begin(lines[at], start)
    for index in range(at, min(len(lines), at + _LONGEST_KEY)):
        line = lines[index]
        another = _BLOCK.search(line, pos) if "BEGIN" in line or "PuTTY" in line else None
        # No further than there: a line may hold thousands of them.
        stop = another.start() if another else len(line)
        if line.find("END", pos, stop) >= 0 or line.find("MAC", pos, stop) >= 0:
            end = _END.search(line, pos, stop)
            if end:
                return index, end.end()
        if another:
            return None
        pos = 0
    return None


def _behind_begin(line: str, start: int) -> int:
    begin = _BEGIN.match(line, start)
    return begin.end() if begin else start


def is_placeholder(kind: str, found: str, after: str = "") -> bool:
    """Does it only show where a secret would stand? ``after`` is what follows it in its line."""
    if kind == LOGIN:
        return re.fullmatch(_PLACEHOLDER, found) is not None
    if re.fullmatch(_FILLED, found) or re.fullmatch(_WORDS, found):
        return True
    # The whole of a key with such a beginning is far longer: what is shown opens nothing.
    cut = re.match(_LONG_KEY, found) is not None and len(found) < _CUT_OFF
    return cut and after.startswith(("…", "..."))


class Enough(Exception):
    """A search ends here; the text says why."""


class Pace:
    """How a search goes on. After ``most`` different secrets of a text it ends (0: it goes to the end), with a finding
    that says so and has no fingerprint: nobody can let that pass.
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most

    def went_on(self) -> None:
        """Called behind each line, and each part of a long one: others may have a turn here. Raises :class:`Enough`
        where it is to end.
        """


_TO_THE_END = Pace()


def find_secrets(texts: Sequence[Text], sources: Sequence[Text] = (), pace: Pace = _TO_THE_END) -> list[Finding]:
    """What looks like a secret, in the order of the texts. Nothing is asked of any network. For any thread.

    What stands in one of the ``sources`` too is told of there: a person can edit that.
    """
    ours = _own_values()
    if not may_hold(joined(texts), ours):  # all at once: thousands of letters have four texts each
        return []
    hits = (hit for text in texts for hit in _search(text, ours, pace))
    return list(dict.fromkeys(_placed(one, found, sources) for one, found in hits))


def _placed(one: Finding, found: str, sources: Sequence[Text]) -> Finding:
    for source in sources:
        for at, line in enumerate(source.lines):
            if found in line:
                return one._replace(where=source.where, line=source.first + at if source.first else 0)
    return one


def beginnings(text: Text, allowed: Collection[str]) -> set[str]:
    """By what the secrets of a text are known that was cut before it was looked at."""
    found = {secret for one, secret in _search(text, _own_values()) if one.fingerprint not in allowed}
    return set(map(_beginning, found))


def _beginning(secret: str) -> str:
    return secret[: min(8, max(3, len(secret) // 2))]


def mask_typed(text: str, words: Sequence[str]) -> str:
    """A text that may quote the words of a command, also cut off, without the secrets in these."""
    typed = Text("", tuple(line for word in words for line in word.split("\n")))
    hits = _search(typed, _own_values())
    if not hits:
        return text
    pieces = {_beginning(found) for one, found in hits if one.kind != PRIVATE_KEY}
    lines = (
        " ".join(MASK if any(piece in word for piece in pieces) else word for word in line.split(" "))
        for line in text.split("\n")
    )
    return "\n".join(mask_secrets(Text("", tuple(lines)), ())[0])


def mask_secrets(text: Text, allowed: Collection[str]) -> tuple[list[str], list[Finding]]:
    """The lines, and what looks like a secret in them and is not ``allowed``.

    :data:`MASK` stands for each line that holds such a thing, and for all lines of a private key, to its end
    or the text's. What a head is read by stays: a key with its colon, and the mark of a title.
    """
    ours = _own_values()
    found = dict.fromkeys(one for one, _ in _search(text, ours) if one.fingerprint not in allowed)
    kinds = {(one.line - text.first, one.kind == PRIVATE_KEY) for one in found}
    lines, inside = list(text.lines), False
    for at, line in enumerate(text.lines) if found else ():
        if not inside and ((at, True) in kinds or (at, False) in kinds):
            lines[at] = f"{_kept(line, ours)} {MASK}".lstrip()
        elif inside:
            lines[at] = MASK
        # Does the key go on behind this line, or another one that begins in it?
        begins = list(_BEGIN.finditer(line))
        inside = (inside or (at, True) in kinds) and not _END.search(line, begins[-1].end() if begins else 0)
    return lines, list(found)


def _kept(line: str, ours: KnownSecrets) -> str:
    """What stays of a line before its mask, unless a secret or a key begins in that already."""
    match = re.match(_KEPT, line)
    kept = match[0].rstrip(" ") if match else ""
    return "" if key_starts([kept]) or _search(Text("", (kept,)), ours) else kept


def _own_values() -> KnownSecrets:
    return _known(tuple(os.environ.get(name, "") for name in _OURS))


@cache
def _known(values: tuple[str, ...]) -> KnownSecrets:
    return KnownSecrets(values, _SHORTEST_OF_OURS)


def _search(text: Text, ours: KnownSecrets, pace: Pace = _TO_THE_END) -> list[tuple[Finding, str]]:
    """The findings of one text, each with what was found."""
    if not may_hold(text, ours):
        return []
    ours = ours if _shows("\n".join(text.lines), ours) else NOTHING_KNOWN
    hits = dict.fromkeys(_broken(text, ours))
    found_in = cache(_Line(ours, pace).search)  # many lines are the same: empty, or a rule of a table
    inside, index = (0, 0), 0
    try:
        for index, line in enumerate(text.lines):
            for kind, found in found_in(line):
                for start in ([place for _, place in key_starts([line])] or [0]) if kind == PRIVATE_KEY else [0]:
                    if kind == PRIVATE_KEY:
                        if (index, start) < inside:
                            continue  # one key, though its parts have headers of their own
                        inside = end_of_key(text.lines, index, start) or (index, start + 1)
                    mark = fingerprint(whole(kind, found, text.lines, index, start))
                    hits[Finding(text.where, text.first + index, kind, mark), found] = None
            pace.went_on()
    except Enough as why:
        hits[Finding(text.where, text.first + index, str(why), ""), ""] = None
    return list(hits)


def _broken(text: Text, ours: KnownSecrets) -> Iterator[tuple[Finding, str]]:
    """Keys of this hub that are encoded and broken into lines, each line with its part."""
    whole = "\n".join(text.lines)
    for start, stop in ours.places(whole):
        parts = whole[start:stop].split("\n")
        first, mark = text.first + whole.count("\n", 0, start), fingerprint("".join(parts))
        yield from (
            (Finding(text.where, first + at, OUR_KEY, mark), part) for at, part in enumerate(parts) if parts[1:]
        )


class _Line:
    """The lines of one text. ``ours`` are the keys of this hub."""

    def __init__(self, ours: KnownSecrets, pace: Pace) -> None:
        self._ours, self._pace = ours, pace
        self._different = set[_Hit]()

    def search(self, line: str) -> list[_Hit]:
        """What stands in one line, sorted. A secret counts once: as a whole, and as one kind."""
        parts = [self._found(part) for part in _parts(line)]
        near = [set().union(*parts[max(0, at - 1) : at + 2]) for at in range(len(parts))]
        return sorted(
            {hit for at, part in enumerate(parts) for hit in part if not any(_covers(o, hit) for o in near[at])}
        )

    def _found(self, part: str) -> set[_Hit]:
        found = _found(part, self._ours)
        self._different |= found
        if 0 < self._pace.most < len(self._different):
            raise Enough(f"more than {self._pace.most} different ones")
        self._pace.went_on()
        return found


def _covers(other: _Hit, hit: _Hit) -> bool:
    if PRIVATE_KEY in (other[0], hit[0]) or hit[1] not in other[1]:
        return False
    return other[1] != hit[1] or (other[0] == LOGIN, other[0]) < (hit[0] == LOGIN, hit[0])


def _found(part: str, ours: KnownSecrets) -> set[_Hit]:
    """Kind and spelling of what stands in one part of a line, also where Markdown's escapes part it."""
    found, bare = _scan(part, ours), plain(part)
    for kind, secret in _scan(bare, ours) - found if bare != part else ():
        spelled = re.search(r"\\?".join(map(re.escape, secret)), part)
        found.add((kind, spelled[0] if spelled else part))
    return found


def _scan(part: str, ours: KnownSecrets) -> set[_Hit]:
    text = re.sub(_HALF, "\N{REPLACEMENT CHARACTER}", part)
    kinds = _detected(text)
    if text != part:
        # What stands in the part where the text, as long as that, holds what was found; else the whole part.
        places = ((kind, text.find(found), len(found)) for kind, found in kinds)
        kinds = {(kind, part[at : at + size] if at >= 0 else part) for kind, at, size in places}
    for kind, form in _MORE.items():
        kinds |= {(kind, match[match.re.groups]) for match in re.finditer(form, part)}
    kinds |= {("OpenAI Token", key) for key in _older_openai(part)}
    kinds |= {(OUR_KEY, part[start:stop]) for start, stop in ours.places(part)}
    return {(kind, found) for kind, found in kinds if not is_placeholder(kind, found, part.partition(found)[2])}


def _older_openai(part: str) -> Iterator[str]:
    at = 0
    for middle in _OPENAI_MIDDLE.finditer(part):
        before = part[at : middle.start()]
        words = _NOT_OPENAI.split(before)
        word = len(before) - len(words[-1]) + at
        if (start := part.find("sk-", word, middle.start())) >= 0:
            yield part[start : middle.end()]
        at = middle.end()


def _detected(text: str) -> set[_Hit]:
    """What detect-secrets finds. It asks its filters of each line, which takes ten times as long as its expressions: so
    only where one of these finds something.
    """
    if not any(form.search(text) for form in _forms()):
        return set()
    from detect_secrets.core.scan import scan_line

    return {(secret.type, str(secret.secret_value)) for secret in scan_line(text)}


def _forms() -> list[re.Pattern[str]]:
    """The expressions of its detectors. Its settings are global to the process, and may not change while another thread
    searches (its documentation, "settings"): so they are set once, by the first who searches, and then only read.
    """
    with _SETTING_UP:
        if not _FORMS:
            from detect_secrets.core.scan import scan_line
            from detect_secrets.settings import get_plugins, get_settings

            settings = get_settings()
            settings.clear()
            settings.configure_plugins([{"name": name} for name in _DETECTORS])
            settings.disable_filters(*_GUESSES)
            list(scan_line(""))  # which changes them too, the first time
            _FORMS.extend(form for plugin in get_plugins() for form in plugin.denylist)
    return _FORMS


def _parts(line: str) -> Iterator[str]:
    """A long line in overlapping parts: the detectors' expressions are not made for megabytes."""
    for start in range(0, max(len(line), 1), _LONGEST):
        yield line[max(0, start - 200) : start + _LONGEST]
