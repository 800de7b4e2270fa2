"""Building commits from objects: tree, parents, identity, signature, and nothing else touched."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.git.fast_import import CommitStream, EntryChange, FileChange, build_commit
from cn.git.objects import unreadable
from cn.git.repository import Hub, open_hub
from cn.values.errors import Blocked
from cn.values.names import HubPath, Oid
from tests.support.growth import assert_cost_grows_as_size
from tests.support.hubs import commit, git, make_ssh_key, read, sign_with, tip, try_git, work, write_commit

AT = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


@pytest.fixture(params=["sha1", "sha256"])
def hub(tmp_path: Path, request: pytest.FixtureRequest) -> Hub:
    root = tmp_path / "hub"
    git(tmp_path, "init", "-q", "-b", "main", f"--object-format={request.param}", str(root))
    git(root, "config", "user.name", "sigma")
    git(root, "config", "user.email", "sigma@example.org")
    commit(root, {".cn/hub.yaml": "name: sigma\n", "a/b": "1", "a/c": "2", "d": "3"})
    return open_hub(root)


def make(hub: Hub, *changes: FileChange | EntryChange, **more: object) -> Oid:
    base = Oid(tip(hub.root))
    words = {"base": base, "parents": (base,), "message": "m", "at": AT, **more}
    return build_commit(hub, changes=changes, **words)  # type: ignore[arg-type]


def listing(hub: Hub, oid: str) -> list[str]:
    return git(hub.root, "ls-tree", "-r", "--name-only", oid).split("\n")


def test_tree_parents_and_identity(hub: Hub) -> None:
    oid = make(
        hub,
        FileChange(HubPath("new/x.md"), b"hello\n"),
        FileChange(HubPath("a/b"), None),
        FileChange(HubPath("run.sh"), b"#!/bin/sh\n", "100755"),
        message="say\n\nwhy",
    )
    assert listing(hub, oid) == [".cn/hub.yaml", "a/c", "d", "new/x.md", "run.sh"]
    assert read(hub.root, f"{oid}:new/x.md") == b"hello\n"
    assert git(hub.root, "ls-tree", oid, "run.sh").startswith("100755 ")
    shown = git(hub.root, "log", "-1", "--format=%an <%ae> %aI %cn <%ce> %cI %P %B", "--date=iso", oid)
    who = "sigma <sigma@example.org> 2026-02-05T14:30:00+00:00"
    assert shown == f"{who} {who} {tip(hub.root)} say\n\nwhy"


def test_no_ref_index_or_file_is_touched(hub: Hub) -> None:
    before = (git(hub.root, "for-each-ref"), (hub.root / ".git/index").read_bytes(), git(hub.root, "reflog", "--all"))
    make(hub, FileChange(HubPath("x"), b"x"))
    after = (git(hub.root, "for-each-ref"), (hub.root / ".git/index").read_bytes(), git(hub.root, "reflog", "--all"))
    assert before == after
    assert git(hub.root, "status", "--porcelain") == ""


def test_nothing_changed_is_the_base_itself(hub: Hub) -> None:
    assert make(hub) == tip(hub.root)
    assert make(hub, FileChange(HubPath("d"), b"3"), FileChange(HubPath("none"), None)) == tip(hub.root)


def test_a_merge_keeps_its_parents_even_without_a_change(hub: Hub) -> None:
    base = Oid(tip(hub.root))
    side = make(hub, FileChange(HubPath("side"), b"x"))
    merged = build_commit(hub, base=base, parents=(side, base), changes=(), message="m", at=AT)
    assert git(hub.root, "log", "-1", "--format=%P", merged).split() == [side, base]
    assert listing(hub, merged) == listing(hub, base)


def test_a_file_gives_way_to_a_folder_and_back(hub: Hub) -> None:
    one = make(hub, FileChange(HubPath("d/x"), b"x"), FileChange(HubPath("d"), None))
    assert "d/x" in listing(hub, one)
    two = make(hub, FileChange(HubPath("a"), b"x"), FileChange(HubPath("a/b"), None), FileChange(HubPath("a/c"), None))
    assert listing(hub, two) == [".cn/hub.yaml", "a", "d"]


@pytest.mark.parametrize("name", ['a "b" \\c', "new\nline", " lead", "ümlaut/ñ", "-x", "trail ", "tab\t"])
def test_any_path_that_git_can_hold(hub: Hub, name: str) -> None:
    oid = make(hub, FileChange(HubPath(name), b"x"))
    assert name in git(hub.root, "ls-tree", "-r", "-z", "--name-only", oid).split("\0")


def test_content_and_message_are_bytes_as_they_are(hub: Hub) -> None:
    git(hub.root, "config", "core.autocrlf", "true")
    git(hub.root, "config", "i18n.commitEncoding", "ISO-8859-1")
    data = b"a\r\nb\0\xff\ndone\nM 100644 inline x\n"
    oid = make(hub, FileChange(HubPath("x"), data), message="ünïcode ✓")
    assert read(hub.root, f"{oid}:x") == data
    assert git(hub.root, "cat-file", "commit", oid).endswith("\n\nünïcode ✓")


def test_an_entry_can_be_set_from_an_object(hub: Hub) -> None:
    blob = Oid(git(hub.root, "rev-parse", "HEAD:d"))
    oid = make(hub, EntryChange("copy", "100755", blob))
    assert git(hub.root, "ls-tree", oid, "copy") == f"100755 blob {blob}\tcopy"


def test_a_commit_asked_for_twice_is_no_parent_of_another(hub: Hub) -> None:
    stream, base = CommitStream(hub), Oid(tip(hub.root))

    def add(parent: Oid, name: str) -> Oid:
        return stream.commit((parent,), [FileChange(HubPath(name), b"x")], name, AT)

    first = add(base, "one")
    assert add(base, "one") == first
    add(first, "left-out")
    last = add(first, "two")
    stream.close()
    assert git(hub.root, "rev-parse", f"{last}^") == first


@pytest.mark.sliced(2)
def test_many_changes_in_a_big_folder_cost_what_their_number_is(hub: Hub) -> None:
    names = [HubPath(f"threads/inbox/done/{i:05}.md") for i in range(10_000)]
    big = make(hub, *(FileChange(n, n.encode()) for n in names))

    def change(count: int) -> Oid:
        changes = [FileChange(n, b"new") for n in names[: 5 * count : 5]]
        return build_commit(hub, base=big, parents=(big,), changes=changes, message="m", at=AT)

    assert_cost_grows_as_size(change, 500)
    oid = change(2_000)
    assert len(listing(hub, oid)) == 10_004
    assert git(hub.root, "fsck", "--no-dangling", "--no-progress") == ""


def test_objects_go_where_the_runner_says(hub: Hub, tmp_path: Path) -> None:
    scratch = tmp_path / "objects"
    scratch.mkdir()
    variant = hub.git.with_env(GIT_OBJECT_DIRECTORY=scratch, GIT_ALTERNATE_OBJECT_DIRECTORIES=hub.git_dir / "objects")
    oid = make(hub.with_git(variant), FileChange(HubPath("x"), b"throw-away"))
    assert try_git(hub.root, "cat-file", "-e", oid).returncode != 0
    assert variant.run("cat-file", "-e", oid).ok


class TestIdentity:
    def test_of_the_repository(self, hub: Hub) -> None:
        assert hub.identity == ("sigma", "sigma@example.org")

    def test_falls_back_to_the_hub_directory(self, hub: Hub, home: Path) -> None:
        (home / ".gitconfig").write_text("")
        git(hub.root, "config", "--remove-section", "user")
        assert open_hub(hub.root).identity == ("hub", "hub@cn.invalid")

    def test_is_cleaned_of_what_a_commit_cannot_hold(self, hub: Hub) -> None:
        git(hub.root, "config", "user.name", " A <b>\nc. ")
        hub = open_hub(hub.root)
        assert hub.identity[0] == "A bc"
        oid = make(hub, FileChange(HubPath("x"), b""))
        assert git(hub.root, "log", "-1", "--format=%an", oid) == "A bc"


class TestSigning:
    @pytest.mark.parametrize("how", ["cn.sign", "commit.gpgSign"])
    def test_with_git_s_own_settings(self, hub: Hub, tmp_path: Path, how: str) -> None:
        private, public = make_ssh_key(tmp_path / "key")
        sign_with(hub.root, private)
        git(hub.root, "config", "commit.gpgSign", "false")
        git(hub.root, "config", how, "true")
        signers = tmp_path / "signers"
        signers.write_text(f"sigma {public}\n")
        oid = make(open_hub(hub.root), FileChange(HubPath("x"), b"x"), message="signed ✓")
        git(hub.root, "-c", f"gpg.ssh.allowedSignersFile={signers}", "verify-commit", oid)
        assert git(hub.root, "log", "-1", "--format=%an %aI %B", oid) == "sigma 2026-02-05T14:30:00+00:00 signed ✓"

    def test_global_setting_counts_and_the_repository_overrides_it(self, hub: Hub, home: Path, tmp_path: Path) -> None:
        private, _ = make_ssh_key(tmp_path / "key")
        (home / ".gitconfig").write_text(f"[commit]\ngpgSign\n[gpg]\nformat=ssh\n[user]\nsigningKey={private}\n")
        assert "gpgsig" in git(hub.root, "cat-file", "commit", make(open_hub(hub.root), FileChange(HubPath("x"), b"x")))
        git(hub.root, "config", "commit.gpgSign", "no")
        assert "gpgsig" not in git(
            hub.root, "cat-file", "commit", make(open_hub(hub.root), FileChange(HubPath("x"), b"x"))
        )

    def test_a_key_that_is_not_there_is_a_clear_refusal(self, hub: Hub) -> None:
        sign_with(hub.root, Path("/nonexistent/key"))
        with pytest.raises(Exception, match="cannot sign the commit"):
            make(open_hub(hub.root), FileChange(HubPath("x"), b"x"))

    def test_nothing_changed_needs_no_signature(self, hub: Hub) -> None:
        sign_with(hub.root, Path("/nonexistent/key"))
        assert make(open_hub(hub.root), FileChange(HubPath("d"), b"3")) == tip(hub.root)


def test_what_was_pruned_under_a_run_says_to_run_again(hub: Hub) -> None:
    stream = CommitStream(hub)
    with pytest.raises(Blocked) as caught:
        stream.commit((Oid("1" * len(tip(hub.root))),), (FileChange(HubPath("x"), b"x"),), "x", AT)
    told = "if 'git prune' or 'git gc --prune=now' ran meanwhile it took what this run had just made: run again"
    assert caught.value.hint == f"{told}; else 'cn doctor' looks for the cause"
    assert unreadable("it", "1" * 40).hint.startswith(told)


def test_a_signed_head_of_a_peer_stays_an_untouched_parent(tmp_path: Path) -> None:
    root = work(tmp_path / "hub", "sigma")
    base = commit(root, {".cn/hub.yaml": "name: sigma\n"})
    head = write_commit(root, {"x": "1"}, "theirs", [base])
    hub = open_hub(root)
    oid = build_commit(hub, base=Oid(base), parents=(Oid(base), Oid(head)), changes=(), message="m", at=AT)
    assert git(root, "log", "-1", "--format=%P", oid) == f"{base} {head}"
