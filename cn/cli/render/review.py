"""What a review shows beside the threads: its keys, and what was written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cn.cli.render.text import clean, columns, cut, paint
from cn.views.words import after_end

if TYPE_CHECKING:
    from cn.actions.review import Written
    from cn.views.threads import ThreadView

KEYS = {
    "m": ("merge", "merge it; final"),
    "c": ("comment", "say something to its creator, at once; the thread stays"),
    "r": ("reply", "answer the message; final"),
    "f": ("defer", "put it off; it stays, its creator is told"),
    "g": ("delegate", "hand it to a peer (final), or assign it to a reviewer (it stays)"),
    "d": ("delete", "discard it; final"),
    "s": ("skip", "leave it as it is; the space bar and n do the same"),
    "e": ("edit", "open the thread in your editor; a ## Triage section in it decides"),
    "u": ("undo", "go back a step, and take out what it wrote"),
    "v": ("view", "show the thread again"),
    "q": ("quit", "leave; what is written stays"),
}
"""Key, name, and what it does."""
_STAYS, _ENDS, _EITHER, _MOVES = "cfs", "mrd", "ge", "uvq"
_FINAL = "Final: the thread ends, its creator is told and deletes the branch."


def choice_line(keys: Iterable[str], thread: ThreadView | None) -> str:
    """The keys that mean something now, by what becomes of the thread; without one those that only move."""
    named = {key: f"{paint(key, bold=True)}={KEYS[key][0]}" for key in keys}
    stays, ends, either, moves = (
        " ".join(named[key] for key in group if key in named) for group in (_STAYS, _ENDS, _EITHER, _MOVES)
    )
    if thread is None:
        return f"{moves} ?=help"
    shown = " ".join(f"{key}={KEYS[key][0]}" for key in _ENDS if key in named)
    room = max(8, columns() - len(f"final:    {shown}  ()"))
    gone = cut(after_end(thread), room)
    return f"it stays: {stays}\nfinal:    {ends}  ({gone})\neither:   {either}   {moves} ?=help"


def help_text(keys: Iterable[str]) -> str:
    """What each of these keys does."""
    return "\n".join([*(f"  {key}  {KEYS[key][0]:<9} {KEYS[key][1]}" for key in keys), f"  {_FINAL}"])


def written_line(written: Written) -> str:
    """A decision that stands in a thread, and whether it is final."""
    end = "final" if written.final else "it stays"
    return f"{clean(written.source)}: {clean(written.words, 120)} ({end})"
