"""``cn cron``: two lines of its own in the user's crontab, everything else byte for byte.

The crontab is a shim on a file in the test's own home (see ``conftest``).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cn.actions import cron
from cn.actions.cron import format_job, owner, quote, replaced, schedule
from cn.values.errors import Refused, UsageError
from tests.support.hubs import ROOT, cn, git

OTHERS = (
    b"# my jobs\n"
    b"#no space, and a tab:\t.\n"
    b"MAILTO=me@example.org\n"
    b"PATH = /opt/bin\n"
    b"\n"
    b"  5 4 * * *   backup  --all   \n"
    b"@daily  echo '100\\%' # cn: not ours\n"
    b"this is not a crontab line at all\n"
    b"# caf\xc3\xa9 and \xff\n"
    b"0 0 * * * last"
)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    root = tmp_path / "cn-sigma"
    cn("init", "sigma", "--path", root, check=0)
    return root


@pytest.fixture
def table(home: Path) -> Path:
    return home / "crontab"


def lines(table: Path) -> list[str]:
    return [line for line in table.read_text().splitlines() if "# cn: " in line]


def test_the_default_schedule_syncs_often_and_processes_rarely(hub: Path, table: Path) -> None:
    cn("cron", "install", hub=hub, check=0)
    sync, process = lines(table)
    assert sync.startswith("*/5 * * * * PATH=")
    assert f"inbox sync {hub} -q # cn: sync {hub}" in sync
    assert process.startswith("*/15 * * * * PATH=")
    assert f"inbox process {hub} -q # cn: process {hub}" in process


def test_install_again_changes_nothing(hub: Path, table: Path) -> None:
    cn("cron", "install", hub=hub, check=0)
    before = table.read_bytes()
    done = cn("cron", "install", hub=hub, check=0)
    assert "has these lines already" in done.stdout
    assert table.read_bytes() == before


def test_other_lines_stay_byte_for_byte(hub: Path, table: Path) -> None:
    table.write_bytes(OTHERS)
    cn("cron", "install", hub=hub, check=0)
    assert table.read_bytes().startswith(OTHERS + b"\n*/5 ")
    cn("cron", "remove", hub=hub, check=0)
    assert table.read_bytes() == OTHERS + b"\n"


def test_new_intervals_replace_the_lines_where_they_stand(hub: Path, table: Path) -> None:
    cn("cron", "install", hub=hub, check=0)
    table.write_bytes(table.read_bytes() + b"1 2 3 4 5 after\n")
    cn("cron", "install", "--sync-every", "10", "--process-every", "60", hub=hub, check=0)
    text = table.read_text().splitlines()
    assert text[0].startswith("*/10 * * * * ")
    assert text[1].startswith("0 * * * * ")
    assert text[2] == "1 2 3 4 5 after"


def test_a_line_that_was_commented_out_is_ours_too(hub: Path, table: Path) -> None:
    cn("cron", "install", hub=hub, check=0)
    table.write_text("".join(f"# {line}\n" for line in table.read_text().splitlines()))
    cn("cron", "install", hub=hub, check=0)
    assert [line[0] for line in lines(table)] == ["*", "*"]
    cn("cron", "remove", hub=hub, check=0)
    assert table.read_bytes() == b""


def test_a_line_with_a_remark_behind_it_is_ours_and_keeps_the_remark(hub: Path, table: Path) -> None:
    cn("cron", "install", hub=hub, check=0)
    before = table.read_text().splitlines()
    table.write_text(f"{before[0]}  # don't touch\n{before[1]}\n")
    assert "has these lines already" not in cn("cron", "install", "--sync-every", "10", hub=hub, check=0).stdout
    assert len(lines(table)) == 2
    assert lines(table)[0] == before[0].replace("*/5", "*/10", 1) + "  # don't touch"
    cn("cron", "remove", hub=hub, check=0)
    assert lines(table) == []


def test_hubs_live_side_by_side(hub: Path, table: Path, tmp_path: Path) -> None:
    other = tmp_path / "cn-sigma-2"
    cn("init", "sigma", "--path", other, check=0)
    cn("cron", "install", hub=hub, check=0)
    first = table.read_bytes()
    cn("cron", "install", hub=other, check=0)
    assert len(lines(table)) == 4
    cn("cron", "remove", hub=other, check=0)
    assert table.read_bytes() == first


def test_the_lines_of_a_hub_that_is_gone_can_be_removed(hub: Path, table: Path) -> None:
    cn("cron", "install", hub=hub, check=0)
    shutil.rmtree(hub)
    cn("cron", "remove", hub=hub, check=0)
    assert lines(table) == []


def test_the_lines_of_a_hub_that_moved_are_named_and_stay_until_they_are_taken_out(
    hub: Path, table: Path, tmp_path: Path
) -> None:
    cn("cron", "install", hub=hub, check=0)
    old = lines(table)
    moved = tmp_path / "moved here"
    hub.rename(moved)
    told = f"the crontab has lines of {hub}, where no hub is any more"
    doctor = cn("doctor", hub=moved).stdout
    assert told in doctor
    assert f"cn cron remove --hub {hub}" in doctor
    for words in ("remove", "install"):
        assert told in cn("cron", words, hub=moved, check=0).stdout
    shown = cn("cron", "show", hub=moved, check=0)
    assert told in shown.stderr
    assert len(shown.stdout.splitlines()) == 2
    assert lines(table)[:2] == old
    assert told not in cn("cron", "remove", hub=hub, check=0).stdout
    assert len(lines(table)) == 2
    assert told not in cn("doctor", hub=moved).stdout


def test_a_line_of_a_hub_that_moved_makes_no_second_one_in_its_place(hub: Path, table: Path, tmp_path: Path) -> None:
    cn("cron", "install", hub=hub, check=0)
    moved = tmp_path / "moved"
    hub.rename(moved)
    for words in (("inbox", "sync", hub), ("--hub", hub, "status"), ("sync", hub, "-q")):
        told = cn(*words, check=3).stderr
        assert f"no hub at {hub}: there is no such folder" in told
        assert "where the hub was moved, name its new place: 'cn cron install' there" in " ".join(told.split())
        assert "cn init" not in told
    installed = cn("cron", "install", cwd=moved, check=0).stdout
    (takes_out,) = re.findall(r"'(cn cron remove [^']*)'", installed)
    cn(*shlex.split(takes_out)[1:], cwd=moved, check=0)
    assert [str(moved) in line for line in lines(table)] == [True, True]


def test_a_dry_run_writes_nothing(hub: Path, table: Path) -> None:
    done = cn("cron", "install", "--dry-run", hub=hub, check=0)
    assert "would" in done.stdout
    assert "✓" not in done.stdout
    assert not table.exists()


def test_show_tells_what_is_and_what_would_be(hub: Path) -> None:
    before = cn("cron", "show", hub=hub, check=0)
    assert "not installed" in before.stderr
    assert before.stdout.count("# cn: ") == 2
    data = json.loads(cn("cron", "show", "--json", hub=hub, check=0).stdout)
    assert (data["hub"], data["installed"], len(data["wanted"])) == (str(hub), [], 2)
    cn("cron", "install", hub=hub, check=0)
    data = json.loads(cn("cron", "show", "--json", hub=hub, check=0).stdout)
    assert data["installed"] == data["wanted"]


def test_without_a_crontab_program_systemd_is_named(hub: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "sh"):
        (tools / name).symlink_to(shutil.which(name) or "")
    # The standard folders are looked at too: a program of that name that is missing there is what we test.
    code = (
        "import shutil, sys; real = shutil.which\n"
        "shutil.which = lambda n, *a, **k: None if n == 'crontab' else real(n, *a, **k)\n"
        "sys.argv = ['cn', *sys.argv[1:]]\n"
        "from cn.cli.main import run; run()"
    )

    def cron(word: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, "--hub", str(hub), "cron", word],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": str(tools)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    done = cron("install")
    assert done.returncode == 1
    assert "no crontab program" in done.stderr
    assert "cn-sync.timer" in done.stderr
    shown = cron("show")
    assert (shown.returncode, len(shown.stdout.splitlines())) == (0, 2), "it only prints"


def test_a_user_who_may_not_use_cron_gets_cron_s_own_words(hub: Path, tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "crontab"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho 'You (me) are not allowed to use this program' >&2; exit 1\n")
    shim.chmod(0o755)
    done = cn("cron", "install", hub=hub, check=1, env={"PATH": f"{shim.parent}:{os.environ['PATH']}"})
    assert "not allowed" in done.stderr


def test_a_table_that_cron_refuses_is_not_called_installed(hub: Path, tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "crontab"
    shim.parent.mkdir()
    shim.write_text('#!/bin/sh\n[ "$1" = -l ] || cat "$1" >/dev/null\nexit 0\n')
    shim.chmod(0o755)
    done = cn("cron", "install", hub=hub, check=1, env={"PATH": f"{shim.parent}:{os.environ['PATH']}"})
    assert "not what was installed" in done.stderr


@pytest.mark.sliced(4)
@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "with space",
        "per%cent",
        "50%%",
        "back\\slash",
        "back\\%both",
        "it's",
        '"quoted"',
        "$(touch pwned)",
        "`x`;&|#!*",
        "x # cn: sync",
        "-dash",
        "grün",
    ],
)
def test_any_folder_name_survives_cron_and_sh(hub: Path, tmp_path: Path, table: Path, name: str) -> None:
    strange = tmp_path / name
    hub.rename(strange)
    cn("cron", "install", hub=strange, check=0)
    cn("cron", "install", hub=strange, check=0)
    first = table.read_text().splitlines()
    assert len(first) == 2
    words = ["inbox", "sync", str(strange), "-q"]
    assert run_as_cron(first[0], tmp_path, unescape=True) == words
    # busybox crond leaves the backslash before a "%" to sh
    assert run_as_cron(first[0], tmp_path, unescape=False) == words
    cn("cron", "remove", hub=strange, check=0)
    assert table.read_bytes() == b""


def test_a_line_runs_with_cron_s_bare_environment(hub: Path, table: Path, tmp_path: Path) -> None:
    tools = tmp_path / "git in here"
    tools.mkdir()
    (tools / "git").symlink_to(shutil.which("git") or "")
    cn("cron", "install", hub=hub, check=0, env={"PATH": f"{tools}:{os.environ['PATH']}"})
    sync = lines(table)[0].split(None, 5)[5]
    bare = {"HOME": os.environ["HOME"], "PATH": "/nonexistent", "SHELL": "/bin/sh", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["/bin/sh", "-c", sync], env=bare, cwd="/", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_wake_script_that_calls_cn_finds_it_from_cron(hub: Path, table: Path, tmp_path: Path) -> None:
    """As ``docs/agents.md`` has it: with the environment that cron gives, and the line as it was installed."""
    bin, script, said = tmp_path / "pipx" / "bin", tmp_path / "turn.sh", tmp_path / "said"
    bin.mkdir(parents=True)
    (bin / "cn").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m cn "$@"\n')
    (bin / "cn").chmod(0o755)
    script.write_text(f'#!/bin/sh\ncn --version >{said} 2>&1 && cn status "$CN_HUB" >>{said}\n')
    script.chmod(0o755)
    peer = tmp_path / "pi"
    cn("init", "pi", "--path", peer, check=0)
    cn("peer", "add", "pi", peer, "--deliver", "pickup", hub=hub, check=0)
    git(peer, "branch", "sigma/idea", git(peer, "commit-tree", "-m", "An idea", "-p", "main", "main^{tree}"))
    git(hub, "config", "cn.wake", str(script))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [f"import sys; sys.argv[0] = {str(bin / 'cn')!r}; from cn.cli.main import run; run()"]
    words += ["--hub", str(hub), "cron", "install"]
    subprocess.run([sys.executable, "-P", "-c", *words], env=env, check=True, capture_output=True)
    assert f"PATH={bin}:" in lines(table)[0]
    bare = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "LOGNAME": "me"}
    bare |= {"PYTHONPATH": str(ROOT)}  # this cn is not installed
    sync = lines(table)[0].split(None, 5)[5]
    done = subprocess.run(["/bin/sh", "-c", sync], env=bare, cwd="/", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "1 pending" in said.read_text()


def test_doctor_finds_a_line_whose_path_has_no_cn(hub: Path, table: Path) -> None:
    table.write_text(f"PATH=/nonexistent\n*/5 * * * * /x/cn inbox sync {hub} -q # cn: sync {hub}\n")
    done = cn("doctor", hub=hub, check=1)
    assert "the line of the crontab for 'sync' has no cn in its PATH (/nonexistent)" in done.stdout


def test_the_folder_of_the_wake_command_is_on_the_path(hub: Path, table: Path, tmp_path: Path) -> None:
    tool = tmp_path / "tools" / "wake-me"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    git(hub, "config", "cn.wake", "wake-me --now")
    cn("cron", "install", hub=hub, check=0, env={"PATH": f"{tool.parent}:{os.environ['PATH']}"})
    assert str(tool.parent) in lines(table)[0]


def test_the_programs_that_files_go_through_are_found(hub: Path, table: Path, tmp_path: Path) -> None:
    """git-lfs, git-crypt: where cron does not find one, git compares none of its files."""
    for name in ("my-crypt", "git-own", "git-unused"):
        tool = tmp_path / f"bin of {name}" / name
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\ncat\n")
        tool.chmod(0o755)
    git(hub, "config", "filter.crypt.clean", "'my-crypt' clean %f")
    git(hub, "config", "filter.own.process", "git own filter")
    git(hub, "config", "filter.gone.clean", "no-such-program")
    folders = [str(tmp_path / f"bin of {name}") for name in ("my-crypt", "git-own", "git-unused")]
    cn("cron", "install", hub=hub, check=0, env={"PATH": ":".join([*folders, os.environ["PATH"]])})
    sync = lines(table)[0].split(None, 5)[5]
    assert [folder for folder in folders if folder in sync] == folders[:2]


@pytest.mark.parametrize(
    ("minutes", "fields"),
    [
        (1, "* * * * *"),
        (5, "*/5 * * * *"),
        (30, "*/30 * * * *"),
        (60, "0 * * * *"),
        (120, "0 */2 * * *"),
        (1440, "0 0 * * *"),
    ],
)
def test_intervals(minutes: int, fields: str) -> None:
    assert schedule(minutes, "--sync-every") == fields


@pytest.mark.parametrize("minutes", [0, -5, 31, 45, 90, 300, 2880])
def test_intervals_that_cron_cannot_do(minutes: int) -> None:
    with pytest.raises(UsageError):
        schedule(minutes, "--sync-every")


def test_an_impossible_interval_is_a_usage_error(hub: Path, table: Path) -> None:
    cn("cron", "install", "--sync-every", "45", hub=hub, check=2)
    assert not table.exists()


def test_a_control_character_cannot_start_a_line_of_its_own() -> None:
    with pytest.raises(Refused):
        format_job("sync", "* * * * *", f"cn {quote('/a')}", Path("/a\n* * * * * evil"))


def test_a_line_longer_than_cron_takes_is_refused() -> None:
    with pytest.raises(Refused):
        format_job("sync", "* * * * *", "cn " + "x" * 990, Path("/a"))


def test_a_marker_of_another_hub_or_in_the_middle_is_not_ours() -> None:
    hub = Path("/a")
    assert owner(b"* * * * * x # cn: sync /a\n", hub) == "sync"
    assert owner(b"* * * * * x # cn: sync /a/b\n", hub) == ""
    assert owner(b"* * * * * x # cn: other /a\n", hub) == ""
    assert owner(b"* * * * * echo '# cn: sync /a' done\n", hub) == ""
    assert owner(b"* * * * * echo 'x # cn: sync /a y'\n", hub) == ""
    assert replaced(b"x\r\ny\x0cz", hub, {}) == b"x\r\ny\x0cz"


def run_as_cron(line: str, folder: Path, *, unescape: bool) -> list[str]:
    """The arguments that cn gets when cron runs this line: crontab(5), then sh."""
    command = line.split(None, 5)[5]
    if unescape:
        out, escaped = "", False
        for char in command:
            if char == "%" and not escaped:
                break
            if char == "%":
                out = out[:-1]
            out += char
            escaped = char == "\\" and not escaped
        command = out
    shown = folder / "shown"
    shim = folder / "shim"
    shim.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > {shown}\n")
    shim.chmod(0o755)
    head, found, tail = command.partition(" inbox ")
    assert found
    path = head.split(" ")[0]
    subprocess.run(["/bin/sh", "-c", f"{path} {shim} inbox {tail}"], check=True, cwd=folder)
    assert not (folder / "pwned").exists()
    return shown.read_bytes().decode().rstrip("\0").split("\0")


def test_a_lock_on_the_home_folder_is_in_nobodys_way(hub: Path, table: Path, home: Path) -> None:
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        cn("cron", "install", hub=hub, check=0)
    finally:
        os.close(fd)
    assert len(lines(table)) == 2


@pytest.mark.parametrize(
    ("said", "is_none"),
    [
        ("no crontab for sigma", True),
        ("crontab: can't open 'sigma': No such file or directory", True),
        ("crontab: can't open 'sigma': Too many open files in system", False),
        ("crontab: can't open 'sigma': Permission denied", False),
    ],
)
def test_only_a_missing_table_is_an_empty_one(monkeypatch: pytest.MonkeyPatch, said: str, is_none: bool) -> None:
    done = subprocess.CompletedProcess([], 1, b"", said.encode())
    monkeypatch.setattr(cron, "_run", lambda *_: done)
    if is_none:
        assert cron.read_table() == b""
    else:
        with pytest.raises(Refused, match="can't open"):
            cron.read_table()
