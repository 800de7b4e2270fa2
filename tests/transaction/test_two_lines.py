"""A host is set back, and clones of one hub that were ahead of it come back one after the other: no force, no loss."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cn.protocol import ledger
from cn.transaction.joined_records import fold_months, join_history, join_lines
from tests.support.hubs import (
    branches,
    clone,
    commit,
    force_push,
    git,
    identify,
    make_ssh_key,
    push,
    read,
    sign_with,
    tip,
)
from tests.support.world import Node, World, is_in_main

TOPICS = ("a", "b", "c", "d")
LINES = "".join(f"line {number}\n" for number in range(20))
JOIN = [["git", "fetch"], ["git", "update-ref"], ["git", "update-ref"], ["cn", "sync"]]


def obey(node: Node, text: str, after: str, until: str) -> list[str]:
    """Do literally what is told between two places of a text; the commands."""
    commands = re.findall(r"'((?:git|cn) [^']*)'", text.partition(after)[2].partition(until)[0])
    for one in commands:
        if one.startswith("cn "):
            node.cn(*one.split()[1:])
        else:
            subprocess.run(one, shell=True, cwd=node.root, check=True, capture_output=True, timeout=60)
    return commands


def join(node: Node) -> list[str]:
    """Status, doctor and sync tell the same step; it is followed."""
    told = node.cn("sync", check=1).stderr
    (remedy,) = re.findall(r"→ (.*)", told)
    assert remedy in node.cn("status").stdout
    assert remedy in node.cn("doctor", check=1).stdout
    done = obey(node, told, "if they shall stay", "; if they shall go")
    assert not any("push" in one for one in done)
    return done


def set_back(node: Node, left: str) -> None:
    """The host has an older main again, and takes no force, as docs/hosts.md advises."""
    git(node.home, "config", "receive.denyNonFastForwards", "false")
    force_push(node.root, node.url, f"{left}:refs/heads/main")
    git(node.home, "config", "receive.denyNonFastForwards", "true")


@pytest.fixture
def clones(world: World, sigma: Node, pi: Node) -> tuple[str, list[Node], dict[str, str]]:
    """What the host's backup has, three clones of the hub that know it, and the heads of what waits there."""
    second = world.second(sigma)
    path = clone(sigma.url, world.folder / "cn-sigma-3", trusted=True)
    identify(path, "sigma", "sigma@cn.invalid")
    third = Node("sigma", path, sigma.home, sigma.url)
    heads = {topic: world.propose(pi, sigma, topic, {f"docs/{topic}.md": f"{topic}\n"}) for topic in TOPICS}
    for node in (sigma, second, third):
        node.sync()
    return branches(sigma.home)["main"], [sigma, second, third], heads


def healthy(*nodes: Node) -> None:
    for node in nodes:
        assert "healthy" in node.cn("doctor").stdout


def test_clones_that_were_ahead_of_a_restored_host_are_all_taken_in_without_force(
    world: World, pi: Node, clones: tuple[str, list[Node], dict[str, str]]
) -> None:
    left, (sigma, second, third), heads = clones
    lines = {}
    for node, topic in ((sigma, "a"), (second, "b"), (third, "c")):
        if node is not sigma:  # each went on from the backup alone
            set_back(node, left)
        node.decide(f"pi/{topic}", "do:merge")
        lines[topic] = node.main
    set_back(sigma, left)
    told = sigma.cn("sync", check=1).stderr
    obey(sigma, told, "run again later; else", "; if the loss")
    sigma.decide("pi/d", "do:merge")
    delivered = sorted(branches(pi.home))
    for node in (second, third):
        assert [one.split()[:2] for one in join(node)] == JOIN
        healthy(node)
    main = git(sigma.home, "rev-list", "main").split()
    assert set(lines.values()) <= set(main)
    for node in (sigma, second, third):
        node.sync()
        assert all(is_in_main(node, head) for head in heads.values())
        assert node.threads() == []
    assert sorted(branches(pi.home)) == delivered, "nothing was sent again"
    pi.sync()
    for _ in range(2):
        for node in (sigma, second, third, pi):
            node.sync()
    world.settle(pi, sigma, second, third)
    healthy(sigma, second, third, pi)
    rows = [row[1:] for row in sigma.rows()]
    assert rows.count(("do:merge", "✓ merged SHA")) == len(TOPICS)
    assert rows.count(("notice:merged", "✓ delivered")) == len(TOPICS)
    assert sigma.rows() == second.rows() == third.rows()
    assert "pi/" not in {name[:3] for name in branches(sigma.home)}
    assert len([name for name in sigma.sent() if "delete" not in name]) == len(TOPICS)


def test_what_both_decided_is_over_and_both_decisions_are_logged(
    pi: Node, clones: tuple[str, list[Node], dict[str, str]]
) -> None:
    left, (sigma, second, _), heads = clones
    second.decide("pi/a", "delete:no")
    set_back(second, left)
    sigma.cn("sync", check=None)
    sigma.decide("pi/a", "do:merge")
    obey(second, second.cn("sync", check=1).stderr, "if they shall stay", ", then 'cn sync'")
    said = " ".join(second.sync().stdout.split())
    assert "pi/a was merged as" in said
    assert "on one side, and discarded on the other: main has what was merged, and pi was told both" in said
    (shows,) = re.findall(r"'(git diff [^']*)' shows what it brought", said)
    pi.sync()
    for _ in range(3):
        for node in (sigma, second, pi):
            node.sync()
    healthy(sigma, second, pi)
    assert [name for name in sigma.threads() if name.endswith("-a.md")] == []
    assert {row[1] for row in sigma.rows() if row[0] == "pi/a"} >= {"do:merge", "delete:no"}
    assert sigma.main == second.main
    assert is_in_main(sigma, heads["a"])
    shown = subprocess.run(shows, shell=True, cwd=sigma.root, check=True, capture_output=True, timeout=60)
    assert b"+++ b/docs/a.md" in shown.stdout
    git(sigma.root, "rm", "--quiet", "docs/a.md")
    git(sigma.root, "commit", "--quiet", "-m", "not that")
    sigma.sync()
    healthy(sigma)


def test_records_of_which_one_side_has_other_line_ends_are_joined_once(
    pi: Node, clones: tuple[str, list[Node], dict[str, str]]
) -> None:
    left, (sigma, second, _), _ = clones
    second.decide("pi/b", "do:merge")
    names = git(second.root, "ls-files", "--", "state/ledger", "logs/inbox").split()
    commit(second.root, {name: (second.root / name).read_bytes().replace(b"\n", b"\r\n") for name in names}, "format")
    second.sync()
    set_back(second, left)
    sigma.cn("sync", check=None)
    sigma.decide("pi/a", "do:merge")
    assert [one.split()[:2] for one in join(second)] == JOIN
    sigma.sync()
    healthy(sigma, second)
    assert sigma.main == second.main
    (month,) = [name for name in (sigma.root / "state/ledger/pi").iterdir() if name.name.isdigit()]
    lines = month.read_bytes().split(b"\n")
    assert len(lines) == len(set(lines))
    assert not any(b"\r" in line for line in lines)
    decided = [row for row in sigma.rows() if row[1] == "do:merge"]
    assert sorted(row[0] for row in decided) == ["pi/a", "pi/b"]


def test_what_one_side_had_merged_by_hand_and_the_other_discarded_is_told_as_that(
    pi: Node, clones: tuple[str, list[Node], dict[str, str]]
) -> None:
    left, (sigma, second, _), heads = clones
    git(second.root, "merge", "--quiet", "--no-edit", heads["a"])
    second.decide("pi/a", "do:merge")
    set_back(second, left)
    sigma.cn("sync", check=None)
    sigma.decide("pi/a", "delete:no")
    obey(second, second.cn("sync", check=1).stderr, "if they shall stay", ", then 'cn sync'")
    said = " ".join(second.sync().stdout.split())
    assert "pi/a was merged on one side, and discarded on the other" in said
    assert "shows what it brought" not in said


def test_what_this_clone_had_not_placed_yet_is_merged_too(clones: tuple[str, list[Node], dict[str, str]]) -> None:
    """Main here lags behind what is known of origin, as after a kill: the first step brings it."""
    left, (sigma, second, _), heads = clones
    second.decide("pi/b", "do:merge")
    git(second.root, "reset", "-q", "--keep", left)
    set_back(second, left)
    sigma.decide("pi/c", "do:merge")
    assert [one.split()[1] for one in join(second)] == ["fetch", "update-ref", "merge", "update-ref", "sync"]
    healthy(second)
    assert all(is_in_main(second, heads[topic]) for topic in "bc")


def test_a_protected_file_there_still_needs_trust(world: World, clones: tuple[str, list[Node], dict[str, str]]) -> None:
    left, (sigma, second, _), heads = clones
    second.decide("pi/b", "do:merge")
    known = second.main
    set_back(second, left)
    other = clone(sigma.url, world.folder / "other")
    identify(other, "mallory")
    config = (other / ".cn/hub.yaml").read_text()
    commit(other, {".cn/hub.yaml": f"{config}# mine\n"}, "another configuration")
    push(other, sigma.url, "main")
    theirs = branches(sigma.home)["main"]
    told = second.cn("sync", check=1).stderr
    obey(second, told, "if they shall stay", ", then 'cn sync'")
    refused = second.cn("sync", check=None)
    assert refused.returncode != 0
    assert "cn trust" in refused.stderr
    assert (branches(sigma.home)["main"], tip(second.root)) == (theirs, known)
    second.cn("trust", "--yes")
    second.sync()
    assert {known, theirs} <= set(git(sigma.home, "rev-list", "main").split())
    assert is_in_main(second, heads["b"])
    healthy(second)


CONFLICTS: dict[str, tuple[dict[str, str | None], dict[str, str | None]]] = {
    "both changed": ({"docs/x.md": "here\n"}, {"docs/x.md": "there\n"}),
    "both added": ({"docs/new.md": "here\n"}, {"docs/new.md": "there\n"}),
    "moved there": (
        {"docs/x.md": LINES.replace("1", "here")},
        {"docs/x.md": None, "docs/y.md": LINES.replace("1", "no")},
    ),
    "moved here": (
        {"docs/x.md": None, "docs/y.md": LINES.replace("1", "no")},
        {"docs/x.md": LINES.replace("1", "there")},
    ),
    "moved twice": ({"docs/x.md": None, "docs/y.md": LINES}, {"docs/x.md": None, "docs/z.md": LINES}),
    "gone there": ({"docs/x.md": "here\n"}, {"docs/x.md": None}),
    "gone here": ({"docs/x.md": None}, {"docs/x.md": "there\n"}),
    "a folder there": ({"docs/n": "here\n"}, {"docs/n/a.md": "there\n"}),
    "a folder here": ({"docs/n/a.md": "here\n"}, {"docs/n": "there\n"}),
}
"""What each side made of ``docs/``, of which git merges nothing."""


@pytest.mark.parametrize("case", CONFLICTS)
def test_of_files_that_conflict_origins_stand_and_ours_are_kept_beside(
    world: World, clones: tuple[str, list[Node], dict[str, str]], case: str
) -> None:
    """The records of both stay, and no step has to be taken."""
    left, (sigma, second, _), heads = clones
    here, there = CONFLICTS[case]
    commit(sigma.root, {"docs/x.md": LINES}, "both have it")
    sigma.sync()
    second.sync()
    left = branches(sigma.home)["main"]
    commit(second.root, here, "here")
    second.decide("pi/b", "do:merge")
    set_back(second, left)
    sigma.sync()
    commit(sigma.root, there, "there")
    sigma.decide("pi/c", "do:merge")
    obey(second, second.cn("sync", check=1).stderr, "if they shall stay", ", then 'cn sync'")
    said = second.sync().stdout
    assert "was changed on both sides, and origin's stands" in said
    found = {path for path in there if there[path] is not None}
    for path in found:
        kept = [one for one in git(second.home, "ls-tree", "-r", "--name-only", "main").split() if path in one]
        assert any(read(second.home, f"main:{one}") == str(there[path]).encode() for one in kept), kept
    for path, text in here.items():
        aside = [one for one in (second.root / ".git/cn/aside").rglob("*") if one.is_file()]
        in_main = path in git(second.home, "ls-tree", "-r", "--name-only", "main").split()
        assert text is None or in_main or text.encode() in [one.read_bytes() for one in aside]
    assert not any(b"<<<<<<<" in (second.root / path).read_bytes() for path in git(second.root, "ls-files").split())
    assert all(is_in_main(second, heads[topic]) for topic in "bc")
    healthy(second)


def test_a_conflict_of_a_protected_file_makes_nothing_of_others_ours(
    world: World, clones: tuple[str, list[Node], dict[str, str]]
) -> None:
    """Who can rewind main takes back what conflicts, once both were merged: what was theirs goes with it."""
    left, (sigma, second, _), _ = clones
    page = (second.root / "spec/USER.md").read_text()
    commit(second.root, {"spec/USER.md": f"{page}Ask twice.\n"}, "rules")
    second.sync()
    known = branches(second.home)["main"]
    set_back(second, left)
    other = clone(sigma.url, world.folder / "other")
    identify(other, "mallory")
    commit(other, {"spec/USER.md": f"{page}Mallory decides.\n"}, "wording")
    push(other, sigma.url, "main")
    obey(second, second.cn("sync", check=1).stderr, "if they shall stay", ", then 'cn sync'")
    assert "protected files changed elsewhere" in second.cn("sync", check=1).stderr
    set_back(second, known)
    told = second.cn("sync", check=1).stderr
    obey(second, told, "if the loss is meant", " so that branches")
    second.sync()
    assert read(second.home, "main:spec/USER.md").decode() == f"{page}Ask twice.\n"
    healthy(second)


def test_what_was_signed_elsewhere_and_what_was_made_here_conflict_in_a_question(
    world: World, clones: tuple[str, list[Node], dict[str, str]], tmp_path: Path
) -> None:
    """A run decides between two who both may: what it leaves out is shown."""
    left, (sigma, second, _), _ = clones
    page = (second.root / "spec/USER.md").read_text()
    commit(second.root, {"spec/USER.md": f"{page}Ask twice.\n"}, "rules")
    second.sync()
    set_back(second, left)
    other = clone(sigma.url, world.folder / "other")
    private, public = make_ssh_key(tmp_path / "key")
    identify(other, "alice")
    sign_with(other, private)
    git(other, "config", "commit.gpgsign", "true")
    git(second.root, "config", "cn.trustedKey", public.strip())
    commit(other, {"spec/USER.md": f"{page}Ask once.\n"}, "wording")
    push(other, sigma.url, "main")
    obey(second, second.cn("sync", check=1).stderr, "if they shall stay", ", then 'cn sync'")
    assert "protected files changed elsewhere" in second.cn("sync", check=1).stderr
    shown = second.cn("trust", "--yes", check=None).stdout
    assert "-Ask twice." in shown
    assert "+Ask once." in shown
    second.cn("trust", "--yes", check=None)
    second.sync()
    assert read(second.home, "main:spec/USER.md").decode() == f"{page}Ask once.\n"
    healthy(second)


@pytest.mark.parametrize("words", [("doctor",), ("sync", "--dry-run")])
def test_the_step_is_whole_where_only_what_writes_nothing_has_looked(
    clones: tuple[str, list[Node], dict[str, str]], words: tuple[str, ...]
) -> None:
    left, (sigma, second, _), heads = clones
    second.decide("pi/b", "do:merge")
    set_back(second, left)
    sigma.decide("pi/c", "do:merge")
    looked = second.cn(*words, check=1)
    obey(second, looked.stdout + looked.stderr, "if they shall stay", "; if they shall go")
    healthy(second)
    assert all(is_in_main(second, heads[topic]) for topic in "bc")
    assert sorted(row[0] for row in second.rows() if row[1] == "do:merge") == ["pi/b", "pi/c"]


def test_a_rewound_main_is_never_joined_by_a_run_alone(clones: tuple[str, list[Node], dict[str, str]]) -> None:
    left, (sigma, second, _), _ = clones
    second.decide("pi/b", "do:merge")
    known = second.main
    set_back(second, left)
    sigma.decide("pi/c", "do:merge")
    there = branches(sigma.home)["main"]
    for _ in range(3):
        assert "was rewound" in second.cn("sync", check=1).stderr
    assert (branches(sigma.home)["main"], tip(second.root)) == (there, known)


AT = "2026-02-05T14:00:0"
HEAD = "a" * 40


def event(second: int, words: str, **fields: str) -> str:
    return " ".join([f"{AT}{second}Z {words} {HEAD}", *(f"{key}={value}" for key, value in fields.items())])


RECEIVED = event(0, "in received x", branch="pi/x", kind="proposal", thread="20260205-pi-x.md")
LATER = event(5, "in received x", branch="pi/x", kind="proposal", thread="20260205-pi-x.md")
DECIDED = event(3, "in decided x", status="merged")
GONE = event(4, "in gone x")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"202602": [RECEIVED, DECIDED]}, {"202602": [LATER]}),
        ({"202602": [LATER]}, {"202602": [RECEIVED, DECIDED]}),
        ({"202602": [RECEIVED, DECIDED]}, {"202603": [LATER]}),
        ({"202603": [LATER]}, {"202602": [RECEIVED, DECIDED]}),
        ({"202602": [RECEIVED, DECIDED]}, {"202602": [LATER, DECIDED, GONE]}),
    ],
)
def test_what_is_over_on_one_side_is_over(theirs: dict[str, list[str]], ours: dict[str, list[str]]) -> None:
    joined = join_history({}, theirs, ours)
    every = [line for lines in joined.values() for line in lines]
    assert sorted(every) == sorted({line for side in (theirs, ours) for lines in side.values() for line in lines})
    assert fold_months(joined) == ledger.format_open({}).encode() == b""


def test_what_was_known_before_stands_first_and_a_line_once() -> None:
    other = event(1, "in received y", branch="pi/y", kind="proposal", thread="20260205-pi-y.md")
    joined = join_history({"202602": [RECEIVED]}, {"202602": [RECEIVED, other]}, {"202602": [RECEIVED, other, DECIDED]})
    assert joined == {"202602": [RECEIVED, other, DECIDED]}
    assert fold_months({"202602": ["<<<<<<<"]}) is None
    assert join_history({}, {"202602": ["<<<<<<<"]}, {"202602": [RECEIVED]}) == {"202602": ["<<<<<<<", RECEIVED]}
    assert join_history({}, {"202602": [RECEIVED]}, {"202602": [RECEIVED, "<<<<<<<"]}) == {"202602": [RECEIVED]}


def test_rows_of_both_logs_stand_below_one_head() -> None:
    assert join_lines(["# day", "1"], ["# day", "1", "2"], ["# day", "1", "2", "3"]) == ["# day", "1", "2", "2", "3"]
    assert join_lines(None, ["# day", "", "1"], ["# day", "", "2"]) == ["# day", "", "1", "2"]
    assert join_lines(["1", "2"], ["1", "2"], ["2", "3"]) == ["1", "2", "3"]


def test_records_of_people_s_commits_are_still_origin_s(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    (month,) = (str(p.relative_to(sigma.root)) for p in sigma.root.glob("state/ledger/pi/2*"))
    before = read(sigma.home, f"main:{month}")
    commit(sigma.root, {month: before.decode() + DECIDED + "\n"}, "by hand")
    other = clone(sigma.url, tmp_path / "other")
    identify(other, "other")
    commit(other, {"docs/new.md": "new\n"}, "theirs")
    push(other, sigma.url, "main")
    sigma.sync()
    assert read(sigma.home, f"main:{month}") == before


def test_what_another_clone_sent_is_not_called_a_strangers(
    pi: Node, clones: tuple[str, list[Node], dict[str, str]]
) -> None:
    left, (sigma, second, _), _ = clones
    second.decide("pi/b", "do:merge")
    set_back(second, left)
    told = sigma.sync().stdout
    assert "sigma/notice-b at pi is a message in our name" in told
    assert "Another clone of this hub may have sent it" in told
    sigma.decide("pi/c", "do:merge")
    join(second)
    assert "notice-b" not in sigma.sync().stdout + sigma.cn("status").stdout
    pi.sync()
    for node in (sigma, pi):
        node.sync()
    assert {"sigma/notice-b", "sigma/notice-c"}.isdisjoint(branches(pi.home)), "read, and cleaned up as ours"
