"""The commands that bring back what a project lost of cn's files."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cn.git.process import Git
from cn.transaction.coming_back import bring_back
from cn.values.names import Oid
from tests.support.hubs import commit, git, paths, read, tip, work

FILES = {
    ".cn/hub.yaml": "name: sigma\n",
    "state/peers.md": "pi\n",
    "state/ledger/pi/202602": "x\n",
    "spec/USER.md": "user\n",
    "spec/api.md": "api\n",
    "skills/say/SKILL.md": "say\n",
    "docs/x.md": "x\n",
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = work(tmp_path / "hub", "sigma")
    commit(root, {**FILES, **{f"threads/inbox/{number}.md": "x\n" for number in range(30)}})
    return root


def follow(repo: Path, steps: list[str]) -> list[str]:
    words = [shlex.split(step.strip("'")) for step in steps]
    for _, *rest in words:
        git(repo, *rest)
    return [" ".join(one[3:]).removeprefix("-- ") for one in words]


def test_what_the_project_has_none_of_comes_back_as_folders_and_its_own_files_do_not(repo: Path) -> None:
    known = Oid(tip(repo))
    git(repo, "rm", "-rq", ".cn", "threads", "state", "spec", "skills", "docs")
    commit(repo, {"spec/new.md": "new\n"}, "without cn")
    steps = bring_back(Git(repo), known, known, Oid(tip(repo)))
    assert follow(repo, steps) == [".cn", "skills", "spec/USER.md", "state", "threads"]
    commit(repo, {}, "restored")
    there = paths(repo, "main")
    assert "docs/x.md" not in there
    assert "spec/api.md" not in there
    assert len([path for path in there if path.startswith("threads/")]) == 30


def test_protected_files_come_back_as_they_were_accepted_and_records_as_they_stood_last(repo: Path) -> None:
    accepted = Oid(tip(repo))
    evil = {"state/peers.md": "eve\n", "state/.gitattributes": "*\n", "state/ledger/pi/202602": "x\ny\n"}
    last = Oid(commit(repo, {**evil, "docs/.gitignore": "*\n"}, "wording"))
    git(repo, "rm", "-rq", ".cn", "state", "docs")
    now = Oid(commit(repo, {}, "without cn"))
    follow(repo, bring_back(Git(repo), last, accepted, now))
    commit(repo, {}, "restored")
    assert read(repo, "main:state/peers.md") == b"pi\n"
    assert read(repo, "main:state/ledger/pi/202602") == b"x\ny\n"
    assert not {"state/.gitattributes", "docs/.gitignore"} & set(paths(repo, "main"))


def test_where_a_folder_still_stands_what_is_gone_of_it_comes_back_alone(repo: Path) -> None:
    known = Oid(tip(repo))
    now = Oid(commit(repo, {f"threads/inbox/{number}.md": None for number in range(2)}, "out"))
    assert follow(repo, bring_back(Git(repo), known, known, now)) == ["threads/inbox/0.md", "threads/inbox/1.md"]
    assert bring_back(Git(repo), known, known, known) == []
