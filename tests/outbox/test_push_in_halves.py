"""One message that a host refuses keeps no other back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.git.remote import Push, RefResult, Result
from cn.outbox.push_in_halves import Pushes, Results, push_in_halves
from cn.values.names import Oid
from tests.support.hubs import bare, branches
from tests.support.servers import serve
from tests.support.world import World

HEAD = Oid("1" * 40)
HOOK = RefResult(Result.REJECTED, "[remote rejected] (pre-receive hook declined)")
STALE = RefResult(Result.REJECTED, "[rejected] (stale info)")
TOO_LARGE = RefResult(Result.UNKNOWN, "error: RPC failed; HTTP 413 curl 22")
AWAY = RefResult(Result.UNKNOWN, "fatal: unable to access: Failed to connect")


@pytest.mark.parametrize(
    ("why", "taken", "pushes"),
    [(HOOK, 7, 7), (TOO_LARGE, 7, 7), (STALE, 0, 1), (AWAY, 0, 1)],
    ids=["hook", "limit", "stale", "away"],
)
def test_what_is_refused_together_goes_in_halves(why: RefResult, taken: int, pushes: int) -> None:
    """Of eight messages the host minds one."""
    asked: list[int] = []

    def push(some: Pushes) -> Results:
        asked.extend(len(refs) for _, refs in some.values())
        return {
            key: {p.branch: why if any(p.branch == "sigma/3" for p in refs) else RefResult(Result.DONE) for p in refs}
            for key, (_, refs) in some.items()
        }

    told = push_in_halves(push, {"pi": ("pi", [Push(f"sigma/{n}", HEAD, None) for n in range(8)])})["pi"]
    assert [one.result for one in told.values()].count(Result.DONE) == taken
    assert told["sigma/3"] == why
    assert len(asked) == pushes


def test_one_message_that_a_host_refuses_keeps_no_other_back(world: World, tmp_path: Path) -> None:
    with serve("git", tmp_path / "served", tmp_path / "server") as served:
        sigma = world.hub("sigma")
        pi = world.hub("pi", url=f"{served.base}/pi.git", home=bare(served.path("pi")))
        world.link(sigma, pi)
        hook = pi.home / "hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        look = "while read o n r; do git cat-file -p $n:message.md | grep -q BAD && exit 1; done"
        hook.write_text(f"#!/bin/sh\n{look}; exit 0\n")
        hook.chmod(0o755)
        for subject, body in (("Bad", "BAD"), ("One", "fine"), ("Two", "fine")):
            sigma.cn("send", "pi", subject, "--body", body, check=None)
        done = sigma.cn("outbox", "flush", check=1)
        assert sorted(name for name in branches(pi.home) if "/" in name) == ["sigma/one", "sigma/two"]
        assert "sigma/bad for pi is not delivered: [remote rejected]" in done.stderr
        hook.unlink()
        assert "delivered sigma/bad" in sigma.cn("outbox", "flush").stdout
