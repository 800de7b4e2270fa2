"""What went wrong with another server, in words of ours: kind and place, and nothing of what it said.

Exceptions of libraries quote what they could not read, shortened in the middle or as Python writes it, where no mask
finds a secret. So no text of theirs is shown, but for that of the operating system.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterator
from typing import Final

from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from cn.server.library_logs import kind_and_place
from cn.values.text import one_line

_LONGEST: Final = 300
_SHOWN: Final = 3
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,40}")
_OF_THE_LIBRARY: Final = {"Unsupported protocol version": "it speaks no version of the protocol that cn knows"}
"""Beginnings of what the library says of an answer that can be read, and what that means."""
_COUNTED: Final = 1000
"""Faults of one answer, beyond which they are counted alone."""
_ENDLESS: Final = 10
"""So many causes are looked through."""


class InOurWords(Exception):
    """What is wrong, said by cn."""


def tell(why: BaseException, mask: Callable[[str], str]) -> str:
    """What went wrong, in a line: of a group its first. What a server refused in its own words is shown masked."""
    while isinstance(why, BaseExceptionGroup):
        why = why.exceptions[0]
    match why:
        case InOurWords():
            return str(why)
        case MCPError():
            return one_line(mask(why.error.message), _LONGEST)
        case ValidationError():
            return one_line(_unread(why, mask), _LONGEST)
    if isinstance(why, RuntimeError):
        for beginning, meaning in _OF_THE_LIBRARY.items():
            if str(why).startswith(beginning):
                return meaning
    if said := next(_of_the_system(why), ""):
        return one_line(mask(f"{type(why).__name__}: {said}"), _LONGEST)
    return one_line(kind_and_place(why), _LONGEST)


def _unread(why: ValidationError, mask: Callable[[str], str]) -> str:
    """Where an answer is not as the protocol says, and how: pydantic's names of places and kinds."""
    if why.error_count() > _COUNTED:
        return f"its answer is none of the protocol, in {why.error_count():,} places"
    found = why.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{_where(one['loc'], mask)} ({one['type']})" for one in found[:_SHOWN]]
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"its answer is none of the protocol: {', '.join(shown)}{more}"


def _where(place: tuple[int | str, ...], mask: Callable[[str], str]) -> str:
    """A place may hold keys that the server chose."""
    parts = [str(part) if isinstance(part, int) else mask(part) for part in place]
    shown = [part if part.isdigit() or _NAME.fullmatch(part) else "…" for part in parts]
    return ".".join(shown) or "the whole"


def _of_the_system(why: BaseException | None) -> Iterator[str]:
    """What the operating system, or the check of a certificate, said of it or of its causes."""
    for _ in range(_ENDLESS):
        if why is None:
            return
        if isinstance(why, BaseExceptionGroup):
            why = why.exceptions[0]
        if isinstance(why, ssl.SSLCertVerificationError):
            yield f"its certificate is not good: {why.verify_message}"
        elif isinstance(why, ssl.SSLError):
            yield f"TLS: {why.reason}"
        elif isinstance(why, OSError) and why.errno:
            name = f": {why.filename}" if isinstance(why.filename, str) else ""
            yield (os.strerror(why.errno) if why.errno > 0 else str(why.strerror)) + name
        why = why.__cause__ or why.__context__
