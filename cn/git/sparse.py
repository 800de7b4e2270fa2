"""Files that a sparse checkout leaves out of the work tree (git-sparse-checkout(1)): missing, and nobody's change."""

from __future__ import annotations

from cn.git.process import GitConfig
from cn.git.repository import Hub
from cn.values.shell_words import command


def is_sparse(config: GitConfig) -> bool:
    """Does this work tree show some of its files alone?"""
    return config.last("core.sparsecheckout") in ("true", "yes", "on", "1")


def bring_back(hub: Hub, path: str, *, anywhere: bool = False) -> str:
    """The command that brings a file of main back into the work tree: 'git checkout' finds none that is left out.

    ``anywhere``: whatever folder it is typed in.
    """
    folder = path.rpartition("/")[0] or path
    if anywhere:
        if is_sparse(hub.config):
            return command("git -C {} sparse-checkout add {}", str(hub.root), folder)
        return command("git -C {} checkout {} -- {}", str(hub.root), hub.main_ref, path)
    if is_sparse(hub.config):
        return command("git sparse-checkout add {}", folder)
    return command("git checkout {} -- {}", hub.main_ref, path)
