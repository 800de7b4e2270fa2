"""Plain repositories built with real git, for every test.

Identity comes from the repository's own config (:func:`clone`, :func:`work`) or, where a
commit says so, from ``author``; dates are fixed unless told otherwise, so object ids are
the same in every run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support import forked
from tests.support.forked import ROOT as ROOT
from tests.support.printed_steps import short_refs

WHEN = "2026-02-05T12:00:00+0000"
"""The author and committer date of every commit that does not name another."""

Content = bytes | str | None
"""What a file holds; ``None`` removes it."""

_SECONDS = 120.0


def git(cwd: Path | str, *args: str, stdin: bytes | str | None = None, **env: str) -> str:
    """Run plain, unhardened ``git ARGS`` in ``cwd``; its standard output without the last line end."""
    return git_bytes(cwd, *args, stdin=stdin, **env).decode("utf-8", "surrogateescape").rstrip("\n")


def git_bytes(cwd: Path | str, *args: str, stdin: bytes | str | None = None, **env: str) -> bytes:
    """As :func:`git`, every byte of standard output."""
    done = try_git(cwd, *args, stdin=stdin, **env)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise AssertionError(_told(f"git {' '.join(args)} in {cwd} ended with {done.returncode}: {said}"))
    return done.stdout


def try_git(
    cwd: Path | str, *args: str, stdin: bytes | str | None = None, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """As :func:`git`, but whatever it answers is the answer."""
    dates = {"GIT_AUTHOR_DATE": WHEN, "GIT_COMMITTER_DATE": WHEN}
    return subprocess.run(
        ["git", *args],
        cwd=cwd,
        input=stdin.encode() if isinstance(stdin, str) else stdin or b"",
        env={**os.environ, **dates, **env},
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )


def bare(path: Path, branch: str = "main") -> Path:
    """A bare repository at ``path``, as a git host would keep it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    git(path.parent, "init", "--quiet", "--bare", "-b", branch, "--", str(path))
    return path


def work(path: Path, name: str = "", branch: str = "main") -> Path:
    """A repository with a work tree at ``path``, owned by ``name``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    git(path.parent, "init", "--quiet", "-b", branch, "--", str(path))
    if name:
        identify(path, name)
    return path


def clone(url: Path | str, path: Path, name: str = "", *, trusted: bool = False) -> Path:
    """A clone of ``url`` at ``path``, owned by ``name``; ``trusted``: as after ``cn trust --yes``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    git(path.parent, "clone", "--quiet", "--", str(url), str(path))
    if name:
        identify(path, name)
    if trusted:
        git(path, "update-ref", "refs/cn/trusted", "HEAD")
    return path


def identify(repo: Path, name: str, email: str = "") -> None:
    """Give the repository its own user, ``NAME <NAME@example.org>``."""
    git(repo, "config", "user.name", name)
    git(repo, "config", "user.email", email or f"{name}@example.org")


def commit(
    repo: Path,
    files: Mapping[str, Content],
    message: str = "change",
    author: str = "",
    when: str = WHEN,
    parents: Iterable[str] = (),
) -> str:
    """Write ``files`` into the work tree, commit exactly them, return the commit's id.

    ``author`` is ``"Name <email>"`` and stands for the committer too. ``parents`` adds
    further parents, as a merge that somebody resolved by hand has them.
    """
    for path, content in files.items():
        target = repo / path
        if content is None:
            target.unlink(missing_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    env = _identity(author, when)
    for extra in parents:
        (repo / ".git" / "MERGE_HEAD").write_text(extra + "\n")
    if files:
        git(repo, "add", "--all", "--force", "--", *files, GIT_LITERAL_PATHSPECS="1")
    git(repo, "commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", message, **env)
    return tip(repo)


def write_commit(
    repo: Path,
    files: Mapping[str, Content],
    message: str = "change",
    parents: Iterable[str] = (),
    author: str = "",
    when: str = WHEN,
    modes: Mapping[str, str] | None = None,
) -> str:
    """Build a commit from objects alone, on the first parent's tree; return its id.

    Works in a bare repository and touches neither refs nor files. ``modes`` overrides
    ``100644``: ``120000`` makes a symlink, ``160000`` a submodule (content: its commit).
    """
    parents = tuple(parents)
    scratch = git_dir(repo) / "test-index"
    env = {"GIT_INDEX_FILE": str(scratch)}
    git(repo, "read-tree", *(parents[:1] or ("--empty",)), **env)
    lines = []
    for path, content in files.items():
        mode = (modes or {}).get(path, "100644")
        if content is None:
            entry = f"0 {'0' * 40}\t{path}"
        elif mode == "160000":
            entry = f"{mode} {content if isinstance(content, str) else content.decode()}\t{path}"
        else:
            entry = f"{mode} {blob(repo, content)}\t{path}"
        lines.append(entry.encode("utf-8", "surrogateescape") + b"\0")
    git(repo, "update-index", "-z", "--add", "--replace", "--index-info", stdin=b"".join(lines), **env)
    tree = git(repo, "write-tree", "--missing-ok", **env)
    scratch.unlink()
    return commit_tree(repo, tree, message, parents, author, when)


def commit_tree(
    repo: Path, tree: str, message: str, parents: Iterable[str] = (), author: str = "", when: str = WHEN
) -> str:
    """A commit of a tree that is there already, whatever that tree holds."""
    words = [w for p in parents for w in ("-p", p)]
    return git(repo, "commit-tree", *words, tree, stdin=message.encode(), **_identity(author, when))


def add_header(repo: Path, commit: str, line: str) -> str:
    """The same commit with one more line behind its headers: what a signature covers stays, or not."""
    top, _, rest = git_bytes(repo, "cat-file", "commit", commit).partition(b"\n\n")
    return write_raw_commit(repo, top + b"\n" + line.encode() + b"\n\n" + rest)


def write_raw_commit(repo: Path, data: bytes) -> str:
    """Store a commit's bytes without any check."""
    return git(repo, "hash-object", "-t", "commit", "--literally", "-w", "--stdin", stdin=data)


def blob(repo: Path, content: bytes | str) -> str:
    """Store a blob, return its id."""
    data = content.encode() if isinstance(content, str) else content
    return git(repo, "hash-object", "-w", "--stdin", stdin=data)


def raw_tree(repo: Path, entries: Iterable[tuple[str, bytes, str]]) -> str:
    """Store a tree of ``(mode, name, id)`` without any check, as a hostile peer would."""
    data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
    return git(repo, "hash-object", "-t", "tree", "--literally", "-w", "--stdin", stdin=data)


def checkout(repo: Path, branch: str, start: str = "") -> None:
    """Check ``branch`` out; with ``start`` make it there first."""
    git(repo, "checkout", "--quiet", *(("-B", branch, start) if start else (branch,)))


def push(repo: Path, url: Path | str, *refspecs: str) -> None:
    """Push; a refspec that starts with ``+`` is forced, ``:branch`` deletes."""
    git(repo, "push", "--quiet", "--", str(url), *refspecs)


def force_push(repo: Path, url: Path | str, *refspecs: str) -> None:
    """Push whatever the remote has."""
    push(repo, url, *(r if r.startswith("+") else f"+{r}" for r in refspecs))


def fetch(repo: Path, url: Path | str, *refspecs: str) -> None:
    """Fetch."""
    git(repo, "fetch", "--quiet", "--", str(url), *refspecs)


def refs(url: Path | str, *patterns: str, cwd: Path | None = None) -> dict[str, str]:
    """Every ref of a remote or a repository by full name, ``HEAD`` and peeled tags left out."""
    text = git(cwd or Path.cwd(), "ls-remote", "--refs", "--", str(url), *patterns)
    return {name: oid for oid, _, name in (line.partition("\t") for line in text.splitlines())}


def branches(url: Path | str) -> dict[str, str]:
    """The branches of a remote by short name."""
    heads = "refs/heads/"
    return {n.removeprefix(heads): o for n, o in refs(url).items() if n.startswith(heads)}


def tip(repo: Path, ref: str = "HEAD") -> str:
    """The id of the commit that ``ref`` names."""
    return git(repo, "rev-parse", "--verify", "--end-of-options", ref + "^{commit}")


def read(repo: Path, spec: str) -> bytes:
    """The bytes of the object that ``spec`` (``main:README.md``) names."""
    return git_bytes(repo, "cat-file", "-p", spec)


def paths(repo: Path, ref: str = "HEAD") -> list[str]:
    """The paths in the tree of ``ref``."""
    return [p for p in git(repo, "ls-tree", "-r", "-z", "--name-only", ref).split("\0") if p]


def parents_of(repo: Path, ref: str = "HEAD") -> list[str]:
    """The parents of a commit."""
    return git(repo, "log", "-1", "--format=%P", ref, "--").split()


def git_dir(repo: Path) -> Path:
    """Where the repository keeps its git files."""
    return Path(git(repo, "rev-parse", "--absolute-git-dir"))


def make_ssh_key(path: Path, comment: str = "test") -> tuple[Path, str]:
    """A new ed25519 key without passphrase at ``path``: the private file, the public text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
        check=True,
        timeout=_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    return path, path.with_name(path.name + ".pub").read_text().strip()


def sign_with(repo: Path, private: Path) -> None:
    """Sign every further commit in ``repo`` with git's own SSH signing."""
    git(repo, "config", "gpg.format", "ssh")
    git(repo, "config", "user.signingKey", str(private))
    git(repo, "config", "commit.gpgSign", "true")


def cn(
    *args: str | Path,
    hub: Path | None = None,
    check: int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str = "",
    seconds: float = _SECONDS,
    started: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run the command ``cn`` as a process of its own.

    ``hub`` becomes ``--hub``; ``check`` is the exit code that must come. The process is forked from one
    that has imported cn already (``tests/support/forked.py``); with ``started`` it is one that a shell
    would start.
    """
    words = [str(a) for a in args]
    if hub is not None:
        words = ["--hub", str(hub), *words]
    inside = next((one for one in (hub, *args) if isinstance(one, Path) and (one / ".git").exists()), None)
    cwd = cwd or inside  # a step that is printed is about the folder that one is in, and short
    environment = cn_env(env)
    if started or not forked.can_fork(environment):
        done = subprocess.run(
            [sys.executable, "-m", "cn", *words],
            cwd=cwd or Path.cwd(),
            env=environment,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=seconds,
            check=False,
        )
    else:
        done = forked.run(words, cwd or Path.cwd(), environment, stdin, seconds)
    if short := [step for said in (done.stdout, done.stderr) for step in short_refs(said)]:
        raise AssertionError(_told(f"cn {' '.join(words)} prints a step with the short name of a ref: {short}"))
    if check is not None and done.returncode != check:
        raise AssertionError(
            _told(
                f"cn {' '.join(words)} ended with {done.returncode}, not {check}\n"
                f"--- stdout\n{done.stdout}--- stderr\n{done.stderr}"
            )
        )
    return done


def _told(text: str) -> str:
    """With undecodable bytes of paths made visible: pytest-xdist cannot carry them."""
    return text.encode("utf-8", "backslashreplace").decode()


def cn_env(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a ``cn`` process: this test's, with the checkout importable."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}


def _identity(author: str, when: str) -> dict[str, str]:
    env = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    if author:
        name, _, email = author.rstrip(">").partition(" <")
        env |= {f"GIT_{who}_NAME": name for who in ("AUTHOR", "COMMITTER")}
        env |= {f"GIT_{who}_EMAIL": email or f"{name}@example.org" for who in ("AUTHOR", "COMMITTER")}
    return env
