"""What the repository cites is in it: no page, number or note that its readers cannot open."""

from __future__ import annotations

import re
import subprocess

from tests.support.hubs import ROOT

_ELSEWHERE = re.compile(
    "|".join(
        (
            r"\b[D]ESIGN\b",
            r"\b[S]TYLE\b",
            r"\b[H]OUSE\b",
            r"\b[A]GENCY\b",
            r"\b[G]IT-FACTS\b",
            r"\b(?i:issue)s? #?[0-9]+(?![0-9]*/)",
            r"(?i:seed)s?[ _-]00[0-9]",
            r"\b(?i:habit|promise) [0-9]",
        )
    )
)


_OF_OTHERS = ("tests/web/axe/", "cn/web/static/htmx")
"""Files of other projects, as they came."""


def test_no_file_cites_what_its_readers_cannot_open() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    found = []
    for name in listed.decode().rstrip("\0").split("\0"):
        path = ROOT / name
        if name.startswith(_OF_OTHERS) or not path.is_file() or b"\0" in (data := path.read_bytes()):
            continue
        lines = enumerate(data.decode("utf-8", "replace").split("\n"), 1)
        found += [f"{name}:{number}: {line}" for number, line in lines if _ELSEWHERE.search(line)]
    assert found == []
