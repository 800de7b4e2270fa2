"""Remotes whose host knows object filters, as the large hosts do (git-config(1), ``uploadpack.allowFilter``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.git.far_file import read_far
from cn.git.main_history import look_at_mains
from cn.git.process import Git
from cn.git.remote import KnownMain
from cn.values.names import Oid
from tests.support.hubs import bare, commit, git, tip, work
from tests.support.servers import KINDS, serve


@pytest.mark.parametrize(("kind", "name"), [*((kind, "pi") for kind in KINDS), ("path", "pi 50% & ü")])
def test_a_main_and_a_file_are_read_where_filters_are_known(
    tmp_path: Path, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = work(tmp_path / "ours", "sigma"), work(tmp_path / "theirs", "pi")
    first = Oid(commit(theirs, {"docs/a.md": "text\n", "b": "b"}, "first"))
    with serve(kind, tmp_path / "served", tmp_path / "scratch") as remote:
        for key, value in remote.env.items():
            monkeypatch.setenv(key, value)
        place = bare(remote.path("pi"))
        git(place, "config", "uploadpack.allowFilter", "true")
        url = remote.url("pi")
        if kind == "path":
            place = place.rename(place.with_name(f"{name}.git"))
            url = str(place)
        git(theirs, "push", "--quiet", str(place), "main:refs/heads/main")
        known = KnownMain("main", first, b"", (first,))
        commit(theirs, {"docs/a.md": "more\n"}, "second")
        git(theirs, "push", "--quiet", str(place), "main:refs/heads/main")
        answer = look_at_mains(Git(ours), {url: known}, 30.0)[url]
        assert isinstance(answer, KnownMain), answer
        assert answer.tip == tip(theirs)
        assert read_far(Git(ours), {"x": (url, "main")}, "docs/a.md", 30.0) == {"x": b"more\n"}
