"""Make repositories with GitPython; the only module that imports it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cn.git.process import Git
from cn.values.errors import Refused


def create_repo(path: Path, main: str, settings: Mapping[str, str]) -> None:
    """``git init`` at ``path`` without templates or hooks; ``settings`` go to its own config."""
    from git import GitCommandError, Repo

    try:
        repo = Repo.init(path, initial_branch=main, env={"GIT_TEMPLATE_DIR": ""})
        with repo, repo.config_writer() as config:
            for key, value in settings.items():
                section, _, option = key.rpartition(".")
                config.set_value(section, option, value)
    except (GitCommandError, OSError) as error:
        raise Refused(
            f"cannot make a repository in {path}: {error}", "check the path and its permissions"
        ) from None


def commit_all(path: Path, message: str, *, sign: bool) -> None:
    """The first commit: everything that is there, hooks not run."""
    git = Git(path)
    git.run("add", "--all")
    flags = ["--gpg-sign"] if sign else []
    git.run("commit", "--quiet", "--no-verify", *flags, "-m", message)
