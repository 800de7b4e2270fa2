"""Make repositories with GitPython; the only module that imports it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from cn.git.environment import users_environment
from cn.git.fast_import import FileChange, build_commit
from cn.git.objects import empty_tree
from cn.git.process import Git, remedy_here
from cn.git.repository import Hub, read_config
from cn.system.limits import BEYOND_ULIMIT
from cn.values.errors import Refused
from cn.values.names import HubPath, Oid
from cn.values.text import one_line


def create_repo(path: Path, main: str, settings: Mapping[str, str], *, private: bool = False) -> None:
    """``git init`` at ``path`` without templates or hooks; ``settings`` go to its own config.

    ``private``: a bare one, whose ids are SHA-1 and whose files have the modes of the umask, whatever the user's own
    configuration and environment choose for others (``core.sharedRepository``, ``GIT_DEFAULT_HASH``).
    """
    before = dict(os.environ)
    for name in before.keys() - users_environment().keys():
        del os.environ[name]  # GitPython reads some when it is imported, and hands all on
    try:
        import git

        words = {"bare": True, "object_format": "sha1", "shared": "umask"} if private else {}
        git.Git(path).init(initial_branch=main, env={"GIT_TEMPLATE_DIR": ""}, **words)
        with git.Repo(path, expand_vars=False) as repo, repo.config_writer() as config:
            for key, value in settings.items():
                section, _, option = key.rpartition(".")
                config.set_value(section, option, value)
    except (git.GitCommandError, OSError) as error:
        remedy = remedy_here(_reason(error)) or "check the path and its permissions"
        raise Refused(f"cannot make a repository in {path}: {_reason(error)}", remedy) from None
    finally:
        os.environ.update(before)


def _reason(error: Exception) -> str:
    """What git or the system says, without how GitPython frames it."""
    if getattr(error, "status", 0) == -signal.SIGXFSZ:
        return BEYOND_ULIMIT
    said = getattr(error, "stderr", "")
    return one_line(said.strip().removeprefix("stderr:").strip(" '")) if said else one_line(str(error))


def commit_first(path: Path, files: Mapping[HubPath, bytes], message: str, at: datetime) -> tuple[Hub, Oid]:
    """The first commit of the repository at ``path``: exactly ``files``, which stand there already.

    It is built from bytes, as every commit of cn: what a user's own git config ignores or converts
    (``core.excludesFile``, ``core.safecrlf``) does not matter. What came of it is read back.
    """
    git, git_dir = Git(path), path / ".git"
    hub = Hub(path, git_dir, git_dir, git._replace(config=read_config(git)))
    changes = [FileChange(name, data) for name, data in sorted(files.items())]
    head = build_commit(hub, base=empty_tree(git), parents=(), changes=changes, message=message, at=at)
    hub.git.run("update-ref", "-m", f"cn: {message}", f"refs/heads/{hub.main}", head, "")
    hub.git.run("read-tree", head)
    hub.git.run("update-index", "-q", "--refresh", check=False)
    listed = hub.git.run("ls-tree", "-r", "-z", "--name-only", f"refs/heads/{hub.main}").text
    if missing := set(files) - set(listed.split("\0")):
        raise Refused(f"the first commit lacks {', '.join(sorted(missing))}", "see 'git status' there")
    return hub, head
