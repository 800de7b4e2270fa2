"""``cn doctor`` on hubs that are really damaged: it explains, repairs what it can, and never crashes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cn.doctor import examine
from cn.git.repository import open_hub
from cn.run.memory import Memory
from cn.system.clock import now
from cn.system.files import has_files
from tests.support.hubs import clone, cn, commit, git, git_bytes, make_ssh_key, push, tip, try_git, write_commit
from tests.support.world import Node, World, picture

Facts = list[dict[str, Any]]


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Path:
    """A hub with a merged thread, a pending one, and mail delivered."""
    world = World(tmp_path_factory.mktemp("lived"), template)
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "first")
    sigma.sync()
    sigma.decide(sigma.only_thread(), "do:merge")
    world.propose(pi, sigma, "second")
    sigma.sync()
    sigma.cn("send", "pi", "hello")
    sigma.sync()
    return world.folder


@pytest.fixture
def sigma(tmp_path: Path, lived_in: Path) -> Node:
    folder = tmp_path / "w"
    shutil.copytree(lived_in, folder, symlinks=True)
    root, home = folder / "cn-sigma", folder / "host" / "sigma.git"
    git(root, "remote", "set-url", "origin", str(home))
    return Node("sigma", root, home, str(home))


def facts(node: Node, *args: str, check: int | None = None) -> Facts:
    """The findings, as JSON."""
    done = node.cn("doctor", "--json", *args, check=check)
    assert "Traceback" not in done.stderr
    found: Facts = json.loads(done.stdout)
    return found


def problems(node: Node, *args: str, check: int | None = 1) -> dict[str, str]:
    """Check → what, of the problems."""
    found = [f for f in facts(node, *args, check=check) if f["level"] == "problem"]
    assert all(f["remedy"] for f in found), found
    return {f["check"]: f["what"] for f in found}


def infos(node: Node) -> dict[str, str]:
    return {f["check"]: f["what"] for f in facts(node, check=0) if f["level"] == "info"}


def cause(node: Node, files: dict[str, bytes | str | None]) -> None:
    """Commit and push damage to main, past cn."""
    commit(node.root, files, "damage")
    push(node.root, node.url, "main")
    git(node.root, "update-ref", "refs/cn/origin/main", "main")


def test_a_healthy_hub(sigma: Node) -> None:
    found = facts(sigma, "--full", check=0)
    assert {f["level"] for f in found} <= {"ok", "info"}
    assert all(set(f) == {"check", "level", "what", "why", "remedy", "fixable", "repaired"} for f in found)
    assert "healthy" in sigma.cn("doctor").stdout
    assert sigma.cn("doctor", "-q").stdout == ""


def test_looking_changes_nothing(sigma: Node) -> None:
    cause(sigma, {"state/ledger/pi/open": "garbage\n"})
    (sigma.root / ".git/index.lock").write_bytes(b"")
    os.utime(sigma.root / ".git/index.lock", (1, 1))
    before = picture(sigma.root, sigma.home)
    for args in ((), ("--full",), ("--fix", "--dry-run")):
        sigma.cn("doctor", *args, check=1)
    assert picture(sigma.root, sigma.home) == before


def test_the_hub_can_be_an_argument(sigma: Node) -> None:
    cn("doctor", sigma.root, check=0)
    cn("doctor", sigma.root.parent, check=3)


# configuration


def test_broken_configuration_is_exit_3_and_the_rest_is_told(sigma: Node) -> None:
    cause(sigma, {".cn/hub.yaml": "name: sigma\nwhat: 1\n", "state/ledger/pi/open": "garbage\n"})
    found = problems(sigma, check=3)
    assert ".cn/hub.yaml:2" in found["configuration"]
    assert "open" in found


def test_broken_peers(sigma: Node) -> None:
    cause(sigma, {"state/peers.md": "# Peers\n\n```yaml\n- name: pi\n  hub: ext::sh -c x\n```\n"})
    assert "state/peers.md:4" in problems(sigma, check=3)["configuration"]


def test_configuration_that_is_no_utf8(sigma: Node) -> None:
    cause(sigma, {".cn/hub.yaml": b"name: sigma\n# \xff\n"})
    assert ".cn/hub.yaml:2" in problems(sigma, check=3)["configuration"]


def test_uncommitted_configuration_is_not_in_effect(sigma: Node) -> None:
    (sigma.root / ".cn/hub.yaml").write_text("name: [\n")
    (sigma.root / ".cn/agent.yaml").write_text("x: 1\n")
    texts = [f["what"] for f in facts(sigma, check=1) if f["level"] == "problem"]
    assert any("hub.yaml has uncommitted changes, which are not in effect" in t for t in texts)
    assert any("agent.yaml has uncommitted" in t for t in texts)
    assert any("uncommitted .cn/hub.yaml:" in t for t in texts)


def test_a_missing_hub_yaml_is_found_where_git_still_has_it(sigma: Node) -> None:
    (sigma.root / ".cn/hub.yaml").unlink()
    assert "missing from the work tree" in problems(sigma)["repository"]


def test_a_password_in_a_peer_s_url(sigma: Node) -> None:
    text = (sigma.root / "state/peers.md").read_text()
    url = "https://me:s3cret@host/x"
    cause(sigma, {"state/peers.md": text.replace(f'"{sigma.home.parent}', f'"{url}/')})
    peers = (sigma.root / "state/peers.md").read_text()
    if url not in peers:
        at = peers.rindex("```")
        cause(sigma, {"state/peers.md": f'{peers[:at]}- name: omega\n  hub: "{url}"\n{peers[at:]}'})
    done = sigma.cn("doctor", check=1)
    assert "password or token in clear" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_a_header_for_all_hosts_is_a_problem(sigma: Node) -> None:
    git(sigma.root, "config", "http.extraHeader", "Authorization: Bearer s3cret")
    done = sigma.cn("doctor", check=1)
    assert "http.extraHeader is set for all hosts" in done.stdout
    assert "s3cret" not in done.stdout
    git(sigma.root, "config", "--unset", "http.extraHeader")
    git(sigma.root, "config", "http.https://git.example.org/.extraHeader", "Authorization: Bearer s3cret")
    assert "extraHeader" not in sigma.cn("doctor", check=None).stdout


def test_a_shared_mailbox_without_keys_is_explained(sigma: Node) -> None:
    text = (sigma.root / "state/peers.md").read_text()
    at = text.rindex("```")
    cause(sigma, {"state/peers.md": f'{text[:at]}- name: omega\n  hub: "/nowhere"\n{text[at:]}'})
    assert "no pinned key" in infos(sigma)["mailbox"]


# the machine


def test_a_wake_command_that_is_not_there(sigma: Node) -> None:
    git(sigma.root, "config", "cn.wake", "no-such-program --now")
    assert "no-such-program" in problems(sigma)["wake"]
    git(sigma.root, "config", "cn.wake", "X=1 echo hello && true")
    facts(sigma, check=0)
    git(sigma.root, "config", "cn.wake", "echo 'open")
    assert "no shell command" in problems(sigma)["wake"]


def test_a_wake_command_is_looked_for_and_not_run(sigma: Node, tmp_path: Path) -> None:
    git(sigma.root, "config", "cn.wake", f"touch {tmp_path}/mark; $(touch {tmp_path}/mark)")
    sigma.cn("doctor", check=0)
    assert not (tmp_path / "mark").exists()


def test_a_signing_key_that_is_missing(sigma: Node, tmp_path: Path) -> None:
    private, _ = make_ssh_key(tmp_path / "key")
    for key, value in (("gpg.format", "ssh"), ("cn.sign", "true"), ("user.signingKey", str(private))):
        git(sigma.root, "config", key, value)
    facts(sigma, check=0)
    private.unlink()
    assert "is missing" in problems(sigma)["signing"]
    git(sigma.root, "config", "--unset", "user.signingKey")
    assert "not set" in problems(sigma)["signing"]


def test_a_clone_that_does_not_sign_where_another_one_does_is_told(sigma: Node, tmp_path: Path) -> None:
    assert "signing" not in infos(sigma)
    private, _ = make_ssh_key(tmp_path / "key")
    sigma.cn("sign", str(private))
    sigma.cn("adhoc", "Signed")
    assert "signing" not in infos(sigma)
    for key in ("cn.sign", "gpg.format", "user.signingKey"):  # as a second clone begins
        git(sigma.root, "config", "--unset", key)
    assert "another clone of this hub signs what it commits, and this one does not" in infos(sigma)["signing"]
    assert "'cn sign KEY'" in sigma.cn("doctor").stdout


def test_identity(sigma: Node, home: Path) -> None:
    git(sigma.root, "config", "--unset", "user.email")
    for text in ("[user]\n\tname = Nobody\n\temail = nobody@example.org\n", ""):
        (home / ".gitconfig").write_text(text)
        what = infos(sigma)["identity"]
        assert "user.email is not set" in what
        told = what.rpartition(" carries ")[2]
        sigma.cn("send", "pi", "hello again")
        sent = git(sigma.root, "log", "-1", "--format=%ae %ce", "main")
        assert sent == f"{told} {told}" == "sigma@cn.invalid sigma@cn.invalid"


def test_the_crontab_is_only_worth_knowing(sigma: Node) -> None:
    assert "crontab" in infos(sigma)
    sigma.cn("cron", "install")
    assert "crontab" not in infos(sigma)


# the place


def test_head_elsewhere(sigma: Node) -> None:
    git(sigma.root, "switch", "-q", "-c", "feature")
    assert "HEAD is feature" in problems(sigma)["place"]


def test_a_rebase_is_open(sigma: Node) -> None:
    (sigma.root / ".git/rebase-merge").mkdir()
    assert "rebase" in problems(sigma)["place"]


def test_another_work_tree_holds_main(sigma: Node, tmp_path: Path) -> None:
    git(sigma.root, "worktree", "add", "-q", "--force", str(tmp_path / "wt"), "main")
    assert "work tree" in problems(sigma)["place"]


def test_a_stale_lock_is_moved_away(sigma: Node) -> None:
    lock = sigma.root / ".git/index.lock"
    lock.write_bytes(b"staged")
    os.utime(lock, (time.time() - 7200,) * 2)
    assert "index.lock" in problems(sigma)["locks"]
    done = sigma.cn("doctor", "--fix")
    assert "✓ moved the stale lock index.lock" in done.stdout
    assert not lock.exists()
    kept = list((sigma.root / ".git/cn/rescue").rglob("index.lock"))
    assert [k.read_bytes() for k in kept] == [b"staged"]
    sigma.sync()


def test_a_fresh_lock_is_left_alone(sigma: Node) -> None:
    lock = sigma.root / ".git/refs/heads/main.lock"
    lock.write_bytes(b"")
    assert "main.lock" in problems(sigma, "--fix")["locks"]
    assert lock.exists()


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="processes are told apart by /proc")
def test_an_old_lock_is_left_alone_while_a_git_works_here(sigma: Node) -> None:
    lock = sigma.root / ".git/index.lock"
    lock.write_bytes(b"")
    os.utime(lock, (1, 1))
    with subprocess.Popen(
        ["git", "cat-file", "--batch"], cwd=sigma.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        time.sleep(0.2)
        found = facts(sigma, "--fix", check=0)
        user.kill()
    assert any("a git is at work here" in f["why"] for f in found)
    assert lock.exists()


def test_a_run_at_work_is_named(sigma: Node) -> None:
    with (sigma.root / ".git/cn/lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"pid {os.getpid()}, since 2026-02-05T15:00:00Z\n")
        file.flush()
        assert "another run of cn holds the hub" in infos(sigma)["lock"]
        sigma.configure("lock_wait: 0\n")
        sigma.cn("doctor", "--fix", check=75)


def test_an_interrupted_run_is_finished(sigma: Node) -> None:
    journal = {
        "format": 1, "token": "t", "old": sigma.main, "new": "1" * 40, "message": "m", "changes": [], "files": [],
        "inputs": {}, "refs": [], "appends": [], "sizes": [], "index_hash": "", "covers": [],
        "expected": None,
    }  # fmt: skip
    path = sigma.root / ".git/cn/journal"
    path.write_text(json.dumps(journal))
    assert "interrupted" in problems(sigma)["journal"]
    sigma.cn("doctor", "--fix")
    assert not path.exists()


def test_a_copy_among_the_notes_of_pushes_is_named(sigma: Node) -> None:
    copy = sigma.root / ".git/cn/push" / f"{'1' * 40} (conflicted copy)"
    copy.parent.mkdir(exist_ok=True)
    copy.write_text("{}")
    assert "(conflicted copy) is no note of a push" in infos(sigma)["journal"]
    sigma.sync()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere an hour must pass")
def test_what_a_failed_git_left_is_named_and_removed(sigma: Node) -> None:
    left = [sigma.root / ".git" / name for name in ("objects/pack/tmp_pack_abcdef", "fast_import_crash_7")]
    for path in left:
        path.write_text("commit refs/cn/build\n")
    assert "1 more, 42 bytes" in infos(sigma)["unfinished"]
    assert "✓ removed 2 unfinished files of git" in sigma.cn("doctor", "--fix").stdout
    assert not any(path.exists() for path in left)


def test_a_file_that_git_overlooks_is_named(sigma: Node) -> None:
    git(sigma.root, "update-index", "--skip-worktree", "docs/start.md")
    assert infos(sigma)["hidden"] == "git is told to overlook docs/start.md"


def test_a_damaged_journal_is_left_for_a_person(sigma: Node) -> None:
    (sigma.root / ".git/cn/journal").write_bytes(b"\xff\0")
    for args in ((), ("--fix",)):
        assert "damaged" in problems(sigma, *args)["journal"]
    assert (sigma.root / ".git/cn/journal").exists()


# the records


def test_open_is_rebuilt_from_the_history(sigma: Node) -> None:
    wanted = (sigma.root / "state/ledger/pi/open").read_bytes()
    assert wanted
    old = sigma.main
    for bad in (b"", b"\xff\0garbage\n", wanted.replace(b"second", b"third"), None):
        cause(sigma, {"state/ledger/pi/open": bad})
        broken = sigma.main
        assert "open" in problems(sigma)
        done = sigma.cn("doctor", "--fix")
        assert "✓ rebuilt state/ledger/pi/open" in done.stdout
        rescue = done.stdout.split("refs/cn/rescue/")[1].split()[0]
        assert tip(sigma.root, f"refs/cn/rescue/{rescue}") == broken
        assert items(sigma) == [json.loads(line) for line in wanted.splitlines()]
        assert sigma.main != broken
    assert old in git(sigma.root, "rev-list", "main")
    sigma.sync()
    facts(sigma, check=0)


def items(node: Node) -> list[Any]:
    text = git(node.root, "show", "main:state/ledger/pi/open")
    return [json.loads(line) for line in text.splitlines()]


def test_a_fixed_finding_is_told_as_repaired(sigma: Node) -> None:
    cause(sigma, {"state/ledger/pi/open": "x\n"})
    found = facts(sigma, "--fix", check=0)
    assert [f["check"] for f in found if f["repaired"]] == ["open"]


def test_garbage_in_the_ledger_is_named_and_nothing_is_rebuilt_from_it(sigma: Node) -> None:
    month = next(p for p in (sigma.root / "state/ledger/pi").iterdir() if p.name.isdigit())
    path = str(month.relative_to(sigma.root))
    count = month.read_bytes().count(b"\n")
    cause(sigma, {path: month.read_bytes() + b"\xff\xfe\0 garbage\nnonsense\n", "state/ledger/pi/open": "x\n"})
    found = problems(sigma, "--fix")
    assert f"{path}: no event in line {count + 1}, {count + 2}" in found["ledger"]
    assert "open" in found
    assert git(sigma.root, "show", "main:state/ledger/pi/open") == "x"


def test_a_pending_thread_that_is_missing(sigma: Node) -> None:
    path = f"threads/inbox/{sigma.only_thread()}"
    (sigma.root / path).unlink()
    assert "missing from the work tree" in problems(sigma)["threads"]
    cause(sigma, {path: None})
    assert "missing from main" in problems(sigma)["threads"]
    sigma.sync()
    facts(sigma, check=0)


def test_a_file_of_main_that_is_cut_in_the_object_store(sigma: Node) -> None:
    """Its length still stands in its first bytes: only who reads it to its end knows. The remedy brings it back."""
    commit(sigma.root, {"photo": os.urandom(200_000)}, "a photo")
    push(sigma.root, sigma.url, "main")
    oid = git(sigma.root, "rev-parse", "main:photo")
    path = sigma.root / ".git/objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    os.truncate(path, 100_000)
    for args in ((), ("--full",)):
        assert any(
            f["what"].startswith("photo cannot be read") and oid in f["what"] for f in facts(sigma, *args, check=1)
        )
    path.unlink()
    git(sigma.root, "fetch", "-q", "--refetch", "origin")
    facts(sigma, "--full", check=0)


def test_a_damaged_object_that_no_file_of_main_needs(sigma: Node) -> None:
    oid = git(sigma.root, "hash-object", "-w", "--stdin", stdin="x" * 99_999)
    path = sigma.root / ".git/objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    os.truncate(path, 60)
    facts(sigma, check=0)
    assert oid in problems(sigma, "--full")["objects"]


def test_a_pending_thread_that_is_a_link(sigma: Node) -> None:
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert "no regular file" in problems(sigma)["threads"]


def test_unknown_files_in_the_inbox(sigma: Node) -> None:
    (sigma.root / "threads/inbox/stray\x1b.md").write_text("## Triage\n")
    (sigma.root / "threads/inbox/notes.txt").write_text("x")
    (sigma.root / "threads/inbox/.swp").write_text("x")
    found = [f for f in facts(sigma, check=1) if f["check"] == "inbox"]
    assert [(f["level"], f["what"].split("/")[2].split(" ")[0]) for f in found] == [
        ("info", "notes.txt"),
        ("problem", "stray<U+001B>.md"),
    ]


def test_a_damaged_outbox_entry(sigma: Node) -> None:
    cause(sigma, {"threads/mail/outbox/20260205-pi-x.md": b"\xff not an entry"})
    assert "20260205-pi-x.md" in problems(sigma)["outbox"]


# pins


def pin(node: Node, topic: str = "second") -> str:
    return f"refs/cn/pins/pi/in/{topic}"


def test_a_pin_whose_object_is_gone(sigma: Node) -> None:
    ref = sigma.root / ".git" / pin(sigma, "lost")
    ref.write_text("1" * 40 + "\n")
    assert "which is not here" in problems(sigma)["pins"]
    assert "✓ dropped the pin" in sigma.cn("doctor", "--fix").stdout
    assert not ref.exists()


def test_a_pin_that_the_ledger_does_not_know(sigma: Node) -> None:
    stray = tip(sigma.root)
    git(sigma.root, "update-ref", pin(sigma), stray)
    head = items(sigma)[0]["head"]
    assert "knows nothing of it" in problems(sigma)["pins"]
    done = sigma.cn("doctor", "--fix")
    rescue = "refs/cn/rescue/" + done.stdout.split("refs/cn/rescue/")[1].split()[0]
    assert stray in git(sigma.root, "rev-list", rescue).split()
    sigma.sync()
    assert sigma.refs()[pin(sigma)] == head


def test_a_fresh_clone_without_pins_is_healthy(sigma: Node, tmp_path: Path) -> None:
    fresh = clone(sigma.url, tmp_path / "fresh", "sigma", trusted=True)
    found = facts(Node("sigma", fresh, sigma.home, sigma.url), check=0)
    assert all(f["level"] != "problem" for f in found)
    git(sigma.root, "update-ref", "-d", pin(sigma))
    assert "has no pin" in infos(sigma)["pins"]
    sigma.cn("doctor", "--fix")
    assert pin(sigma) in sigma.refs()


# origin


def test_an_origin_that_was_rewound(sigma: Node) -> None:
    push(sigma.root, sigma.url, "+main~1:main")
    found = problems(sigma)
    assert "rewound" in found["origin"]
    assert not [r for r in sigma.refs() if r.startswith("refs/cn/rescue")]


def test_an_origin_that_is_unreachable(sigma: Node) -> None:
    git(sigma.root, "remote", "set-url", "origin", str(sigma.root / "nowhere"))
    assert "unreachable" in problems(sigma)["origin"]


def test_an_origin_with_several_push_urls_is_told_which_of_them_is_used(sigma: Node) -> None:
    for url in (sigma.url, "ssh://git:hunter22@second.example/sigma"):
        git(sigma.root, "config", "--add", "remote.origin.pushurl", url)
    found = sigma.cn("doctor", check=0).stdout
    assert "origin has 2 URLs to push to" in found.replace("\n", " ")
    assert "hunter22" not in found


def test_an_origin_that_is_ahead_is_only_worth_knowing(sigma: Node, tmp_path: Path) -> None:
    other = clone(sigma.url, tmp_path / "other", "x")
    commit(other, {"docs/x.md": "x\n"})
    push(other, sigma.url, "main")
    assert "0 commits ahead of origin's and 1 behind" in infos(sigma)["origin"]


def test_an_untrusted_change(sigma: Node, tmp_path: Path) -> None:
    other = clone(sigma.url, tmp_path / "other", "mallory")
    commit(other, {"state/peers.md": "nobody\n"})
    push(other, sigma.url, "main")
    assert "state/peers.md" in problems(sigma)["trust"]
    sigma.cn("trust", "--yes")
    facts(sigma, check=0)


# damage of every kind: never a crash


def empty_repository(root: Path) -> None:
    shutil.rmtree(root / ".git")
    git(root, "init", "-q", "-b", "main")


def no_main(root: Path) -> None:
    git(root, "update-ref", "-d", "refs/heads/main")


def no_head(root: Path) -> None:
    (root / ".git/HEAD").unlink()


def garbage_head(root: Path) -> None:
    (root / ".git/HEAD").write_bytes(os.urandom(64))


def no_objects(root: Path) -> None:
    shutil.rmtree(root / ".git/objects")
    (root / ".git/objects").mkdir()


def garbage_index(root: Path) -> None:
    (root / ".git/index").write_bytes(os.urandom(512))


def garbage_config(root: Path) -> None:
    (root / ".git/config").write_bytes(b"\xff[[[")


def garbage_refs(root: Path) -> None:
    (root / ".git/packed-refs").write_bytes(os.urandom(200))
    (root / ".git/refs/heads/main").write_bytes(b"\0\0")


def garbage_own_state(root: Path) -> None:
    for name in ("local.json", "journal", "restore", "wake", "printed", f"readers-{os.geteuid()}"):
        (root / ".git/cn" / name).write_bytes(os.urandom(99))
    (root / ".git/cn/push").mkdir(exist_ok=True)
    (root / ".git/cn/push/x").write_bytes(b"\xff")


def folders_for_files(root: Path) -> None:
    (root / ".git/cn/lock").unlink(missing_ok=True)
    for name in ("lock", "journal", "local.json"):
        shutil.rmtree(root / ".git/cn" / name, ignore_errors=True)
        (root / ".git/cn" / name).unlink(missing_ok=True)
        (root / ".git/cn" / name).mkdir()


def missing_blob(root: Path) -> None:
    oid = git(root, "rev-parse", "main:state/peers.md")
    (root / ".git/objects" / oid[:2] / oid[2:]).unlink()


def missing_tree(root: Path) -> None:
    oid = git(root, "rev-parse", "main:state")
    (root / ".git/objects" / oid[:2] / oid[2:]).unlink()


def garbage_objects(root: Path) -> None:
    oid = git(root, "rev-parse", "main")
    path = root / ".git/objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.write_bytes(b"garbage")


def no_folders(root: Path) -> None:
    for name in ("threads", "logs", "state"):
        shutil.rmtree(root / name)


def a_file_for_inbox(root: Path) -> None:
    shutil.rmtree(root / "threads/inbox")
    (root / "threads/inbox").write_text("x")


def strange_pins(root: Path) -> None:
    folder = root / ".git/refs/cn/pins"
    for name in ("x", "pi/in/a/b", "pi/else/x", "pi/in/%zz", "UPPER/in/x"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(git(root, "rev-parse", "main") + "\n")


def strange_tree(root: Path) -> None:
    files: dict[str, bytes | str | None] = {
        "state/ledger/UPPER/202601": "x\n",
        "state/ledger/file": "x\n",
        "state/ledger/pi/999999999": b"\xff\n",
        "threads/inbox/\udcff.md": "x",
        "threads/mail/outbox/a\nb.md": "x",
    }
    git(root, "reset", "-q", "--soft", write_commit(root, files, parents=[tip(root)]))


DAMAGES: list[Callable[[Path], None]] = [
    empty_repository, no_main, no_head, garbage_head, no_objects, garbage_index, garbage_config, garbage_refs,
    garbage_own_state, folders_for_files, missing_blob, missing_tree, garbage_objects, no_folders,
    a_file_for_inbox, strange_pins, strange_tree,
]  # fmt: skip


@pytest.mark.sliced(9)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_whatever_the_damage_it_says_so_and_does_not_crash(sigma: Node, damage: Callable[[Path], None]) -> None:
    damage(sigma.root)
    for args in (("--json",), ("--json", "--full"), ("--json", "--fix")):
        done = cn("doctor", *args, hub=sigma.root)
        if damage is strange_pins and "--fix" in args:
            assert done.returncode == 0
            continue
        assert done.returncode in (1, 3), (args, done)
        assert "Traceback" not in done.stderr
        assert "internal error" not in done.stderr
        unknown = [f["what"] for f in json.loads(done.stdout) if "could not be finished" in f["what"]]
        assert not unknown
        assert [f for f in json.loads(done.stdout) if f["level"] == "problem"], args


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_hub_that_may_not_be_read(sigma: Node) -> None:
    for path in (".git/index", "state/peers.md", ".git/cn/local.json"):
        (sigma.root / path).chmod(0)
    assert problems(sigma, check=None)


def test_no_git_is_a_clear_error(sigma: Node, tmp_path: Path) -> None:
    done = cn("doctor", hub=sigma.root, env={"PATH": str(tmp_path)}, check=1)
    assert "git is not installed" in done.stderr


def test_the_copied_hub_is_whole(sigma: Node) -> None:
    """What the tests above stand on."""
    assert try_git(sigma.root, "fsck").returncode == 0
    assert git_bytes(sigma.root, "status", "--porcelain") == b""


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="processes are told apart by /proc")
def test_a_program_that_is_only_named_like_git_is_none(sigma: Node, tmp_path: Path) -> None:
    lock = sigma.root / ".git/index.lock"
    lock.write_bytes(b"")
    os.utime(lock, (1, 1))
    shutil.copy("/bin/sleep", tmp_path / "gitea")
    with subprocess.Popen([tmp_path / "gitea", "600"], cwd=sigma.root) as server:
        facts(sigma, "--fix", check=0)
        server.kill()
    assert not lock.exists()


def test_a_key_that_nobody_can_use_is_a_problem(sigma: Node, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", key], check=True)
    for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(key)), ("cn.sign", "true")):
        git(sigma.root, "config", name, value)
    assert "cannot sign" in problems(sigma)["signing"]


def test_an_origin_that_cannot_be_pushed_to_is_a_problem(sigma: Node) -> None:
    git(sigma.root, "config", "remote.origin.pushurl", "/nonexistent")
    assert "nothing can be pushed to origin" in problems(sigma)["origin"]


def test_what_stopped_the_last_run_is_a_problem_until_one_works(sigma: Node) -> None:
    memory = Memory(open_hub(sigma.root), now())
    memory.note_stop("the host is away", "wait for it", "Blocked")
    memory.save()
    assert problems(sigma)["stopped"] == "the host is away"
    sigma.sync()
    facts(sigma, check=0)


def test_a_broken_file_of_the_users_configuration_is_what_is_to_be_corrected(sigma: Node, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("[broken\n")
    env = {"GIT_CONFIG_GLOBAL": str(broken)}
    said = sigma.cn("doctor", env=env, check=1).stdout
    assert f"bad config line 1 in file {broken}" in said
    assert "correct that file of git's configuration" in said
    assert "clone the hub again" not in said
    assert "correct that file" in sigma.cn("status", env=env, check=1).stderr


def test_a_disk_without_inodes_is_told_from_a_full_one(sigma: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, real = open_hub(sigma.root), os.statvfs(sigma.root)
    assert has_files(sigma.root)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([*real[:5], 100, 0, 0, *real[8:]]))
    (found,) = [f for f in examine(hub) if "inodes" in f.what]
    assert "df -i" in found.remedy


def test_what_a_sparse_checkout_leaves_out_is_nobodys_change_and_comes_back_as_told(sigma: Node) -> None:
    git(sigma.root, "update-index", "--refresh")  # of a copy git leaves out nothing that it has not looked at
    git(sigma.root, "sparse-checkout", "set", "--cone", "threads", ".cn")
    shown = " ".join(sigma.sync().stdout.split())
    assert "state/peers.md is missing from the work tree: what main has is in effect" in shown
    told = " ".join(sigma.cn("doctor").stdout.split())
    assert "uncommitted changes" not in told
    assert "the sparse checkout leaves out spec/AGENT.md and" in told
    for text in (shown, told):
        steps = re.findall(r"'(git sparse-checkout add [^']*)'", text)
        assert steps
        for step in steps:
            git(sigma.root, *step.split()[1:])
    sigma.sync()
    assert "work tree" not in sigma.cn("status").stdout
    assert "sparse" not in sigma.cn("doctor").stdout
    assert (sigma.root / "spec/SOUL.md").exists()


def test_a_clock_that_is_behind_what_others_committed_is_named(sigma: Node) -> None:
    assert "clock" not in infos(sigma)
    git(sigma.root, "commit", "--quiet", "--allow-empty", "-m", "x", GIT_COMMITTER_DATE="2099-01-01T00:00:00Z")
    assert "behind the last commit of main" in infos(sigma)["clock"]


def test_a_file_of_the_configuration_that_is_missing_is_brought_back_and_not_committed_as_gone(sigma: Node) -> None:
    for path in ("state/peers.md", ".cn/agent.yaml"):
        if not (sigma.root / path).is_file():
            sigma.write({path: "llm: {}\n"})
        (sigma.root / path).unlink()
        said = " ".join(sigma.cn("doctor", check=1).stdout.split())
        assert f"{path} is missing from the work tree: what main has is in effect" in said
        assert "git add" not in said
        git(sigma.root, "checkout", "refs/heads/main", "--", path)  # as told
