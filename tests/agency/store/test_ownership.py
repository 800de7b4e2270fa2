"""What lies in the place of Agency's records and is not ours is named, and nothing behind it is touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.agency.store.ownership import AnothersRecords
from cn.agency.store.repository import Draft, create_records, open_records
from cn.values.errors import Blocked
from tests.support.hubs import git
from tests.support.permission import obedient
from tests.support.records import WHO, found, places, reopen, state
from tests.support.world import Node

NAMES = ("agency.git", "agency", "agency.lock", "agency.lock.turn", "agency.git.new", "agency.copy.lock")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_the_place_of_records_is_named_and_nothing_behind_it_is_touched(tmp_path: Path, name: str) -> None:
    there, elsewhere = places(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in ("index.sqlite", "index.sqlite.new", "index.sqlite-wal", "copy.failed", "HEAD"):
        (elsewhere / file).write_text(f"precious {file}")
    before = contents(elsewhere)
    there.state.mkdir()
    (there.state / name).symlink_to(elsewhere)
    with pytest.raises(Blocked, match=f"{name} is a link") as error:
        open_records(there, WHO)
    assert f"rm -- {there.state / name}" in error.value.hint
    with pytest.raises(Blocked, match=f"{name} is a link"):
        create_records(there, WHO, Draft("first", {}), 0)
    assert contents(elsewhere) == before
    assert os.listdir(there.state) == [name]


@pytest.mark.parametrize("name", ["agency/index.sqlite", "agency/index.sqlite-wal", "agency.git/objects"])
def test_a_link_within_the_records_is_named(tmp_path: Path, name: str) -> None:
    found(tmp_path).close()
    path = tmp_path / "cn" / name
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Blocked, match="is a link"):
        reopen(tmp_path)


def test_the_command_names_the_link(sigma: Node) -> None:
    (sigma.root / ".git/cn").mkdir(exist_ok=True)
    (sigma.root / ".git/cn/agency").symlink_to(sigma.root.parent)
    for words in (("agency", "init"), ("agency", "init", "--dry-run"), ("outcome", "list"), ("agency", "tick")):
        assert "is a link, and cn follows none" in sigma.cn(*words, check=1).stderr
    assert "is a link" in sigma.cn("doctor", check=1).stdout


def give(path: Path) -> None:
    """To another user."""
    for one in (path, *path.rglob("*")):
        os.chown(one, 4711, 4711, follow_symlinks=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_repository_of_another_user_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found(tmp_path).close()
    there = places(tmp_path)
    give(there.repository)
    with pytest.raises(Blocked, match="belongs to user 4711, not to you") as error:
        open_records(there, WHO)
    assert "safe.directory" in error.value.hint
    subprocess.run(["git", "config", "--global", "--add", "safe.directory", str(there.repository)], check=True)
    reopen(tmp_path).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["agency", "agency.lock", "agency/index.sqlite"])
def test_what_another_user_put_beside_the_repository_is_not_used(tmp_path: Path, name: str) -> None:
    store = found(tmp_path)
    with store.reading():
        pass
    store.close()
    path = tmp_path / "cn" / name
    give(path)
    if name.startswith("agency/"):  # a file within our folder: it is made anew
        again = reopen(tmp_path)
        with again.reading() as facts:
            assert state(facts) == 1
        again.close()
        assert path.stat().st_uid == os.geteuid()
        return
    with pytest.raises(Blocked, match="belongs to user 4711") as error:
        reopen(tmp_path)
    assert f"rm -r -- {path}" in error.value.hint


def as_another(call: Callable[[], object]) -> str:
    """What is raised where another user calls it."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setresgid(4712, 4712, 4712)
        os.setresuid(4712, 4712, 4712)
        try:
            call()
            said = "nothing"
        except AnothersRecords as error:
            said = f"{error.text}\n{error.hint}"
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as file:
        return file.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_of_records_that_another_user_has_alone_it_is_said_whose_they_are() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # the folder of this test's user is closed to all others
        Path(name).chmod(0o755)
        found(Path(name)).close()
        there = places(Path(name))
        assert there.repository.stat().st_mode & 0o077 == 0
        said = as_another(lambda: open_records(there, WHO))
    assert "belongs to root, for its owner alone" in said
    assert "in a clone of your own" in said


def test_nobody_else_may_write_in_our_folders(tmp_path: Path) -> None:
    found(tmp_path).close()
    there = places(tmp_path)
    there.repository.chmod(0o775)
    reopen(tmp_path).close()
    assert there.repository.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "name", ["agency.git", "agency.git/objects", "agency.git/refs/heads", "agency.git/HEAD", "agency"]
)
def test_records_that_a_mode_closes_to_their_owner_are_opened_by_the_next_command(sigma: Node, name: str) -> None:
    sigma.cn("agency", "init")
    sigma.cn("agency", "status")
    place = sigma.root / ".git/cn" / name
    place.chmod(0)
    assert obedient(sigma, "outcome", "create", "Go on").returncode == 0
    assert place.stat().st_mode & 0o400


def test_objects_that_are_closed_are_named_and_nobody_is_told_to_remove_the_records(sigma: Node) -> None:
    sigma.cn("agency", "init")
    records = sigma.root / ".git/cn/agency.git"
    fans = sorted(records.glob("objects/??"))
    for place in fans:
        place.chmod(0)
    asked = obedient(sigma, "agency", "status")
    assert f"chmod -R u+rwX -- {records}" in asked.stderr
    told = obedient(sigma, "doctor").stdout
    assert f"chmod -R u+rwX -- {records}" in told
    assert "rm -" not in told
    subprocess.run(["chmod", "-R", "u+rwX", "--", str(records)], check=True)
    assert obedient(sigma, "agency", "status").returncode == 0


def test_records_that_cannot_be_written_refuse_to_read_with_what_opens_them_and_begin_no_export(sigma: Node) -> None:
    """Their lock cannot be written either, and is taken all the same: what would be done is still told."""
    sigma.cn("agency", "init")
    file = json.loads(sigma.cn("kb", "create", "-", "--description", "A list", "--json", stdin="1\n").stdout)["file"]
    state, away = sigma.root / ".git/cn", sigma.root.parent / "saved"
    subprocess.run(["chmod", "-R", "a-w", "--", str(state)], check=True)
    try:
        for words in (("kb", "read", file), ("agency", "export", str(away))):
            refused = obedient(sigma, *words)
            assert refused.returncode == 1
            # One of its folders where git has that already: names of objects are as chance has it.
            assert re.search(
                f"'chmod u\\+rwX -- {re.escape(str(state))}/agency.git/objects(/[0-9a-f]{{2}})?'", refused.stderr
            )
        assert not away.exists()
        assert obedient(sigma, "outcome", "list").returncode == 0
        assert obedient(sigma, "outcome", "create", "More", "--dry-run").returncode == 0
    finally:
        subprocess.run(["chmod", "-R", "u+w", "--", str(state)], check=True)


@pytest.mark.parametrize("mode", ["g+rX", "o+rX"])
def test_records_that_let_others_in_are_a_finding_and_what_it_prints_closes_them(sigma: Node, mode: str) -> None:
    """As older versions made them where the user's own git shares repositories."""
    sigma.cn("agency", "init")
    records = sigma.root / ".git/cn/agency.git"
    assert found_of("modes", sigma) == []
    subprocess.run(["chmod", "-R", mode, "--", str(records)], check=True)
    git(records, "config", "core.sharedRepository", "group")
    (finding,) = found_of("modes", sigma)
    assert f"the mode of {records} lets other users of this machine in" in finding["what"]
    subprocess.run(["sh", "-c", finding["remedy"].strip("'")], check=True)
    sigma.cn("outcome", "create", "One")
    assert records.stat().st_mode & 0o077 == 0
    assert git(records, "config", "core.sharedRepository") == "umask"
    assert found_of("modes", sigma) == []


def found_of(check: str, node: Node) -> list[dict[str, str]]:
    found = json.loads(node.cn("doctor", "--json", check=None).stdout)
    return [one for one in found if one["check"] == check and one["level"] != "ok"]
