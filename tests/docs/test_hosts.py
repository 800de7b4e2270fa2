"""The rules of ``docs/hosts.md`` on a real gitolite behind sshd: what they allow works, all else is refused."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.blocks import blocks_of
from tests.docs.terminal import Terminal, commands
from tests.support.hubs import ROOT, bare, branches, cn, commit, git, try_git
from tests.support.servers import gitolite, http_backend, ssh_people

NAMES = ("sigma", "pi", "omega")


def block(name: str) -> str:
    """A block of the page."""
    found = re.search(rf"<!-- test: {name} -->\n```\w*\n(.*?)```", (ROOT / "docs/hosts.md").read_text("utf-8"), re.S)
    assert found
    return found[1]


def rules() -> str:
    return block("gitolite")


def test_hubs_of_two_on_gitolite_with_the_rules_of_the_page(tmp_path: Path) -> None:
    with gitolite(tmp_path, rules(), NAMES) as seen:
        env = {name: dict(remote.env) for name, remote in seen.items()}
        hubs = {name: tmp_path / f"cn-{name}" for name in ("sigma", "pi")}
        for name, hub in hubs.items():
            cn("init", name, "--path", hub, check=0)
            git(hub, "remote", "add", "origin", seen[name].url(f"cn-{name}"))
            git(hub, "push", "-q", "-u", "origin", "main", **env[name])
        for name, other in (("sigma", "pi"), ("pi", "sigma")):
            url = seen[name].url(f"cn-{other}")
            cn("peer", "add", other, url, "--check", hub=hubs[name], env=env[name], check=0)
        sigma = hubs["sigma"]

        def sync() -> str:
            return "".join(cn("sync", hub=hubs[n], env=env[n], check=0).stdout for n in ("pi", "sigma", "pi", "sigma"))

        assert "cn's pins" not in sync()
        cn("send", "pi", "Hello", "--body", "How are you?", hub=sigma, env=env["sigma"], check=0)
        assert "received sigma/hello" in sync()
        person = tmp_path / "person"
        git(tmp_path, "clone", "-q", seen["pi"].url("cn-sigma"), str(person), **env["pi"])
        (person / "idea.md").write_text("An idea.\n")
        git(person, "add", "idea.md")
        git(person, "-c", "user.name=Pia", "-c", "user.email=pia@people.example", "commit", "-qm", "An idea")
        git(person, "push", "-q", "origin", "HEAD:refs/heads/pi/Idea.2", **env["pi"])
        assert "received pi/Idea.2" in sync()
        assert "refs/cn/pins/pi/in/@49dea@2e2" in git(sigma, "ls-remote", "origin", **env["sigma"])
        cn("inbox", "triage", "pi/Idea.2", "do:merge", hub=sigma, env=env["sigma"], check=0)
        cn("inbox", "process", hub=sigma, env=env["sigma"], check=0)
        assert "sigma says pi/Idea.2 is merged" in sync()
        assert (sigma / "idea.md").is_file()
        assert "pi/Idea.2" not in git(sigma, "ls-remote", "origin", **env["sigma"])

        for ref in ("refs/heads/main", "refs/heads/omega/x", "refs/cn/pins/pi/in/x", "refs/replace/x"):
            done = try_git(person, "push", "-q", "origin", f"+HEAD:{ref}", **env["pi"])
            assert b"DENIED by fallthru" in done.stderr, ref


def test_the_guide_s_path_for_a_project_works_on_gitolite_as_written(tmp_path: Path) -> None:
    with gitolite(tmp_path, block("gitolite-project"), ("alice", "pi")) as seen:
        env = {name: dict(remote.env) for name, remote in seen.items()}
        terminal = Terminal(tmp_path)
        terminal.run(f"git clone -q {seen['alice'].url('team/project')} project", **env["alice"])
        project = terminal.start / "project"
        git(project, "checkout", "--quiet", "-B", "main")
        commit(project, {"app.py": "print('hi')\n"})
        git(project, "push", "--quiet", "origin", "main", **env["alice"])
        terminal.run("cn init -q pi")
        git(terminal.start / "cn-pi", "remote", "add", "origin", seen["pi"].url("pi/hub"))
        git(terminal.start / "cn-pi", "push", "--quiet", "origin", "main", **env["pi"])
        for part in (part for part in blocks_of(ROOT / "README.md") if part.name == "project"):
            terminal.folder = terminal.start
            who = "alice" if part.text.startswith("$ cd project") else "pi"
            for command, _ in commands(part.text):
                for place in ("team/project", "pi/hub"):
                    command = command.replace(f"git@git.example.org:{place}.git", seen[who].url(place))
                terminal.run(command, **env[who])
        assert (project / "app.py").read_text() == "print('hello')\n"
        terminal.folder = terminal.start / "work"
        assert "project says pi/fix is merged" in terminal.run("cn sync", **env["pi"])
        assert set(branches(seen["pi"].path("pi/hub"))) == {"main", "project/notice-fix"}


def test_rights_that_are_missing_are_found_and_told_in_the_words_of_the_host(tmp_path: Path) -> None:
    without = rules().replace("    RWC   refs/heads/main$   = sigma\n    RW+CD refs/cn/", "    RW+C  refs/cn/", 1)
    without = without.replace("    RW+CD refs/heads/sigma/  = sigma\n", "    RW+   refs/heads/sigma/  = sigma\n")
    with gitolite(tmp_path, without, NAMES) as seen:
        hub, env = tmp_path / "cn-sigma", dict(seen["sigma"].env)
        cn("init", "sigma", "--path", hub, check=0)
        git(hub, "remote", "add", "origin", seen["sigma"].url("cn-sigma"))
        url = seen["sigma"].url("cn-pi")
        done = cn("peer", "add", "pi", url, "--check", hub=hub, env=env, check=1)
        lack = "sigma may not create branches sigma/* in pi's hub: [remote rejected] (hook declined): FATAL: C"
        assert f"pi was not added: {lack}" in done.stderr
        done = cn("doctor", hub=hub, env=env)
        assert re.search(r"FATAL: D refs/cn/check/cn-check-\w+ cn-sigma sigma DENIED by fallthru", done.stdout)
        done = cn("adhoc", "A note", hub=hub, env=env)
        assert "FATAL: C refs/heads/main cn-sigma sigma DENIED by fallthru" in done.stdout + done.stderr


def with_hook(repo: Path, owner: str) -> Path:
    """A bare repository with the hook of the page, which is written for sigma."""
    hook = bare(repo) / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(block("update-hook").replace("\nsigma)", f"\n{owner})"))
    hook.chmod(0o755)
    return repo


def test_hubs_of_two_on_plain_ssh_and_http_with_the_hook_of_the_page(tmp_path: Path) -> None:
    def entry(name: str) -> str:
        return block("authorized-keys").partition(" ssh-ed25519 ")[0].replace("PEER=pi", f"PEER={name}")

    root, scratch = tmp_path / "srv", tmp_path / "scratch"
    scratch.mkdir()
    repos = {name: with_hook(root / f"cn-{name}.git", name) for name in ("sigma", "pi")}
    with ssh_people(root, scratch, NAMES, entry) as seen:
        env = {name: dict(remote.env) for name, remote in seen.items()}
        hubs = {name: tmp_path / f"cn-{name}" for name in repos}
        for name, hub in hubs.items():
            cn("init", name, "--path", hub, check=0)
            git(hub, "remote", "add", "origin", seen[name].url(f"cn-{name}"))
            git(hub, "push", "-q", "-u", "origin", "main", **env[name])
        for name, other in (("sigma", "pi"), ("pi", "sigma")):
            url = seen[name].url(f"cn-{other}")
            done = cn("peer", "add", other, url, "--check", hub=hubs[name], env=env[name], check=0)
            assert "HEAD" not in done.stdout
        cn("send", "pi", "Hello", hub=hubs["sigma"], env=env["sigma"], check=0)
        assert "received sigma/hello" in cn("sync", hub=hubs["pi"], env=env["pi"], check=0).stdout
        cn("reply", "sigma/hello", "Hi", hub=hubs["pi"], env=env["pi"], check=0)
        said = cn("sync", hub=hubs["sigma"], env=env["sigma"], check=0).stdout
        assert "received pi/re-hello" in said
        assert "the host gives what cn needs" in cn("doctor", "-v", hub=hubs["sigma"], env=env["sigma"]).stdout
        assert "refs/cn/pins/pi/in/re-hello" in git(repos["sigma"], "for-each-ref")
        git(hubs["sigma"], "commit", "-q", "--allow-empty", "-m", "x")
        for who, ref, what in (
            ("pi", "refs/heads/main", "HEAD"),
            ("omega", "refs/heads/pi/x", "HEAD"),
            ("pi", "refs/cn/pins/pi/in/x", "HEAD"),
            ("sigma", "refs/heads/main", "+HEAD~2"),
            ("sigma", "refs/heads/other", "HEAD"),
        ):
            denied = try_git(hubs["sigma"], "push", "-q", seen[who].url("cn-sigma"), f"{what}:{ref}", **env[who])
            assert f"DENIED: {ref} is not for {who}".encode() in denied.stderr, (who, ref)
        git(hubs["sigma"], "push", "-q", "origin", "main", **env["sigma"])
    with http_backend(root, "omega", "s3cret") as web:
        url = web.url("cn-sigma").replace("http://", "http://omega:s3cret@")
        git(hubs["sigma"], "push", "-q", url, "main:refs/heads/omega/x")
        denied = try_git(hubs["sigma"], "push", "-q", url, "HEAD:refs/heads/pi/x")
        assert b"DENIED: refs/heads/pi/x is not for omega" in denied.stderr
