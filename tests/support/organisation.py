"""A small organisation in a hub, made and asked by the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cn.agency.agency import open_agency
from cn.agency.store.check import check_records
from cn.git.repository import open_hub
from cn.system.clock import now
from tests.support.hubs import cn, git


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


def make_org(hub: Path, template: Path) -> Org:
    """A boss who delegated two outcomes; ``plan`` is a file of the root's, which one of them may write."""
    shutil.copytree(template, hub, symlinks=True)
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
