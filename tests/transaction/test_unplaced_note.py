"""The note of what could not be brought to the work tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cn.git.entries import Entry
from cn.git.process import Done, Git
from cn.git.repository import Hub, open_hub
from cn.system.files import blob_id
from cn.transaction.checkout import place_again
from cn.transaction.unplaced import Edited, Left, forget_edited, is_left, read_unplaced, unplaced_path, write_unplaced
from cn.values.names import Oid
from tests.support.hubs import commit, git, tip, work

D, E = "docs/d.md", "docs/e.md"


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    root = work(tmp_path / "hub", "sigma")
    commit(root, {".cn/hub.yaml": "name: sigma\n", D: "new\n", E: "new\n"}, "init")
    return open_hub(root)


def left(text: str) -> Left:
    return Left(Entry("100644", blob_id(Oid("0" * 40), text.encode())), "Permission denied")


def again(hub: Hub) -> str:
    return " ".join(place_again(hub, Oid(tip(hub.root, "main"))))


def test_what_is_written_is_read_and_nothing_is_written_twice(hub: Hub) -> None:
    files = {D: left("old\n"), "docs/\udcff.md": Left(None, "No space left on device")}
    write_unplaced(hub, hub.git, read_unplaced(hub), files, {})
    before = read_unplaced(hub)
    assert before.left == files
    assert before.token
    write_unplaced(hub, hub.git, read_unplaced(hub), files, {})
    assert read_unplaced(hub) == before
    assert is_left(hub, D, b"old\n")
    assert not is_left(hub, D, b"old, and edited\n")
    assert not is_left(hub, D, None)
    assert is_left(hub, "docs/\udcff.md", None)
    write_unplaced(hub, hub.git, read_unplaced(hub), {}, {})
    assert not unplaced_path(hub).exists()


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"[]", b'{"left": {}, "edited": {}}', b'{"token": "x", "edited": {}, "left": {"a": 1}}']
)
def test_a_damaged_note_is_none(hub: Hub, data: bytes) -> None:
    unplaced_path(hub).parent.mkdir()
    unplaced_path(hub).write_bytes(data)
    assert read_unplaced(hub).left == {}
    assert again(hub) == ""


def test_an_old_file_is_replaced_and_a_missing_one_comes(hub: Hub) -> None:
    (hub.root / D).write_text("old\n")
    (hub.root / E).unlink()
    write_unplaced(hub, hub.git, read_unplaced(hub), {D: left("old\n"), E: Left(None, "Permission denied")}, {})
    assert again(hub) == f"brought to the work tree after all: {D}, {E}"
    assert git(hub.root, "status", "--porcelain") == ""
    assert read_unplaced(hub).left == {}


def test_what_main_has_now_is_what_comes(hub: Hub) -> None:
    commit(hub.root, {D: "newer\n"}, "by hand")
    git(hub.root, "rm", "--quiet", E)
    git(hub.root, "commit", "--quiet", "-m", "gone")
    (hub.root / D).write_text("old\n")
    (hub.root / E).write_text("old\n")
    write_unplaced(hub, hub.git, read_unplaced(hub), {D: left("old\n"), E: left("old\n")}, {})
    again(hub)
    assert (hub.root / D).read_text() == "newer\n"
    assert not (hub.root / E).exists()


def test_a_persons_file_and_a_persons_removal_stay(hub: Hub) -> None:
    (hub.root / D).write_text("mine\n")
    (hub.root / E).unlink()
    write_unplaced(hub, hub.git, read_unplaced(hub), {D: left("old\n"), E: left("old\n")}, {})
    told = again(hub)
    assert f"{D} was changed here meanwhile: your text stays" in told
    assert f"{E} was removed here meanwhile and stays removed" in told
    assert "brought to the work tree" not in told
    assert (hub.root / D).read_text() == "mine\n"
    assert not (hub.root / E).exists()
    assert read_unplaced(hub).left == {}


def test_what_is_edited_and_what_is_left_do_not_forget_each_other(hub: Hub) -> None:
    edited = {E: Edited(None, Oid("1" * 40)), ".cn/x": Edited(Oid("2" * 40), Oid("3" * 40))}
    write_unplaced(hub, hub.git, read_unplaced(hub), {D: left("old\n")}, edited)
    token = read_unplaced(hub).token
    forget_edited(hub, [E])
    assert read_unplaced(hub).edited == {".cn/x": edited[".cn/x"]}
    assert read_unplaced(hub).token == token, "what was moved aside for what is left is still needed"
    (hub.root / D).write_text("old\n")
    again(hub)
    assert (read_unplaced(hub).left, read_unplaced(hub).edited) == ({}, {".cn/x": edited[".cn/x"]})
    forget_edited(hub, [".cn/x"])
    assert not unplaced_path(hub).exists()


@pytest.mark.parametrize("why", ["time", "disk"])
def test_what_ends_a_checkout_is_not_tried_again_for_each_file(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """And half a file is not taken for main's."""
    asked, real = [], Git.run

    def run(self: Git, *args: str, **options: Any) -> Done:
        if args[0] != "checkout-index":
            return real(self, *args, **options)
        asked.append(args)
        staged = Path(args[-1].removeprefix("--prefix="))
        (staged / "docs").mkdir()
        (staged / D).write_text("ne")
        if why == "time":
            return Done(args, -9, b"", "", timed_out=True)
        return Done(args, 1, b"", f"error: unable to write file {D}\n")

    monkeypatch.setattr(Git, "run", run)
    for path in (D, E):
        (hub.root / path).write_text("old\n")
    write_unplaced(hub, hub.git, read_unplaced(hub), {D: left("old\n"), E: left("old\n")}, {})
    again(hub)
    assert len(asked) == 1
    assert [(hub.root / path).read_text() for path in (D, E)] == ["old\n", "old\n"]
    assert read_unplaced(hub).left.keys() == {D, E}
    monkeypatch.undo()
    again(hub)
    assert [(hub.root / path).read_text() for path in (D, E)] == ["new\n", "new\n"]
