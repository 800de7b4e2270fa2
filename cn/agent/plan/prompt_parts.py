"""The parts of what is sent to a model for one item, with their sizes."""

from __future__ import annotations

from dataclasses import dataclass

from cn.llm.request import Request

STABLE, HUB, TAIL, CONVERSATION, ITEM = "stable", "hub", "tail", "conversation", "item"
PLACES = (STABLE, HUB, TAIL, CONVERSATION, ITEM)


@dataclass(frozen=True)
class Part:
    """One part of what is sent: ``place`` is one of :data:`PLACES`, ``path`` where it is from.

    ``left_out`` are the bytes that a limit cut off.
    """

    name: str
    place: str
    text: str
    path: str = ""
    left_out: int = 0

    @property
    def size(self) -> int:
        """UTF-8 bytes."""
        return len(self.text.encode())

    @property
    def tokens(self) -> int:
        """Estimated."""
        return estimate_tokens(self.text)


@dataclass(frozen=True)
class Packed:
    """The request for one item, and what it is made of, in order.

    ``missing`` are files that are not there, ``notes`` what else a person should know.
    """

    id: str
    sender: str
    parts: tuple[Part, ...]
    request: Request
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """UTF-8 bytes of all text in the request."""
        return sum(len(t.encode()) for t in texts_of(self.request))

    @property
    def tokens(self) -> int:
        """Estimated."""
        return sum(estimate_tokens(t) for t in texts_of(self.request))

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """Name and bytes of each part, in order, for the log of calls."""
        return tuple((part.name[:80], part.size) for part in self.parts)


def texts_of(request: Request) -> list[str]:
    """Every text of a request, in the order in which a model reads it."""
    return [b.text for b in request.system] + [m.text for m in request.messages]


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return estimate_bytes(len(text.encode("utf-8", "replace")))


def estimate_bytes(size: int) -> int:
    """The same for its length: one for 3.5 bytes of UTF-8, rounded up."""
    return -(-size * 2 // 7)


def cut(text: str, limit: int) -> tuple[str, int]:
    """The text within ``limit`` bytes, whole lines where there are any; and the bytes left out."""
    data = text.encode()
    if len(data) <= limit:
        return text, 0
    kept = data[:limit].decode("utf-8", "ignore")
    kept = kept.rpartition("\n")[0] or kept
    return kept, len(data) - len(kept.encode())


def cut_note(left: int) -> str:
    """What stands below a text that was cut."""
    return f"\n\n({left} bytes more are left out)" if left else ""
