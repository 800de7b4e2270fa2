"""The kinds of messages, and the statuses of a branch, as words."""

from __future__ import annotations

MESSAGE, NOTICE, CONCERN = "message", "notice", "concern"
FINAL = ("merged", "replied", "opened", "delegated", "acked", "done", "discarded")
"""The statuses of a notice that end a branch: its creator deletes it."""
NOT_FINAL = ("refused", "timed-out", "failed")
