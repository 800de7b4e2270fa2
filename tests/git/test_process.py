"""The runner: what it hands to git, what it hands back, and how it fails."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from cn.git.process import PATIENT, REASON, Done, Git, GitError, Job, remedy_here, transport_options
from cn.values.errors import CnError
from tests.support.hubs import bare, cn_env, commit, git, refs, tip, work
from tests.support.servers import gone

if TYPE_CHECKING:
    from pytest_git import GitRepo

LONG = 30.0


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = work(tmp_path / "repo", "sigma")
    commit(made, {"README.md": "hello\n", "ünï/a\nb": "odd\n"}, "first")
    return made


def shell(repo: Path, body: str, **given: object) -> Git:
    """A git whose command ``git sh`` runs ``body``."""
    return Git(repo, settings={"alias.sh": f"!{body}"}, **given)  # type: ignore[arg-type]


# Running


def test_run_answers_with_output_and_code(repo: Path) -> None:
    done = Git(repo).run("rev-parse", "HEAD")
    assert done.ok
    assert done.code == 0
    assert done.text == tip(repo)
    assert done.err == ""


def test_run_raises_what_git_said(repo: Path) -> None:
    with pytest.raises(GitError) as caught:
        Git(repo).run("rev-parse", "--verify", "nothing")
    assert caught.value.text == "git rev-parse failed: fatal: Needed a single revision"
    assert caught.value.done.code == 128
    assert caught.value.exit_code == 1


def test_run_unchecked_returns_the_failure(repo: Path) -> None:
    done = Git(repo).run("rev-parse", "--verify", "nothing", check=False)
    assert not done.ok
    assert done.reason == "fatal: Needed a single revision"


@pytest.mark.parametrize("network", [False, True])
def test_much_input_and_output_at_once(repo: Path, network: bool) -> None:
    data = os.urandom(5_000_000)
    done = shell(repo, "cat").run("sh", stdin=data, network=network)
    assert hashlib.sha256(done.out).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("network", [False, True])
def test_input_that_nobody_reads(repo: Path, network: bool) -> None:
    assert Git(repo).run("rev-parse", "HEAD", stdin=b"x" * 1_000_000, network=network).text == tip(repo)


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("size", [10, 5_000_000])
def test_input_that_is_read_late(repo: Path, network: bool, size: int) -> None:
    """A slow disk: git reads the most of its input long after cn first looked whether it has ended."""
    data = os.urandom(size)
    done = shell(repo, f"sleep {3 * PATIENT}; cat").run("sh", stdin=data, seconds=20, network=network)
    assert hashlib.sha256(done.out).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("network", [False, True])
def test_much_on_standard_error_keeps_the_end(repo: Path, network: bool) -> None:
    body = "yes noise | head -n 200000 >&2; echo 'fatal: at last' >&2; exit 3"
    done = shell(repo, body).run("sh", check=False, network=network)
    assert done.code == 3
    assert done.reason == "fatal: at last"
    assert len(done.err) <= 4000


@pytest.mark.parametrize("network", [False, True])
def test_a_time_limit(repo: Path, network: bool) -> None:
    done = shell(repo, "echo begun; sleep 60; touch ended").run("sh", check=False, seconds=1, network=network)
    assert not (repo / "ended").exists()
    assert done.timed_out
    assert not done.ok
    assert done.reason == "no answer within the time limit"
    with pytest.raises(GitError, match="no answer within the time limit"):
        shell(repo, "sleep 300").run("sh", seconds=0.2, network=network)


def test_an_interrupted_local_command_still_finishes(repo: Path) -> None:
    """SIGTERM must not leave half of a change behind: what git began, it ends."""

    class Stop(Exception):
        pass

    begun, end = repo / "begun", repo / "ended"

    def stop(number: int, frame: FrameType | None) -> None:
        if not begun.exists() or time.time() < begun.stat().st_mtime + 0.2:  # a busy machine still starts it
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Stop):
            shell(repo, f"touch '{begun}'; yes much | head -n 1000000; sleep 0.5; touch '{end}'").run("sh")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert end.exists()


def test_git_is_not_installed(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for network in (False, True):
        with pytest.raises(CnError) as caught:
            Git(repo).run("version", network=network)
        assert "git is not installed" in caught.value.text
        assert caught.value.hint


def test_the_folder_is_gone(tmp_path: Path) -> None:
    for network in (False, True):
        with pytest.raises(CnError, match="gone"):
            Git(tmp_path / "gone").run("version", network=network)


def test_a_bare_repository(tmp_path: Path, repo: Path) -> None:
    host = bare(tmp_path / "host.git")
    git(repo, "push", "-q", str(host), "main")
    assert Git(host, bare=True).run("rev-parse", "main").text == tip(repo)
    assert not Git(host).run("rev-parse", "main", check=False).ok


def test_a_linked_work_tree(tmp_path: Path, repo: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    linked = Git(tmp_path / "linked")
    assert linked.run("symbolic-ref", "HEAD").text == "refs/heads/other"
    assert Path(linked.run("rev-parse", "--show-toplevel").text).samefile(tmp_path / "linked")


def test_the_repository_named_is_the_one_used(tmp_path: Path, repo: Path) -> None:
    """A folder inside a repository is no repository, even if git would look upwards."""
    inside = repo / "sub"
    inside.mkdir()
    assert git(inside, "rev-parse", "HEAD") == tip(repo)
    assert not Git(inside).run("rev-parse", "HEAD", check=False).ok


def test_paths_are_taken_literally(repo: Path) -> None:
    (repo / "*").write_text("star\n")
    (repo / ":(top)x").write_text("magic\n")
    Git(repo).run("add", "--", "*", ":(top)x")
    staged = Git(repo).run("diff", "--cached", "--name-only", "-z").fields
    assert staged == ["*", ":(top)x"]


def test_a_variant_with_more_environment(repo: Path, tmp_path: Path) -> None:
    private = Git(repo).with_env(GIT_INDEX_FILE=tmp_path / "index")
    private.run("read-tree", "--empty")
    assert private.run("ls-files").lines == []
    assert Git(repo).run("ls-files", "-z").fields == ["README.md", "ünï/a\nb"]


def test_a_variant_with_more_settings(repo: Path) -> None:
    loud = Git(repo).with_settings({"user.name": "Pi"}).with_settings({"user.email": "pi@example.org"})
    assert loud.run("var", "GIT_AUTHOR_IDENT").text.startswith("Pi <pi@example.org>")
    assert Git(repo).run("var", "GIT_AUTHOR_IDENT").text.startswith("sigma ")


def test_a_lock_is_inherited_by_local_children_only(repo: Path, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        git_with_lock = shell(repo, f"echo held > /dev/fd/{lock.fileno()}", lock_fd=lock.fileno())
        assert git_with_lock.run("sh", check=False).ok
        assert (tmp_path / "lock").read_text() == "held\n"
        assert not git_with_lock.run("sh", check=False, network=True).ok


def test_an_author_in_the_environment_does_not_sign_for_us(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Eve")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "eve@example.org")
        monkeypatch.setenv(f"GIT_{who}_DATE", "2001-01-01T00:00Z")
    oid = Git(repo).run("commit-tree", "-m", "x", "HEAD^{tree}").text
    shown = git(repo, "show", "-s", "--format=%an %ae %cn %ce %ad %cd", "--date=short", oid)
    assert shown.startswith("sigma sigma@example.org sigma sigma@example.org 20")
    assert "2001" not in shown


def test_a_repository_made_with_gitpython(git_repo: GitRepo) -> None:
    """The same repository through the library that we use where it is good (pytest-git)."""
    root = Path(git_repo.workspace)
    (root / "a.md").write_text("text\n")
    git_repo.api.index.add(["a.md"])
    made = git_repo.api.index.commit("by GitPython")
    assert Git(root).run("log", "-1", "--format=%H %s").text == f"{made.hexsha} by GitPython"
    Git(root).run("update-ref", "refs/heads/pi/topic", made.hexsha)
    assert [h.name for h in git_repo.api.heads] == ["pi/topic", "trunk"]


# Answers


def done(out: bytes = b"", err: str = "", code: int = 1, timed_out: bool = False) -> Done:
    return Done(("fetch", "--", "url"), code, out, err, timed_out)


@pytest.mark.parametrize(
    ("out", "text", "lines", "fields"),
    [
        (b"", "", [], []),
        (b"a\n", "a", ["a"], ["a\n"]),
        (b"a\nb\n", "a\nb", ["a", "b"], ["a\nb\n"]),
        (b"a\rb\x0bc\xe2\x80\xa8d\n", "a\rb\x0bc\u2028d", ["a\rb\x0bc\u2028d"], ["a\rb\x0bc\u2028d\n"]),
        (b"a\0b\n\0", "a\0b\n\0", ["a\0b", "\0"], ["a", "b\n"]),
        (b"a\xff\0", "a<0xFF>\0", ["a<0xFF>\0"], ["a\udcff"]),
    ],
)
def test_output_as_text_lines_and_fields(out: bytes, text: str, lines: list[str], fields: list[str]) -> None:
    answer = done(out, code=0)
    assert (answer.text, answer.lines, answer.fields) == (text, lines, fields)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (done(), "exit code 1"),
        (done(err="\n \n"), "exit code 1"),
        (done(err="something\n"), "something"),
        (done(err="warning: careful\nfatal: this\nfatal: that\n"), "fatal: this"),
        (done(err="To url\nerror: failed to push\n"), "error: failed to push"),
        (done(err="hint: x\nremote: no\n"), "no"),
        (done(err="remote: no\nremote:   not you\nfatal: denied\nfatal: y\n"), "no; not you; fatal: denied"),
        (done(err="fatal: x\n", timed_out=True), "no answer within the time limit"),
        (done(code=-15), "ended by SIGTERM"),
        (done(code=-999), "exit code -999"),
        (done(code=-int(signal.SIGXFSZ)), "it sent more than the size limit"),
        (done(err="Host key wrong.\r\nfatal: Could not read from remote repository.\n\nPlease\n"), "Host key wrong."),
        (
            done(
                err="Warning: Permanently added 'h' (ED25519) to the list of known hosts.\r\n"
                "FATAL: R any cn-sigma pi DENIED by fallthru\r\n(or you mis-spelled the reponame)\r\n"
                "fatal: Could not read from remote repository.\n\nPlease\n"
            ),
            "FATAL: R any cn-sigma pi DENIED by fallthru; (or you mis-spelled the reponame)",
        ),
        (done(err="fatal: Could not read from remote repository.\n"), "fatal: Could not read from remote repository."),
        (
            done(err="fatal: unable to access 'https://u:p@ss@host/x/': no\n"),
            "fatal: unable to access 'https://***@host/x/': no",
        ),
        (done(err="remote: a\x1b[2J\x1b]0;title\x07\x9b\u202eb\x1b\n"), "a<U+009B><U+202E>b<U+001B>"),
    ],
)
def test_the_reason_of_a_failure(answer: Done, reason: str) -> None:
    assert answer.reason == reason


def test_a_reason_has_an_end() -> None:
    assert len(done(err="remote: " + "x" * 4000).reason) == REASON


def test_where_the_shell_limits_files_nobody_is_told_that_a_peer_sent_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, resource.RLIM_INFINITY))
    error = GitError(done(code=-int(signal.SIGXFSZ)))
    assert (
        error.text
        == "git fetch failed: a file would have grown beyond the limit of the shell or service that started cn"
    )
    assert "'ulimit -f'" in error.hint


def test_an_error_names_the_verb_and_not_the_url() -> None:
    assert GitError(done(err="fatal: no\n")).text == "git fetch failed: fatal: no"


# Many at once


def test_answers_come_in_the_order_of_the_jobs(repo: Path, tmp_path: Path) -> None:
    order: list[tuple[str, str]] = []

    def note(job: Job, answer: Done) -> None:
        order.append((job.key, answer.text))
        (tmp_path / f"done{len(order)}").touch()

    jobs = [Job(f"peer{i}", ("sh", str(i))) for i in range(4)]
    runner = shell(repo, f"f() {{ [ $1 != 0 ] || until [ -e '{tmp_path}/done3' ]; do sleep 0.02; done; echo $1; }}; f")
    answers = runner.run_many(jobs, width=4, on_done=note)
    assert [a.text for a in answers] == ["0", "1", "2", "3"]
    assert all(a.args[0] == "sh" for a in answers)
    assert sorted(order) == [(f"peer{i}", str(i)) for i in range(4)]
    assert order[-1] == ("peer0", "0")


def test_no_jobs(repo: Path) -> None:
    assert Git(repo).run_many([]) == []


def test_one_failure_is_one_failure(repo: Path) -> None:
    jobs = [Job(c, ("sh", c)) for c in "0123"]
    answers = shell(repo, "f() { exit $1; }; f").run_many(jobs)
    assert [a.code for a in answers] == [0, 1, 2, 3]


@pytest.mark.parametrize("width", [1, 3])
def test_no_more_run_at_once_than_allowed(repo: Path, tmp_path: Path, width: int) -> None:
    slots = tmp_path / "slots"
    slots.mkdir()
    met = tmp_path / "met"  # until as many as may were there at once
    body = (
        f"cd '{slots}'; touch run.$$; ls | wc -l; [ $(ls | wc -l) -lt {width} ] || touch '{met}'; "
        f"until [ -e '{met}' ]; do sleep 0.02; done; ls | wc -l >&2; rm run.$$"
    )
    answers = shell(repo, body).run_many([Job(str(i), ("sh",)) for i in range(8)], width=width)
    assert all(a.ok for a in answers)
    assert met.exists()
    assert max(int(text) for a in answers for text in (a.text, a.err)) <= width


def test_each_job_has_its_own_input_and_time(repo: Path) -> None:
    jobs = [
        Job("a", ("sh",), stdin=b"cat; echo A"),
        Job("b", ("sh",), stdin=b"sleep 300", seconds=0.5),
        Job("c", ("sh",), stdin=b"sleep 1; echo C"),
    ]
    answers = shell(repo, "sh").run_many(jobs)
    assert [a.timed_out for a in answers] == [False, True, False]
    assert [answers[0].text, answers[2].text] == ["A", "C"]


def test_many_short_jobs_all_answer(repo: Path) -> None:
    answers = Git(repo).run_many([Job(str(i), ("rev-parse", "HEAD")) for i in range(60)])
    assert [a.ok for a in answers] == [True] * 60


def test_an_error_while_jobs_run_ends_them_all(repo: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    jobs = [Job("slow", ("sh", "300")), Job("quick", ("sh", "0"))]

    def fail(job: Job, answer: Done) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shell(repo, f"f() {{ echo $$ >> '{pids}'; sleep $1; }}; f").run_many(jobs, on_done=fail)
    assert gone([int(pid) for pid in pids.read_text().split()])


def test_no_descriptor_is_left_open(repo: Path) -> None:
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    jobs = [Job("late", ("sh", "300"), seconds=0.3), Job("fine", ("sh", "0"))]
    runner = shell(repo, "sleep")
    runner.run_many(jobs)
    before = len(os.listdir(folder))
    for _ in range(3):
        runner.run_many(jobs)
        runner.run("sh", "300", seconds=0.1, check=False)
    assert len(os.listdir(folder)) <= before


# Options


@pytest.mark.parametrize(
    ("url", "local"),
    [("/srv/x.git", True), ("../x", True), ("file:///x", True), ("host:x", False), ("https://h/x", False)],
)
def test_a_local_receiver_is_hardened_on_its_command_line(url: str, local: bool) -> None:
    assert bool(transport_options(url)) is local


def test_a_push_into_a_checked_out_branch_is_refused(tmp_path: Path, repo: Path) -> None:
    other = work(tmp_path / "other", "pi")
    oid = commit(other, {"a": "1"})
    git(other, "config", "receive.denyCurrentBranch", "ignore")
    args = ("push", "--force", *transport_options(str(other)), "--", str(other), "main:refs/heads/main")
    answer = Git(repo).run(*args, check=False, network=True)
    assert "checked out" in answer.err
    assert refs(other) == {"refs/heads/main": oid}


def test_time_in_which_cn_was_stopped_is_no_answer_of_a_remote(repo: Path) -> None:
    """Nobody read what it said: it waits with a full pipe, and goes on when cn does."""
    alias = "!touch started; sleep 2; head -c 300000 /dev/zero; sleep 1; echo end"
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from cn.git.process import Git, Job\n"
        f"job = Job('x', ('-c', 'alias.slow={alias}', 'slow'), seconds=5.0)\n"
        "(done,) = Git(Path(sys.argv[1])).run_many([job])\n"
        "print(done.ok, done.timed_out, len(done.out))\n"
    )
    command = [sys.executable, "-c", script, str(repo)]
    with subprocess.Popen(command, env=cn_env(), stdout=subprocess.PIPE, encoding="utf-8") as child:
        while not (repo / "started").exists():
            time.sleep(0.02)
        child.send_signal(signal.SIGSTOP)
        time.sleep(6)
        child.send_signal(signal.SIGCONT)
        assert child.communicate(timeout=LONG)[0] == "True False 300004\n"


def test_a_git_that_is_stopped_is_given_up_with_the_time(repo: Path) -> None:
    done = Git(repo).run_many([Job("", ("-c", "alias.stop=!kill -STOP $$; echo no", "stop"), seconds=0.5)])[0]
    assert done.timed_out
    with pytest.raises(GitError, match="no answer within the time limit"):
        Git(repo).run("-c", "alias.stop=!kill -STOP $$; echo no", "stop", seconds=0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="it reads proc(5)")
def test_of_what_a_remote_says_beside_only_the_end_is_kept(repo: Path) -> None:
    words = ("-c", "alias.much=!head -c 90000000 /dev/zero | tr '\\0' 'x' >&2; echo; echo end >&2; exit 1", "much")
    script = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "from cn.git.process import Git, Job\n"
        f"(done,) = Git(Path(sys.argv[1])).run_many([Job('x', {words!r}, seconds=50.0)])\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "print(done.err.endswith('end\\n'), int(peak) < 70_000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(repo)], env=cn_env(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "True True\n", done.stderr


def test_a_pipe_that_outlives_the_time_is_closed(tmp_path: Path, repo: Path) -> None:
    note = tmp_path / "note"
    done = shell(repo, f"setsid sleep 600 & echo $! > {note}; sleep 600").run("sh", check=False, seconds=0.5)
    assert done.timed_out
    os.kill(int(note.read_text()), signal.SIGKILL)


def test_a_lower_limit_for_files_than_ours_stays(repo: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; from cn.git.process import Git\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 8192))\n"
        "git = Git(Path(sys.argv[1]), max_bytes=1 << 29, settings={'alias.sh': '!ulimit -f'})\n"
        "print(git.run('sh', network=True).text)"
    )
    words = [sys.executable, "-c", code, str(repo)]
    done = subprocess.run(words, env=cn_env(), capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) in (4, 8)  # blocks of 1,024 or of 512 bytes


def test_what_kept_this_machine_from_it_is_told_apart_from_what_a_peer_did() -> None:
    full = Done(("fetch",), 128, b"", "fatal: write error: No space left on device\n").reason
    assert remedy_here(full).startswith("make room on the disk")
    assert remedy_here("fatal: couldn't find remote ref refs/heads/pi/x") == ""


def test_a_server_that_refuses_the_connection_is_told_with_its_address() -> None:
    err = "fatal: unable to connect to host.example:\nhost.example[0: 192.0.2.1]: errno=Connection refused\n\n"
    told = Done(("ls-remote",), 128, b"", err).reason
    assert told == "fatal: unable to connect to host.example: host.example[0: 192.0.2.1]: errno=Connection refused"


def test_an_object_that_is_gone_may_have_been_pruned(repo: Path) -> None:
    git = Git(repo)
    with pytest.raises(GitError) as caught:
        git.run("diff-tree", "-r", "1" * 40, "2" * 40)
    assert caught.value.hint.startswith("if 'git prune' or 'git gc --prune=now' ran meanwhile")
