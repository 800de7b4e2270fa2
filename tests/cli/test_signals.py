"""Ctrl-C and SIGTERM while cn is still loading: the exit codes, a word, no traceback."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.hubs import ROOT, clone, cn_env, commit, git
from tests.support.world import Node, World

_AT_ONCE = "os.kill(os.getpid(), {number})\n"
_IN_A_CALLBACK = """
class Last:
    def __del__(self):
        os.kill(os.getpid(), {number})
        for _ in range(1000):  # an exception here is lost
            pass

Last()
"""


def load(
    folder: Path, text: str, *, ignored: bool = False, act: Callable[[], None] = lambda: None
) -> subprocess.CompletedProcess[str]:
    """``cn --version``, and what runs while it imports click."""
    (folder / "click").mkdir()
    (folder / "click/__init__.py").write_text("import os, time\n" + text + "time.sleep(20)\n")

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)
        act()

    return subprocess.run(
        [sys.executable, "-m", "cn", "--version"],
        env=cn_env({"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}),
        preexec_fn=prepare,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("act", [_AT_ONCE, _IN_A_CALLBACK], ids=["at once", "in a callback"])
@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_while_cn_is_loading_ends_it_with_its_code_and_a_word(
    tmp_path: Path, act: str, number: int, code: int, word: str
) -> None:
    done = load(tmp_path, act.format(number=int(number)))
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"cn: {word}\n")


@pytest.mark.parametrize("both", [False, True], ids=["output", "output and errors"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_whose_output_nobody_reads(
    sigma: Node, tmp_path: Path, number: int, code: int, *, both: bool
) -> None:
    unread, into = os.pipe()
    size = fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    with (tmp_path / "err").open("w+") as err:
        command = [sys.executable, "-m", "cn", "doctor", "--json"]
        child = subprocess.Popen(
            command, cwd=sigma.root, env=cn_env({"PYTHONPATH": str(ROOT)}), stdout=into, stderr=into if both else err
        )
        try:
            waits = bytearray(4)
            while int.from_bytes(waits, sys.byteorder) < size and child.poll() is None:
                fcntl.ioctl(unread, termios.FIONREAD, waits)
            assert child.poll() is None, "it has more to say than the pipe holds"
            child.send_signal(number)
            assert child.wait(60) == code
        finally:
            child.kill()
            child.wait()
            os.close(unread)
            os.close(into)
        err.seek(0)
        assert both or "cn: " in err.read()


def test_a_signal_while_the_search_for_secrets_is_loading_ends_it_without_a_traceback(
    world: World, tmp_path: Path
) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    package = tmp_path / "there/detect_secrets"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"import os, pathlib, signal, time\nmark = pathlib.Path({str(tmp_path / 'mark')!r})\n"
        "if mark.exists():\n    raise ImportError('half of it is there')\n"
        "mark.touch()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(20)\n"
    )
    path = f"{tmp_path / 'there'}{os.pathsep}{ROOT}"
    words = ("send", "pi", "hello", "--body", "see AKIA0123456789ABCDEF")
    done = sigma.cn(*words, check=143, started=True, env={"PYTHONPATH": path})
    assert (tmp_path / "mark").exists()
    assert "cn: terminated" in done.stderr
    assert "Traceback" not in done.stderr
    assert "ImportError" not in done.stderr


def test_ctrl_c_stays_ignored_where_the_shell_has_it_so(tmp_path: Path) -> None:
    done = load(tmp_path, _AT_ONCE.format(number=int(signal.SIGINT)) + "os._exit(5)\n", ignored=True)
    assert (done.returncode, done.stderr) == (5, "")


def ignore_children() -> None:
    """For ``preexec_fn``: as some supervisors start what they start (Perl's ``$SIG{CHLD} = "IGNORE"``)."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def hold_all_back() -> None:
    """For ``preexec_fn``: every signal that can be blocked is."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))


def supervised(node: Node, act: Callable[[], None], *words: str) -> subprocess.CompletedProcess[str]:
    """A run of cn on a hub, whose process a supervisor has prepared."""
    command = [sys.executable, "-m", "cn", "--hub", str(node.root), *words]
    return subprocess.run(
        command, env=cn_env(), preexec_fn=act, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_commit_of_ours_stays_where_the_caller_ignores_that_children_end(world: World, sigma: Node, pi: Node) -> None:
    """Without exit codes each git that fails would have succeeded: ours would be an ancestor of origin's."""
    world.propose(pi, sigma)
    ours = commit(sigma.root, {"mine.md": "of a person\n"})
    other = clone(sigma.home, world.folder / "two")
    commit(other, {"theirs.md": "of another clone\n"})
    git(other, "push", "-q", "origin", "main")
    done = supervised(sigma, ignore_children, "sync")
    assert (sigma.root / "mine.md").read_text() == "of a person\n"
    assert git(sigma.root, "branch", "--contains", ours, "--format=%(refname:short)").split() == ["main"]
    assert done.returncode == 0


def test_what_git_refuses_is_told_where_the_caller_ignores_that_children_end(sigma: Node, pi: Node) -> None:
    sigma.home.rename(sigma.home.with_name("away"))
    (told, plain) = (supervised(sigma, act, "save") for act in (ignore_children, lambda: None))
    assert (told.returncode, told.stdout, told.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    done = supervised(sigma, ignore_children, "doctor")
    assert done.returncode == 1


def test_sigterm_ends_a_run_whose_caller_holds_signals_back(tmp_path: Path) -> None:
    done = load(tmp_path, _AT_ONCE.format(number=int(signal.SIGTERM)), act=hold_all_back)
    assert (done.returncode, done.stderr) == (143, "cn: terminated\n")


@pytest.mark.parametrize("module", ["cn.agents.builtin", "cn.agency.store.behind", "cn.bridge"])
def test_what_cn_starts_beside_itself_takes_over_neither(tmp_path: Path, module: str) -> None:
    """Each asks for its state when it is about to begin: Python imports this file at its start."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, signal, sys\n"
        "def tell():\n"
        "    free = signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL and not signal.pthread_sigmask(0, ())\n"
        "    open(sys.path[0] + '/told', 'w').write(str(free))\n"
        "sys.path[0:0] = [__file__.rpartition('/')[0]]\n"
        "atexit.register(tell)\n"
    )

    def both() -> None:
        ignore_children()
        hold_all_back()

    subprocess.run(
        [sys.executable, "-m", module], env=cn_env({"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}), cwd=tmp_path,
        preexec_fn=both, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert next(tmp_path.rglob("told")).read_text() == "True"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_comes_where_python_ignores_what_is_raised_ends_cn_all_the_same(
    tmp_path: Path, number: int, code: int
) -> None:
    """While it forks, handlers of the standard library's run so (os.register_at_fork)."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys, time\n"
        "from cn.cli import main\n"
        "def work(env):\n"
        f"    os.register_at_fork(after_in_parent=lambda: (os.kill(os.getpid(), {int(number)}), time.sleep(0.2)))\n"
        "    if not os.fork():\n"
        "        os._exit(0)\n"
        "    time.sleep(30)\n"
        "main._invoke = work\n"
        "main.run()\n"
    )
    words = [sys.executable, str(program)]
    done = subprocess.run(words, env=cn_env(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
