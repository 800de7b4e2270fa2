"""``cn init``: create a hub from the template, with one commit on ``main``."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from cn.git.create import commit_first, create_repo
from cn.git.process import GitError
from cn.git.repository import check_place, find_hub, is_trusted
from cn.secrets.findings import refuse
from cn.secrets.scanner import Text, find_secrets
from cn.system.clock import now
from cn.system.extras import template_dir
from cn.values.errors import Refused
from cn.values.names import HubPath, Name
from cn.values.report import Report

_RENAMED = {"gitignore": ".gitignore", "gitattributes": ".gitattributes"}


def init(name: Name, path: Path, report: Report, *, signing_key: Path | None = None, dry_run: bool = False) -> None:
    """Make the hub ``name`` at ``path``: complete, or not at all."""
    path = path.absolute()
    check_place(path)
    if os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
        raise Refused(f"{path} exists and is not empty", "choose another --path")
    if (around := find_hub(path.parent)) is not None and is_trusted(around):
        raise Refused(f"{path} is inside the hub {around}", "choose a --path outside of it")
    if signing_key is not None and not signing_key.is_file():
        raise Refused(f"the signing key {signing_key} is no file", "make one with ssh-keygen, or leave it out")
    if refusal := refuse(find_secrets([Text("the name", (name,), 0)]), ()):
        raise Refused.by(refusal, "choose another name")
    files = _template(name)
    if dry_run:
        for target in files:
            report.plan(f"write {path / target}")
        report.plan(f"make a git repository on main with one commit at {path}")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".cn-init-", dir=path.parent) as scratch:
            fresh = Path(scratch) / "hub"
            for target, data in files.items():
                (fresh / target).parent.mkdir(parents=True, exist_ok=True)
                (fresh / target).write_bytes(data)
            settings = {"user.name": str(name), "user.email": f"{name}@cn.invalid"}
            if signing_key is not None:
                key = str(signing_key.absolute())
                settings |= {"gpg.format": "ssh", "user.signingKey": key, "cn.sign": "true"}
            create_repo(fresh, "main", settings)
            commit_first(fresh, files, f"Hub of {name}", now())
            if path.is_dir():  # an empty folder that was made for it, perhaps for one user alone
                fresh.chmod(stat.S_IMODE(path.stat().st_mode))
                path.rmdir()
            fresh.rename(path)
    except GitError as error:
        raise Refused(f"the first commit failed: {error.done.reason}", "check git and the signing key") from None
    except OSError as error:
        raise Refused(f"cannot make {path}: {error.strerror}", "check the path and its permissions") from None
    report.done(f"made the hub {name} at {path}")


def _template(name: Name) -> dict[HubPath, bytes]:
    """The template's files for this hub."""
    top = template_dir()
    files = {f.relative_to(top): f.read_text("utf-8") for f in sorted(top.rglob("*")) if f.is_file()}
    return {
        HubPath(path.with_name(_RENAMED.get(path.name, path.name)).as_posix()): text.replace("{{name}}", name).encode()
        for path, text in files.items()
    }
