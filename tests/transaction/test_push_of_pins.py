"""cn's refs go to origin in the push that moves main, and nothing hangs on them."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cn.git import remote
from cn.git.process import Done, Git, Job
from cn.git.remote import REFUSED, is_refused_by_host, remedy_of
from cn.git.repository import Hub, open_hub
from cn.transaction import push
from cn.transaction.base import observe_base
from cn.transaction.journal import Journal, RefUpdate, push_path, write_journal
from cn.values.names import Oid
from tests.support.hubs import commit, git
from tests.support.meanwhile import meanwhile
from tests.support.servers import git_daemon
from tests.support.world import Node, World

PIN = "refs/cn/pins/pi/in/proposal"
SECOND = "refs/cn/pins/pi/in/second"


def pins(repo: Path) -> list[str]:
    return git(repo, "for-each-ref", "--format=%(refname)", "refs/cn/pins/").split()


def same_main(sigma: Node) -> bool:
    return git(sigma.home, "rev-parse", "main") == git(sigma.root, "rev-parse", "main")


def as_push(sigma: Node) -> str:
    """Shell: a word for what origin has of a push, and whether the run here has begun to publish."""
    return (
        f"git -C {sigma.home} for-each-ref --format='%(refname)' refs/cn/pins/;"
        f" test -e {sigma.root}/.git/cn/journal && echo late; test -e {sigma.root}/.git/cn/push && echo noted"
    )


def test_pins_are_at_origin_with_main_before_anything_moves_here(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    world.propose(pi, sigma)
    env = meanwhile(tmp_path / "bin", after=as_push(sigma))
    assert "✓" in sigma.cn("sync", env=env).stdout
    assert (tmp_path / "bin/said").read_text("utf-8").split() == [PIN, "noted"]
    assert pins(sigma.home) == pins(sigma.root) == [PIN]
    assert not (sigma.root / ".git/cn/outgoing").exists()
    assert not (sigma.root / ".git/cn/unpushed").exists()


def test_a_run_that_was_killed_after_its_journal_left_no_pin_behind(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    world.propose(pi, sigma)
    env = meanwhile(tmp_path / "bin", after="kill -KILL $PPID; sleep 1", verb="update-ref", push="refs/heads/main")
    sigma.cn("sync", check=-signal.SIGKILL, env=env)
    assert (sigma.root / ".git/cn/journal").exists()
    assert pins(sigma.home) == [PIN]
    sigma.sync()
    assert pins(sigma.home) == pins(sigma.root) == [PIN]
    assert same_main(sigma)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("when", ["before", "after"])
def test_sigterm_and_ctrl_c_at_the_push_leave_all_in_order(
    world: World, sigma: Node, pi: Node, tmp_path: Path, when: str
) -> None:
    world.propose(pi, sigma)
    end, code = ("TERM", 143) if when == "before" else ("INT", 130)
    env = meanwhile(tmp_path / "bin", **{when: f"kill -{end} $PPID; sleep 20"})
    done = sigma.cn("sync", check=code, env=env)
    assert "Traceback" not in done.stderr
    assert git(sigma.root, "status", "--porcelain") == ""
    assert pins(sigma.home) == ([PIN] if when == "after" else [])
    sigma.sync()
    assert pins(sigma.home) == pins(sigma.root) == [PIN]
    assert same_main(sigma)
    assert not (sigma.root / ".git/cn/outgoing").exists()
    assert sigma.sync().stdout == ""


def test_an_origin_that_takes_no_pins_is_told_of_once_and_stops_nothing(world: World, sigma: Node, pi: Node) -> None:
    git(sigma.home, "config", "receive.hideRefs", "refs/cn")
    world.propose(pi, sigma)
    assert "origin did not take cn's pins" in sigma.sync().stdout
    assert (pins(sigma.home), pins(sigma.root)) == ([], [PIN])
    world.propose(pi, sigma, "second")
    assert "cn's pins" not in sigma.sync().stdout
    assert "pins stay in this clone, and only here they keep reviewed commits alive" in sigma.cn("status").stdout
    assert len(sigma.threads()) == 2
    assert same_main(sigma)
    git(sigma.home, "config", "--unset", "receive.hideRefs")
    world.propose(pi, sigma, "third")
    sigma.sync()
    assert pins(sigma.home) == [PIN, SECOND, "refs/cn/pins/pi/in/third"]
    assert not (sigma.root / ".git/cn/unpushed").exists()
    assert "pins stay in this clone" not in sigma.cn("status").stdout


@pytest.mark.parametrize("ref", ["refs/cn/pins", "refs/cn/pins/pi", "refs/cn/pins/pi/in/proposal/x"])
def test_a_ref_in_the_way_of_pins_is_named_and_taken_away_as_told(
    world: World, sigma: Node, pi: Node, ref: str
) -> None:
    git(sigma.home, "update-ref", ref, sigma.main)
    world.propose(pi, sigma)
    told = f"'git push origin :{ref}' takes it away"
    assert told in sigma.sync().stdout
    status = sigma.cn("status").stdout
    (step,) = re.findall("'git (push origin .*?)' takes away", " ".join(status.split()))
    assert f"'git {step}' takes away" in " ".join(sigma.cn("doctor").stdout.split())
    git(sigma.root, *step.split())
    world.propose(pi, sigma, "second")
    sigma.sync()
    assert pins(sigma.home) == [PIN, SECOND]
    assert "pins stay in this clone" not in sigma.cn("status").stdout


def test_pins_get_their_name_of_now_here_and_at_origin(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "A.b")
    sigma.sync()
    now, before = "refs/cn/pins/pi/in/@41@2eb", "refs/cn/pins/pi/in/%41%2eb"
    assert pins(sigma.home) == pins(sigma.root) == [now]
    for repo in (sigma.root, sigma.home):
        git(repo, "update-ref", before, now)
        git(repo, "update-ref", "-d", now)
    assert "pin" not in sigma.cn("doctor", check=None).stdout.replace("pins agree with the ledger", "")
    sigma.cn("sync", "--dry-run")
    assert pins(sigma.root) == [before]
    assert sigma.sync().stdout == ""
    assert pins(sigma.root) == [now]
    world.propose(pi, sigma, "second")
    sigma.sync()
    assert pins(sigma.home) == pins(sigma.root) == [now, SECOND]
    assert not (sigma.root / ".git/cn/unpushed").exists()
    assert len(sigma.threads()) == 2


def test_a_pin_that_an_older_cn_wrote_beside_gives_way_and_its_commit_stays(
    world: World, sigma: Node, pi: Node
) -> None:
    world.propose(pi, sigma, "A.b")
    sigma.sync()
    other = git(sigma.root, "commit-tree", "-m", "reviewed there", "main^{tree}")
    git(sigma.root, "update-ref", "refs/cn/pins/pi/in/%41%2eb", other)
    sigma.sync()
    assert pins(sigma.root) == ["refs/cn/pins/pi/in/@41@2eb"]
    assert other in git(sigma.root, "rev-list", "--glob=refs/cn/keep/*").split()


def test_names_of_before_that_a_host_never_took_are_not_asked_for_again(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    """As gitolite does: its names of refs hold no percent sign."""
    hook = sigma.home / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncase $1 in *%*) echo 'FATAL: invalid characters' >&2; exit 1; esac\n")
    hook.chmod(0o755)
    head = world.propose(pi, sigma, "A")
    sigma.sync()
    git(sigma.root, "update-ref", "refs/cn/pins/pi/in/%41", head)
    for repo in (sigma.root, sigma.home):
        git(repo, "update-ref", "-d", "refs/cn/pins/pi/in/@41")
    world.propose(pi, sigma)
    with git_daemon(sigma.home.parent, tmp_path) as served:
        git(sigma.root, "remote", "set-url", "origin", served.url(sigma.home.stem))
        assert "cn's pins" not in sigma.sync().stdout
    assert pins(sigma.home) == pins(sigma.root) == ["refs/cn/pins/pi/in/@41", PIN]
    assert not (sigma.root / ".git/cn/unpushed").exists()


def test_a_host_whose_rules_refuse_a_whole_push_with_pins_gets_main_alone(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    hook = sigma.home / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n! grep -q refs/cn/\n")
    hook.chmod(0o755)
    world.propose(pi, sigma)
    with git_daemon(sigma.home.parent, tmp_path) as served:  # a local push takes cn's settings: no hooks
        git(sigma.root, "remote", "set-url", "origin", served.url(sigma.home.stem))
        assert "origin did not take cn's pins: [remote rejected] (pre-receive hook" in sigma.sync().stdout
        assert same_main(sigma)
        assert (pins(sigma.home), pins(sigma.root)) == ([], [PIN])
        hook.unlink()
        world.propose(pi, sigma, "second")
        sigma.sync()
    assert pins(sigma.home) == [PIN, SECOND]


def test_what_a_host_says_where_it_refuses_main_is_shown_in_its_words(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    world.propose(pi, sigma)
    hook = sigma.home / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho "FATAL: W $1 sigma DENIED by fallthru" >&2\nexit 1\n')
    hook.chmod(0o755)
    with git_daemon(sigma.home.parent, tmp_path) as served:
        git(sigma.root, "remote", "set-url", "origin", served.url(sigma.home.stem))
        done = sigma.cn("sync", check=1)
    assert "[remote rejected] (hook declined): FATAL: W refs/heads/main sigma DENIED by fallthru" in done.stderr


def test_a_host_whose_git_cannot_write_is_told_so_and_a_lock_there_is_named(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    """Only ``File exists`` is a lock; all else is rights or a disk, for which nobody can wait."""
    world.propose(pi, sigma)
    with git_daemon(sigma.home.parent, tmp_path) as served:
        git(sigma.root, "remote", "set-url", "origin", served.url(sigma.home.stem))
        lock = sigma.home / "refs/heads/main.lock"
        lock.touch()
        done = sigma.cn("sync", check=1)
        assert "origin's main is locked by somebody else's push" in done.stderr
        assert "left" in done.stderr
        assert "refs/heads/main.lock" in done.stderr.replace("\n", "")
        lock.unlink()
        hook = sigma.home / "hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        words = "cannot lock ref 'refs/heads/main': Unable to create '/srv/main.lock': Permission denied"
        hook.write_text(f'#!/bin/sh\necho "error: {words}" >&2\nexit 1\n')
        hook.chmod(0o755)
        done = sigma.cn("sync", check=1)
        assert "'/srv/main.lock': Permission denied" in done.stderr
        assert "the host's git may not write there" in done.stderr
        assert "somebody else's push" not in done.stderr
        hook.unlink()
        sigma.sync()
    assert [name.split("-", 1)[1] for name in sigma.threads()] == ["pi-proposal.md"]


@pytest.mark.parametrize(
    "said",
    [
        "error: unpacker error: No space left on device",
        "error: cannot lock ref 'refs/heads/main': Unable to create '/srv/refs/heads/main.lock': Permission denied",
        "error: cannot update ref 'refs/cn/pins/pi/in/x': couldn't write '/srv/./refs/cn/pins/pi/in/x.lock'",
        "error: RPC failed; HTTP 507 curl 22 The requested URL returned error: 507",
        "error: RPC failed; HTTP 503 curl 22 The requested URL returned error: 503",
    ],
)
def test_trouble_of_a_host_is_no_word_about_what_was_pushed(said: str) -> None:
    """Else cn would look for the commit that the host does not want, and tell somebody to give it up."""
    assert not is_refused_by_host(f"{REFUSED} (failed to update ref): {said}")
    assert is_refused_by_host(f"{REFUSED} (pre-receive hook declined)")
    assert is_refused_by_host("error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413")
    assert "check the key" not in remedy_of(said, "")


def test_a_host_that_lets_nobody_in_is_a_matter_of_keys(sigma: Node, tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "git@host: Permission denied (publickey)." >&2\nexit 255\n')
    ssh.chmod(0o755)
    git(sigma.root, "remote", "set-url", "origin", "ssh://git@host/sigma.git")
    done = sigma.cn("sync", check=1, env={"GIT_SSH_COMMAND": str(ssh)})
    assert "Permission denied (publickey)" in done.stderr
    assert "knows none of the keys" in done.stderr
    assert "a key has a passphrase and no agent holds it" in done.stderr


def test_a_push_url_that_is_wrong_is_named_and_what_sets_it_right(sigma: Node, tmp_path: Path) -> None:
    git(sigma.root, "config", "remote.origin.pushurl", str(tmp_path / "gone.git"))
    for place in ("gone.git", "other.git"):
        git(sigma.root, "config", "remote.origin.pushurl", str(tmp_path / place))
        if place == "other.git":  # it takes the push, and is not what peers see
            git(tmp_path, "clone", "-q", "--bare", str(sigma.home), place)
        done = sigma.cn("adhoc", "A note", check=1)
        assert f"git remote set-url --push origin {sigma.home}" in done.stderr, place
        assert ("two repositories" in done.stderr) == (place == "other.git")
        assert "✓" not in done.stdout
    git(sigma.root, "config", "remote.origin.pushurl", sigma.home.as_uri())
    sigma.cn("adhoc", "A note")
    assert same_main(sigma)


def test_a_pin_that_somebody_holds_at_origin_comes_with_the_next_push(world: World, sigma: Node, pi: Node) -> None:
    lock = sigma.home / f"{PIN}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    world.propose(pi, sigma)
    assert "origin did not take cn's pins" in sigma.sync().stdout
    assert same_main(sigma)
    lock.unlink()
    world.propose(pi, sigma, "second")
    sigma.sync()
    assert pins(sigma.home) == [PIN, SECOND]


def test_pins_of_a_push_that_lost_the_race_are_set_right_with_the_next(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    """Somebody else's commit is first: what went with ours is pushed again as it is here then."""
    world.propose(pi, sigma)
    second = world.second(sigma)
    git(second.root, "pull", "-q", "origin", "main")
    theirs = commit(second.root, {"other.md": "x\n"}, "by a person")
    env = meanwhile(tmp_path / "bin", before=f"env -i git -C {second.root} push -q origin main")
    sigma.cn("sync", env=env)
    assert git(sigma.root, "merge-base", theirs, "main") == theirs
    assert same_main(sigma)
    assert pins(sigma.home) == pins(sigma.root) == [PIN]
    assert not (sigma.root / ".git/cn/unpushed").exists()


def test_that_pins_cannot_be_noted_does_not_hide_that_origin_has_main(world: World, sigma: Node, pi: Node) -> None:
    git(sigma.home, "config", "receive.hideRefs", "refs/cn")
    world.propose(pi, sigma)
    (sigma.root / ".git/cn/unpushed").mkdir(parents=True)
    assert "origin did not take cn's pins" in sigma.sync().stdout
    assert len(sigma.threads()) == 1
    assert same_main(sigma)


@pytest.mark.parametrize(("note", "left"), [(f'{{"{PIN}": false}}', [PIN]), (f'{{"{PIN}": true}}', [])])
def test_a_pin_that_is_absent_here_is_deleted_at_origin_only_where_that_was_meant(
    world: World, sigma: Node, pi: Node, note: str, left: list[str]
) -> None:
    """It may be another clone's."""
    git(sigma.root, "push", "-q", "origin", f"main:{PIN}")
    (sigma.root / ".git/cn").mkdir(exist_ok=True)
    (sigma.root / ".git/cn/unpushed").write_text(note)
    world.propose(pi, sigma, "second")
    sigma.sync()
    assert pins(sigma.home) == [*left, SECOND]
    assert not (sigma.root / ".git/cn/unpushed").exists()


def test_a_deletion_that_origin_refused_goes_with_the_next_push(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    git(sigma.home, "config", "receive.hideRefs", "refs/cn")
    world.withdraw(pi, sigma)
    assert "origin did not take cn's pins" in sigma.sync().stdout
    git(sigma.home, "config", "--unset", "receive.hideRefs")
    assert PIN in pins(sigma.home)
    assert PIN not in pins(sigma.root)
    world.propose(pi, sigma, "second")
    sigma.sync()
    assert pins(sigma.home) == pins(sigma.root)
    assert PIN not in pins(sigma.home)


def test_a_deletion_of_a_push_that_was_lost_is_meant_no_more(world: World, sigma: Node, pi: Node) -> None:
    hub = open_hub(sigma.root)
    base = Oid(git(sigma.root, "rev-parse", "main"))
    lost = Oid(git(sigma.root, "commit-tree", "-m", "lost", "-p", base, "main^{tree}"))
    write_journal(push_path(hub, lost), Journal("t", base, lost, "", refs=(RefUpdate(PIN, None),)))
    git(sigma.root, "push", "-q", "origin", f"main:{PIN}")
    world.propose(pi, sigma, "second")
    sigma.sync()
    assert not push_path(hub, lost).exists()
    assert pins(sigma.home) == [PIN, SECOND]


def test_a_refusal_in_the_last_round_is_no_race(world: World, sigma: Node, pi: Node, monkeypatch: Any) -> None:
    """A host whose rule refuses the pins gets main alone also when others pushed at first."""
    hub = open_hub(sigma.root)
    rounds: list[dict[str, Oid | None]] = []

    def send(hub: Hub, refs: dict[str, Oid | None], main: remote.Push | None = None) -> push.Answer:
        rounds.append(refs)
        if len(rounds) < 4:
            return push.Answer(push.Rejected("cannot lock ref", told=True, transient=True), {})
        return push.Answer(push.Rejected("no", told=True, transient=False) if refs else None, {})

    monkeypatch.setattr(push, "_PAUSES", (0.0,) * 4)
    monkeypatch.setattr(push, "send", send)
    base = observe_base(hub)
    new = Oid("1" * 40)
    journal = Journal("t", base.local, new, "x", refs=(RefUpdate(PIN, new),))
    assert push.push(hub, base, journal) == "no"
    assert [len(refs) for refs in rounds] == [1, 1, 1, 1, 0]


def test_what_cannot_be_asked_for_any_more_does_not_hide_that_main_is_there(
    sigma: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = open_hub(sigma.root)
    real, asked = Git.run_many, []

    def run_many(self: Git, jobs: Sequence[Job], **options: Any) -> list[Done]:
        if jobs[0].args[0] == "push":
            asked.append(jobs)
            if len(asked) == 2:
                raise OSError(24, "Too many open files")
        return real(self, jobs, **options)

    monkeypatch.setattr(Git, "run_many", run_many)
    monkeypatch.setattr(remote, "BATCH", 1)
    gone = dict.fromkeys(("refs/cn/pins/pi/in/a", "refs/cn/pins/pi/in/b"))
    main = Oid(git(sigma.root, "rev-parse", "main"))
    told = remote.push_own(hub.git, sigma.url, gone, 60.0, remote.Push("main", main, None))
    assert told["refs/heads/main"].result is remote.Result.DONE
    assert told["refs/cn/pins/pi/in/b"].result is remote.Result.UNKNOWN
