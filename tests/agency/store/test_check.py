"""The doctor finds what is wrong with the records, and says what helps; of sound ones it says nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cn.agency.events import FileWritten
from cn.agency.names import parse_uuid
from cn.agency.pages import README, page_of
from cn.agency.rows import Rows
from cn.agency.store import check as checks
from cn.agency.store import damage as damages
from cn.agency.store.behind import follow
from cn.agency.store.check import check_copy, check_records
from cn.agency.store.copies import push_copy, restore
from cn.agency.store.copy_notes import copy_failure
from cn.agency.store.derived import build_in_memory
from cn.agency.store.index import Index
from cn.agency.store.outcome_list import open_quickly
from cn.agency.store.repository import Commit, Draft, Repository, open_records
from cn.agency.store.store import Base, Decided, Store, open_store
from cn.values.errors import ConfigError, Refusal, Refused
from tests.support.hubs import bare, git
from tests.support.records import AT, WHO, create, decide, digest, folder_of, found, look, places, reopen
from tests.support.world import Node

FILE = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = found(tmp_path)
    write_pages(made)
    yield made
    made.close()


def write_pages(store: Store) -> None:
    """A file, with all pages as they should be; those of the root's files too."""

    def decided(rows: Rows, base: Base) -> Decided[str]:
        draft = create(b"text\n", file=FILE)(rows, base).draft
        assert draft is not None
        files = dict(draft.files)
        for file in rows.files():  # type: ignore[attr-defined]
            files[f"{folder_of(file.id)}/FILE.md"] = page_of(rows, file).encode()
            files |= {f"{folder_of(file.id)}/{one.hash}": b"" for one in rows.versions(file.id) if not one.size}
        return Decided(Draft(draft.message, {**files, "README.md": README.encode()}), "")

    store.write(decided)


def flaws(store: Store, *, full: bool = True, later: timedelta = timedelta(0)) -> list[str]:
    return [flaw.what for flaw in check_records(store.repository, AT + later, full=full)]


def test_of_sound_records_nothing_is_said(store: Store) -> None:
    assert flaws(store) == []
    with store.reading():
        pass
    assert flaws(store, full=False) == []


def _no_precious(store: Store) -> None:
    git(store.repository.folder, "config", "--unset", "extensions.preciousObjects")


def _lock(store: Store) -> None:
    (store.repository.folder / "refs/heads/main.lock").touch()


def _no_object(store: Store) -> None:
    oid = git(store.repository.folder, "rev-parse", f"main:{folder_of(FILE)}/{digest(b'text' + bytes([10]))}")
    (store.repository.folder / "objects" / oid[:2] / oid[2:]).unlink()


def _no_ref(store: Store) -> None:
    (store.repository.folder / "refs/heads/main").unlink()


def _another_row(store: Store) -> None:
    index = store._index.current(store.repository.tip())
    with index.changing():
        index.database.execute("UPDATE file SET description = 'forged'")


def _folder_for_index(store: Store) -> None:
    store.close()
    file = store.repository.places.index_file
    file.unlink()
    (file / "below").mkdir(parents=True)


def _file_for_folder(store: Store) -> None:
    store.close()
    folder = store.repository.places.index_file.parent
    shutil.rmtree(folder)
    folder.write_text("not ours\n")


def _another_page(store: Store) -> None:
    store.write(decide_files({f"{folder_of(FILE)}/FILE.md": b"forged\n"}))


def _unknown_file(store: Store) -> None:
    store.write(decide_files({"kb/notes.txt": b"by hand\n"}))


def _no_version(store: Store) -> None:
    store.write(decide_files({f"{folder_of(FILE)}/{digest(b'text' + bytes([10]))}": None}))


def _another_content(store: Store) -> None:
    store.write(decide_files({f"{folder_of(FILE)}/{digest(b'text' + bytes([10]))}": b"forged\n"}))


def _by_hand(store: Store) -> None:
    repo = store.repository.folder
    git(repo, "update-ref", "refs/heads/main", git(repo, "commit-tree", "-p", "main", "-m", "by hand", "main^{tree}"))


def decide_files(files: dict[str, bytes | None]) -> Callable[[Rows, Base], Decided[str]]:
    """Files that no event asks for."""

    def decided(rows: Rows, base: Base) -> Decided[str]:
        draft = look(FILE)(rows, base).draft
        assert draft is not None
        return Decided(Draft(draft.message, files), "")

    return decided


DAMAGES = [
    (_no_precious, "lets git gc and git prune take objects away", "config extensions.preciousObjects true"),
    (_lock, "main.lock is there", ""),
    (_no_object, "git finds fault with Agency's records", "restore"),
    (_no_ref, "it is missing or damaged", "update-ref refs/heads/main"),
    (_another_row, "the index of Agency's records is not what the events say", "rm -- "),
    (_folder_for_index, "a folder lies in the place of the index of Agency's records", "mv -- "),
    (_file_for_folder, "what lies in the place of the folder of the index", "mv -- "),
    (_another_page, "FILE.md in refs/heads/main of Agency's records is not what the events say", ""),
    (_unknown_file, "kb/notes.txt in refs/heads/main of Agency's records is nothing that an event names", ""),
    (_no_version, "is missing", "copy"),
    (_another_content, "does not hold what its name says", "copy"),
    (_by_hand, "cannot be read at commit", "by hand"),
]


@pytest.mark.parametrize(("damage", "what", "remedy"), DAMAGES, ids=[d[0].__name__.strip("_") for d in DAMAGES])
def test_what_is_wrong_is_found_with_what_helps(
    store: Store, damage: Callable[[Store], None], what: str, remedy: str
) -> None:
    with store.reading():
        pass
    damage(store)
    found = list(check_records(store.repository, AT, full=True))
    assert [flaw for flaw in found if what in flaw.what and remedy in flaw.remedy], found


@pytest.mark.parametrize("index", [True, False], ids=["with the index", "without it"])
@pytest.mark.parametrize("left", [None, b"", bytes(41)], ids=["gone", "empty", "zeros"])
def test_a_lost_ref_comes_back_by_the_command_that_is_told(store: Store, left: bytes | None, index: bool) -> None:
    store.write(look(FILE))
    before = store.repository.tip()
    _no_ref(store)
    if left is not None:
        (store.repository.folder / "refs/heads/main").write_bytes(left)
    if not index:
        store.close()
        store.repository.places.index_file.unlink()
    (flaw,) = check_records(store.repository, AT)
    subprocess.run(flaw.remedy.strip("'"), shell=True, check=True)
    assert store.repository.tip() == before


def test_a_lost_ref_comes_back_with_the_writes_that_an_older_index_lacks(store: Store) -> None:
    with store.reading():
        pass
    index = store.repository.places.index_file
    older = index.read_bytes()
    store.write(look(FILE))
    before = store.repository.tip()
    store.close()
    for file in index.parent.glob(f"{index.name}*"):
        file.unlink()
    index.write_bytes(older)
    _no_ref(store)
    flaw = list(check_records(store.repository, AT))[-1]
    subprocess.run(flaw.remedy.strip("'"), shell=True, check=True)
    assert store.repository.tip() == before


def _no_head(folder: Path) -> None:
    (folder / "HEAD").unlink()


def _empty_head(folder: Path) -> None:
    (folder / "HEAD").write_bytes(b"")


def _garbled_head(folder: Path) -> None:
    (folder / "HEAD").write_bytes(b"\0" * 20)


def _no_refs(folder: Path) -> None:
    shutil.copytree(folder / "refs", folder.with_name("refs-of-before"))
    shutil.rmtree(folder / "refs")


@pytest.mark.parametrize("damage", [_no_head, _empty_head, _garbled_head, _no_refs])
def test_records_that_git_cannot_open_are_not_called_empty(store: Store, damage: Callable[[Path], None]) -> None:
    before, folder = store.repository.tip(), store.repository.folder
    with store.reading():
        pass
    store.close()
    quick = open_quickly(str(folder.parent))
    assert quick is not None
    quick.close()
    damage(folder)
    assert open_quickly(str(folder.parent)) is None  # no command answers as if nothing were wrong
    (flaw,) = check_records(store.repository, AT)
    assert "git opens no repository" in flaw.what
    assert "rm " not in flaw.remedy
    subprocess.run(flaw.remedy.strip("'"), shell=True, check=True)
    if damage is _no_refs:  # now main is lost, and that is told with what brings it back
        flaw = list(check_records(store.repository, AT))[-1]
        subprocess.run(flaw.remedy.strip("'"), shell=True, check=True)
    assert store.repository.tip() == before


def test_where_all_objects_are_gone_the_copy_that_is_known_is_named(store: Store, tmp_path: Path) -> None:
    store.close()
    shutil.rmtree(store.repository.folder / "objects")
    url = str(tmp_path / "copy.git")
    (flaw,) = check_records(store.repository, AT, url=url)
    assert "has no folder objects" in flaw.what
    assert f"cn agency restore {url}" in flaw.remedy
    (flaw,) = check_records(store.repository, AT)
    assert "no copy is known to have them" in flaw.remedy


def test_a_copy_that_never_had_a_write_takes_nothing_s_place(store: Store, tmp_path: Path) -> None:
    """Whoever put the records aside for it would have none; those that were put aside are named then."""
    tree = store.repository.git.run("rev-parse", "main~1^{tree}").text
    store.close()
    away = store.repository.folder / f"objects/{tree[:2]}/{tree[2:]}"
    away.rename(tmp_path / "tree")
    url = str(bare(tmp_path / "copy.git"))
    for full in (False, True):
        (flaw,) = check_records(store.repository, AT, url=url, full=full)
        assert "git finds fault" in flaw.what
        assert "no copy is known to have them" in flaw.remedy
        assert url not in flaw.remedy
    at = places(store.repository.folder.parents[1])
    at.repository.rename(f"{at.repository}.aside")
    with pytest.raises(ConfigError) as raised:
        open_store(at, WHO)
    (told,) = re.findall(r"'(mv .*?)' brings those back that were put aside", raised.value.hint)
    subprocess.run(told, shell=True, check=True)
    (tmp_path / "tree").rename(away)
    assert list(check_records(store.repository, AT, full=True)) == []


def test_what_is_missing_since_it_was_just_written_is_no_damage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """git lists objects, and reads refs later (git-fsck(1)): of a write in between it misses the commit. The first look
    is as that one is.
    """
    looks = list[bool]()
    asked = damages.find_damage

    def look(repository: Repository, *, full: bool) -> list[str]:
        looks.append(full)
        return ["missing commit 1234"] * (len(looks) == 1) + asked(repository, full=full)

    monkeypatch.setattr(damages, "find_damage", look)
    assert list(check_records(store.repository, AT, full=True)) == []
    assert looks == [True, True]
    folder = store.repository.folder / "objects"
    next(one for one in sorted(folder.glob("??/*")) if one.is_file()).unlink()
    (flaw,) = check_records(store.repository, AT, full=True)
    assert "git finds fault" in flaw.what


def test_files_that_are_written_meanwhile_are_named_by_their_events(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = build_in_memory

    def write_after(repository: Repository, tip: Commit) -> Index:
        made = build(repository, tip)
        store.write(create(b"more\n", file="22222222-1111-4111-8111-111111111111"))
        return made

    monkeypatch.setattr(checks, "build_in_memory", write_after)
    assert list(check_records(store.repository, AT, full=True)) == []


def test_a_configuration_that_git_cannot_read_is_named(store: Store) -> None:
    store.close()
    config = store.repository.folder / "config"
    config.write_text(config.read_text("utf-8") + "[core\n", "utf-8")
    (flaw,) = check_records(store.repository, AT)
    assert "config" in flaw.what
    assert "correct " in flaw.remedy


def test_of_a_repository_without_a_write_the_way_out_is_told(tmp_path: Path) -> None:
    (tmp_path / "cn").mkdir()
    bare(tmp_path / "cn/agency.git")
    repository = open_records(places(tmp_path), WHO)
    assert repository is not None
    flaw = list(check_records(repository, AT))[-1]
    repository.close()
    assert "no write is found in it: 'mv -- " in flaw.remedy
    assert "cn agency init" in flaw.remedy


def test_a_copy_that_parted_is_told_the_same_day(store: Store, tmp_path: Path) -> None:
    url = str(bare(tmp_path / "copy.git"))
    push_copy(store.repository, url)
    there = tmp_path / "there"
    restore(places(there), WHO, url).repository.close()
    other = reopen(there)
    other.write(look(FILE))
    push_copy(other.repository, url)
    other.close()
    store.write(create(b"here"))
    assert follow(store.repository, url)
    (flaw,) = check_copy(store.repository, url, AT)
    assert "has writes that are not here" in flaw.what
    assert "cn agency restore" in flaw.remedy


@pytest.mark.parametrize("by", ["restore", "restore anew", "nothing to restore", "doctor", "another copy"])
def test_that_a_copy_parted_is_told_no_longer_than_it_is_so(store: Store, tmp_path: Path, by: str) -> None:
    copy, here = bare(tmp_path / "copy.git"), store.repository.folder
    url, at = str(copy), store.repository.places
    follow(store.repository, url)
    shutil.copytree(here, tmp_path / "backup")
    confirmed = store.repository.tip().oid
    store.write(create(b"later"))
    follow(store.repository, url)
    store.close()
    shutil.rmtree(here)
    shutil.copytree(tmp_path / "backup", here)
    old = reopen(tmp_path)
    (flaw,) = check_copy(old.repository, url, AT, full=True)
    assert "has writes that are not here" in flaw.what
    assert follow(old.repository, url)
    (noted,) = check_copy(old.repository, url, AT)
    assert "has writes that are not here" in noted.what
    if by == "restore":
        restore(at, WHO, url).repository.close()
    elif by == "restore anew":
        here.rename(tmp_path / "aside")
        restore(at, WHO, url).repository.close()
    elif by == "another copy":
        url = str(bare(tmp_path / "another.git"))
        push_copy(old.repository, url)
    else:
        git(copy, "update-ref", "refs/heads/main", confirmed)  # what was too much there is gone
    if by == "nothing to restore":
        with pytest.raises(Refused, match="has all that the copy"):
            restore(at, WHO, url)
    old.close()
    now = reopen(tmp_path)
    assert [*check_copy(now.repository, url, AT, full=by == "doctor")] == []
    assert copy_failure(at, url) is None
    now.close()


def test_a_copy_to_which_nothing_went_from_here_and_that_has_others_writes_is_told_in_full(
    store: Store, tmp_path: Path
) -> None:
    url = str(bare(tmp_path / "copy.git"))
    other = found(tmp_path / "other")
    other.write(create(b"not ours"))
    push_copy(other.repository, url)
    other.close()
    assert follow(store.repository, url)
    for full in (True, False):
        (flaw,) = check_copy(store.repository, url, AT, full=full)
        assert "has writes that are not here" in flaw.what


def test_a_time_to_come_is_told(store: Store) -> None:
    (flaw,) = check_records(store.repository, AT - timedelta(days=2))
    assert flaw.what == f"event 1, founded, is of {AT:%Y-%m-%d}, 2 days ahead of the clock"
    assert not flaw.serious


def test_a_version_without_its_event_is_found(store: Store) -> None:
    change = FileWritten(parse_uuid(FILE), 2, digest(b"two"), 3, ())
    store.write(decide(change))
    assert [flaw for flaw in flaws(store) if digest(b"two") in flaw and "is missing" in flaw]


def test_a_copy_is_missed_and_its_lag_is_told(store: Store, tmp_path: Path) -> None:
    (none,) = check_copy(store.repository, "", AT)
    assert (none.what, none.serious) == ("there is no copy of Agency's records", False)
    (refused,) = check_copy(store.repository, Refusal("private copy", "shared", "another"), AT)
    assert (refused.what, refused.serious) == ("shared", True)
    url = str(bare(tmp_path / "copy.git"))
    (never,) = check_copy(store.repository, url, AT)
    assert never.what.endswith("lacks 2 writes, it has none")
    push_copy(store.repository, url)
    store.write(look(FILE))
    assert list(check_copy(store.repository, url, AT)) == []
    (late,) = check_copy(store.repository, url, AT + timedelta(days=2))
    assert late.what.endswith("lacks 1 write, its last is of 2026-02-05 12:00 UTC")


def test_cn_doctor_looks_at_the_records_of_a_hub(sigma: Node) -> None:
    store = found(sigma.root / ".git/unused")
    store.close()
    (sigma.root / ".git/cn").mkdir(exist_ok=True)
    (sigma.root / ".git/unused/cn/agency.git").rename(sigma.root / ".git/cn/agency.git")
    git(sigma.root, "config", "agency.remote", "/nowhere/copy.git")
    (sigma.root / ".git/cn/agency.git").rename(sigma.root / ".git/gone")
    said = sigma.cn("doctor", check=1).stdout
    assert "'cn agency restore /nowhere/copy.git' brings back what the copy holds" in said
    for words in (("outcome", "create", "X"), ("agency", "status")):
        assert "'cn agency restore /nowhere/copy.git'" in sigma.cn(*words, check=None).stderr
    assert "git config --unset agency.remote" in sigma.cn("agency", "init", check=1).stderr
    git(sigma.root, "config", "--unset", "agency.remote")
    (sigma.root / ".git/gone").rename(sigma.root / ".git/cn/agency.git")
    (sigma.root / ".git/cn/agency.git/refs/heads/main").unlink()
    said = sigma.cn("doctor", check=1).stdout
    assert "missing or damaged" in said
    assert "there is no copy of Agency's records" in said
    assert "git config agency.remote URL" in said


@pytest.mark.parametrize("path", [f"{folder_of(FILE)}/FILE.md", "README.md"])
def test_a_page_as_an_older_version_wrote_it_is_no_problem(store: Store, path: str) -> None:
    store.write(decide_files({path: b"In other words.\n"}))
    (flaw,) = check_records(store.repository, AT, full=True)
    assert flaw.what == f"{path} in refs/heads/main of Agency's records is not what the events say"
    assert not flaw.serious
    assert flaw.remedy.startswith("nothing need be done")
