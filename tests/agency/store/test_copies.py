"""The copy on another machine: how far it is behind, who may write it, and what comes back from it."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cn.agency.names import parse_uuid
from cn.agency.perform import read_content
from cn.agency.rows import Rows
from cn.agency.store import behind, copies
from cn.agency.store.behind import follow
from cn.agency.store.check import check_copy
from cn.agency.store.copies import Lag, copy_url, lag, push_copy, refuse_second_home, restore
from cn.agency.store.copy_notes import copy_answered, copy_failure
from cn.agency.store.repository import Draft, open_records
from cn.agency.store.store import Base, Decided, Store
from cn.git.process import Git, GitConfig, Setting
from cn.git.repository import Hub
from cn.values import names
from cn.values.errors import Blocked, Refusal, Refused
from tests.support.hubs import bare, clone, git, push
from tests.support.records import AT, WHO, create, digest, folder_of, found, places, reopen, state
from tests.support.servers import Remote

FILE = "11111111-1111-4111-8111-111111111111"


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


@pytest.mark.parametrize("how", ["emptied", "an older one", "deleted", "another one"])
def test_a_copy_that_is_no_more_what_it_was_is_found_out_and_mended_or_named(
    store: Store, tmp_path: Path, how: str
) -> None:
    copy = bare(tmp_path / "copy.git")
    url, places = str(copy), store.repository.places
    follow(store.repository, url)
    shutil.copytree(copy, tmp_path / "older")
    store.write(create(b"Important"))
    assert follow(store.repository, url) == ()
    assert copy_answered(places, url) is not None
    shutil.rmtree(copy)
    if how == "an older one":
        shutil.copytree(tmp_path / "older", copy)
    elif how != "deleted":
        bare(copy)
    if how == "another one":
        other = found(tmp_path / "other")
        other.write(create(b"Not ours"))
        push_copy(other.repository, url)
        other.close()
    assert follow(store.repository, url) == ()  # it answered a moment ago
    assert [flaw.what for flaw in check_copy(store.repository, url, AT)] == []
    (flaw,) = check_copy(store.repository, url, AT, full=True)
    assert flaw.serious
    assert url in flaw.what
    (told,) = follow(store.repository, url)
    if how in ("emptied", "an older one"):
        assert "had lost what it had, and gets it again" in told
        assert git(copy, "rev-parse", "main") == git(store.repository.folder, "rev-parse", "main")
        assert [*check_copy(store.repository, url, AT, full=True)] == []
        return
    failed = copy_failure(places, url)
    assert failed is not None
    assert told.startswith(failed.reason.rstrip("…"))
    assert ("has writes that are not here" if how == "another one" else "cannot be read") in told
    assert [flaw.what for flaw in check_copy(store.repository, url, AT)] == [failed.reason]
    assert copy_answered(places, url) is None


def test_a_copy_is_asked_once_a_day(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, places = str(bare(tmp_path / "copy.git")), store.repository.places
    follow(store.repository, url)
    last = copy_answered(places, url)
    assert last is not None
    asked: list[str] = []
    monkeypatch.setattr(behind, "ask_copy", lambda repository, url: asked.append(url))
    for hours, times in ((1, 0), (23, 0), (25, 1), (-1, 2)):  # the last: a clock that was ahead
        (places.index_file.with_name("copy.answered")).write_text(
            f"{names.digest(url)} {int(time.time()) - hours * 3600}"
        )
        follow(store.repository, url)
        assert len(asked) == times
    assert copy_answered(places, "elsewhere") is None
    note = places.index_file.with_name("copy.answered")
    note.write_text(f"{names.digest(url)} {int(AT.timestamp())}")
    (flaw,) = check_copy(store.repository, url, AT + timedelta(days=8))
    assert not flaw.serious
    assert "last answered on" in flaw.what


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


def test_an_older_backup_that_came_back_goes_on_to_what_the_copy_has(store: Store, tmp_path: Path) -> None:
    url, here = str(bare(tmp_path / "copy.git")), store.repository.folder
    shutil.copytree(here, tmp_path / "backup")
    store.write(create(b"later"))
    push_copy(store.repository, url)
    tip = store.repository.tip()
    with pytest.raises(Refused, match="has all that the copy"):
        restore(store.repository.places, WHO, url)
    store.close()
    shutil.rmtree(here)
    shutil.copytree(tmp_path / "backup", here)
    restored = restore(store.repository.places, WHO, url)
    assert (restored.tip, restored.repository.tip(), restored.events) == (tip, tip, 1)
    assert lag(restored.repository, url).writes == 0
    restored.repository.close()
    again = reopen(tmp_path / "here")
    with again.reading() as facts:
        assert state(facts) == 3
    again.close()


def test_where_both_have_writes_of_their_own_nothing_is_replaced_and_the_steps_work(
    store: Store, tmp_path: Path
) -> None:
    url, here = str(bare(tmp_path / "copy.git")), store.repository.folder
    shutil.copytree(here, tmp_path / "backup")
    store.write(create(b"later"))
    push_copy(store.repository, url)
    tip = store.repository.tip()
    store.close()
    shutil.rmtree(here)
    shutil.copytree(tmp_path / "backup", here)
    old = reopen(tmp_path / "here")
    old.write(create(b"after the backup came back"))
    refusal = push_copy(old.repository, url)
    assert refusal is not None
    assert f"cn agency restore {url}" in refusal.remedy
    with pytest.raises(Refused, match="each have writes that the other has not") as error:
        restore(old.repository.places, WHO, url)
    old.close()
    (step,) = re.findall(r"'(mv .*?)', and", error.value.hint)
    subprocess.run(step, shell=True, check=True)
    restored = restore(store.repository.places, WHO, url)
    assert restored.tip == tip
    restored.repository.close()


def test_a_copy_of_another_agency_is_called_so(store: Store, tmp_path: Path) -> None:
    url, other = str(bare(tmp_path / "copy.git")), found(tmp_path / "other", lambda: AT + timedelta(days=1))
    push_copy(other.repository, url)
    other.close()
    refusal = push_copy(store.repository, url)
    assert refusal is not None
    assert "another Agency's" in refusal.reason
    before = store.repository.tip()
    with pytest.raises(Refused, match="it is another Agency's") as refused:
        restore(store.repository.places, WHO, url)
    assert "git config agency.remote URL" in refused.value.hint
    assert store.repository.tip() == before


def made_hub(root: Path, settings: dict[str, str], git: Git) -> Hub:
    """One of which only its configuration is there."""
    config = GitConfig(tuple(Setting("local", key, value) for key, value in settings.items()))
    return Hub(root, root / ".git", root / ".git", git._replace(config=config))


@pytest.mark.parametrize(("holds", "says"), [(True, "holds Agency's records"), (None, "cannot be read"), (False, "")])
def test_no_second_home_is_founded_beside_a_copy(store: Store, tmp_path: Path, holds: bool | None, says: str) -> None:
    url = tmp_path / "copy.git"
    if holds is not None:
        bare(url)
    if holds:
        push_copy(store.repository, str(url))
    hub = made_hub(tmp_path / "hub", {"agency.remote": str(url)}, store.repository.git._replace(reader=None))
    if not says:
        refuse_second_home(hub)
        return
    with pytest.raises(Refused, match=says) as error:
        refuse_second_home(hub)
    assert "git config --unset agency.remote" in error.value.hint


@pytest.mark.parametrize("on_records", [False, True], ids=["in a new clone", "upon records"])
@pytest.mark.parametrize(
    ("content", "says"),
    [(b"forged\n", "does not hold what its name says"), (None, "is missing")],
    ids=["other", "none"],
)
def test_a_copy_whose_contents_are_not_what_their_names_say_is_not_taken(
    store: Store, tmp_path: Path, content: bytes | None, says: str, *, on_records: bool
) -> None:
    url, there = str(bare(tmp_path / "copy.git")), tmp_path / "there"
    if on_records:
        push_copy(store.repository, url)
        restore(places(there), WHO, url).repository.close()
    path = f"{folder_of(FILE)}/{digest(b'the text')}"
    made = create(b"the text", file=FILE)

    def forged(rows: Rows, base: Base) -> Decided[str]:
        draft = made(rows, base).draft
        assert draft is not None
        files = {name: data for name, data in draft.files.items() if name != path}
        return Decided(Draft(draft.message, files | ({path: content} if content else {})), "")

    store.write(forged)
    assert push_copy(store.repository, url) is None
    before = git(places(there).repository, "rev-parse", "main") if on_records else ""
    with pytest.raises(Refused) as refused:
        restore(places(there), WHO, url)
    assert path in refused.value.text
    assert says in refused.value.text
    assert url in refused.value.text
    assert places(there).repository.exists() == on_records
    if on_records:
        assert git(places(there).repository, "rev-parse", "main") == before
    with pytest.raises(Blocked):
        read_content(store, parse_uuid(FILE), digest(b"the text"))


def test_a_copy_that_somebody_else_wrote_to_is_not_taken(store: Store, tmp_path: Path) -> None:
    url = bare(tmp_path / "copy.git")
    push_copy(store.repository, str(url))
    work = clone(url, tmp_path / "work", "eve")
    git(work, "commit", "--quiet", "--allow-empty", "-m", "by hand")
    push(work, url, "HEAD:main")
    with pytest.raises(Blocked, match="cannot be read at commit") as blocked:
        restore(places(tmp_path / "there"), WHO, str(url))
    assert f"git clone {url} DIR" in blocked.value.hint
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


@pytest.mark.parametrize("here", ["nothing", "an older backup"])
def test_a_copy_that_lost_an_object_is_called_damaged_not_its_url_wrong(
    store: Store, tmp_path: Path, here: str
) -> None:
    copy, there = bare(tmp_path / "copy.git"), tmp_path / "there"
    if here == "an older backup":
        shutil.copytree(tmp_path / "here", there)
    store.write(create(b"lost", file=FILE))
    assert push_copy(store.repository, str(copy)) is None
    lost = git(copy, "rev-parse", f"main:{folder_of(parse_uuid(FILE))}/{digest(b'lost')}")
    (copy / "objects" / lost[:2] / lost[2:]).unlink()
    with pytest.raises(Refused, match="cannot be read") as error:
        restore(places(there), WHO, str(copy))
    assert "'git fsck' there says" in error.value.hint
    assert "<U+" not in error.value.text


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, ""),
        ({"agency.remote": "/backup/a.git"}, "/backup/a.git"),
        ({"agency.remote": "vault", "remote.vault.url": "ssh://h/a"}, "ssh://h/a"),
        ({"agency.remote": "origin", "remote.origin.url": "ssh://h/a"}, None),
        ({"agency.remote": "ssh://h/a.git", "remote.origin.url": "ssh://h/a"}, None),
        ({"agency.remote": "/hub", "remote.mailbox.url": "file:///hub/"}, None),
        ({"agency.remote": "../copy.git"}, "/w/copy.git"),
        ({"agency.remote": "vault", "remote.vault.url": "../copy.git"}, "/w/copy.git"),
        ({"agency.remote": "/w/o.git", "remote.origin.url": "../o.git"}, None),
        ({"agency.remote": "/w/./x/../o", "remote.origin.url": "/w/o.git/"}, None),
        ({"agency.remote": "ssh://git@H/s/hub.git", "remote.origin.url": "git@h:s/hub"}, None),
        ({"agency.remote": "git@h:/s//hub.git", "remote.origin.url": "ssh://git@h:22/s/hub.git"}, None),
        ({"agency.remote": "https://u@H/s/hub", "remote.origin.url": "https://h/s/hub.git"}, None),
        ({"agency.remote": "git@h:s/hub.git", "remote.origin.url": "git@h:s/other.git"}, "git@h:s/hub.git"),
        ({"agency.remote": "."}, None),
        ({"agency.remote": "/w/hub/.git/cn/agency.git"}, None),
        ({"agency.remote": "file:///w/hub"}, None),
        ({"agency.remote": "ext::sh -c x"}, None),
        ({"agency.remote": "--upload-pack=x"}, None),
    ],
)
def test_a_copy_is_never_where_others_fetch_the_hub_from(settings: dict[str, str], url: str | None) -> None:
    found = copy_url(made_hub(Path("/w/hub"), settings, Git(Path("/w/hub"))))
    if url is None:
        assert isinstance(found, Refusal)
        assert "agency.remote" in found.reason
    else:
        assert found == url


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("fatal: write error: No space left on device", "make room on this machine's disk"),
        ("remote: fatal: write error: No space left on device", "the host's disk is full"),
    ],
)
def test_a_restore_says_whose_disk_is_full(said: str, remedy: str) -> None:
    assert remedy in copies._unread("ssh://host/agency.git", said).hint
