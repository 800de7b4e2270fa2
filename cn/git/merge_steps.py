"""Merges that a person is told to type, as they work whatever that person's git is set to (git-config(1))."""

from __future__ import annotations

from cn.git.entries import in_the_way, read_changes, read_index
from cn.git.repository import Hub
from cn.values.names import Oid
from cn.values.shell_words import command
from cn.values.text import some_of


def pull_step(hub: Hub, ref: str) -> str:
    """The command that merges origin's branch; git names no default for diverged branches."""
    if _is_held(hub):
        return command("git pull --no-rebase --ff --no-verify-signatures origin {}", ref)
    return command("git pull --no-rebase origin {}", ref)


def merge_step(hub: Hub, what: str) -> str:
    """The command that merges a commit."""
    if _is_held(hub):
        return command("git merge --ff --no-verify-signatures {}", what)
    return command("git merge {}", what)


def _is_held(hub: Hub) -> bool:
    """Does git fast-forward alone here, or take signed commits alone (``merge.ff``, ``merge.verifySignatures``)?"""
    return hub.config.last("merge.ff").lower() == "only" or hub.config.is_true("merge.verifysignatures")


def first_moved(hub: Hub, local: Oid, tip: Oid) -> str:
    """What to do before such a merge of ``tip``: git writes over what it ignores, without a word. Empty: nothing."""
    if hub.apart:
        return ""
    index = read_index(hub.git)
    ways = {way for change in read_changes(hub.git, local, tip) if (way := in_the_way(hub.root, change, index))}
    if not ways:
        return ""
    them = "it, and would write over it" if len(ways) == 1 else "them, and would write over them"
    return f"first move {some_of(sorted(ways), 10, 200)} elsewhere: git does not track {them}; then "
