"""Names that this machine does not know, refusals with titles, and what is said after a restore."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.hubs import git
from tests.support.organisation import Org, make_org


@pytest.fixture
def org(tmp_path: Path, hub_template: Path) -> Org:
    """An organisation of the test's own."""
    return make_org(tmp_path / "hub", hub_template)


def test_a_runner_a_server_and_a_repository_that_this_machine_lacks_are_told_at_once(org: Org, tmp_path: Path) -> None:
    (tmp_path / "agency.toml").write_text(
        '[servers.mail]\nurl = "http://localhost/mcp"\n[repos]\nsite = "https://git.example.org/site.git"\n'
    )
    git(org.hub, "config", "cn.agency", str(tmp_path / "agency.toml"))
    made = org.ask("outcome", "create", "Alone")["outcome"]
    said = org.cn("handler", "delegate", made, "--runner", "nosuch", "--grant", "use:mcp:nothing")
    assert "knows no runner 'nosuch' (it has builtin, claude, person)" in " ".join(said.stdout.split())
    assert "knows no server 'nothing' (it has mail)" in " ".join(said.stdout.split())
    layer = org.cn("handler", "insert", "Between", org.ids["site"], "--runner", "nosuch", "--as", "root")
    assert "knows no runner 'nosuch'" in " ".join(layer.stdout.split())
    added = org.cn("grant", "add", "root", "clone", "repo:nowhere#main")
    assert "knows no repository 'nowhere' (it has site)" in " ".join(added.stdout.split())
    for words in (("use", "mcp:mail"), ("clone", "repo:site"), ("clone", "repo:https://git.example.org/other.git")):
        assert "knows no" not in org.cn("grant", "add", "root", *words).stdout
    facts = org.cn("grant", "add", "root", "use", "mcp:none", "--json")
    assert "knows no server" in facts.stderr
    assert facts.stdout.startswith("{")


def test_a_resource_without_its_kind_is_told_what_to_write(org: Org) -> None:
    assert "mcp:gmail for a server, repo:gmail for a repository" in org.refused(
        "grant", "add", "root", "use", "gmail", code=2
    )


def test_a_refusal_names_handlers_and_outcomes_by_title_and_short(org: Org) -> None:
    said = org.refused("handler", "stop", "{shop}", "--as", "{site}")
    assert f'{org.ids["shop"][:8]} ("Open the shop") is not your underling' in " ".join(said.split())
    assert org.ids["shop"] not in said


def test_after_a_restore_it_is_said_who_you_are_and_that_no_copy_is_written(
    org: Org, tmp_path: Path, hub_template: Path
) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "copy.git")
    git(org.hub, "config", "agency.remote", str(tmp_path / "copy.git"))
    org.cn("agency", "tick")
    shutil.copytree(hub_template, tmp_path / "new", symlinks=True)
    home = Org(tmp_path / "new", org.ids)
    git(home.hub, "config", "agency.user", "somebody")
    said = " ".join(home.cn("agency", "restore", tmp_path / "copy.git").stdout.split())
    boss = org.ask("handler", "show", "root")["boss"]
    assert f"you are user:somebody here, and the root handler's mail goes to {boss}" in said
    assert f"git config agency.user {boss.removeprefix('user:')}" in said
    assert f"git config agency.remote {tmp_path / 'copy.git'}" in said
