"""A hub whose configuration or main is not where it belongs: the true reason, and a way back that works."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.hubs import bare, clone, cn, commit, git, tip
from tests.support.world import World


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A hub with an origin, synced twice."""
    cn("init", "sigma", "--path", tmp_path / "sigma", check=0)
    root = tmp_path / "sigma"
    git(root, "remote", "add", "origin", str(bare(tmp_path / "origin.git")))
    commit(root, {"state/note.md": "one\n"})
    cn("sync", root, check=0)
    cn("sync", root, check=0)
    return root


def remedies(text: str) -> list[str]:
    """The commands of git in a remedy, in order; what is in the quotes is what is typed."""
    return re.findall(r"'(git [^']+)'", text)


def typed(root: Path, text: str) -> list[str]:
    """Type every command of the remedy."""
    commands = remedies(text)
    assert commands, text
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, done.stderr)
    return commands


class TestHubYamlIsMissing:
    """The file is gone from the work tree, and main has it."""

    def test_runs_go_on_and_say_so_once(self, hub: Path) -> None:
        (hub / ".cn/hub.yaml").unlink()
        done = cn("inbox", "sync", hub, check=0)
        assert ".cn/hub.yaml is missing from the work tree: what main has is in effect" in done.stdout
        for words in (("inbox", "sync", hub, "-q"), ("inbox", "process", hub, "-q")):
            quiet = cn(*words, check=0)
            assert (quiet.stdout, quiet.stderr) == ("", "")
        typed(hub, done.stdout)
        assert (hub / ".cn/hub.yaml").is_file()
        assert git(hub, "status", "--porcelain") == ""

    def test_status_and_doctor_name_the_way_back(self, hub: Path) -> None:
        (hub / ".cn/hub.yaml").unlink()
        inside = hub / "threads"
        status = cn("status", check=0, cwd=inside).stdout
        typed(hub, status)
        (hub / ".cn/hub.yaml").unlink()
        told = cn("doctor", check=1, cwd=inside).stdout
        command = next(line for line in told.splitlines() if " checkout refs/heads/main " in line).split("→")[1]
        subprocess.run(shlex.split(command.strip().strip("'")), check=True, timeout=60)
        cn("doctor", check=0, cwd=inside)

    def test_no_hub_is_made_inside_of_it(self, hub: Path) -> None:
        for _ in range(2):
            for words in (("init", "pi"), ("init", "pi", "--path", "new/deep")):
                done = cn(*words, check=1, cwd=hub)
                assert f"is inside the hub {hub}" in done.stderr
            (hub / ".cn/hub.yaml").unlink(missing_ok=True)
        cn("init", "pi", "--path", hub.parent / "pi", check=0, cwd=hub)
        cn("init", "pi", "--path", "../beside", check=0, cwd=hub)
        assert (hub.parent / "beside/.cn/hub.yaml").is_file()

    def test_a_hub_inside_another_is_not_taken_for_it(self, hub: Path) -> None:
        git(hub, "clone", "-q", ".", "inner")
        git(hub / "inner", "update-ref", "refs/cn/trusted", "HEAD")
        (hub / "inner/.cn/hub.yaml").unlink()
        assert "hub.yaml is missing" in cn("sync", check=0, cwd=hub / "inner").stdout

    def test_a_repository_that_is_no_hub_is_none(self, tmp_path: Path) -> None:
        git(tmp_path, "init", "-q", "-b", "main", "plain")
        commit(tmp_path / "plain", {"a": "b"})
        assert "no hub at" in cn("sync", tmp_path / "plain", check=3).stderr


class TestMainIsGone:
    """main was renamed or deleted; HEAD went elsewhere."""

    def same_words(self, hub: Path, what: str, code: int = 1) -> str:
        """Each command tells it with the same remedy; a run that is told so again is silent."""
        first = cn("sync", hub, check=code).stderr
        assert what in first
        assert cn("sync", hub, "-q", check=code).stderr == ""
        status = cn("status", hub=hub)
        doctor = cn("doctor", hub, check=code).stdout
        plain = " ".join((status.stdout + status.stderr).split())
        for command in remedies(first):
            assert command in plain
            assert command in doctor
        for text in (first, plain, doctor):
            assert "cn init" not in text
            assert "git add .cn/" not in text
        return first

    def healthy(self, hub: Path, at: str) -> None:
        """The hub works again, on a main that has what it had, and what was at work here is as it was."""
        cn("sync", hub, check=0)
        assert git(hub, "symbolic-ref", "HEAD") == "refs/heads/main"
        assert git(hub, "merge-base", at, "main") == at
        assert "MM notes.txt" in git(hub, "status", "--porcelain")
        assert [git(hub, "show", ":notes.txt"), (hub / "notes.txt").read_text()] == ["staged", "edited\n"]

    @pytest.fixture
    def edited(self, hub: Path) -> Path:
        """With a commit that nobody has, and work that is staged and edited."""
        commit(hub, {"notes.txt": "base\n"})
        (hub / "notes.txt").write_text("staged\n")
        git(hub, "add", "notes.txt")
        (hub / "notes.txt").write_text("edited\n")
        return hub

    def test_main_was_renamed(self, edited: Path) -> None:
        at = tip(edited)
        git(edited, "branch", "-m", "main", "master")
        told = self.same_words(edited, "HEAD is master")
        typed(edited, told)
        assert tip(edited) == at
        self.healthy(edited, at)

    def test_main_was_deleted_under_head(self, edited: Path) -> None:
        at = tip(edited)
        git(edited, "update-ref", "-d", "refs/heads/main")
        typed(edited, self.same_words(edited, "the branch main is gone"))
        assert tip(edited) == at
        self.healthy(edited, at)

    def test_main_was_deleted_and_no_log_says_so(self, edited: Path) -> None:
        before = git(edited, "rev-parse", "main~1")
        git(edited, "update-ref", "-d", "refs/heads/main")
        (edited / ".git/logs/HEAD").unlink()
        typed(edited, self.same_words(edited, "the branch main is gone"))
        assert tip(edited) == before

    def test_main_was_deleted_from_another_branch(self, edited: Path) -> None:
        at = tip(edited)
        git(edited, "switch", "-q", "-c", "topic")
        git(edited, "branch", "-q", "-D", "main")
        typed(edited, self.same_words(edited, "HEAD is topic"))
        self.healthy(edited, at)

    def test_histories_with_nothing_in_common_are_not_joined(self, hub: Path, tmp_path: Path) -> None:
        cn("init", "pi", "--path", tmp_path / "pi", check=0)
        git(hub, "update-ref", "-d", "refs/cn/origin/main")
        git(hub, "remote", "set-url", "origin", str(tmp_path / "pi"))
        assert "is 'git remote get-url origin' the right hub?" in cn("sync", hub, check=1).stderr

    def test_head_is_an_orphan(self, hub: Path) -> None:
        at = tip(hub)
        git(hub, "switch", "-q", "--orphan", "x")
        assert typed(hub, self.same_words(hub, "HEAD is x")) == ["git switch main"]
        assert tip(hub) == at
        cn("sync", hub, check=0)

    def test_main_of_another_name(self, hub: Path) -> None:
        git(hub, "branch", "-m", "trunk")
        git(hub, "push", "-q", "origin", "trunk")
        text = (hub / ".cn/hub.yaml").read_text()
        commit(hub, {".cn/hub.yaml": f"{text}main: trunk\n"})
        cn("sync", hub, check=0)
        git(hub, "switch", "-q", "--orphan", "x")
        assert "git switch trunk" in cn("sync", hub, check=1).stderr

    def test_a_commit_took_the_configuration_out(self, hub: Path) -> None:
        git(hub, "rm", "-q", ".cn/hub.yaml")
        git(hub, "commit", "-qm", "oops")
        told = self.same_words(hub, "main has no .cn/hub.yaml any more", 3)
        assert "checkout refs/heads/main -- .cn/hub.yaml" not in cn("doctor", hub, check=3).stdout, "main has none"
        assert "'cn cron remove' ends cn's runs here" in told
        known = tip(hub, "refs/cn/trusted")
        assert typed(hub, told) == [f"git checkout {known} -- .cn/hub.yaml", "git commit -m restored"]
        cn("sync", hub, check=0)


def test_status_renews_the_way_back_when_origin_moves_on(tmp_path: Path) -> None:
    """It names the tip of origin's main, so it must be today's to be taken."""
    for name in ("sigma", "pi"):
        cn("init", name, "--path", tmp_path / "template" / name, check=0)
    world = World(tmp_path / "w", tmp_path / "template")
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "first")
    sigma.sync()
    before = tip(sigma.root)
    other = clone(sigma.home, tmp_path / "other", "E")
    git(other, "rm", "-rq", "state/ledger")
    commit(other, {}, "loss")
    git(other, "push", "-q", "origin", "main")
    assert "lost entries of the ledger" in cn("sync", sigma.root, check=1).stderr
    commit(other, {"more.txt": "x\n"})
    git(other, "push", "-q", "origin", "main")
    assert cn("sync", sigma.root, "-q", check=1).stderr == ""
    status = " ".join(cn("status", hub=sigma.root, check=0).stdout.split())
    assert "…" not in status
    assert "'cn doctor --fix', so that branches which came since come again" in status
    assert f"'git update-ref refs/cn/origin/main {tip(other)}'" in status
    (merge,) = [command for command in remedies(status) if command.startswith("git merge")]
    typed(sigma.root, f"'{merge}'")
    assert tip(sigma.root) == tip(other)
    assert git(sigma.root, "merge-base", before, "main") == before
