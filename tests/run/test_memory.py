"""What this clone keeps in ``.git/cn`` may be anything: nothing hangs, nothing is an internal error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cn.git.repository import Hub, open_hub
from cn.run.memory import ANOTHER, MISNAMED, Memory
from cn.transaction.checkout import Asides, has_written_asides, sweep_asides
from cn.values.shell_words import command
from tests.support.hubs import ROOT, commit, git, work
from tests.support.world import Node, World

AT = datetime(2026, 2, 5, 12, tzinfo=UTC)
STAMP = "2026-02-05T11:00:00Z"
FAILED = {"count": 2, "since": STAMP, "last": STAMP, "reason": "gone", "hint": "", "next": "2026-02-05T12:10:00Z"}
GOOD: dict[str, Any] = {
    "standing": {"wake": {"text": "t", "since": STAMP, "remedy": "r", "told": 1}},
    "unreachable": {"pi": FAILED},
    "silent": {"pi pi": FAILED},
    "fetch": {"pi x": FAILED},
    "not-taken": {"pi/x y": FAILED},
    "attempts": {"20260205": FAILED},
    "stopped": {"text": "t", "hint": "h", "since": STAMP, "kind": "Blocked"},
    "told": {"a": 1},
    "days": {"tidy": "20260205"},
    "ledgers": {"pi": "a" * 40},
}
JUNK = (5, "zz", None, ["x"], {"a": 1}, -1, 1e308, True, {"since": 5, "text": None, "next": "x", "count": "y"})


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    root = work(tmp_path / "hub", "sigma")
    commit(root, {".cn/hub.yaml": "name: sigma\n"})
    (root / ".git/cn").mkdir()
    return open_hub(root)


def remember(hub: Hub, data: object) -> Memory:
    (hub.state / "local.json").write_text(json.dumps(data))
    memory = Memory(hub, AT)
    for failures in (memory.unreachable, memory.unfetched, memory.not_taken, memory.attempts):
        for key in [*failures.entries, "new"]:
            failures.waits(key)
            failures.failed(key, "why")
            assert failures.reason(key) == "why"
    memory.conditions.set("wake", "again")
    assert memory.conditions.shown
    memory.told("x")
    memory.begin("tidy")
    memory.note_stop("s", "h", "Blocked")
    memory.save()
    return memory


def test_memory_of_any_shape_is_read(hub: Hub) -> None:
    for junk in JUNK:
        remember(hub, junk)
        for section, part in GOOD.items():
            remember(hub, {**GOOD, section: junk})
            for name, entry in part.items():
                remember(hub, {**GOOD, section: {name: junk}})
                for key in entry if isinstance(entry, dict) else ():
                    remember(hub, {**GOOD, section: {name: {**entry, key: junk}}})
                    remember(hub, {**GOOD, section: {name: {k: v for k, v in entry.items() if k != key}}})
    (hub.state / "local.json").write_text("[" * 100_000)
    assert not Memory(hub, AT).stopped


def test_memory_that_is_well_formed_is_kept(hub: Hub) -> None:
    (hub.state / "local.json").write_text(json.dumps(GOOD))
    memory = Memory(hub, AT)
    assert json.loads(memory.checkpoint()) == GOOD
    assert memory.unreachable.waits("pi")


@pytest.mark.parametrize("text", ['{"format":1}', "[]", '{"0": [5, 6]}', '{"../x": ["a", "b"]}', "[" * 100_000, "\0"])
def test_a_manifest_of_any_shape_is_read(hub: Hub, text: str) -> None:
    folder = hub.state / "old" / "token"
    folder.mkdir(parents=True)
    (folder / "manifest").write_text(text)
    assert set(Asides.of(hub, "token").manifest) <= {"0"}
    assert not has_written_asides(hub)
    assert sweep_asides(hub) == []


OURS = ("local.json", "quiet", "unpushed", "unplaced", "waking", "wake", "shown", "lock", "old/token/manifest")
MUST = ("journal", "restore", f"push/{'1' * 40}")


@pytest.mark.sliced(9)
@pytest.mark.parametrize("name", [*OURS, *MUST])
def test_a_pipe_in_the_place_of_a_file_of_ours_hangs_nobody(sigma: Node, name: str) -> None:
    git(sigma.root, "config", "cn.wake", "true")
    path = sigma.root / ".git/cn" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for words in (["status"], ["doctor"], ["sync"]):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        done = subprocess.run(
            [sys.executable, "-m", "cn", *words, "--hub", str(sigma.root)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert "internal error" not in done.stderr
        if name in MUST and words == ["sync"]:
            assert f"cannot read {path}: it is no file" in done.stderr


def test_names_to_wake_for_may_be_any_bytes(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "note"
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    git(sigma.root, "config", "cn.wake", f'cat > "{note}"')
    for file in ("wake", "waking"):
        (sigma.root / ".git/cn" / file).write_bytes(b"\xff\xfe\0bad\n\xc3(\n" + name.encode() + b"\n")
    sigma.sync()
    assert note.read_text().endswith(f"\n{name}\n")
    assert "\0" not in note.read_text()


def test_what_names_a_url_of_a_peer_counts_for_that_one(hub: Hub) -> None:
    memory = Memory(hub, AT).know_hubs({"pi": "/a b/pi.git", "omega": "/omega.git"})
    conditions = memory.conditions
    push = command("git push {} x", "/a b/pi.git")
    conditions.set("gone", "it is gone", f"ask, or {push}", name="pi/x 1", plain="ask")
    conditions.set("replaced", "it is another", push, name="pi:x")
    conditions.set("fetch", "it does not come", "wait", name="pi/x 1")
    conditions.set(MISNAMED, "it is called otherwise", name="omega")
    memory.save()
    again = Memory(hub, AT)

    def shown(hubs: dict[str, str]) -> dict[str, str]:
        return {text: remedy for text, remedy, *_ in again.know_hubs(hubs).conditions.shown}

    looks = "'cn peer sync pi' tells what may be done"
    moved = {"it is gone": "ask", "it is another": looks, "it does not come": "wait"}
    assert shown({}) == moved
    assert shown({"pi": "/omega.git", "omega": "/elsewhere.git"}) == moved
    whole = moved | {"it is gone": f"ask, or {push}", "it is another": push, "it is called otherwise": ""}
    assert shown({"pi": "/a b/pi.git", "omega": "/omega.git"}) == whole
    for kind in (ANOTHER, MISNAMED):
        again.conditions.set(kind, "a stranger", name="pi")
        assert again.conditions.get("gone", "pi/x 1") == ("it is gone", "ask", "", "ask")
        assert again.conditions.of("replaced") == [("it is another", looks)]
        again.conditions.clear(kind, "pi")
    assert again.conditions.bound == {"pi"}


def test_what_a_run_waited_for_that_was_ended_is_left_alone_longer_each_time(hub: Hub) -> None:
    """Also where it lists each time, and only what is asked then hangs; a run that comes every 5 minutes finds it."""
    for pause in (5, 5, 10, 20, 40, 60, 60):
        memory = Memory(hub, AT)
        memory.unreachable.worked("pi")
        memory.unreachable.failed("pi", "no answer", cut_at=AT + timedelta(seconds=8))
        assert memory.unreachable.next_try("pi") == AT + timedelta(minutes=pause, seconds=8)
        memory.save()
        assert Memory(hub, AT + timedelta(minutes=5)).unreachable.waits("pi")
    memory = Memory(hub, AT)
    assert memory.unreachable.worked("pi")
    assert memory.unreachable.failed("pi", "refused"), "it had worked: this begins anew"
    assert memory.unreachable.entries["pi"]["count"] == 1


def test_what_failed_at_a_url_that_its_peer_has_no_more_begins_anew(hub: Hub) -> None:
    memory = Memory(hub, AT).know_hubs({"pi": "/pi.git", "omega": "/omega.git"})
    for peer in ("pi", "omega", "(mailbox)"):
        memory.unreachable.failed(peer, "no answer", hung=True)
    memory.silent.failed("pi pi", "no answer", hung=True)
    memory.silent.failed("(mailbox) pi", "no answer", hung=True)
    memory.attempts.failed("to-pi.md", "refused", peer="pi")
    memory.attempts.failed("to-omega.md", "refused", peer="omega")
    memory.save()
    again = Memory(hub, AT).know_hubs({"pi": "/moved.git", "omega": "/omega.git"})
    assert again.unreachable.entries.keys() == {"omega", "(mailbox)"}
    assert again.silent.entries.keys() == {"(mailbox) pi"}
    assert again.attempts.entries.keys() == {"to-omega.md"}
    assert again.unreachable.failed("pi", "no answer"), "it is new"
    before = again.checkpoint()
    again.rollback(before)
    again.unreachable.failed("pi", "no answer")
    again.save()
    assert "pi" in Memory(hub, AT).know_hubs({"pi": "/moved.git"}).unreachable.entries
    assert "pi" not in Memory(hub, AT).know_hubs({"pi": "/pi.git"}).unreachable.entries
