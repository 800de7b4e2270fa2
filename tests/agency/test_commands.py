"""An organisation run by hand from the command line: what a person types, what is said, what is on main then."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cn.agency.agency import open_agency
from cn.agency.names import Uuid
from cn.agency.operations import ByUser, CreateOutcome, Moment
from cn.agency.perform import Asked, new_entropy, perform
from cn.agency.store.check import check_records
from cn.git.repository import open_hub
from cn.system.clock import now
from tests.support.hubs import ROOT, cn, git

CLOCK = ROOT / "tests/support/clock"


class Org(NamedTuple):
    """A hub with an Agency; ``ids`` by what they are called here."""

    hub: Path
    ids: Mapping[str, str]

    def cn(self, *words: str | Path, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command, in which ``{name}`` stands for an id, shortened; it must end with ``code``."""
        short = {name: id[:8] for name, id in self.ids.items()}
        return cn(*(str(word).format(**short) for word in words), hub=self.hub, check=code, stdin=stdin)

    def ask(self, *words: str | Path, code: int = 0, stdin: str = "") -> Any:
        """Its JSON."""
        return json.loads(self.cn(*words, "--json", code=code, stdin=stdin).stdout)

    def refused(self, *words: str | Path, code: int = 1, stdin: str = "") -> str:
        """What is said where it is refused: an error, and a next step."""
        said = self.cn(*words, code=code, stdin=stdin).stderr
        assert said.startswith("cn: ")
        assert "\n  → " in said, said
        assert "Traceback" not in said
        return said

    @property
    def tip(self) -> str:
        return git(self.hub / ".git/cn/agency.git", "rev-parse", "main")

    def titles(self, *words: str) -> list[str]:
        return [row["title"] for row in self.ask("outcome", "list", *words)["outcomes"]]

    def check(self) -> None:
        """What is there follows from the events, byte for byte."""
        agency = open_agency(open_hub(self.hub))
        assert list(check_records(agency.store.repository, now(), full=True)) == []
        agency.store.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, hub_template: Path) -> Org:
    """A boss who delegated two outcomes; ``plan`` is a file of the root's, which one of them may write."""
    hub = tmp_path_factory.mktemp("org") / "cn-sigma"
    shutil.copytree(hub_template, hub, symlinks=True)
    git(hub, "config", "agency.user", "ann")
    ids: dict[str, str] = {}
    org = Org(hub, ids)
    ids["top"] = org.ask("agency", "init")["outcome"]
    ids["site"] = org.ask("outcome", "create", "Build the site", "--body", "All pages.")["outcome"]
    ids["shop"] = org.ask("outcome", "create", "Open the shop")["outcome"]
    ids["plan"] = org.ask("kb", "create", "-", "--description", "The plan", "--as", "root", stdin="one\n")["file"]
    for name, more in (("site", ["--grant", "write:kb:{plan}"]), ("shop", ["--message", "Sell something."])):
        org.ask("handler", "delegate", f"{{{name}}}", *more, "--as", "root")
    ids["page"] = org.ask("outcome", "create", "Write the start page", "--as", "{site}")["outcome"]
    return org


@pytest.fixture
def org(prepared: Org, tmp_path: Path) -> Org:
    """A copy of its own."""
    hub = tmp_path / "cn-sigma"
    shutil.copytree(prepared.hub, hub, symlinks=True)
    return Org(hub, dict(prepared.ids))


def test_what_is_done_is_on_main_as_a_commit_that_git_alone_shows(org: Org) -> None:
    said = org.cn("outcome", "create", "Print flyers", "--as", "{shop}").stdout
    assert said.startswith("✓ outcome created: ")
    message = git(org.hub / ".git/cn/agency.git", "log", "-1", "--format=%B")
    event = json.loads(message.split("\n")[2])
    assert (event["type"], event["actor"], event["tenure"]) == ("outcome_created", f"{org.ids['shop']}/user:ann", 1)
    assert git(org.hub, "for-each-ref", "refs/heads") == git(org.hub, "for-each-ref", "refs/heads/main")
    org.check()


def test_of_two_who_edit_a_file_the_second_learns_that_it_was_stale(org: Org) -> None:
    read = org.cn("kb", "read", "{plan}", "--as", "{site}")
    seen = read.stderr.split("--seen ")[1].strip()
    assert read.stdout == "one\n"
    org.cn("kb", "write", "{plan}", "-", "--seen", seen, "--as", "{site}", stdin="two\n")
    said = org.refused("kb", "write", "{plan}", "-", "--seen", seen, "--as", "root", stdin="other\n")
    assert "stale-version" in said
    assert "--seen 2:" in said
    org.cn("kb", "write", "{plan}", "-", "--seen", said.split("--seen ")[1].strip(), "--as", "root", stdin="both\n")
    assert org.cn("kb", "read", "{plan}", "--version", "2").stdout == "two\n"
    assert [row["number"] for row in org.ask("kb", "history", "{plan}")["versions"]] == [1, 2, 3]
    audit = org.ask("kb", "history", "{plan}", "--audit")["events"]
    assert [row["type"] for row in audit if row["actor"].startswith(org.ids["site"])] == ["file_read", "file_written"]


def test_what_was_granted_is_gone_with_its_outcome_and_a_new_delegation_revives_nothing(org: Org) -> None:
    yes = org.cn("agency", "can", "{site}", "write", "kb:{plan}").stdout
    assert "yes: write by capability" in yes
    assert "it owns it" in yes
    org.cn("handler", "stop", "{site}", "--as", "root")
    org.cn("handler", "delegate", "{site}", "--as", "root")
    no = org.cn("agency", "can", "{site}", "read", "{plan}", code=1).stdout
    assert "no, it has none" in no
    assert "in tenure 1, which is over" in no
    assert "grant" not in org.refused("kb", "read", "{plan}", "--as", "{shop}").split("→")[0]
    assert "access" in org.refused("kb", "read", "{plan}", "--as", "{site}")
    org.cn("grant", "add", "{site}", "read", "kb:{plan}", "--as", "root")
    (held,) = [row for row in org.ask("grant", "list", "{site}") if row["effective"]]
    org.cn("grant", "revoke", held["id"][:6], "--as", "root")
    assert org.ask("grant", "list", "{site}") == []
    org.check()


def test_a_layer_is_inserted_and_removed_and_no_underling_notices(org: Org) -> None:
    before = org.ask("handler", "list")
    made = org.ask("handler", "insert", "Sales", "{site}", "{shop}", "--runner", "person", "--as", "root")["handler"]
    rows = {row["handler"]: row for row in org.ask("handler", "list")}
    assert rows[org.ids["site"]]["boss"] == rows[org.ids["shop"]]["boss"] == made
    assert (rows[made]["boss"], rows[made]["runner"]) == (org.ids["top"], "person")
    assert "write by capability" in org.cn("agency", "can", "{site}", "write", "{plan}").stdout
    assert org.titles("--handler", "{site}", "--as", "{site}") == ["Write the start page", "Build the site"]
    org.cn("mail", "send", "boss", "How do you want it?", "--as", "{site}")
    assert [one["subject"] for one in org.ask("mail", "--as", made[:8])["mail"]] == ["How do you want it?"]
    org.cn("handler", "remove", made[:8], "--as", "root")
    after = org.ask("handler", "list")
    assert [(row["handler"], row["boss"], row["tenure"]) for row in after] == [
        (row["handler"], row["boss"], row["tenure"]) for row in before
    ]
    org.check()


def test_a_layer_that_cannot_be_delegated_leaves_no_half(org: Org) -> None:
    git(org.hub, "config", "agency.depth", "2")
    before = org.tip
    assert "limit-depth" in org.refused("handler", "insert", "Sales", "{site}", "{shop}")
    assert org.tip == before


def test_mail_is_read_dealt_with_and_its_outcome_completes_by_itself(org: Org) -> None:
    (mail,) = org.ask("mail", "--as", "{shop}")["mail"]
    assert org.titles("--workable", "--handler", "{shop}") == ["Open the shop", "Process inbox"]
    assert org.cn("mail", "show", mail["mail"][:6], "--as", "{shop}").stdout == "Sell something.\n"
    org.cn("mail", "done", mail["mail"][:6], "--as", "{shop}")
    assert org.titles("--workable", "--handler", "{shop}") == ["Open the shop"]
    org.cn("mail", "send", "user:ann", "--body", "May I?", "--as", "root")
    assert "May I?" in org.cn("mail").stdout
    assert "your inbox (user:ann)" in org.cn("agency", "status").stdout


def test_what_is_deferred_comes_when_it_is_due(org: Org) -> None:
    org.cn("mail", "send", "{site}", "Soon", "--at", "1m", "--as", "{site}")
    assert org.cn("agency", "tick").stdout == ""
    assert org.ask("agency", "status")["deferred"] == 1
    later = {"PYTHONPATH": f"{CLOCK}:{ROOT}", "TEST_CLOCK": "61"}
    for options in (["--dry-run"], []):
        said = cn("agency", "tick", *options, hub=org.hub, env=later, check=0).stdout
        assert "mail delivered: " in said
    assert [one["subject"] for one in org.ask("mail", "--as", "{site}")["mail"]] == ["Soon"]
    assert "Process inbox" in org.titles("--workable")


def test_an_outcome_is_completed_by_the_boss_and_what_is_below_needs_cascade(org: Org) -> None:
    assert "own root" in org.refused("outcome", "complete", "{site}", "--as", "{site}")
    assert "open-descendants" in org.refused("outcome", "complete", "{site}", "--as", "root")
    org.cn("outcome", "complete", "{site}", "--cascade", "--rationale", "It is online.", "--as", "root")
    assert [row["handler"] for row in org.ask("handler", "list")] == [org.ids["top"], org.ids["shop"]]
    shown = org.cn("outcome", "show", "{page}").stdout
    assert "closed with its parent: It is online." in shown
    assert "outcome closed" in shown
    org.check()


def test_words_and_places_of_outcomes_change_and_circles_are_refused(org: Org) -> None:
    part = org.ask("outcome", "create", "Choose colours", "--parent", "{page}", "--as", "{site}")["outcome"]
    said = org.refused("outcome", "update", part[:8], "--title", "Colours", "--as", "{site}")
    assert "stale-version" in said
    org.cn("outcome", "update", part[:8], "--title", "Colours", "--seen", said.split("--seen ")[1].strip())
    org.cn("outcome", "link", part[:8], "{site}")
    assert "no-circle" in org.refused("outcome", "link", "{page}", part[:8])
    org.cn("outcome", "unlink", part[:8], "{page}")
    org.cn("outcome", "block", part[:8], "the painter is ill", "--until", "3d")
    assert "(blocked, the painter is ill)" in org.cn("outcome", "tree").stdout
    org.cn("outcome", "block", part[:8], "--lift")
    assert org.cn("outcome", "why", part[:8]).stdout.split("\n")[2].startswith(f"    {org.ids['top'][:8]}")


def test_the_tree_is_drawn_with_depth_and_each_outcome_once(org: Org) -> None:
    org.cn("outcome", "link", "{page}", "{site}", code=1)
    lines = org.cn("outcome", "tree", "--depth", "1").stdout.splitlines()
    assert [line.strip().split(" (")[0][9:] for line in lines] == [
        "Help the user accomplish all their work",
        "Build the site",
        "Open the shop",
    ]
    assert lines[1].endswith(", 1 more")
    assert [row["title"] for row in org.ask("outcome", "tree", "{site}")["outcomes"]] == [
        "Build the site",
        "Write the start page",
    ]


def test_outcomes_are_listed_workable_first_by_depth_and_by_words(org: Org) -> None:
    assert org.titles()[-1] == "Build the site"
    assert org.titles("--search", "PAGE start") == ["Write the start page"]
    assert org.titles("--depth", "1") == ["Open the shop", "Help the user accomplish all their work", "Build the site"]
    org.cn("outcome", "close", "{page}", "no pages", "--as", "{site}")
    assert "Write the start page" in org.titles("--all")
    assert "Write the start page" not in org.titles()


@pytest.mark.parametrize(
    ("words", "code", "pieces"),
    [
        (["outcome", "show", "abc"], 2, ["names no outcome", "4 or more digits"]),
        (["outcome", "show", "ffff0000"], 1, ["there is no outcome", "cn outcome list"]),
        (["handler", "show", "{page}"], 1, ["there is no handler", "cn handler list"]),
        (["outcome", "close", "root", "enough"], 1, ["perpetual-root"]),
        (["outcome", "create", "A\nB"], 1, ["words", "one line"]),
        (
            ["outcome", "create", "Deeper", "--parent", "{page}", "--as", "root"],
            1,
            ["delegation-boundary", "send mail"],
        ),
        (["kb", "read", "{plan}", "--as", "{shop}"], 1, ["access", "ask your boss"]),
        (["kb", "write", "{plan}", "/nonexistent"], 2, ["cannot read /nonexistent"]),
        (["kb", "write", "{plan}", "-", "--seen", "2"], 2, ["names no version"]),
        (["grant", "add", "{shop}", "write", "kb:{plan}", "--as", "{site}"], 1, ["direct-underling"]),
        (["grant", "add", "{shop}", "own", "kb:{plan}"], 1, ["no level of kb", "none, read, write"]),
        (["grant", "add", "{shop}", "read", "disk:x"], 2, ["no kind of resource"]),
        (["mail", "send", "{shop}", "Hello", "--as", "{site}"], 1, ["access", "only your boss"]),
        (["mail", "send", "boss", "Hello"], 2, ["no boss"]),
        (["mail", "send", "{shop}", "Hello", "--at", "someday"], 2, ["someday"]),
        (["handler", "stop", "root"], 1, ["perpetual-root"]),
        (["agency", "can", "{shop}", "eat", "{plan}"], 2, ["no level of kb"]),
        (["agency", "log", "--type", "nothing"], 2, ["there is no type"]),
        (["agency", "init"], 1, ["is there already"]),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) and len(value) > 1 else None,
)
def test_a_refusal_names_what_why_and_the_next_step(
    prepared: Org, words: Sequence[str], code: int, pieces: Sequence[str]
) -> None:
    before = prepared.tip
    said = prepared.refused(*words, code=code)
    assert [piece for piece in pieces if piece not in said] == [], said
    assert prepared.tip == before


def test_a_refusal_is_a_value_for_programs(prepared: Org) -> None:
    refused = prepared.ask("kb", "read", "{plan}", "--as", "{shop}", code=1)["refused"]
    assert (refused["rule"], refused["ask"]) == ("access", prepared.ids["top"])


@pytest.mark.parametrize(
    "words",
    [
        ["outcome", "create", "New"],
        ["outcome", "close", "{page}", "no"],
        ["handler", "stop", "{site}"],
        ["handler", "insert", "Sales", "{site}", "{shop}"],
        ["mail", "send", "{site}", "Hello"],
        ["grant", "add", "{shop}", "read", "{plan}"],
        ["kb", "create", "-", "--description", "Nothing"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_dry_run_tells_and_changes_nothing(prepared: Org, words: Sequence[str]) -> None:
    before = prepared.tip
    lines = prepared.cn(*words, "--dry-run").stdout.splitlines()
    assert lines
    assert all(line.startswith("would") for line in lines)
    assert "would" in prepared.ask(*words, "--dry-run")
    assert prepared.tip == before


def test_digits_that_begin_several_uuids_are_refused_with_their_titles(org: Org) -> None:
    known: dict[str, bytes] = {}
    while True:
        entropy = new_entropy()
        id = Moment(now(), entropy).uuid("outcome")
        if other := known.get(id[:4]):
            break
        known[id[:4]] = entropy
    agency = open_agency(open_hub(org.hub))
    top = Uuid(org.ids["top"])  # type: ignore[arg-type]
    both = [Asked(CreateOutcome(f"Twin {n}", "", (top,)), ByUser("ann"), "", e) for n, e in enumerate((entropy, other))]
    perform(agency.store, both)
    agency.store.close()
    said = org.refused("outcome", "show", id[:4])
    assert "Twin 0" in said
    assert "Twin 1" in said
    assert "Twin" in org.cn("outcome", "show", id[:13]).stdout


def test_the_log_is_filtered_and_a_handler_sees_its_own(prepared: Org) -> None:
    def types(*words: str) -> list[str]:
        return [event["type"] for event in prepared.ask("agency", "log", *words)]

    assert types("--count", "1") == ["outcome_created"]
    assert types("--type", "delegated") == ["delegated", "delegated"]
    assert types("--by", "{site}") == ["outcome_created"]
    assert types("--about", "{page}") == ["outcome_created"]
    assert types("--since", "2099-01-01") == []
    assert types("--as", "{site}")[-1] == "outcome_created"
    assert "founded" not in types("--as", "{shop}")
    assert "handler made: " in prepared.cn("agency", "log").stdout


def test_an_export_holds_what_its_reader_may_read_and_tells_the_reading(org: Org, tmp_path: Path) -> None:
    org.cn("agency", "export", tmp_path / "all")
    files = {path.relative_to(tmp_path / "all").as_posix() for path in (tmp_path / "all").rglob("*.md")}
    plan = f"files/the-plan-{org.ids['plan'][:8]}.md"
    assert plan in files
    assert (tmp_path / "all" / plan).read_text() == "one\n"
    assert f"outcomes/build-the-site-{org.ids['site'][:8]}.md" in files
    assert f"({plan})" in (tmp_path / "all/README.md").read_text()
    assert "file_read" in [event["type"] for event in org.ask("agency", "log", "--about", org.ids["plan"])]
    org.cn("agency", "export", tmp_path / "shop", "--as", "{shop}")
    assert not (tmp_path / "shop" / plan).exists()
    assert (tmp_path / "shop/outcomes" / f"open-the-shop-{org.ids['shop'][:8]}.md").is_file()
    assert "not an empty folder" in org.refused("agency", "export", tmp_path / "shop")


def test_a_copy_is_pushed_by_tick_and_another_clone_is_made_the_home(
    org: Org, tmp_path: Path, hub_template: Path
) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "copy.git")
    git(org.hub, "config", "agency.remote", str(tmp_path / "copy.git"))
    org.cn("agency", "tick")
    assert org.ask("agency", "status")["copy"] == {"url": str(tmp_path / "copy.git"), "behind": 0}
    shutil.copytree(hub_template, tmp_path / "new", symlinks=True)
    home = Org(tmp_path / "new", org.ids)
    assert home.cn("agency", "restore", tmp_path / "copy.git", "--dry-run").stdout.startswith("would ")
    assert "events are here" in home.cn("agency", "restore", tmp_path / "copy.git").stdout
    assert home.titles() == org.titles()
    home.check()


def test_a_shell_completes_uuids_by_digits_and_by_titles(prepared: Org) -> None:
    def offered(*words: str) -> list[str]:
        env = {"_CN_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["cn", *words]), "COMP_CWORD": str(len(words))}
        return cn(env=env, cwd=prepared.hub, check=0).stdout.split()

    for word in (prepared.ids["page"][:5], "start"):
        assert offered("outcome", "show", word) == [f"plain,{prepared.ids['page']}"]
    assert f"plain,{prepared.ids['shop']}" in offered("handler", "stop", "")
    assert offered("kb", "read", "plan") == [f"plain,{prepared.ids['plan']}"]


def test_who_does_not_use_it_loads_nothing_of_it(prepared: Org) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "cn", "--hub", str(prepared.hub), "status"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "cn.run" in done.stderr
    assert "cn.agency" not in done.stderr


@pytest.mark.parametrize("words", [["init", ""], ["init", "A\nB"]])
def test_an_agency_that_cannot_begin_says_why_and_is_not_there(
    tmp_path: Path, hub_template: Path, words: list[str]
) -> None:
    shutil.copytree(hub_template, tmp_path / "hub", symlinks=True)
    said = Org(tmp_path / "hub", {}).refused("agency", *words)
    assert "words: the title" in said
    assert not (tmp_path / "hub/.git/cn/agency.git").exists()


def test_writers_side_by_side_all_get_what_they_asked_for(org: Org) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: org.ask("outcome", "create", f"At once {n}")["outcome"], range(8)))
    assert len(set(done)) == 8
    assert {f"At once {n}" for n in range(8)} <= set(org.titles())
    org.check()


def test_without_an_agency_every_command_says_how_to_begin(hub_template: Path) -> None:
    said = cn("outcome", "list", hub=hub_template, check=3).stderr
    assert "cn agency init" in said
