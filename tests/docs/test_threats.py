"""The threat model names tests and attacks that exist, and every attack of the corpus."""

from __future__ import annotations

import re
from pathlib import Path

from tests.attacks.attack import read_corpus
from tests.support.hubs import ROOT

_NAMED = re.compile(r"`([a-z][a-z0-9_-]*[a-z0-9])`")


def _tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for path in files for name in re.findall(r"def (test_\w+)", Path(path).read_text("utf-8"))}


def test_what_the_page_names_exists_and_no_attack_is_left_out() -> None:
    text = (ROOT / "docs/threats.md").read_text("utf-8")
    rows = [line for line in text.split("\n") if line.startswith("|")]
    shown = {name for row in rows for name in _NAMED.findall(row.rsplit("|", 2)[1])}
    shown |= {name for name in _NAMED.findall(text) if name.startswith("test_")}
    attacks = {attack.name for attack in read_corpus()}
    assert shown - _tests() - attacks == set()
    assert attacks - shown == set()
