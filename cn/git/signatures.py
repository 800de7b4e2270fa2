"""Check signatures with git's own SSH signing (git-verify-commit(1), ssh-keygen(1) "ALLOWED SIGNERS")."""

from __future__ import annotations

import hashlib
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cn.git.encodings import encoding_of, is_readable, read_words
from cn.git.objects import ensure_not_killed, read_in_halves, read_info, read_raw
from cn.git.process import Git, GitConfig, GitError
from cn.git.repository import Hub
from cn.values.errors import CnError
from cn.values.names import Oid
from cn.values.text import one_line

# git takes the verifier from the signature, not from gpg.format: the others are switched off.
_SSH_ONLY = {"gpg.format": "ssh", "gpg.program": "false", "gpg.openpgp.program": "false", "gpg.x509.program": "false"}
_PLAIN = "%H%x00%an%x00%ae%x00"
_SIGNED = f"{_PLAIN}%G?%x00%GF%x00%GS%x00"
_KEYS = ("ssh-", "ecdsa-", "sk-")
_KEY_BYTES = 64 << 10
_HEADER = b"gpgsig"
_FORMS = tuple(f"-----BEGIN {form}-----".encode() for form in ("PGP SIGNATURE", "PGP MESSAGE", "SIGNED MESSAGE"))
_SSH_FORM = b"-----BEGIN SSH SIGNATURE-----"
"""How a signature begins. git ends over one that begins otherwise, whatever else it was asked (gpg-interface.c)."""
HEADER_BYTES = 16 << 10
"""Of a commit's header, but for its parents. An SSH signature has 300 bytes to 4 KiB."""
COMMIT_BYTES = 1 << 20
"""A longer commit is not read only to see whether it is signed. It has 20,000 parents, or a message of a book."""


class Signature(NamedTuple):
    """What git says of one commit.

    ``good`` means: signed by a key of the given list, ``broken``: the signature does not fit the commit. ``present``
    tells that there is some signature. ``signer`` is the name under which the key was listed. ``unknown``: whoever
    asks git for the signature gets no answer, since it has no form that git knows, or git itself ends over it.
    ``unread``: the commit is longer than is read for a signature, so whether it has one is not known. ``encoding`` is
    what its header names, where git shows no author of it (:mod:`cn.git.encodings`).
    """

    commit: Oid
    good: bool
    broken: bool
    present: bool
    fingerprint: str
    signer: str
    author: str
    email: str
    unknown: bool = False
    unread: bool = False
    encoding: str = ""

    @property
    def word(self) -> str:
        """The ``Signature:`` of a thread."""
        if self.good:
            return f"verified {self.fingerprint}"
        if self.unread:
            return "unread"
        return "bad" if self.broken else "unverified"

    @property
    def how(self) -> str:
        """How the commit is signed, where that is not as wanted, for a sentence: "the tip is …"."""
        if self.unread:
            return "longer than cn reads for a signature"
        if not self.present:
            return "not signed"
        if self.broken:
            return "changed since it was signed: its signature does not fit it"
        return f"signed with another key ({self.fingerprint or 'git names none'})"


def split_signatures(commit: bytes) -> tuple[bytes, list[bytes]]:
    """What of a commit a signature covers, and the headers of signatures, which it does not (git's commit.c).

    Whoever can push adds another header of a signature, or writes the same one otherwise: a new commit that says,
    and is signed, as before.
    """
    header, end, rest = commit.partition(b"\n\n")
    covered, signatures, within = list[bytes](), list[bytes](), False
    for line in header.split(b"\n"):
        within = line.startswith(_HEADER) or (within and line.startswith(b" "))
        if not within:
            covered.append(line)
        elif line.startswith(_HEADER):
            signatures.append(line)
        else:
            signatures[-1] += b"\n" + line[1:]
    return b"\n".join(covered) + end + rest, signatures


def signed_digest(commit: bytes) -> str:
    """A digest of what a commit's signature covers: the same for all the commits that can be made of one. Empty: it
    has no signature.
    """
    covered, signatures = split_signatures(commit)
    return hashlib.sha256(covered).hexdigest() if signatures else ""


def read_signatures(git: Git, commits: Sequence[str], keys: Mapping[str, str]) -> list[Signature]:
    """Check ``commits`` against ``keys`` (name → ``TYPE BASE64``), all in one to three git processes, in their order.

    git is asked only for signatures that it answers: of a form that it knows, and within :data:`HEADER_BYTES`, since
    the time of ssh-keygen grows with the square of their size. All others are bad, or unread.
    """
    headers = _read_headers(git, commits)
    fits, unknown = list[str](), set[str]()
    for commit, header in headers.items():
        if header is None:
            continue
        known = _is_known(header)
        (fits.append if known else unknown.add)(commit)
    with tempfile.TemporaryDirectory(prefix="cn-") as scratch:
        signers = Path(scratch) / "allowed_signers"
        signers.write_text("".join(f'{name} namespaces="git" {key}\n' for name, key in keys.items()))
        hardened = git.with_settings({"gpg.ssh.allowedSignersFile": str(signers), **_SSH_ONLY})

        def unanswered(commit: str, error: GitError) -> list[list[str]]:
            ensure_not_killed(error)
            if error.done.crashed:
                unknown.add(commit)
            return []  # it is read without its signature

        rows = read_in_halves(fits, lambda some: _log(hardened, some, _SIGNED), unanswered)
        found = {row[0]: row for row in rows}
    for row in read_in_halves(
        [c for c in headers if c not in found], lambda some: _log(git, some, _PLAIN, COMMIT_BYTES), _nobody
    ):
        found[row[0]] = [*row, "B", "", ""]
    return [
        _signature(found[commit], keys, header or b"")._replace(unknown=commit in unknown, unread=header is None)
        for commit, header in headers.items()
    ]


def _signature(row: Sequence[str], keys: Mapping[str, str], header: bytes) -> Signature:
    commit, author, email, mark, fingerprint, signer = row
    good = mark == "G" and signer in keys
    odd = "" if is_readable(encoding_of(header)) else encoding_of(header)
    if odd:
        author, email, *_ = read_words(header)
    return Signature(Oid(commit), good, mark == "B", mark != "N", fingerprint, signer, author, email, encoding=odd)


def _nobody(commit: str, error: GitError) -> list[list[str]]:
    """Nobody is told as the author where names are so long that nobody is called so."""
    ensure_not_killed(error)
    return [[commit, "", ""]]


def _log(git: Git, commits: Sequence[str], form: str, max_out: int | None = None) -> list[list[str]]:
    """Of each commit the fields of a pretty format (git-log(1)) that ends every field with NUL."""
    if not commits:
        return []
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    done = git.run(
        "log", "--no-walk=unsorted", f"--format={form}", "--no-color", "--stdin", stdin=asked, max_out=max_out
    )
    count = form.count("%x00")
    fields = [field.lstrip("\n") for field in done.out.decode("utf-8", "replace").split("\0")]
    return [fields[i : i + count] for i in range(0, len(fields) - count, count)]


def _read_headers(git: Git, commits: Sequence[str]) -> dict[str, bytes | None]:
    """The header of each commit, where a signature stands; None: it holds more than any that is meant to be read."""
    unique = list(dict.fromkeys(commits))
    infos = zip(unique, read_info(git, unique), strict=True)
    small = [commit for commit, info in infos if info is not None and info.size <= COMMIT_BYTES]
    headers: dict[str, bytes | None] = dict.fromkeys(unique)
    for commit, found in zip(small, read_raw(git, small), strict=True):
        header = found.data.partition(b"\n\n")[0] if found else b""
        parents = sum(len(line) + 1 for line in header.split(b"\n") if line.startswith(b"parent "))
        headers[commit] = header if len(header) - parents <= HEADER_BYTES else None
    return headers


def _is_known(header: bytes) -> bool:
    """Do all signatures of a commit begin as one that git knows?"""
    signatures = (text.partition(b" ")[2] for text in split_signatures(header)[1])
    return all(text.startswith((_SSH_FORM, *_FORMS)) for text in signatures)


class KeyRefused(CnError):
    """A ``user.signingKey`` with which git cannot sign."""


def is_literal(key: str) -> bool:
    """Is it the public key itself, whose private one an ssh-agent has (git-config(1), ``user.signingKey``)?"""
    return key.removeprefix("key::").startswith(_KEYS)


def read_key(value: str) -> str:
    """The public key of a ``user.signingKey``, as ``TYPE BASE64``; empty for a private key alone, which signs too.

    Raises :class:`KeyRefused`.
    """
    if is_literal(value):
        texts = [value.removeprefix("key::")]
    else:
        path = Path(value).expanduser()
        texts = [_read_file(path)]
        with suppress(KeyRefused):
            texts += [_read_file(path.with_name(f"{path.name}.pub"))]
    words = next((text.split() for text in texts if text.startswith(_KEYS)), [])
    if len(words) < 2 and "PRIVATE KEY" not in texts[0].partition("\n")[0]:
        raise KeyRefused(f"{one_line(value, 80)} is no SSH key", "name a key made with ssh-keygen")
    return " ".join(words[:2])


def _read_file(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise KeyRefused(f"the signing key {path} is no file", "name a key made with ssh-keygen")
        with path.open("rb") as file:
            return file.read(_KEY_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        restore = "restore the file, or 'cn sign KEY' names another"
        raise KeyRefused(f"the signing key {path} is missing", restore) from None
    except OSError as why:
        text = f"the signing key {path} cannot be read: {why.strerror}"
        alone = "a private key is its owner's alone, and stays so"
        raise KeyRefused(text, f"{alone}: in a clone of your own, 'cn sign KEY' names yours") from None


def own_key(config: GitConfig) -> str:
    """The public key this hub signs with, as ``TYPE BASE64``; empty when it is not an SSH key."""
    with suppress(KeyRefused):
        return read_key(config.last("user.signingkey").strip())
    return ""


def lacks_our_key(hub: Hub, commit: Oid) -> str:
    """How a commit is signed, where this hub signs and that is not by its own key; else empty."""
    key = own_key(hub.config) if hub.signs else ""
    if not key:
        return ""
    (found,) = read_signatures(hub.git, [commit], {"us": key})
    return "" if found.good else found.how


def signing_settings(key: str) -> dict[str, str]:
    """git's settings by which a repository signs with this key, and cn's that it does; the last one switches it on."""
    return {"gpg.format": "ssh", "user.signingKey": key, "cn.sign": "true"}


def commit_settings(key: str) -> dict[str, str]:
    """git's settings by which ``git commit`` signs with this key in a clone that is no hub (git-config(1))."""
    return {"gpg.format": "ssh", "user.signingKey": key, "commit.gpgSign": "true"}


def why_unsigned(config: GitConfig) -> tuple[str, str]:
    """What keeps commits from being signed with SSH, and what helps; each empty where the settings do not tell."""
    key = config.last("user.signingkey").strip()
    if (config.last("gpg.format") or "openpgp") != "ssh" or (not key and config.last("gpg.ssh.defaultkeycommand")):
        return "", ""
    if not key:
        return "signing is on, but user.signingKey is not set", "'cn sign KEY', or turn cn.sign and commit.gpgSign off"
    try:
        read_key(key)
    except KeyRefused as why:
        return why.text, why.hint
    if is_literal(key):
        return (
            "",
            "the ssh-agent must have its private key ('ssh-add -l'); cron has no agent: 'cn sign FILE' needs none",
        )
    return "", ""
