"""Where threads and mail lie (``docs/protocol/hub.md``), and the kinds of mail; small, because looking imports it."""

from __future__ import annotations

from cn.values.names import HubPath, ThreadName

INBOX = HubPath("threads/inbox")
DONE = HubPath("threads/inbox/done")
OUTBOX = HubPath("threads/mail/outbox")
SENT = HubPath("threads/mail/sent")
DRAFTS = HubPath("threads/drafts")
KEPT_BY_MAIN = "its words stay in main's history"
"""What is told of a draft that is taken back: it was committed here, and origin gets that commit."""
SAY = "-say.md"
"""How the name of a file ends that is to be said in a chat (:mod:`cn.protocol.outbox_entry`)."""
PROPOSAL, MESSAGE, NOTICE, CONCERN = "proposal", "message", "notice", "concern"
ACKED = "acked"


def returned_text(reviewer: str) -> str:
    """Why a thread that was put off, or assigned to this ``reviewer``, is to be decided again."""
    return f"{reviewer} is no reviewer any more" if reviewer else "deferred until now"


REPLIED = "replied"
"""The status of a branch that was answered by words."""
FINAL = ("merged", REPLIED, "opened", "delegated", ACKED, "done", "discarded")
"""The statuses of a notice that end a branch: its creator deletes it."""
TRIED = r"cn-check-[0-9a-f]{8}"
"""The topics of branches that only try whether they may be made; they go at once, and nobody reads them."""
REBASE_BEFORE_MERGE = "rebase-before-merge"
"""The rule whose refusal a rebase mends (:mod:`cn.protocol.rules`)."""
NOT_PUBLISHED = "in its history adds what is not published"
"""What the refusal of a branch says that would bring cn's own folders to a separate mailbox."""
NOT_ALL_NAMED = "files, not all of which"
"""What the refusal of a proposal says that changes more files than its thread names: parts of it help."""
TOO_MANY_COMMITS = "commits, more than the"
"""The same of one with more commits than cn checks the authors of: one commit of all helps too."""
SIGNATURE_POLICY = "signature-policy"
SIGNED_ANEW = "its creator pushes a new commit, signed"
"""What helps where nobody can tell who pushed a commit again that was there before."""
"""The rule that refuses what its peer's pinned key did not sign (:mod:`cn.outbox.told_again`)."""
SEEN_BEFORE = "seen-before"
"""The rule that refuses a commit under another name than its first (:mod:`cn.protocol.twins`)."""
COMMENTED = "commented"
MERGED_BEFORE = "✓ merged before"
"""What a merge has executed where main had the whole branch already."""
BRANCH_GONE = "the branch is not there any more (withdrawn, or deleted at the host)"
"""What is known of a branch of ours that is not listed: who took it away, nobody saw."""
BRANCH_LEFT = "the branch is not there any more (withdrawn, deleted at the host, or moved to what did not come in)"
"""The same of a proposal that waits here: its branch does not stand where its thread shows it."""
NOT_OURS = "it names no branch and head of ours"
"""What the log has of an answer about a commit that nobody here sent."""
IN_MAIN = "main already holds this"
END_IN_MAIN = "do:merge merges nothing more, ends the thread, and tells its creator that it is merged"
"""What is said of a proposal that was merged by somebody with git before it is decided, and what helps."""
NOT_FINAL = ("refused", "timed-out", "failed", "deferred", COMMENTED)
TO_MEND = ("refused", "failed")
"""Those after which the branch waits for its creator, and for nobody else."""


def inbox_path(name: ThreadName) -> HubPath:
    """Where a pending thread lies."""
    return HubPath(f"{INBOX}/{name}")


def done_path(name: ThreadName) -> HubPath:
    """Where a processed thread goes."""
    return HubPath(f"{DONE}/{name}")
