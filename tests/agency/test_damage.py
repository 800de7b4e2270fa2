"""Objects of the records are lost: every step that is printed is typed as it stands, and leads back."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.hubs import cn_env, git
from tests.support.organisation import Org, make_org

Damage = Callable[[Path, str], None]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, hub_template: Path) -> Org:
    """With a file of two versions."""
    org = make_org(tmp_path_factory.mktemp("org") / "cn-sigma", hub_template)
    first = org.ask("kb", "history", "{plan}")["versions"][0]
    org.cn("kb", "write", "{plan}", "-", "--seen", f"1:{first['hash']}", stdin="two\n")
    return org


@pytest.fixture
def org(prepared: Org, tmp_path: Path) -> Org:
    """A copy of its own, with a copy of its records."""
    hub = tmp_path / "cn-sigma"
    shutil.copytree(prepared.hub, hub, symlinks=True)
    git(tmp_path, "init", "--quiet", "--bare", "copy.git")
    git(hub, "config", "agency.remote", str(tmp_path / "copy.git"))
    org = Org(hub, dict(prepared.ids))
    org.cn("agency", "tick")
    return org


def object_file(records: Path, name: str) -> Path:
    oid = git(records, "rev-parse", name)
    return records / "objects" / oid[:2] / oid[2:]


def _no_content(records: Path, plan: str) -> None:
    object_file(records, plan).unlink()


def _other_bytes(records: Path, plan: str) -> None:
    file = object_file(records, plan)
    file.chmod(0o600)
    file.write_bytes(b"garbage\n")


def _no_tip(records: Path, plan: str) -> None:
    object_file(records, "main").unlink()


def _no_tip_and_no_index(records: Path, plan: str) -> None:
    _no_tip(records, plan)
    shutil.rmtree(records.with_name("agency"))


def _no_older_write(records: Path, plan: str) -> None:
    object_file(records, "main~3").unlink()
    shutil.rmtree(records.with_name("agency"))


def _no_tree(records: Path, plan: str) -> None:
    object_file(records, "main^{tree}").unlink()


DAMAGES = [_no_content, _other_bytes, _no_tip, _no_tip_and_no_index, _no_older_write, _no_tree]


def damage(org: Org, by: Damage) -> None:
    version = org.ask("kb", "history", "{plan}")["versions"][-1]["hash"]
    tree = git(org.hub / ".git/cn/agency.git", "ls-tree", "-r", "--name-only", "main")
    (path,) = re.findall(rf"^\S*{version}$", tree, re.MULTILINE)
    by(org.hub / ".git/cn/agency.git", f"main:{path}")


def type_literally(org: Org, told: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The one command in a text, in a shell in which ``cn`` is this one."""
    (line,) = re.findall(r"'(mv -- .*?)'", told)
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "cn").write_text(f'#!/bin/sh\nexec {sys.executable} -m cn "$@"\n')
    (programs / "cn").chmod(0o700)
    env = cn_env()
    env["PATH"] = f"{programs}:{env['PATH']}"
    return subprocess.run(line, shell=True, cwd=org.hub, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("how", ["doctor", "restore"])
@pytest.mark.parametrize("by", DAMAGES, ids=[by.__name__.strip("_") for by in DAMAGES])
def test_the_printed_way_out_of_a_damage_leads_back_to_all_that_the_copy_has(
    org: Org, by: Damage, how: str, tmp_path: Path
) -> None:
    before = org.tip
    damage(org, by)
    (found,) = (one for one in org.ask("doctor", "--full", code=1) if "mv -- " in one["remedy"])
    refused = org.refused("agency", "restore", tmp_path / "copy.git")
    assert "has all" not in refused
    if by in (_no_tip, _no_tip_and_no_index):
        assert "'cn doctor' tells how to bring it back" in refused
    told = refused if how == "restore" and "mv -- " in refused else found["remedy"]
    done = type_literally(org, told, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (org.hub / ".git/cn/agency.git.aside/objects").is_dir(), "nothing is thrown away"
    assert git(org.hub / ".git/cn/agency.git", "merge-base", before, "main") == before
    assert org.cn("kb", "read", "{plan}").stdout.startswith("two\n")
    assert [one for one in org.ask("doctor", "--full", code=0) if one["level"] == "problem"] == []
    org.check()


@pytest.mark.parametrize("by", [_no_content, _other_bytes])
def test_an_export_saves_what_is_whole_and_names_what_is_not(org: Org, by: Damage, tmp_path: Path) -> None:
    damage(org, by)
    said = org.refused("agency", "export", tmp_path / "saved")
    name = f"files/the-plan-{org.ids['plan'][:8]}"
    assert f"1 file left out: {name}: " in said
    assert "cn doctor --full" in said
    readme = (tmp_path / "saved/README.md").read_text()
    assert f"- {name}: a version of file" in readme
    assert len(list((tmp_path / "saved").rglob("*.md"))) > 8
    asked = org.ask("agency", "export", tmp_path / "again", code=1)
    assert list(asked["left_out"]) == [name]
    assert name not in asked["files"]


def test_without_a_copy_the_way_out_says_what_can_still_be_saved(org: Org) -> None:
    git(org.hub, "config", "--unset", "agency.remote")
    damage(org, _no_content)
    (found,) = (one for one in org.ask("doctor", code=1) if "finds fault" in one["what"])
    assert "'cn agency export DIR' saves what can be read" in found["remedy"]
    assert "cn agency restore URL" in found["remedy"]


def _missing(file: Path) -> None:
    file.unlink()


def _flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.chmod(0o600)
    file.write_bytes(data)


def _cut_off(file: Path) -> None:
    data = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(data[: len(data) // 2])


def _emptied(file: Path) -> None:
    file.chmod(0o600)
    file.write_bytes(b"")


WAYS = [_missing, _flipped, _cut_off, _emptied]


@pytest.fixture
def alone(org: Org) -> Org:
    """Without a copy; its last write made a file."""
    git(org.hub, "config", "--unset", "agency.remote")
    made = org.ask("kb", "create", "-", "--description", "The last notes", stdin="notes\n")["file"]
    return Org(org.hub, {**org.ids, "last": made})


def type_all(org: Org, told: str) -> None:
    """Every command that a text prints, in order, each as it stands."""
    for line in re.findall(r"'((?:mv|rm|git) .*?)'", told):
        done = subprocess.run(line, shell=True, cwd=org.hub, env=cn_env(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stderr)


def problem(org: Org) -> dict[str, str]:
    (found,) = (one for one in org.ask("doctor", "--full", code=1) if one["level"] == "problem")
    return dict(found)


def is_at(org: Org, commit: str) -> None:
    """At that write, with all of it, whole, and more can be written."""
    assert org.tip == commit
    assert [one for one in org.ask("doctor", "--full", code=0) if one["level"] == "problem"] == []
    assert org.cn("kb", "read", "{plan}").stdout == "two\n"
    org.check()
    org.cn("outcome", "create", "Once more")


@pytest.mark.parametrize("index", [True, False], ids=["with the index", "without it"])
@pytest.mark.parametrize("way", WAYS, ids=[way.__name__.strip("_") for way in WAYS])
def test_without_a_copy_a_damaged_last_write_leads_back_to_the_one_before_and_what_is_lost_is_told(
    alone: Org, way: Callable[[Path], None], index: bool
) -> None:
    records = alone.hub / ".git/cn/agency.git"
    before = git(records, "rev-parse", "main~1")
    file = object_file(records, "main")
    way(file)
    kept = file.read_bytes() if file.exists() else b""
    if not index:
        shutil.rmtree(records.with_name("agency"))
    found = problem(alone)
    told = "lost by that: 1 event: " if index else "what was written after event "
    assert told in found["why"]
    assert ("file_created (The last notes)" in found["why"]) == index
    type_all(alone, found["remedy"])
    is_at(alone, before)
    aside = [one.read_bytes() for one in records.parent.glob("agency.git.damaged-*")]
    assert aside == ([] if way is _missing else [kept]), "nothing is thrown away"


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__.strip("_") for way in WAYS])
def test_without_a_copy_a_damaged_tree_leads_back_to_the_last_write_whose_trees_are_whole(
    alone: Org, way: Callable[[Path], None]
) -> None:
    records = alone.hub / ".git/cn/agency.git"
    trees = git(records, "log", "--format=%H %T").split("\n")
    tree = trees[0].split(" ")[1]
    before = next(line.split(" ")[0] for line in trees if not line.endswith(tree))
    way(records / "objects" / tree[:2] / tree[2:])
    found = problem(alone)
    assert "'cn agency export DIR' saves what can be read" in found["remedy"]
    assert "file_created (The last notes)" in found["remedy"]
    type_all(alone, found["remedy"].split("without a copy, ")[1])
    is_at(alone, before)


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__.strip("_") for way in WAYS])
def test_a_content_that_is_lost_takes_no_write_back_and_comes_back_from_its_bytes(
    alone: Org, way: Callable[[Path], None], tmp_path: Path
) -> None:
    records, last = alone.hub / ".git/cn/agency.git", alone.ids["last"]
    tip = alone.tip
    digest = hashlib.sha256(b"notes\n").hexdigest()
    (path,) = (p for p in git(records, "ls-tree", "-r", "--name-only", "main").split("\n") if p.endswith(digest))
    way(object_file(records, f"main:{path}"))
    told = problem(alone)["remedy"]
    assert "goes back" not in told
    assert f"version 1 of {last[:8]} (The last notes) cannot be read, all else goes on" in told
    assert alone.cn("kb", "read", "{plan}").stdout == "two\n"
    kept = tmp_path / "kept"
    kept.write_text("notes\n")
    type_all(alone, told.split("without a copy, ")[1].replace("FILE", str(kept)))
    assert alone.cn("kb", "read", "{last}").stdout == "notes\n"
    git(records, "merge-base", "--is-ancestor", tip, "main")
    is_at(alone, alone.tip)


def _root_tree(records: Path, plan: str) -> Path:
    return object_file(records, "main^{tree}")


def _tree_of_the_file(records: Path, plan: str) -> Path:
    return object_file(records, plan.rpartition("/")[0])


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__.strip("_") for way in WAYS])
@pytest.mark.parametrize("tree", [_root_tree, _tree_of_the_file])
def test_an_export_saves_every_content_though_a_tree_is_damaged(
    alone: Org, tree: Callable[[Path, str], Path], way: Callable[[Path], None], tmp_path: Path
) -> None:
    alone.cn("agency", "export", tmp_path / "whole")
    damage(alone, lambda records, plan: way(tree(records, plan)))
    alone.cn("agency", "export", tmp_path / "saved")
    whole = {one.relative_to(tmp_path / "whole") for one in (tmp_path / "whole").rglob("*")}
    assert {one.relative_to(tmp_path / "saved") for one in (tmp_path / "saved").rglob("*")} == whole
    for path in (tmp_path / "whole/files").iterdir():
        assert (tmp_path / "saved/files" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("way", [_flipped, _cut_off, _emptied])
def test_an_export_leaves_out_a_damaged_content_alone(alone: Org, way: Callable[[Path], None], tmp_path: Path) -> None:
    damage(alone, lambda records, plan: way(object_file(records, plan)))
    asked = alone.ask("agency", "export", tmp_path / "saved", code=1)
    assert list(asked["left_out"]) == [f"files/the-plan-{alone.ids['plan'][:8]}"]


READ, CREATE = ("kb", "read", "{plan}"), ("kb", "create", "-", "--description", "More")


@pytest.mark.parametrize("way", [_flipped, _cut_off, _emptied])
@pytest.mark.parametrize(
    ("what", "words"),
    [(_root_tree, READ), (_root_tree, CREATE), (_tree_of_the_file, READ), (object_file, READ)],
    ids=["root-read", "root-create", "tree-read", "content-read"],
)
def test_nothing_says_of_a_damage_of_the_records_to_remove_it_or_to_ask_origin(
    alone: Org, what: Callable[[Path, str], Path], words: tuple[str, ...], way: Callable[[Path], None]
) -> None:
    damage(alone, lambda records, plan: way(what(records, plan)))
    said = alone.refused(*words, stdin="more\n")
    assert "'cn doctor --full' tells how to" in said
    assert "origin" not in said
    assert "rm -f" not in said
    assert "-delete" not in said


def test_on_a_disk_that_is_read_only_lists_are_read_and_what_is_recorded_says_what_to_do(
    prepared: Org, small_disk: Path, tmp_path: Path
) -> None:
    hub = small_disk / "cn-sigma"
    shutil.copytree(prepared.hub, hub, symlinks=True)
    org = Org(hub, dict(prepared.ids))
    titles = org.titles()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert org.titles() == titles
    assert "would: outcome created" in org.cn("outcome", "create", "More", "--dry-run").stdout
    for words in (("kb", "read", "{plan}"), ("agency", "export", tmp_path / "saved")):
        said = org.refused(*words)
        assert "Read-only file system" in said
        assert "what is read of files is recorded too" in said
    assert not (tmp_path / "saved").exists()
    shutil.copytree(hub, tmp_path / "elsewhere", symlinks=True)
    assert Org(tmp_path / "elsewhere", org.ids).cn("kb", "read", "{plan}").stdout == "two\n"
