"""What a remote hears of while something is fetched there: of published commits, and of none that is only here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.git.fetch import fetch_commits, fetch_tips
from cn.git.list_and_fetch import Fetched, list_and_fetch
from cn.git.process import Git
from cn.git.repository import configured
from cn.git.told import ORIGIN, Told, of_peers
from cn.values.names import Name, Oid
from tests.support.hubs import bare, commit, git, identify, tip, work

_PEER = of_peers("refs/cn/origin", [Name("mal")])


def _by_tips(here: Git, url: str, new: Oid, told: Told) -> None:
    assert fetch_tips(here, {"mal": (url, [("sigma/t", new)])}, 30.0, told={"mal": told}) == {}


def _by_commit(here: Git, url: str, new: Oid, told: Told) -> None:
    assert fetch_commits(here, url, [new], 30.0, told) == ""


def _listing(here: Git, url: str, new: Oid, told: Told) -> None:
    found = list_and_fetch(here, {"": url}, 30.0, Fetched("", "main", ["sigma"], 1 << 20))[""]
    assert not isinstance(found, str)
    assert found.fetched is not None
    assert new in found.values()


@pytest.mark.parametrize("alternates", ["", "echo $(git --git-dir=$1 rev-parse --all) #"])
@pytest.mark.parametrize(
    ("fetch", "told"), [(_by_tips, _PEER), (_by_commit, _PEER), (_listing, ORIGIN)], ids=["tips", "commit", "listing"]
)
def test_a_fetch_names_what_is_published_and_no_commit_of_this_clone_alone(
    fetch: Callable[[Git, str, Oid, Told], None], told: Told, alternates: str, tmp_path: Path
) -> None:
    host = bare(tmp_path / "host.git")
    there = work(tmp_path / "there")
    commit(there, {"a.md": "a\n"})
    git(there, "push", "-q", str(host), "HEAD:refs/heads/main")
    mine = tmp_path / "mine"
    other, borrowed = work(tmp_path / "other"), set()
    for ref in ("refs/cn/origin/main", "refs/cn/pins/mal/in/x"):
        commit(other, {ref: "of the other hub\n"})
        git(other, "update-ref", ref, "HEAD")
        borrowed.add(tip(other))
    git(tmp_path, "clone", "-q", "--no-local", "--reference", str(other), str(host), str(mine))
    published = tip(mine)
    identify(mine, "Sigma")
    git(mine, "update-ref", "refs/cn/origin/main", published)
    secret = borrowed
    for number, ref in enumerate(("refs/heads/private", "refs/stash", "refs/tags/own", "refs/cn/pins/pi/in/x")):
        commit(mine, {f"secret-{number}": "the plan\n"})
        git(mine, "update-ref", ref, "HEAD")
        secret.add(tip(mine))
        git(mine, "reset", "-q", "--hard", published)
    if fetch is _listing:
        secret.remove(tip(mine, "refs/cn/pins/pi/in/x"))  # origin has the pins
    if alternates:
        git(mine, "config", "core.alternateRefsCommand", alternates)
    new = commit(there, {"t.md": "t\n"})
    git(there, "push", "-q", str(host), "HEAD:refs/heads/sigma/t")
    trace = tmp_path / "trace"
    here = configured(Git(mine)).with_env(GIT_TRACE_PACKET=trace)
    fetch(here, str(host), Oid(new), told)
    named = set(re.findall(r"have ([0-9a-f]{40})", trace.read_text()))
    assert published in named, "what both have comes once more"
    assert not named & secret
