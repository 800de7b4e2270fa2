"""Check signatures with git's own SSH signing (git-verify-commit(1), ssh-keygen(1) "ALLOWED SIGNERS")."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cn.git.config import GitConfig
from cn.git.process import Git
from cn.values.names import Oid

# git takes the verifier from the signature, not from gpg.format: the others are switched off.
_SSH_ONLY = {
    "gpg.format": "ssh",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
}
_FORMAT = "--format=%H%x00%G?%x00%GF%x00%GS%x00%an%x00%ae"


class Signature(NamedTuple):
    """What git says of one commit.

    ``good`` means: signed by a key of the given list, ``broken``: the signature does not fit
    the commit. ``present`` tells that there is some
    signature. ``signer`` is the name under which the key was listed.
    """

    commit: Oid
    good: bool
    broken: bool
    present: bool
    fingerprint: str
    signer: str
    author: str
    email: str

    @property
    def word(self) -> str:
        """The ``Signature:`` of a thread."""
        if self.good:
            return f"verified {self.fingerprint}"
        return "bad" if self.broken else "unverified"


def read_signatures(
    git: Git, commits: Sequence[str], keys: Mapping[str, str], *, walk: bool = False
) -> list[Signature]:
    """Check ``commits`` against ``keys`` (name → ``TYPE BASE64``) in one git process.

    With ``walk`` the arguments are revision ranges. Unsigned commits cost nothing more;
    each signed one is checked by ssh-keygen.
    """
    with tempfile.TemporaryDirectory(prefix="cn-") as scratch:
        signers = Path(scratch) / "allowed_signers"
        signers.write_text("".join(f'{name} namespaces="git" {key}\n' for name, key in keys.items()))
        hardened = git.with_settings({"gpg.ssh.allowedSignersFile": str(signers), **_SSH_ONLY})
        flags = () if walk else ("--no-walk=unsorted",)
        done = hardened.run(
            "log", *flags, "-z", _FORMAT, "--no-color", "--stdin", stdin="\n".join(commits).encode() + b"\n"
        )
    rows = done.out.decode("utf-8", "replace").split("\0")
    found = []
    for i in range(0, len(rows) - 5, 6):
        commit, mark, fingerprint, signer, author, email = rows[i : i + 6]
        found.append(
            Signature(
                Oid(commit.strip()),
                mark == "G" and signer in keys,
                mark == "B",
                mark != "N",
                fingerprint,
                signer,
                author,
                email,
            )
        )
    return found


def own_key(config: GitConfig) -> str:
    """The public key this hub signs with, as ``TYPE BASE64``; empty when it is not an SSH key."""
    value = config.last("user.signingkey").strip()
    text = value.removeprefix("key::")
    if value and not text.startswith(("ssh-", "ecdsa-", "sk-")):
        path = Path(value).expanduser()
        for candidate in (path, path.with_name(path.name + ".pub")):
            try:
                text = candidate.read_text("utf-8", "replace")
            except OSError:
                continue
            if text.startswith(("ssh-", "ecdsa-", "sk-")):
                break
    words = text.split()
    return " ".join(words[:2]) if len(words) >= 2 and words[0].startswith(("ssh-", "ecdsa-", "sk-")) else ""
