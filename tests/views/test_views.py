"""What people and programs see of a hub, on real hubs: true, plain, and without a trace."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.hubs import ROOT, cn, cn_env, commit, git
from tests.support.world import Node, World, picture

PAGE = ROOT / "docs/protocol/json.md"
THREAD_KEYS = {"thread", "peer", "branch", "head", "state", "received", "decision", "executed", "chain"}
EVIL = "Look \u202egnp.exe \x1b[31mred\x1b[0m <!-- hidden --> [link](http://evil.example)"


@dataclass(frozen=True)
class Scene:
    """A hub in which something of everything waits; tests only look at it."""

    world: World
    sigma: Node
    pi: Node
    day: str

    def thread(self, topic: str) -> str:
        return f"{self.day}-pi-{topic}.md"

    def look(self, *args: str) -> str:
        return self.sigma.cn(*args).stdout

    def json(self, *args: str) -> Any:
        return json.loads(self.look(*args, "--json"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("scene")
    for name in ("sigma", "pi"):
        cn("init", name, "--path", folder / "template" / name, check=0)
    world = World(folder, folder / "template")
    sigma = world.hub("sigma", config="reviewers:\n  - name: rho\n")
    pi = world.hub("pi")
    world.link(sigma, pi)
    old = git(world.person(pi, sigma), "rev-parse", "HEAD")
    world.propose(pi, sigma, "merged", {"docs/merged.md": "merged\n"})
    sigma.sync()
    sigma.decide("pi/merged", "do:merge")
    pi.sync()
    sigma.sync()
    world.propose(pi, sigma, "stale", {"docs/merged.md": "stale\n"}, start=old)
    for topic in ("later", "handed", "ready", "fresh"):
        world.propose(pi, sigma, topic, message=EVIL if topic == "fresh" else "Add a doc")
    world.propose(sigma, pi, "idea")
    sigma.sync()
    pi.sync()
    pi.write_refused_triage("sigma/idea", "do:merge", "--actor", "mallory")
    pi.process(check=1)
    sigma.triage("pi/later", "defer:after the release", "--until", "2999-01-01")
    sigma.triage("pi/handed", "delegate:rho")
    sigma.triage("pi/stale", "do:merge")
    sigma.process()
    sigma.triage("pi/ready", "do:merge")
    sigma.cn("peer", "add", "omega", f"{folder}/nowhere.git")
    sigma.cn("send", "omega", "Hello omega", "--body", "text", check=1)
    sigma.cn("send", "pi", "Hello pi")
    sigma.sync()
    (sigma.root / "threads/inbox/notes.md").write_text("mine\n")
    day = min(sigma.done())[:8]
    return Scene(world, sigma, pi, day)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new hub, without origin and without peers."""
    root = tmp_path_factory.mktemp("empty") / "hub"
    cn("init", "tau", "--path", root, check=0)
    return root


def on_terminal(hub: Path, *args: str, columns: int = 80, code: int = 0, **env: str) -> str:
    """What cn prints on a terminal of that width; errors only where it is to fail."""
    main, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cn", "--hub", str(hub), *args],
        cwd=hub,
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=child if code else subprocess.DEVNULL,
        env=cn_env({"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40", "GIT_PAGER": "cat", **env}),
    )
    os.close(child)
    out = b"".join(_read(main))
    os.close(main)
    assert process.wait(60) == code
    return out.decode().replace("\r\n", "\n")


def _read(fd: int) -> Iterator[bytes]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:  # EIO: the other side is closed
            return
        if not data:
            return
        yield data


def unstyled(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# The list.


def test_the_inbox_lists_what_waits_with_its_state(scene: Scene) -> None:
    lines = scene.look("inbox").splitlines()
    assert lines[0].split() == ["THREAD", "FROM", "KIND", "AGE", "TITLE", "STATE"]
    states = {line.split()[0]: line for line in lines[1:] if line.startswith(scene.day)}
    assert "Add a doc" in states[f"{scene.day}-pi-ready"]
    assert states[f"{scene.day}-pi-fresh"].endswith("  pending")
    assert states[f"{scene.day}-pi-ready"].endswith("decided: do:merge by sigma")
    assert states[f"{scene.day}-pi-later"].endswith("deferred until 2999-01-01T00:00Z")
    assert states[f"{scene.day}-pi-handed"].endswith("assigned to rho")
    assert states[f"{scene.day}-pi-stale"].endswith("refused: rebase-before-merge")
    assert f"{scene.day}-pi-merged" not in states
    assert "    → rebase the branch on the latest main and push it again" in lines


def test_inbox_and_inbox_list_are_the_same(scene: Scene) -> None:
    assert scene.look("inbox") == scene.look("inbox", "list")


def test_all_adds_what_is_done(scene: Scene) -> None:
    first = scene.look("inbox", "list", "--all").splitlines()[1]
    assert first.split()[0] == f"{scene.day}-pi-merged"
    assert first.endswith("done: merged")
    states = {t["thread"]: t["state"] for t in scene.json("inbox", "list", "--all")}
    assert states[scene.thread("merged")] == "done"
    assert states[scene.thread("fresh")] == "pending"


def test_a_file_that_is_no_thread_is_named(scene: Scene) -> None:
    assert "threads/inbox/notes.md is no thread" in scene.sigma.cn("inbox").stderr
    assert scene.json("status")["unknown_files"] == ["notes.md"]


def test_a_new_decision_takes_the_place_of_a_refused_one(scene: Scene) -> None:
    path = scene.sigma.root / "threads/inbox" / scene.thread("stale")
    before = path.read_bytes()
    try:
        path.write_bytes(before.replace(b"decision: do:merge", b"decision: delete:too old"))
        states = {t["thread"]: t for t in scene.json("inbox")}
        assert states[path.name]["state"] == "decided"
        path.write_bytes(before.replace(b"actor: sigma\n", b""))
        broken = {t["thread"]: t for t in scene.json("inbox")}[path.name]
        assert (broken["state"], broken["decision"], broken["rule"]) == ("refused", None, "valid-triage")
        assert "actor" in broken["note"]
        path.write_bytes(before[: before.index(b"## Triage")])
        assert {t["thread"]: t["state"] for t in scene.json("inbox")}[path.name] == "pending"
    finally:
        path.write_bytes(before)


# One thread.


@pytest.mark.parametrize(
    "form", ["{name}", "{name}.md", "threads/inbox/done/{name}.md", "{root}/threads/inbox/done/{name}.md", "pi/merged"]
)
def test_a_thread_is_found_by_name_path_or_branch(scene: Scene, form: str) -> None:
    name = scene.thread("merged").removesuffix(".md")
    shown = scene.json("inbox", "show", form.format(name=name, root=scene.sigma.root))
    assert shown["thread"] == f"{name}.md"


def test_show_leads_from_the_decision_to_both_commits(scene: Scene) -> None:
    shown = scene.json("inbox", "show", "pi/merged")
    assert set(shown) >= THREAD_KEYS
    steps = {link["step"]: link for link in shown["chain"]}
    assert list(steps) == ["received", "decided", "executed", "creator_informed", "branch_deleted"]
    assert all(link["at"] for link in shown["chain"])
    parents = git(scene.sigma.root, "log", "-1", "--format=%P", steps["executed"]["commit"]).split()
    assert parents[1] == steps["executed"]["head"] == shown["head"]
    text = scene.look("inbox", "show", "pi/merged")
    assert f"done: merged as {shown['merge']}" in text
    assert "# pi/merged" in text
    assert re.search(r"\d\dT\d\d:\d\dZ  branch deleted", text)


def test_show_of_a_pending_thread_says_what_is_waited_for(scene: Scene) -> None:
    shown = scene.json("inbox", "show", "pi/fresh")
    waiting = [link["step"] for link in shown["chain"] if link["waiting_since"]]
    assert waiting == ["decided"]
    assert re.search(r"waiting since \d+m +decided", scene.look("inbox", "show", "pi/fresh"))


def test_a_thread_of_an_earlier_year_is_found(scene: Scene, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(scene.sigma.root), str(clone))
    name = scene.thread("merged")
    text = (clone / "threads/inbox/done" / name).read_text()
    commit(clone, {f"threads/inbox/done/{name}": None, f"threads/inbox/done/{name[:4]}/{name}": text})
    shown = json.loads(cn("inbox", "show", name, "--json", hub=clone, check=0).stdout)
    assert shown["path"] == f"threads/inbox/done/{name[:4]}/{name}"
    assert shown["text"] == text


def test_an_unknown_thread_is_refused(scene: Scene) -> None:
    done = scene.sigma.cn("inbox", "show", "pi/nothing", check=1)
    assert "no thread 'pi/nothing'" in done.stderr
    for look in ("why", "show"):  # named as what we sent is named
        words = (look,) if look == "why" else ("thread", look)
        said = scene.sigma.cn(*words, "pi:fresh", check=1).stderr
        assert "no thread 'pi:fresh'" in said
        assert "there is pi/fresh" in said


@pytest.mark.parametrize("args", [("inbox", "show", "pi/fresh"), ("inbox", "list", "--all"), ("log",)])
def test_no_hidden_character_of_a_peer_reaches_the_screen(scene: Scene, args: tuple[str, ...]) -> None:
    pipe = scene.look(*args)
    raw = scene.look(*args, "--json")
    screen = unstyled(on_terminal(scene.sigma.root, *args))
    for text in (pipe, raw, screen):
        assert "\u202e" not in text
        assert "\x1b" not in text


def test_on_a_terminal_what_the_peer_wrote_is_shown_letter_by_letter(scene: Scene) -> None:
    screen = on_terminal(scene.sigma.root, "inbox", "show", "pi/fresh", columns=200)
    assert "\x1b[" in screen
    plain = unstyled(screen)
    assert "<!-- hidden -->" in plain
    assert "[link](http://evil.example)" in plain
    assert "**From:**" not in plain
    assert re.search(r"^From: pi *$", plain, re.M)


# Status, outbox, peers.


def test_status_is_one_screen_that_names_everything(scene: Scene) -> None:
    text = unstyled(on_terminal(scene.sigma.root, "status"))
    lines = text.splitlines()
    assert re.fullmatch(r"sigma +main at [0-9a-f]{7}, in step with origin; last run \S.*", lines[0])
    assert re.fullmatch(r"5 pending, oldest \d+m +━+", lines[1])
    assert len(lines) <= 50
    assert all(len(line) <= 80 for line in lines)
    titles = ("to decide", "refused", "deferred", "assigned", "waiting on others", "outbox", "unreachable")
    assert {re.sub(r"  \d+$", "", line) for line in lines} >= set(titles)
    assert "rebase-before-merge" in text
    assert "sigma/hello-pi at pi" in text
    assert "sigma/hello-omega for omega" in text


def test_without_a_terminal_status_is_plain_lines(scene: Scene) -> None:
    lines = scene.look("status").splitlines()
    assert re.fullmatch(r"sigma: main at [0-9a-f]{7}, in step with origin; last run \S.*", lines[0])
    assert re.fullmatch(r"5 pending, oldest \d+m", lines[1])
    for title in ("to decide", "refused", "deferred", "assigned", "waiting on others", "outbox", "unreachable"):
        assert title in lines


def test_status_counts_and_warns(scene: Scene) -> None:
    status = scene.json("status")
    assert (status["pending"], len(status["threads"])) == (5, 5)
    assert status["main"]["ahead"] == status["main"]["behind"] == 0
    assert {w["branch"] for w in status["waiting"]} == {"sigma/idea", "sigma/hello-pi"}
    assert not any(w["warning"] for w in status["waiting"])
    assert [e["to"] for e in status["outbox"]] == ["omega"]
    assert [u["name"] for u in status["unreachable"]] == ["omega"]
    assert status["outbox"][0]["attempts"] >= 1


def test_an_answer_that_is_not_final_and_an_old_branch_are_shown(scene: Scene, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(scene.sigma.root), str(clone))
    path = "state/ledger/pi/open"
    items = [json.loads(line) for line in (clone / path).read_text().splitlines()]
    for item in items:
        if (item["side"], item["topic"]) == ("out", "idea"):
            item["state"] = "answered"
            item["since"] = "2020-01-01T00:00:00Z"
            item["fields"] |= {"status": "refused", "reason": "rebase-before-merge: main changed"}
    commit(clone, {path: "".join(json.dumps(item) + "\n" for item in items)})
    status = json.loads(cn("status", "--json", hub=clone, check=0).stdout)
    idea = next(w for w in status["waiting"] if w["branch"] == "sigma/idea")
    assert (idea["status"], idea["warning"]) == ("refused", True)
    told = next(line for line in cn("status", hub=clone).stdout.splitlines() if "sigma/idea at pi" in line)
    assert re.search(r'\d+d, refused: "rebase-before-merge: main changed" \(!\)$', told)


def test_a_damaged_peer_and_a_draft_of_the_configuration_are_named(scene: Scene, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(scene.sigma.root), str(clone))
    commit(clone, {"state/ledger/pi/open": "<<<<<<< ours\n"})
    with (clone / ".cn/hub.yaml").open("a") as file:
        file.write("warn_after: 9\n")
    status = json.loads(cn("status", "--json", hub=clone, check=0).stdout)
    assert [d["peer"] for d in status["damaged"]] == ["pi"]
    assert status["not_in_effect"] == [".cn/hub.yaml"]
    text = cn("status", hub=clone, check=0).stdout
    assert "! pi is left out: state/ledger/pi/open is damaged" in text
    assert "! .cn/hub.yaml has a change that is not committed" in text
    step = "  → commit it, or 'git checkout refs/heads/main -- .cn/hub.yaml' throws it away"
    assert step in text.splitlines()
    narrow = unstyled(on_terminal(clone, "status", columns=40))
    whole = "'git checkout refs/heads/main -- .cn/hub.yaml'"
    assert whole in [line.strip() for line in narrow.splitlines()], "a broken command cannot be copied"
    (clone / ".cn/hub.yaml").unlink()
    text = cn("status", hub=clone, check=0).stdout
    assert "  → 'git checkout refs/heads/main -- .cn/hub.yaml' brings it back" in text.splitlines()
    assert "pi is left out" in cn("inbox", hub=clone, check=0).stderr


def test_nothing_pending_is_said_in_one_line(empty: Path) -> None:
    assert cn("inbox", hub=empty, check=0).stdout == "nothing pending\n"
    lines = cn("status", hub=empty, check=0).stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("tau: main at ")
    assert "no origin" in lines[0]
    assert lines[1] == "nothing pending"


@pytest.mark.parametrize("args", [("inbox",), ("inbox", "list", "--all"), ("outbox",), ("peer", "list"), ("log",)])
def test_an_empty_hub_prints_empty_lists(empty: Path, args: tuple[str, ...]) -> None:
    assert json.loads(cn(*args, "--json", hub=empty, check=0).stdout) == []
    assert len(cn(*args, hub=empty, check=0).stdout.splitlines()) == 1


def test_the_outbox_tells_attempts_and_reason(scene: Scene) -> None:
    text = scene.look("outbox")
    age = re.compile(r"\b\d+[smh] ago")
    assert age.sub("AGO", scene.look("outbox", "list")) == age.sub("AGO", text)
    assert text.startswith("sigma/hello-omega for omega, queued ")
    assert re.search(r"^ +\d attempts?: unreachable: ", text, re.M)


def test_peers_show_route_key_and_failure(scene: Scene) -> None:
    text = scene.look("peer", "list")
    assert re.search(r"^pi  /.*\n    mailbox, no key", text)
    assert re.search(r"^omega  .*\n.*\n    unreachable since \d+m: ", text, re.M)


def test_a_pinned_key_is_shown_by_its_fingerprint(empty: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(empty), str(clone))
    git(clone, "remote", "remove", "origin")
    git(clone, "update-ref", "refs/cn/trusted", "HEAD")
    cn("peer", "add", "rho", "/nowhere", "--key", f"{key}.pub", hub=clone, check=0)
    want = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], capture_output=True, text=True, check=True)
    shown = json.loads(cn("peer", "list", "--json", hub=clone, check=0).stdout)
    assert shown[0]["key"] == want.stdout.split()[1]


# The log.


def test_the_log_is_the_days_table_in_order(scene: Scene) -> None:
    rows = [(r["source"], r["decision"], r["executed"] or "—") for r in scene.json("log", "-n", "1000")]
    table = re.findall(r"^\| \d\d:\d\d \| (\S+) \| (.*?) \| (.*?) \|$", scene_table(scene), re.M)
    assert rows == table


def scene_table(scene: Scene) -> str:
    return "".join(p.read_text() for p in sorted((scene.sigma.root / "logs/inbox").glob("*.md")))


def test_a_row_leads_to_thread_head_and_commit(scene: Scene) -> None:
    row = next(r for r in scene.json("log") if r["outcome"] == "merged")
    shown = scene.json("inbox", "show", "pi/merged")
    assert (row["thread"], row["head"], row["commit"]) == (shown["thread"], shown["head"], shown["merge"])
    assert row["audited"] is True


def test_without_the_machine_log_the_rows_are_still_there(scene: Scene, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(scene.sigma.root), str(clone))
    there = json.loads(cn("log", "-n", "1000", "--json", hub=clone, check=0).stdout)
    here = scene.json("log", "-n", "1000")
    assert [(r["source"], r["decision"], r["executed"]) for r in there] == [
        (r["source"], r["decision"], r["executed"]) for r in here
    ]
    assert {r["thread"] for r in there} == {None}
    of_thread = json.loads(cn("log", "--thread", scene.thread("merged"), "--json", hub=clone, check=0).stdout)
    assert [r["decision"] for r in of_thread][:2] == ["received", "do:merge"]


def test_an_event_of_the_machine_log_alone_is_told_apart(empty: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(empty), str(clone))
    line = {"time": "2026-02-05T14:00:07Z", "event": "turn", "source": "pi/x", "decision": "ack"}
    (clone / "logs/cn.log").write_text("not json\n" + json.dumps(line) + "\n[]\n")
    rows = json.loads(cn("log", "--json", hub=clone, check=0).stdout)
    assert [(r["event"], r["audited"], r["time"]) for r in rows] == [("turn", False, line["time"])]


def test_the_log_is_filtered_by_peer_thread_time_and_count(scene: Scene) -> None:
    everything = scene.json("log", "-n", "1000")
    assert scene.json("log", "-n", "3") == everything[-3:]
    omega = scene.json("log", "--peer", "omega")
    assert omega
    assert {r["source"].partition("/")[0] for r in omega} == {"omega"}
    stale = scene.json("log", "--thread", scene.thread("stale"))
    assert stale == scene.json("log", "--thread", "pi/stale")
    assert {r["source"] for r in stale} == {"pi/stale"}
    assert scene.json("log", "--since", "3d") == everything
    assert scene.json("log", "--since", "2999-01-01") == []
    first = everything[0]["time"]
    assert scene.json("log", "--since", first) == everything
    assert scene.look("log", "--since", "2999-01-01") == "nothing logged\n"


def test_only_the_days_needed_are_read(empty: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(empty), str(clone))
    head = "| Time | Source | Decision | Executed |\n|---|---|---|---|\n"
    days = {
        f"logs/inbox/202601{day:02}.md": f"{head}| 0{hour}:00 | pi/d{day} | received | — |\n"
        for day in range(1, 29)
        for hour in (3,)
    }
    commit(clone, days)
    last = json.loads(cn("log", "-n", "2", "--json", hub=clone, check=0).stdout)
    assert [r["time"] for r in last] == ["2026-01-27T03:00:00Z", "2026-01-28T03:00:00Z"]
    since = json.loads(cn("log", "--since", "2026-01-27T03:00", "--json", hub=clone, check=0).stdout)
    assert since == last


def test_a_time_that_is_none_is_a_usage_error(scene: Scene) -> None:
    assert "--since" in scene.sigma.cn("log", "--since", "yesterday-ish", check=2).stderr


# Everything.

LOOKS = [
    ("inbox",),
    ("inbox", "list", "--all"),
    ("inbox", "show", "pi/merged"),
    ("inbox", "show", "pi/stale"),
    ("status",),
    ("outbox",),
    ("peer", "list"),
    ("log",),
]


def test_looking_leaves_no_trace_and_needs_no_lock(scene: Scene) -> None:
    before = picture(scene.sigma.root)
    lock = os.open(scene.sigma.root / ".git/cn/lock", os.O_RDWR)
    try:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        for args in LOOKS:
            scene.look(*args)
            scene.look(*args, "--json")
    finally:
        os.close(lock)
    noted = f"{scene.sigma.root}/.git/cn/readers-"  # which head was shown to who decides next
    after = picture(scene.sigma.root)
    assert [path for path in after.keys() ^ before.keys() if not path.startswith(noted)] == []
    assert [path for path in after.keys() & before.keys() if after[path] != before[path]] == []


@pytest.mark.parametrize("args", LOOKS)
def test_quiet_prints_nothing_and_json_is_json(scene: Scene, args: tuple[str, ...]) -> None:
    assert scene.look(*args, "-q") == ""
    scene.json(*args)


@pytest.mark.parametrize("args", [("status",), ("inbox",), ("inbox", "show", "pi/merged")])
def test_colours_only_on_a_terminal_that_wants_them(scene: Scene, args: tuple[str, ...]) -> None:
    assert "\x1b" not in scene.look(*args)
    assert "\x1b[" in on_terminal(scene.sigma.root, *args)
    plain = on_terminal(scene.sigma.root, *args, NO_COLOR="1")
    assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|4[0-7])m", plain)


@pytest.mark.parametrize("args", LOOKS)
def test_head_elsewhere_and_a_broken_origin_hide_nothing_of_main(
    scene: Scene, tmp_path: Path, args: tuple[str, ...]
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(scene.sigma.root), str(clone))
    git(clone, "remote", "set-url", "origin", str(tmp_path / "gone.git"))
    here = json.loads(cn(*args, "--json", hub=clone, check=0).stdout)
    git(clone, "checkout", "--quiet", "--orphan", "elsewhere")
    git(clone, "rm", "-rq", "--cached", ".")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "nothing here")
    there = json.loads(cn(*args, "--json", hub=clone, check=0).stdout)
    if args == ("status",):
        assert (here["main"].pop("checked_out"), there["main"].pop("checked_out")) == (True, False)
        assert "git switch main" in cn("status", hub=clone, check=0).stdout
        for status in (here, there):
            del status["now"], status["last_run"]
    assert there == here


def test_a_work_tree_beside_that_of_main_is_told_the_way_there(scene: Scene, tmp_path: Path) -> None:
    """Git switches to no branch that another work tree has."""
    clone, beside = tmp_path / "clone", tmp_path / "beside"
    git(tmp_path, "clone", "--quiet", str(scene.sigma.root), str(clone))
    git(clone, "worktree", "add", "--quiet", "-b", "topic", str(beside))
    told = " ".join(cn("status", hub=beside, check=0).stdout.split())
    assert f"! HEAD is topic, and cn works on main only → run 'cd {clone}', then run again" in told
    assert "git switch" not in told
    assert "HEAD is" not in cn("status", hub=clone, check=0).stdout


def test_errors_have_colours_only_where_they_are_wanted(empty: Path) -> None:
    args = ("inbox", "show", "nothing")
    assert "\x1b[31m" in on_terminal(empty, *args, code=1)
    assert "\x1b" not in on_terminal(empty, *args, code=1, NO_COLOR="1")
    assert "\x1b" not in on_terminal(empty, *args, code=1, TERM="dumb")


def test_a_hub_without_its_main_says_so(empty: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(empty), str(clone))
    git(clone, "checkout", "--quiet", "-b", "elsewhere")
    git(clone, "branch", "-D", "main")
    done = cn("status", hub=clone, check=1)
    assert "there is no branch main" in done.stderr


def test_a_wide_name_stands_alone_so_that_the_rest_stays_aligned(scene: Scene, tmp_path: Path) -> None:
    screen = unstyled(on_terminal(scene.sigma.root, "inbox", columns=70))
    head, *rows = screen.splitlines()
    found = {line.index("Add a doc") for line in rows if "Add a doc" in line}
    assert found == {head.index("TITLE")}


# The documentation.


def agree(documented: object, printed: object, where: str) -> None:
    """The same keys wherever both say something."""
    if isinstance(documented, dict) and isinstance(printed, dict):
        assert list(documented) == list(printed), where
        for key in documented:
            agree(documented[key], printed[key], f"{where}.{key}")
    elif isinstance(documented, list) and isinstance(printed, list):
        for inner in documented:
            for other in printed:
                agree(inner, other, f"{where}[]")


def documented() -> dict[str, Any]:
    found = re.findall(r"<!-- shape: (\w+) -->\n```json\n(.*?)\n```", PAGE.read_text("utf-8"), re.S)
    return {name: json.loads(text) for name, text in found}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("show", ("inbox", "show", "pi/merged")),
        ("inbox", ("inbox",)),
        ("inbox", ("inbox", "list", "--all")),
        ("status", ("status",)),
        ("outbox", ("outbox",)),
        ("peers", ("peer", "list")),
        ("log", ("log",)),
        ("report", ("inbox", "triage", "pi/fresh", "do:merge", "--dry-run")),
    ],
)
def test_the_documented_shape_is_what_is_printed(scene: Scene, name: str, args: tuple[str, ...]) -> None:
    printed = scene.json(*args)
    assert printed
    agree(documented()[name], printed, name)


def test_the_documented_queue_is_what_is_printed(tmp_path: Path) -> None:
    for name in ("tau", "pi"):
        cn("init", name, "--path", tmp_path / "template" / name, check=0)
    world = World(tmp_path, tmp_path / "template")
    tau = world.hub("tau")
    tau.write({".cn/hub.yaml": "name: tau\ninterface: queue\n"}, "The agent answers")
    pi = world.hub("pi")
    world.link(tau, pi)
    nothing = json.loads(tau.cn("input", "--json").stdout)
    assert nothing == dict.fromkeys(documented()["input"])
    for topic in ("one", "two"):
        world.propose(pi, tau, topic)
    tau.sync()
    queue = json.loads(tau.cn("queue", "--json").stdout)
    assert queue["in_flight"]
    assert queue["waiting"]
    agree(documented()["queue"], queue, "queue")
    agree(documented()["queue"], json.loads(tau.cn("status", "--json").stdout)["queue"], "status.queue")
    given = json.loads(tau.cn("input", "--json").stdout)
    agree(documented()["input"], given, "input")
    assert all(isinstance(value, str) for value in given.values())


def test_the_documented_findings_are_what_doctor_prints(scene: Scene) -> None:
    printed = json.loads(scene.sigma.cn("doctor", "--json", check=None).stdout)
    agree(documented()["doctor"], printed, "doctor")


def test_every_thread_anywhere_has_the_keys_of_a_thread(scene: Scene) -> None:
    threads = [*scene.json("inbox", "list", "--all"), scene.json("inbox", "show", "pi/stale")]
    assert all(set(thread) >= THREAD_KEYS for thread in threads)
    assert all(thread["chain"] for thread in threads)
    page = PAGE.read_text("utf-8")
    assert all(f"`{key}`" in page for key in threads[-1])


def test_every_step_is_documented() -> None:
    from cn.protocol import thread_life

    words = {v for k, v in vars(thread_life).items() if k.isupper() and isinstance(v, str)}
    steps = {word for word in words if re.fullmatch(r"\w+", word)} - {"in", "out", "said"}  # of the ledger
    page = PAGE.read_text("utf-8")
    table = page[page.index("<!-- steps -->") :].split("\n\n")[0]
    assert steps == set(re.findall(r"`(\w+)`", re.sub(r"\| [^`|]*\|$", "", table, flags=re.M))) - {"step", "text"}
