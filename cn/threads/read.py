"""Read one thread of our own."""

from __future__ import annotations

from dataclasses import dataclass

from cn.protocol.own_thread import DONE_CONCERNS, Own, parse_own
from cn.run.view import View
from cn.threads.store import read_here
from cn.values.names import HubPath
from cn.values.text import decode


@dataclass(frozen=True)
class OwnDocument:
    """A thread of our own with its text as it lies here; ``committed``: main has the same bytes."""

    own: Own
    text: str
    committed: bool


def read_document(view: View, path: HubPath) -> OwnDocument | None:
    """The working copy, where HEAD is main, else what main has; None when neither is there."""
    main = view.snapshot.read(path)
    is_ours = view.on_main and not path.startswith(f"{DONE_CONCERNS}/")
    here = read_here(view.hub, path) if is_ours else None
    data = main if here is None else here
    if data is None:
        return None
    text = decode(data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n")
    return OwnDocument(parse_own(path, text), text, data == main)
