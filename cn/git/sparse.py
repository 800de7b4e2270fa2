"""Files that a sparse checkout leaves out of the work tree (git-sparse-checkout(1)): missing, and nobody's change."""

from __future__ import annotations

from cn.git.process import GitConfig
from cn.values.shell_words import command


def is_sparse(config: GitConfig) -> bool:
    """Does this work tree show some of its files alone?"""
    return config.last("core.sparsecheckout") in ("true", "yes", "on", "1")


def bring_back(config: GitConfig, main: str, path: str) -> str:
    """The command that brings a file of main back into the work tree: 'git checkout' finds none that is left out."""
    if not is_sparse(config):
        return command("git checkout {} -- {}", main, path)
    folder, _, _ = path.rpartition("/")
    return command("git sparse-checkout add {}", folder or path)
