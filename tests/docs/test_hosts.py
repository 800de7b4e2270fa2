"""The rules of ``docs/hosts.md`` on a real gitolite behind sshd: what they allow works, all else is refused."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.hubs import ROOT, cn, git, try_git
from tests.support.servers import gitolite

NAMES = ("sigma", "pi", "omega")


def rules() -> str:
    """The block of the page."""
    found = re.search(r"<!-- test: gitolite -->\n```\n(.*?)```", (ROOT / "docs/hosts.md").read_text("utf-8"), re.S)
    assert found
    return found[1]


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
        git(person, "push", "-q", "origin", "HEAD:refs/heads/pi/idea", **env["pi"])
        assert "received pi/idea" in sync()
        cn("inbox", "triage", "pi/idea", "do:merge", hub=sigma, env=env["sigma"], check=0)
        cn("inbox", "process", hub=sigma, env=env["sigma"], check=0)
        assert "sigma says pi/idea is merged" in sync()
        assert (sigma / "idea.md").is_file()
        assert "pi/idea" not in git(sigma, "ls-remote", "origin", **env["sigma"])
        assert "refs/cn/pins/" in git(sigma, "ls-remote", "origin", **env["sigma"])

        for ref in ("refs/heads/main", "refs/heads/omega/x", "refs/cn/pins/pi/in/x", "refs/replace/x"):
            done = try_git(person, "push", "-q", "origin", f"+HEAD:{ref}", **env["pi"])
            assert b"DENIED by fallthru" in done.stderr, ref


def test_a_right_that_is_missing_is_told_in_the_words_of_the_host(tmp_path: Path) -> None:
    without = rules().replace("    RWC   refs/heads/main$   = sigma\n", "", 1)
    with gitolite(tmp_path, without, NAMES) as seen:
        hub, env = tmp_path / "cn-sigma", dict(seen["sigma"].env)
        cn("init", "sigma", "--path", hub, check=0)
        git(hub, "remote", "add", "origin", seen["sigma"].url("cn-sigma"))
        done = cn("send", "sigma", "x", hub=hub, env=env)
        assert done.returncode != 0
        done = cn("adhoc", "A note", hub=hub, env=env)
        assert "FATAL: C refs/heads/main cn-sigma sigma DENIED by fallthru" in done.stdout + done.stderr
