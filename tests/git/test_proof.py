"""A host that sends something of its own, made so that git completes it with what only this clone has."""

from __future__ import annotations

import hashlib
import struct
import zlib
from pathlib import Path

import pytest

from cn.git.fetch import fetch_tips
from cn.git.process import Git
from cn.git.proof import LACKS
from cn.git.remote import is_of_host
from cn.git.repository import configured
from cn.git.told import of_peers
from cn.values.names import Name, Oid
from tests.support.hubs import clone, commit, git, git_bytes, tip, work

_KINDS, _DELTA = {"commit": 1, "tree": 2, "blob": 3}, 7
"""Kinds of entries of a pack (gitformat-pack(5))."""


class Host:
    """A repository whose upload-pack sends the pack that a test wrote, and a clone with a branch of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._sends = work(folder / "host", "mal"), folder / "sends.pack"
        commit(self.root, {"a": "a\n"}, "base")
        self.base = tip(self.root, "main")
        self.mine = clone(str(self.root), folder / "mine")
        git(self.mine, "update-ref", "refs/cn/origin/main", self.base)
        git(self.mine, "switch", "-q", "-c", "private")
        self.secret = commit(self.mine, {"secret": "the plan\n"}, "the plan")
        git(self.mine, "switch", "-q", "main")
        # It lists what a real one could not: for that it has it, and sends nothing but what the hook prints.
        git(self.root, "fetch", "-q", str(self.mine), "private")
        hook = folder / "hook"
        self.asked = folder / "asked"
        hook.write_text(f"#!/bin/sh\ncat >> {self.asked}\ncat {self._sends}\n")
        hook.chmod(0o755)
        settings = folder / "gitconfig"
        settings.write_text(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))

    def make(self, tree: str) -> str:
        """A commit of its own upon the base."""
        words = ("-c", "user.name=mal", "-c", "user.email=mal@example.org", "commit-tree", "-p", self.base, "-m", "c")
        return git(self.root, *words, tree)

    def fetched(self, pairs: dict[str, str], *entries: bytes, peer: str = "mal") -> str:
        """What comes of a fetch of these branches, answered with these entries of a pack: why not, or nothing."""
        for branch, oid in pairs.items():
            git(self.root, "update-ref", f"refs/heads/{branch}", oid)
        pack = b"PACK" + struct.pack(">II", 2, len(entries)) + b"".join(entries)
        self._sends.write_bytes(pack + hashlib.sha1(pack).digest())
        told = {"mal": of_peers("refs/cn/origin", [Name(peer)])}
        wanted = {"mal": (str(self.root), [(branch, Oid(oid)) for branch, oid in pairs.items()])}
        return fetch_tips(configured(Git(self.mine)), wanted, 30.0, told=told).get("mal", "")

    def whole(self, oid: str) -> bytes:
        """An object as it is."""
        data = self.data(oid)
        return _entry(_KINDS[git(self.root, "cat-file", "-t", oid)], len(data)) + zlib.compress(data)

    def data(self, oid: str) -> bytes:
        """The bytes of an object."""
        return git_bytes(self.root, "cat-file", git(self.root, "cat-file", "-t", oid), oid)

    def upon(self, oid: str, basis: str, size: int = 0) -> bytes:
        """A commit as a delta that takes nothing from its basis, and needs it all the same."""
        data = self.data(oid)
        delta = _size(size or len(self.data(basis))) + _size(len(data))
        for start in range(0, len(data), 127):
            piece = data[start : start + 127]
            delta += bytes([len(piece)]) + piece
        return _entry(_DELTA, len(delta)) + bytes.fromhex(basis) + zlib.compress(delta)


def _size(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _entry(kind: int, size: int) -> bytes:
    first, size = kind << 4 | size & 15, size >> 4
    return bytes([first | 0x80]) + _size(size) if size else bytes([first])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def is_here(host: Host, oid: str) -> bool:
    return git(host.mine, "cat-file", "--batch-check", stdin=f"{oid}\n".encode()).endswith("missing") is False


def test_what_the_host_made_itself_comes(host: Host) -> None:
    made = host.make(git(host.root, "rev-parse", f"{host.base}^{{tree}}"))
    assert host.fetched({"sigma/p1": made}, host.whole(made)) == ""
    assert is_here(host, made)


def test_a_delta_upon_what_the_host_is_known_to_have_comes(host: Host) -> None:
    older = host.base
    host.base = commit(host.root, {"b": "b\n"}, "more")
    git(host.root, "push", "-q", str(host.mine), f"{host.base}:refs/cn/origin/main")
    made = host.make(git(host.root, "rev-parse", f"{host.base}^{{tree}}"))
    assert host.fetched({"sigma/p1": made}, host.upon(made, older)) == "", "a commit far from where both part"
    assert is_here(host, made)


@pytest.mark.parametrize("listed", [True, False])
def test_a_delta_upon_a_private_commit_proves_nothing(host: Host, *, listed: bool) -> None:
    """git completes the pack with the commit that is here: it is in there as if it had come."""
    made = host.make(git(host.root, "rev-parse", f"{host.base}^{{tree}}"))
    pairs = {"sigma/p1": made} | ({"sigma/p0": host.secret} if listed else {})
    told = host.fetched(pairs, host.upon(made, host.secret))
    assert told.startswith(f"{LACKS}: {host.secret[:8]}")
    assert not is_here(host, made)


def test_a_host_is_asked_the_same_whatever_its_deltas_are_upon(host: Host) -> None:
    """Else it could guess what is here, and hear whether it was right."""
    made = host.make(git(host.root, "rev-parse", f"{host.base}^{{tree}}"))
    asked = []
    for basis in (host.secret, "1" * 40):
        told = host.fetched({"sigma/p1": made}, host.upon(made, basis, size=len(host.data(host.secret))))
        assert told
        assert not is_of_host(told)
        asked.append(host.asked.read_text())
        host.asked.unlink()
    assert asked[0] == asked[1]


def test_what_is_here_already_is_asked_for_all_the_same(host: Host, tmp_path: Path) -> None:
    """A person's push made it here: the host sends it, and whoever has nothing of it asks in the same words."""
    other = clone(str(host.root), tmp_path / "other")
    git(other, "update-ref", "refs/cn/origin/main", host.base)
    needed = git(host.root, "rev-list", "--objects", host.secret, f"^{host.base}").splitlines()
    entries = [host.whole(line.split(" ")[0]) for line in needed]
    asked = []
    for mine in (other, host.mine):
        host.mine = mine
        assert host.fetched({"sigma/p0": host.secret}, *entries) == ""
        asked.append(host.asked.read_text())
        host.asked.unlink()
    assert asked[0] == asked[1]
    assert host.secret in asked[0]


def test_a_tree_that_only_this_clone_has_is_in_no_commit_of_the_hosts(host: Host) -> None:
    made = host.make(git(host.root, "rev-parse", f"{host.secret}^{{tree}}"))
    assert host.fetched({"sigma/p1": made}, host.whole(made)).startswith(LACKS)
    assert not is_here(host, made)


def test_no_name_of_a_peer_speaks_for_a_commit(host: Host) -> None:
    """git reads ``x-g1234567`` as what git-describe(1) printed."""
    made = host.make(git(host.root, "rev-parse", f"{host.base}^{{tree}}"))
    peer = f"mal-g{host.secret[:7]}"
    told = host.fetched({"sigma/p0": host.secret, "sigma/p1": made}, host.whole(made), peer=peer)
    assert told.startswith(f"{LACKS}: {host.secret[:8]}")
