"""Make foreign text harmless: line splitting, quoting, visible controls, cells.

A peer's text is data. Whatever it holds, after these functions no line of it can
start anything but a quotation, and no character of it can hide or reorder others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# As text: compiled when first used, since a short command uses few of them.
_CREDENTIALS = r"(?<=://)(?!(?<=ssh://)[\w.+-]+@[^/\s@]*(?![^/\s]))[^/\s]+@"
_PARAMETER = (
    r"(?i)([?&;#][\w.-]*(?:token|secret|passw(?:or)?d|pwd|api_?key|access_?key|auth|credential|signature|sig|key)=)"
    r"[^&;#\s'\"<>]+"
)
_WORD = r"\S+"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_IGNORABLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""What shows nothing where a font does not know it (Unicode 16, ``DerivedCoreProperties.txt``,
Default_Ignorable_Code_Point)."""
_NO_GLYPH = r"\u2800\U0001107f\U00013441\U00013442\U00016fe4\U0001bc9d\U0001d159"
"""What is named as blank, filler, joiner, selector or null, and is drawn as nothing or in a dashed box (Unicode 16,
code charts): Braille, Brahmi, Egyptian, Khitan, Duployan, a notehead."""
_BLANK = rf"[{_IGNORABLE}{_NO_GLYPH}]"
_PERHAPS_HIDDEN = r"[^ -~\n\t]"
_EMOJI = "\ufe0f"
"""Variation selector 16: a symbol is drawn as an emoji, in colour (Unicode, UTS #51)."""
_KEYCAP = "\u20e3"
_MOST_MARKS = 6
"""On one letter: hardly a word of any language has as many. More of them are drawn over the lines beside it."""
_PERHAPS_PILED = rf"[\u0300-\U0010ffff]{{{_MOST_MARKS + 1},}}"


def unix_lines(text: str) -> str:
    """The text with LF alone between its lines; takes time linear in its length."""
    *lines, last = text.split("\n")
    return "\n".join([*(line.rstrip("\r") for line in lines), last])


def visible(text: str) -> str:
    """Show control, format, bidirectional, surrogate and blank characters as ``<U+202E>``, and the marks on a letter
    beyond the sixth.

    Tab and the line feed are kept, and the selector that makes an emoji of the symbol before it. What is printable, and
    no blank letter, comes back as it is.
    """
    if not (text.isprintable() and (text.isascii() or not re.search(_BLANK, text))):
        text = re.sub(_PERHAPS_HIDDEN, _shown, text)
    return text if text.isascii() else re.sub(_PERHAPS_PILED, _unpiled, text)


def _unpiled(found: re.Match[str]) -> str:
    """A run of characters without more marks on one than it may have."""
    kept, marks = list[str](), 0
    for char in found[0]:
        marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        kept.append(f"<U+{ord(char):04X}>" if marks > _MOST_MARKS else char)
    return "".join(kept)


def _shown(found: re.Match[str]) -> str:
    """One character, where it stands, as it is shown."""
    char, text, at = found[0], found.string, found.start()
    hidden = unicodedata.category(char) in _HIDDEN or re.match(_BLANK, char) is not None
    if char == _EMOJI:
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        hidden = after != _KEYCAP and (before.isascii() or unicodedata.category(before) not in ("So", "Sm"))
    return f"<U+{ord(char):04X}>" if hidden else char


def visible_code(text: str) -> str:
    """The same for a line of a file, of which no two that a program reads differently may look alike.

    Every space but U+0020, and what Unicode has not assigned, is shown by its number too.
    """
    shown = visible(text)
    if shown.isascii() or shown.replace("\t", "").isprintable():
        return shown
    return re.sub(r"[^\x00-\x7f]", _numbered, shown)


def _numbered(found: re.Match[str]) -> str:
    char = found[0]
    return f"<U+{ord(char):04X}>" if unicodedata.category(char) in ("Zs", "Cn") else char


_ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
"""What colours and moves on a terminal (ECMA-48, 5.4 and 8.3): not even shown, where a program says it."""


_OURS = r"(\r|\x1b\[(?:[0-9;]*[mKABCDG]|\?25[hl]))"
"""What cn itself writes to a terminal beside text: colours, and what draws a bar and its cursor."""


def for_terminal(text: str) -> str:
    """The text as a terminal gets it: whatever is in it, beside colours and bars nothing but what is seen.

    It is the last look, at all of what cn prints. Foreign text is made visible before, where it is put into a line:
    there its colours too.
    """
    if text.isascii() and "\x1b" not in text and text.replace("\n", "").isprintable():
        return text
    return "".join(part if n % 2 else visible(part) for n, part in enumerate(re.split(_OURS, text)))


def without_escapes(text: str) -> str:
    """What a program said, without the escape sequences that it meant for a terminal."""
    return re.sub(_ESCAPES, "", text) if "\x1b" in text else text


def is_plain(text: str) -> bool:
    """Is it shown as it is, and on one line?"""
    return visible(text) == text and not set(text) & {"\n", "\t"}


def lines_of(text: str) -> list[str]:
    """Its lines, as git and compilers see them: any other boundary that Unicode knows is part of its line."""
    return unix_lines(text).removesuffix("\n").split("\n")


def quote(text: str) -> str:
    """Every line behind ``"> "``, all that could begin another one visible; an empty text is an empty quotation."""
    return "\n".join(f"> {line}" if line else ">" for line in map(visible, lines_of(text)))


def unquote(text: str) -> str:
    """The inverse of :func:`quote`, but for what it made visible."""
    return "\n".join(re.sub(r"^> ?", "", line) for line in text.split("\n"))


def counted(number: int, noun: str, many: str = "") -> str:
    """``1 file``, ``1,200 files``; ``many`` where it is no plain plural."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def one_line(text: str, limit: int = 200) -> str:
    """The text on one visible line of at most ``limit`` characters. No more of it is looked at: it may be megabytes."""
    line = visible(" ".join(text.split(None, limit + 1))[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def some_of(names: Sequence[str], most: int = 5, limit: int = 120) -> str:
    """The first of them on one visible line, each of at most ``limit`` characters, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(one_line(name, limit) for name in names[:most])}{more}"


def in_quotes(text: str) -> str:
    """What somebody else said, in a line of cn's: it does not end its quotation marks."""
    return '"{}"'.format(text.replace('"', "'"))


def without_commands(text: str) -> str:
    """What somebody else called something, in a line that has commands to type: these stand in single quotes."""
    return text.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")


def shown_name(name: str, limit: int = 200) -> str:
    """A name on one visible line, no two alike: of the blanks in it, only a single space stands as it is."""
    name = name.replace("<U+", "<U+003C>U+")
    line = visible(re.sub(r"(?<=\s)\s|\A\s|\s\Z|[^\S ]", lambda blank: f"<U+{ord(blank[0]):04X}>", name))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def cell(text: str, limit: int = 200) -> str:
    """The text as one cell of a markdown table: it cannot end the cell or the row."""
    return one_line(text, limit).replace("\\", "\\\\").replace("|", "\\|") or "—"


def words_cell(text: str, limit: int = 200) -> str:
    """The same where whoever reads the table may have Markdown shown: it makes no link, picture, HTML or code of it."""
    return as_words(text, limit) or "—"


def as_words(text: str, limit: int = 200) -> str:
    """The text on a line of Markdown that shows it as it is (CommonMark 0.31, 2.4 "Backslash escapes")."""
    return re.sub(_MARKUP, r"\\\g<0>", one_line(text, limit))


def uncell(text: str) -> str:
    """The inverse of :func:`cell` for text that it did not shorten."""
    return re.sub(r"\\(.)", r"\1", text.strip())


_MARKUP = r"[\\|\[\]<&`*]"
_YAML_NAME = r"(?!(?:yes|no|on|off|true|false|null|y|n)\Z)[a-z][a-z0-9_-]*"


def yaml_word(name: str) -> str:
    """A name as a YAML scalar: plain, unless YAML would read ``no`` or ``007`` as something else."""
    return name if re.fullmatch(_YAML_NAME, name) else yaml_string(name)


def yaml_string(text: str, *, ascii_only: bool = False) -> str:
    """A text on one line as a double-quoted YAML scalar (YAML 1.1, 5.7 "Escape Sequences").

    JSON strings are not enough: they write characters beyond U+FFFF as two surrogates.
    """

    def escape(char: str) -> str:
        if char in '"\\':
            return f"\\{char}"
        if char.isprintable() and (char.isascii() or not ascii_only):
            return char
        return f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}"

    return f'"{"".join(map(escape, text))}"'


def is_text(text: str) -> bool:
    """Can it be written as UTF-8? Command lines and file names may hold other bytes."""
    try:
        text.encode()  # megabytes in milliseconds, while nothing else of the process goes on
    except UnicodeEncodeError:
        return False
    return True


def decode(data: bytes) -> str:
    """UTF-8, each undecodable byte shown as ``<0xFF>``."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raw = data.decode("utf-8", "surrogateescape")
        return "".join(f"<0x{ord(c) - 0xDC00:02X}>" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in raw)


def redact(text: str) -> str:
    """Take user names, passwords, and parameters such as ``?token=…`` out of URLs before a text is shown.

    The account in an ssh URL stays: it is no secret, and without it nobody could type the URL. A name of a branch,
    which may hold ``&key=``, is no URL: it has no ``?`` and no ``://``.
    """
    text = re.sub(_CREDENTIALS, "***@", text)
    return re.sub(_WORD, _hide_parameters, text) if "=" in text else text


def _hide_parameters(word: re.Match[str]) -> str:
    return re.sub(_PARAMETER, r"\1***", word[0]) if "?" in word[0] or "://" in word[0] else word[0]


def clean(text: str, limit: int = 500) -> str:
    """Foreign text on one visible line, without credentials."""
    return redact(one_line(text, limit))


def slug(text: str, limit: int = 60, empty: str = "message") -> str:
    """A name of ``[a-z0-9._-]`` made from free text; ``empty`` if nothing is left."""
    ascii_text = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", ascii_text.lower()).strip("-")
    return words[:limit].rstrip("-") or empty
