"""Signatures: what counts is an SSH key of the given list, by git's own check."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from cn.git.process import Git, GitError
from cn.git.read_branches import is_signed, read_commits
from cn.git.repository import read_config
from cn.git.signatures import (
    COMMIT_BYTES,
    HEADER_BYTES,
    Signature,
    own_key,
    read_signatures,
    signed_digest,
    split_signatures,
)
from cn.protocol.rules import signed_merge
from cn.values.names import Oid
from tests.support.hubs import add_header, commit, git, make_ssh_key, sign_with, tip, work


def public(text: str) -> str:
    return " ".join(text.split()[:2])


def check(repo: Path, keys: dict[str, str]) -> Signature:
    (found,) = read_signatures(Git(repo), [tip(repo)], keys)
    assert looks_signed(repo) or not found.present
    return found


def looks_signed(repo: Path) -> bool:
    """Is git to be asked for the signature of the tip?"""
    (data,) = read_commits(Git(repo), [Oid(tip(repo))]).values()
    return is_signed(data)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return work(tmp_path / "repo", "pi")


def test_only_the_listed_key_is_good(repo: Path, tmp_path: Path) -> None:
    private, text = make_ssh_key(tmp_path / "pi")
    _, other = make_ssh_key(tmp_path / "rho")
    sign_with(repo, private)
    commit(repo, {"f": "x"}, "signed")
    good = check(repo, {"pi": public(text)})
    assert (good.good, good.signer, good.word[:16]) == (True, "pi", "verified SHA256:")
    for keys in ({}, {"rho": public(other)}):
        wrong = check(repo, keys)
        assert (wrong.good, wrong.present, wrong.word) == (False, True, "unverified")
    assert own_key(read_config(Git(repo))) == public(text)


def test_an_unsigned_commit_is_not_good(repo: Path) -> None:
    commit(repo, {"f": "x"}, "plain")
    found = check(repo, {})
    assert (found.good, found.present, found.word) == (False, False, "unverified")
    assert not looks_signed(repo)


def test_a_signature_moved_to_another_commit_is_bad(repo: Path, tmp_path: Path) -> None:
    private, text = make_ssh_key(tmp_path / "pi")
    sign_with(repo, private)
    commit(repo, {"f": "x"}, "signed")
    forged = git(repo, "cat-file", "commit", "HEAD").replace("\n\nsigned", "\n\nforged") + "\n"
    oid = Oid(git(repo, "hash-object", "-t", "commit", "-w", "--stdin", stdin=forged))
    (found,) = read_signatures(Git(repo), [oid], {"pi": public(text)})
    assert (found.good, found.word) == (False, "bad")


@pytest.mark.parametrize("size", [HEADER_BYTES + 1, 3 * COMMIT_BYTES])
def test_a_huge_signature_is_bad_and_nobody_is_asked(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    private, text = make_ssh_key(tmp_path / "pi")
    sign_with(repo, private)
    commit(repo, {"f": "x"}, "signed")
    good = Oid(tip(repo))
    line = "A" * 70
    blown = git(repo, "cat-file", "commit", "HEAD").replace(
        "-----END SSH SIGNATURE", f"{line}\n " * (size // 72) + "\n -----END SSH SIGNATURE", 1
    )
    oid = Oid(git(repo, "hash-object", "-t", "commit", "-w", "--stdin", stdin=blown + "\n"))
    asked = tmp_path / "asked"
    tool = tmp_path / "bin" / "ssh-keygen"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho x >> {asked}\nexec {shutil.which("ssh-keygen")} "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    found = {s.commit: s for s in read_signatures(Git(repo), [oid], {"pi": public(text)})}
    assert (found[oid].good, found[oid].present, found[oid].word) == (False, True, "unread")
    assert (found[oid].author, found[oid].email) == ("pi", "pi@example.org")
    assert not asked.exists()
    both = {s.commit: s for s in read_signatures(Git(repo), [oid, good], {"pi": public(text)})}
    assert (both[oid].word, both[good].good) == ("unread", True)
    assert asked.exists()


def test_an_author_of_megabytes_is_nobody_and_others_are_told(repo: Path) -> None:
    commit(repo, {"f": "x"}, "plain")
    plain = git(repo, "cat-file", "commit", "HEAD")
    made = {
        name: Oid(git(repo, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=text + "\n"))
        for name, text in (
            ("long", plain.replace("author pi", "author " + "a" * (2 * COMMIT_BYTES), 1)),
            ("padded", plain.replace("\n\n", "\nx-pad " + "b" * (2 * HEADER_BYTES) + "\n\n", 1)),
        )
    }
    found = {s.commit: s for s in read_signatures(Git(repo), list(made.values()), {})}
    assert (found[made["long"]].author, found[made["long"]].email) == ("", "")
    assert (found[made["padded"]].author, found[made["padded"]].email) == ("pi", "pi@example.org")
    assert {s.word for s in found.values()} == {"unread"}


def test_a_commit_with_any_number_of_parents_is_judged_for_what_it_is(repo: Path) -> None:
    commit(repo, {"f": "x"}, "plain")
    plain = git(repo, "cat-file", "commit", "HEAD") + "\n"
    parent = f"parent {tip(repo)}\n"
    made = [
        Oid(git(repo, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=text))
        for text in (plain.replace("author pi", f"{parent * count}author pi", 1) for count in (600, 30_001))
    ]
    few, many = read_signatures(Git(repo), made, {})
    assert (few.word, few.present) == ("unverified", False)
    assert many.word == "unread"
    refusal = signed_merge(many.word, required=False)
    assert refusal is not None
    assert "longer than cn reads" in refusal.reason
    assert signed_merge(few.word, required=False) is None


FORMS = [
    "gpgsig x",
    "gpgsig ",
    "gpgsig -----BEGIN",
    "gpgsig \\0",
    "gpgsig -----BEGIN SSH SIGNATURE-----",
    "gpgsig-sha256 1",
]


@pytest.mark.parametrize("header", FORMS)
def test_a_signature_of_any_form_is_judged_and_keeps_no_other_from_it(repo: Path, tmp_path: Path, header: str) -> None:
    private, text = make_ssh_key(tmp_path / "pi")
    sign_with(repo, private)
    commit(repo, {"f": "x"}, "signed")
    good = Oid(tip(repo))
    git(repo, "commit", "--quiet", "--allow-empty", "--no-gpg-sign", "-m", "plain")
    odd = Oid(add_header(repo, "HEAD", header.replace("\\0", "\0")))
    both = read_signatures(Git(repo), [odd, good], {"pi": public(text)})
    assert [(s.commit, s.good, s.present, s.author) for s in both] == [
        (odd, False, True, "pi"),
        (good, True, True, "pi"),
    ]
    assert both[0].unknown == ("SSH" not in header)
    assert not both[1].unknown


def test_a_verifier_that_reads_nothing_of_a_long_commit_is_an_answer(repo: Path, tmp_path: Path) -> None:
    """ssh-keygen ends over such a signature before it reads the commit, and git by SIGPIPE with it."""
    private, text = make_ssh_key(tmp_path / "pi")
    sign_with(repo, private)
    commit(repo, {"f": "x"}, "signed")
    good = Oid(tip(repo))
    message = tmp_path / "message"
    message.write_text("a word\n" * 100_000)
    git(repo, "commit", "--quiet", "--allow-empty", "--no-gpg-sign", "-F", str(message))
    odd = Oid(add_header(repo, "HEAD", FORMS[4]))
    both = read_signatures(Git(repo), [odd, good], {"pi": public(text)})
    assert [(s.word, s.good, s.unknown) for s in both] == [("bad", False, True), (both[1].word, True, False)]


def test_a_git_that_is_killed_has_judged_nothing(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repo, {"f": "x"}, "plain")
    tool = tmp_path / "bin" / "git"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\ncase "$*" in *--no-walk*) kill -9 $$; esac\nexec {shutil.which("git")} "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(GitError):
        read_signatures(Git(repo), [tip(repo)], {})


@pytest.mark.parametrize("header", ["gpgsig-sha256 1", "gpgsigx\n a\n b", "gpgsig -----BEGIN SSH SIGNATURE-----\n x"])
def test_what_a_signature_covers_is_the_same_under_any_further_signature(
    repo: Path, tmp_path: Path, header: str
) -> None:
    private, _ = make_ssh_key(tmp_path / "pi")
    sign_with(repo, private)
    commit(repo, {"f": "x"}, "signed")
    (one,) = read_commits(Git(repo), [Oid(tip(repo))]).values()
    (other,) = read_commits(Git(repo), [Oid(add_header(repo, "HEAD", header))]).values()
    blank = one.replace(b"SIGNATURE-----\n ", b"SIGNATURE-----\n \n ", 1)
    assert blank != one != other
    assert signed_digest(one) == signed_digest(other) == signed_digest(blank) != ""
    assert signed_digest(one) != signed_digest(one.replace(b"signed\n", b"signe\n"))
    assert signed_digest(one) != signed_digest(one.replace(b"\n\n", b"\nodd x\n\n", 1))
    assert signed_digest(split_signatures(one)[0]) == "", "one without a signature has none to be moved"


@pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")
def test_an_openpgp_signature_never_counts(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """git takes the verifier from the signature: a key that the user's gpg trusts is no pinned key."""
    home = Path(tempfile.mkdtemp(prefix="cn-"))  # gpg's agent has a socket in it: 107 bytes at most (unix(7))
    request.addfinalizer(lambda: shutil.rmtree(home, ignore_errors=True))
    monkeypatch.setenv("GNUPGHOME", str(home))
    env = dict(os.environ)
    who = "rho <rho@example.org>"
    make = ["gpg", "--batch", "--passphrase", "", "--quick-generate-key", who, "ed25519", "sign"]
    subprocess.run(make, env=env, check=True, capture_output=True, timeout=60)
    settings = ("-c", "gpg.format=openpgp", "-c", "user.signingkey=rho@example.org")
    git(repo, *settings, "commit", "--allow-empty", "--quiet", "-S", "-m", "x")
    assert git(repo, "log", "-1", "--format=%G?") in ("G", "U"), "the user's gpg takes it"
    _, text = make_ssh_key(tmp_path / "pi")
    assert not check(repo, {"pi": public(text)}).good
    subprocess.run(["gpgconf", "--kill", "all"], env=env, check=False, capture_output=True, timeout=60)
