"""README and the other pages for people: commands and options exist, links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from cn.cli.main import SECTIONS, SYNONYMS, cli
from cn.values import errors
from tests.docs.blocks import Block, blocks_of
from tests.docs.terminal import Terminal, commands
from tests.support.hubs import ROOT, bare, branches, clone, commit, git
from tests.support.hubs import cn as run_cn

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND_PAGE = (ROOT / "docs/commands.md").read_text("utf-8")


def _all_commands() -> tuple[dict[str, click.Command], set[str]]:
    """Every command by its name, and the names of those that the help hides."""
    found: dict[str, click.Command] = {}
    hidden: set[str] = set()

    def walk(name: str, command: click.Command) -> None:
        found[name] = command
        if isinstance(command, click.Group):
            ctx = click.Context(command)
            shown = command.list_commands(ctx)
            more = [one for one in SYNONYMS if command is cli]
            for child in [*shown, *more]:
                inner = command.get_command(ctx, child)
                assert inner is not None
                if inner.hidden or child not in shown:
                    hidden.add(f"{name} {child}")
                walk(f"{name} {child}", inner)

    walk("cn", cli)
    return found, hidden


COMMANDS, HIDDEN = _all_commands()


def _options(command: click.Command) -> set[str]:
    shown = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    names = {n for p in shown for n in (*p.opts, *p.secondary_opts)}
    return names | {"-h", "--help"}


def _shown(text: str) -> Iterator[str]:
    """Every command line that a page shows: after ``$`` in consoles, and in code marks."""
    for line in re.findall(r"^\$ (cn .*)$", text, re.M):
        yield from line.split(" && ")
    yield from re.findall(r"`(cn [^`]*)`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_shown_exists_with_its_options(page: Path) -> None:
    for line in _shown(page.read_text("utf-8")):
        words = [w for w in shlex.split(line) if w != "…"]
        name, rest = "cn", words[1:]
        # Common options may stand before the command.
        while rest and (f"{name} {rest[0]}" in COMMANDS or rest[0] == "--hub"):
            if rest[0] == "--hub":
                rest = rest[2:]
            else:
                name, rest = f"{name} {rest[0]}", rest[1:]
        if name == "cn" and rest and re.fullmatch("[a-z]+", rest[0]):
            pytest.fail(f"{line}: there is no such command")
        for word in rest:
            if word.startswith("-") and not re.fullmatch(r"-\d+", word):
                option = word.partition("=")[0]
                assert option in _options(COMMANDS[name]) | _options(cli), f"{line}: no option {option}"


def _table(heading: str) -> list[list[str]]:
    after = COMMAND_PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    lines = after.split("\n")[2:]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]


def test_the_command_table_is_complete() -> None:
    listed: dict[str, str] = {}
    for cell, what in _table("command"):
        words = shlex.split(cell.strip("`"))
        listed[" ".join(w for w in words if re.fullmatch("[a-z]+(-[a-z]+)*", w))] = what
    leaves = {n for n, c in COMMANDS.items() if not isinstance(c, click.Group) or c.invoke_without_command}
    assert set(listed) == leaves - {"cn"} - HIDDEN


def test_synonyms_work_and_stand_in_one_line_of_the_page_of_commands() -> None:
    line = next(line for line in COMMAND_PAGE.splitlines() if line.startswith("Synonyms"))
    assert set(re.findall(r"`(cn [a-z ]+)`", line.partition(":")[2])) == HIDDEN
    assert {"cn read", *(f"cn {group} list" for group in ("inbox", "queue", "mca", "outbox", "mail"))} == HIDDEN
    for name in HIDDEN:
        plain = COMMANDS[name.removesuffix(" list").replace("cn read", "cn thread show")]
        assert _options(COMMANDS[name]) == _options(plain), name


@pytest.mark.parametrize("group", ["", *(name.removesuffix(" list") for name in sorted(HIDDEN - {"cn read"}))])
def test_help_shows_no_synonym(group: str) -> None:
    text = run_cn(*group.split()[1:], "--help", check=0).stdout
    assert not re.search(r"^  (list|read) ", text, re.M)


def test_help_has_sections_and_begins_with_what_matters_first() -> None:
    text = run_cn("--help", check=0).stdout
    everyday, more = text.split("\nEveryday:\n")[1].split("\nMore, each explained by its own --help:\n")
    shown = re.findall(r"^  ([a-z]+) +[A-Z]", everyday, re.M)
    assert shown[:6] == ["status", "inbox", "sync", "send", "comment", "reply"]
    assert shown == list(SECTIONS["Everyday"])
    lists = re.split(r"^  (?=[A-Z])", re.sub(r"\n {3,}", " ", more), flags=re.M)[1:]
    found = {title: rest.strip().split(", ") for title, rest in (re.split(r"  +", one, maxsplit=1) for one in lists)}
    assert found == {title: list(names) for title, names in SECTIONS.items() if title != "Everyday"}
    every = [name for section in SECTIONS.values() for name in section]
    assert len(every) == len(set(every)) == 51
    assert text.count("\n") <= 45


def test_the_command_table_names_every_option() -> None:
    common = {o for cell, _ in _table("option") for o in re.findall(r"--?[a-z-]+", cell)}
    for cell, what in _table("command"):
        words = shlex.split(cell.strip("`"))
        name = " ".join(w for w in words if re.fullmatch("[a-z]+", w))
        named = set(re.findall(r"`(--[a-z-]+)", what))
        long = {o for o in _options(COMMANDS[name]) if o.startswith("--")}
        assert named == long - common, name


def test_the_common_options_exist() -> None:
    known = {o for command in COMMANDS.values() for o in _options(command)}
    for cell, _ in _table("option"):
        assert set(re.findall(r"--?[a-z-]+", cell)) <= known


def test_the_exit_codes_are_those_of_the_code() -> None:
    codes = {v for k, v in vars(errors).items() if k.startswith("EXIT_")}
    assert {int(row[0]) for row in _table("exit code")} == codes


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in _anchors(file), f"{page.name}: {target}"


def _anchors(page: Path) -> set[str]:
    text = page.read_text("utf-8")
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    slugs = {re.sub(r"[^a-z0-9 _-]", "", t.lower()).replace(" ", "-") for t in titles}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def test_the_guide_works_as_written(tmp_path: Path) -> None:
    # As a host makes them that knows of no other default branch: the guide leans on none.
    hosts = {name: bare(tmp_path / f"{name}.git", "master") for name in ("sigma", "pi")}
    peer = tmp_path / "pi"
    terminal = Terminal(tmp_path)
    terminal.run(f"cn init -q pi --path {peer}")
    git(peer, "push", "--quiet", str(hosts["pi"]), "main")
    assert {block.name for block in blocks_of(ROOT / "README.md")} == {"guide", "project"}
    for block in (block for block in blocks_of(ROOT / "README.md") if block.name == "guide"):
        for command, _ in commands(block.text):
            for name, folder in hosts.items():
                command = command.replace(f"git@git.example.org:{name}/hub.git", str(folder))
            terminal.run(command)
    merged = git(tmp_path / "stage/cn-sigma", "log", "--format=%s", "--merges")
    assert merged == "Merge pi/say-hello"
    assert "refs/heads/pi/say-hello" in git(hosts["sigma"], "for-each-ref")


def test_somebody_without_cn_reads_the_answers_with_git(tmp_path: Path) -> None:
    page = " ".join((ROOT / "README.md").read_text("utf-8").split())
    listing, fetch, show = (
        "git ls-remote HUB 'refs/heads/sigma/*'",
        "git fetch HUB refs/heads/BRANCH",
        "git show FETCH_HEAD:message.md",
    )
    assert all(f"`{command}`" in page for command in (listing, fetch, show))
    host, hub = bare(tmp_path / "host/sigma.git"), bare(tmp_path / "host/pi.git")
    run_cn("init", "sigma", cwd=tmp_path, check=0)
    root = tmp_path / "cn-sigma"
    git(root, "remote", "add", "origin", str(host))
    git(root, "push", "-q", "-u", "origin", "main")
    run_cn("peer", "add", "pi", hub, hub=root, check=0)
    work = clone(host, tmp_path / "work", "pi")
    git(work, "switch", "-qc", "pi/fix")
    commit(work, {"fix.md": "fix\n"}, "Fix")
    git(work, "push", "-q", "origin", "pi/fix")
    run_cn("sync", hub=root, check=0)
    run_cn("inbox", "triage", "pi/fix", "delete:not now, thank you", hub=root, check=0)
    run_cn("inbox", "process", hub=root, check=0)
    run_cn("sync", hub=root, check=0)
    (row,) = git(work, *shlex.split(listing.replace("HUB", str(hub)))[1:]).splitlines()
    branch = row.partition("refs/heads/")[2]
    git(work, *shlex.split(fetch.replace("HUB", str(hub)).replace("BRANCH", branch))[1:])
    assert "not now, thank you" in git(work, *shlex.split(show)[1:])
    assert "pi deletes its own branch at sigma, and sigma's cn deletes its answers about that after a day" in page
    git(work, "push", "-q", "origin", ":pi/fix")
    for _ in range(3):
        run_cn("sync", hub=root, check=0)
    assert branch in branches(hub)
    memory = root / ".git/cn/local.json"
    seen = json.loads(memory.read_text("utf-8"))
    before = f"{datetime.now(UTC) - timedelta(hours=25):%Y-%m-%dT%H:%M:%SZ}"
    seen["absent"] = dict.fromkeys(seen["absent"], f"3 {before}")  # looks, and since when
    memory.write_text(json.dumps(seen), "utf-8")
    run_cn("sync", hub=root, check=0)
    assert branch not in branches(hub)


def test_a_project_as_hub_works_as_written(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    hosts = {"team/project": bare(tmp_path / "project.git", "master"), "pi/hub": bare(tmp_path / "pi.git")}
    project = clone(hosts["team/project"], terminal.start / "project", "Alice")
    git(project, "checkout", "--quiet", "-B", "master")
    commit(project, {"NOTES": "a project without what the guide adds\n"})
    git(project, "push", "--quiet", "origin", "master")
    terminal.run("cn init -q pi")
    git(terminal.start / "cn-pi", "remote", "add", "origin", str(hosts["pi/hub"]))
    git(terminal.start / "cn-pi", "push", "--quiet", "origin", "main")
    for block in (block for block in blocks_of(ROOT / "README.md") if block.name == "project"):
        terminal.folder = terminal.start  # each block is somebody's own terminal
        for command, _ in commands(block.text):
            for name, folder in hosts.items():
                command = command.replace(f"git@git.example.org:{name}.git", str(folder))
            terminal.run(command)
    assert (project / "app.py").read_text() == "print('hello')\n"
    terminal.folder = terminal.start / "work"
    terminal.run("cn sync")
    assert "merged as" in terminal.run("cn why project:fix")
    assert set(branches(hosts["team/project"])) == {"master"}


_API = blocks_of(ROOT / "docs/api.md")


@pytest.mark.parametrize("block", _API, ids=str)
def test_the_python_example_runs(block: Block) -> None:
    assert block.name == "python"
    exec(compile(block.text, str(block), "exec"), {"__name__": "example"})


def test_no_page_names_a_path_of_this_machine() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        assert not re.search(r"/(?:home|Users|root|work)/\w", text), page.name
