"""``cn init``: create a hub from the template, with one commit on ``main``."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from cn.git.create import commit_first, create_repo
from cn.git.process import GitError
from cn.git.repository import check_place, find_hub
from cn.secrets.findings import Text, refuse
from cn.secrets.scanner import find_secrets
from cn.system.clock import now
from cn.system.template import template_dir
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
    if (around := find_hub(path.parent)) is not None:
        raise Refused(f"{path} is inside the hub {around}", "choose a --path outside of it")
    if signing_key is not None and not signing_key.is_file():
        raise Refused(f"the signing key {signing_key} is no file", "make one with ssh-keygen, or leave it out")
    if refusal := refuse(find_secrets([Text("the name", (name,), 0)]), ()):
        raise Refused.by(refusal, "choose another name")
    source = template_dir()
    if dry_run:
        for file in sorted(p for p in source.rglob("*") if p.is_file()):
            report.plan(f"write {path / _target(file.relative_to(source))}")
        report.plan(f"make a git repository on main with one commit at {path}")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".cn-init-", dir=path.parent) as scratch:
            fresh = Path(scratch) / "hub"
            files = _copy(source, fresh, name)
            create_repo(fresh, "main", _settings(name, signing_key))
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


def _settings(name: Name, signing_key: Path | None) -> dict[str, str]:
    settings = {"user.name": str(name), "user.email": f"{name}@cn.invalid"}
    if signing_key is not None:
        settings |= {"gpg.format": "ssh", "user.signingKey": str(signing_key.absolute()), "cn.sign": "true"}
    return settings


def _target(relative: Path) -> Path:
    return relative.with_name(_RENAMED.get(relative.name, relative.name))


def _copy(source: Path, target: Path, name: Name) -> dict[HubPath, bytes]:
    """The template's files for this hub, written to ``target``; what was written."""
    files: dict[HubPath, bytes] = {}
    for file in sorted(p for p in source.rglob("*") if p.is_file()):
        path = _target(file.relative_to(source))
        data = file.read_text("utf-8").replace("{{name}}", name).encode()
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(data)
        files[HubPath(path.as_posix())] = data
    return files
