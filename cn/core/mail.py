"""Where mail lies in the hub (DESIGN 4), without what stands in it: who only looks imports little."""

from __future__ import annotations

from cn.core.names import HubPath

OUTBOX = HubPath("threads/mail/outbox")
SENT = HubPath("threads/mail/sent")
SAY = "-say.md"
"""How the name of a file ends that is to be said in a chat (:mod:`cn.core.say`)."""
