"""The copy on another machine: how far it is behind, who may write it, and what comes back from it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cn.agency.store.copies import Lag, copy_url, lag, push_copy, restore
from cn.agency.store.repository import open_records
from cn.agency.store.store import Store
from cn.git.process import GitConfig, Setting
from cn.values.errors import Blocked, Refusal, Refused
from tests.support.hubs import bare, clone, git, push
from tests.support.records import AT, WHO, create, found, places, reopen, state
from tests.support.servers import Remote


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = found(tmp_path / "here")
    made.write(create(b"1"))
    yield made
    made.close()


def test_a_copy_is_behind_until_it_was_pushed(store: Store, tmp_path: Path) -> None:
    url = str(bare(tmp_path / "copy.git"))
    assert lag(store.repository, url) == Lag(2, None)
    assert push_copy(store.repository, url) is None
    assert lag(store.repository, url) == Lag(0, AT)
    store.write(create(b"2"))
    assert lag(store.repository, url) == Lag(1, AT)
    assert push_copy(store.repository, url) is None
    assert git(Path(url), "rev-parse", "main") == git(store.repository.folder, "rev-parse", "main")
    assert git(Path(url), "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_each_way_to_a_remote_takes_a_copy_and_gives_it_back(remote: Remote, store: Store, tmp_path: Path) -> None:
    remote.repo("copy")
    url = remote.url("copy")
    assert push_copy(store.repository, url) is None
    restored = restore(places(tmp_path / "there"), WHO, url)
    assert restored.tip == store.repository.tip()
    restored.repository.close()


def test_a_copy_that_another_clone_has_gone_on_with_is_not_overwritten(store: Store, tmp_path: Path) -> None:
    url = str(bare(tmp_path / "copy.git"))
    push_copy(store.repository, url)
    restore(places(tmp_path / "there"), WHO, url).repository.close()
    there = reopen(tmp_path / "there")
    there.write(create(b"there"))
    assert push_copy(there.repository, url) is None
    store.write(create(b"here"))
    refusal = push_copy(store.repository, url)
    assert isinstance(refusal, Refusal)
    assert refusal.rule == "one home"
    assert git(Path(url), "rev-parse", "main") == there.repository.tip().oid
    there.close()


def test_a_remote_that_is_not_there_is_named_and_tried_again(store: Store, tmp_path: Path) -> None:
    url = str(tmp_path / "copy.git")
    refusal = push_copy(store.repository, url)
    assert isinstance(refusal, Refusal)
    assert url in refusal.reason
    bare(Path(url))
    assert push_copy(store.repository, url) is None


def test_what_comes_back_is_what_was_copied_and_goes_on_from_there(store: Store, tmp_path: Path) -> None:
    url = str(bare(tmp_path / "copy.git"))
    push_copy(store.repository, url)
    store.write(create(b"lost with the machine"))
    restored = restore(places(tmp_path / "there"), WHO, url)
    assert (restored.events, restored.last) == (2, AT)
    restored.repository.close()
    there = reopen(tmp_path / "there", lambda: AT + timedelta(days=1))
    with there.reading() as facts:
        assert state(facts) == 2
    there.write(create(b"2"))
    assert lag(there.repository, url) == Lag(1, AT)
    assert push_copy(there.repository, url) is None
    assert git(there.repository.folder, "fsck", "--no-dangling") == ""
    assert git(there.repository.folder, "config", "extensions.preciousObjects") == "true"
    there.close()


def test_records_that_are_here_are_never_replaced(store: Store, tmp_path: Path) -> None:
    url = str(bare(tmp_path / "copy.git"))
    push_copy(store.repository, url)
    before = store.repository.tip()
    with pytest.raises(Refused, match="is there already"):
        restore(store.repository.places, WHO, url)
    assert store.repository.tip() == before


def test_a_copy_that_somebody_else_wrote_to_is_not_taken(store: Store, tmp_path: Path) -> None:
    url = bare(tmp_path / "copy.git")
    push_copy(store.repository, str(url))
    work = clone(url, tmp_path / "work", "eve")
    git(work, "commit", "--quiet", "--allow-empty", "-m", "by hand")
    push(work, url, "HEAD:main")
    with pytest.raises(Blocked, match="cannot be read at commit"):
        restore(places(tmp_path / "there"), WHO, str(url))
    assert open_records(places(tmp_path / "there"), WHO) is None


@pytest.mark.parametrize("what", ["nothing", "empty", "no repository"])
def test_a_copy_that_is_none_is_named(tmp_path: Path, what: str) -> None:
    url = tmp_path / "copy.git"
    if what == "empty":
        bare(url)
    elif what == "no repository":
        url.mkdir()
    with pytest.raises(Refused) as error:
        restore(places(tmp_path / "there"), WHO, str(url))
    assert str(url) in error.value.text
    assert open_records(places(tmp_path / "there"), WHO) is None


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, ""),
        ({"agency.remote": "/backup/a.git"}, "/backup/a.git"),
        ({"agency.remote": "vault", "remote.vault.url": "ssh://h/a"}, "ssh://h/a"),
        ({"agency.remote": "origin", "remote.origin.url": "ssh://h/a"}, None),
        ({"agency.remote": "ssh://h/a.git", "remote.origin.url": "ssh://h/a"}, None),
        ({"agency.remote": "/hub", "remote.mailbox.url": "file:///hub/"}, None),
        ({"agency.remote": "ext::sh -c x"}, None),
        ({"agency.remote": "--upload-pack=x"}, None),
    ],
)
def test_a_copy_is_never_where_others_fetch_the_hub_from(settings: dict[str, str], url: str | None) -> None:
    config = GitConfig(tuple(Setting("local", key, value) for key, value in settings.items()))
    found = copy_url(config)
    if url is None:
        assert isinstance(found, Refusal)
        assert "agency.remote" in found.reason
    else:
        assert found == url
