"""Push pins and kept heads to ``origin``, so that they outlive this clone, while the run goes on."""

from __future__ import annotations

from collections.abc import Sequence

from cn.git.remote import OwnRefs
from cn.git.repository import Hub
from cn.run.memory import Memory
from cn.transaction.journal import RefUpdate
from cn.values.errors import Blocked, CnError
from cn.values.report import Report


class OwnRefsPush:
    """The push of one commit's refs: begun when origin has that, waited for before anything else is pushed.

    ``seconds`` is how long it may take. It goes on while the work tree is brought up to date: with 10,000
    pins that hides 1.5 s. That it fails stops nothing, and is told once.
    """

    def __init__(self, hub: Hub, memory: Memory, report: Report) -> None:
        self._hub, self._memory, self._report = hub, memory, report
        self._begun: OwnRefs | None = None
        self.seconds = 60.0

    def begin(self, refs: Sequence[RefUpdate]) -> None:
        """Origin has the commit that these belong to."""
        if not refs:
            return
        try:
            new = {ref.ref: ref.new for ref in refs}
            self._begun = OwnRefs(self._hub.git, "origin", new, self.seconds)
        except (CnError, OSError) as why:  # what stands in the way of the run itself says so
            self._tell(_reason(why))

    def end(self) -> None:
        """Wait until origin has them."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        try:
            reason = begun.end()
        except (CnError, OSError) as why:
            reason = _reason(why)
        if reason:
            self._tell(reason)

    def leave(self) -> None:
        """Somebody wants cn to end now."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.leave()

    def _tell(self, reason: str) -> None:
        told_before = not self._memory.tell_once("pins", reason)
        self._report.info(f"origin did not take cn's pins: {reason}", told_before=told_before)


def _reason(why: CnError | OSError) -> str:
    return why.text if isinstance(why, CnError) else Blocked.by_system(why).text
