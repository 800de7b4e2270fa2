"""Where threads and mail lie in the hub (``docs/protocol/hub.md``); small, because looking imports it."""

from __future__ import annotations

from cn.values.names import HubPath, ThreadName

INBOX = HubPath("threads/inbox")
DONE = HubPath("threads/inbox/done")
OUTBOX = HubPath("threads/mail/outbox")
SENT = HubPath("threads/mail/sent")
SAY = "-say.md"
"""How the name of a file ends that is to be said in a chat (:mod:`cn.protocol.chat_reply`)."""


def inbox_path(name: ThreadName) -> HubPath:
    """Where a pending thread lies."""
    return HubPath(f"{INBOX}/{name}")


def done_path(name: ThreadName) -> HubPath:
    """Where a processed thread goes."""
    return HubPath(f"{DONE}/{name}")


def is_pending(path: str) -> bool:
    """Is this where a pending thread lies?"""
    return path.startswith(f"{INBOX}/") and not path.startswith(f"{DONE}/")
