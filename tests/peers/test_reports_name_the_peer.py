"""Whatever is wrong with a branch, each report of it says whose it is, by either route."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cn.protocol.layout import MESSAGE, NOTICE
from cn.protocol.message import About, Message, format_message
from cn.values.names import Branch, Name, Oid
from cn.values.timestamps import parse_stamp
from tests.support.hubs import blob, commit_tree, git, raw_tree, tip, write_commit
from tests.support.world import Node, World


def put_bad_branches(home: Path, prefix: str) -> int:
    """Branches in ``home`` that cannot be fetched, are refused, or cannot be merged: how many."""

    def message(kind: str = MESSAGE, sender: str = "pi", to: str = "sigma", about: About | None = None) -> str:
        created = parse_stamp("2026-02-05T12:00Z")
        text = format_message(Message(kind, Name(sender), Name(to), "Words", created, "Words.\n", about=about))
        return write_commit(home, {"message.md": text})

    base = tip(home, "refs/base/main")
    inner = git(home, "mktree", stdin=f"100644 blob {blob(home, 'x')}\tconfig\n")
    made = {
        "elsewhere": message(to="omega"),
        "forged": message(sender="omega"),
        "nothing-of-ours": message(NOTICE, about=About(Branch("sigma/none"), Oid("a" * 40), "merged")),
        "reaching": commit_tree(home, raw_tree(home, [("40000", b".git", inner)]), "reaching", [base]),
        "long": write_commit(home, {f"docs/{'n' * 300}": "x"}, parents=[base]),
        "protected": write_commit(home, {".cn/hub.yaml": "x"}, parents=[base]),
        "conflict": write_commit(home, {"docs/start.md": "x\n"}, parents=[base]),
        "strange": write_commit(home, {"docs/z.md": "x\n"}),
        "link": write_commit(home, {"docs/l": "x"}, parents=[base], modes={"docs/l": "120000"}),
    }
    for name, head in made.items():
        git(home, "update-ref", f"refs/heads/{prefix}/{name}", head)
    (home / "refs/heads" / prefix / "odd\udcff").write_text(base + "\n")
    return len(made) + 1


def reports(text: str) -> list[str]:
    """What is said of failures and refusals, from the first word on."""
    return re.findall(r"(?m)^(?:failed: |refused: |! )(.*)$", text)


@pytest.mark.parametrize("route", ["mailbox", "pickup"])
def test_each_report_about_a_branch_names_its_peer(world: World, sigma: Node, route: str) -> None:
    pi = world.hub("pi")
    world.link(sigma, pi, route)
    home, prefix = (pi.home, "sigma") if route == "pickup" else (sigma.home, "pi")
    git(home, "fetch", "-q", sigma.url, "+refs/heads/main:refs/base/main")
    count = put_bad_branches(home, prefix)
    came = sigma.cn("sync", check=1)
    sigma.write({"docs/start.md": "changed\n"})
    for name in sigma.threads():
        sigma.write_triage(name, "do:merge")
    decided = sigma.process()
    told = reports(came.stderr) + reports(decided.stderr)
    assert len(told) == count - 1, "\n".join(told)  # a notice about nothing of ours is no failure
    for line in told + reports(sigma.cn("status").stdout):
        assert line.startswith(("pi/", "pi's ")), line
    assert "there sigma/reaching" in came.stderr or route == "mailbox"


def test_a_setting_of_ours_is_no_fault_of_a_peer_and_holds_nothing_up_once_it_is_mended(
    world: World, sigma: Node, pi: Node, home: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "share/skip"
    git(home, "config", "--global", "fetch.fsck.skipList", str(missing))
    for topic in ("a", "b"):
        world.propose(pi, sigma, topic)
    said = sigma.cn("sync", check=1).stderr
    assert "'fetch.fsck.skipList' in git's configuration names a file that is not there" in said
    for _ in range(4):  # so often that a branch would be left alone for a while
        sigma.cn("sync", check=None)
    assert "creator must push" not in sigma.cn("status").stdout
    missing.parent.mkdir()
    missing.touch()
    assert sigma.cn("sync").stdout.count("received pi/") == 2
    assert "cannot be fetched" not in sigma.cn("status").stdout
