"""A remote is listed by a fetch, and what is new is known before it comes."""

from __future__ import annotations

from pathlib import Path

from cn.git.list_and_fetch import Fetched, list_and_fetch
from cn.git.process import Git
from cn.git.remote import Listing
from tests.support.hubs import bare, commit, git, tip, work
from tests.support.servers import git_daemon


def test_what_is_new_is_told_once_before_it_has_come_and_nothing_where_nothing_is(tmp_path: Path) -> None:
    host = bare(tmp_path / "served/host.git")
    there = work(tmp_path / "there")
    commit(there, {"a.md": "a\n"})
    git(there, "push", "-q", str(host), "HEAD:refs/heads/main")
    mine = tmp_path / "mine"
    git(tmp_path, "clone", "-q", str(host), str(mine))
    git(mine, "update-ref", "refs/cn/origin/main", "HEAD")
    heard = list[bool]()

    def look() -> Listing:
        def hear() -> None:
            heard.append(git(mine, "cat-file", "--batch-check", stdin=f"{tip(there)}\n").endswith("missing"))

        with git_daemon(tmp_path / "served", tmp_path) as served:
            what = Fetched("", "main", ["pi"], 1 << 20)
            found = list_and_fetch(Git(mine), {"": served.url("host")}, 30.0, what, hear)[""]
        assert isinstance(found, Listing)
        return found

    assert look() == {"main": tip(there)}
    assert heard == []
    commit(there, {"b.md": "b\n"})
    git(there, "push", "-q", str(host), "HEAD:refs/heads/pi/b")
    assert look()["pi/b"] == tip(there)
    assert heard == [True]
    assert git(mine, "cat-file", "-t", tip(there)) == "commit"
    look()
    assert heard == [True], "it is here"
