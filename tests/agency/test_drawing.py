"""How trees look on a narrow terminal."""

from __future__ import annotations

import pytest

from cn.cli.render.agency import Branch, tree_lines


def test_a_tree_is_drawn_on_a_terminal_and_no_end_of_a_line_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cn.cli.render.text.columns", lambda: 40)
    monkeypatch.setattr("cn.cli.render.agency.columns", lambda: 40)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    long = "a title that is much longer than the room there is for it"
    below = [Branch(long, end=" (open)"), Branch(long, [Branch("last")], whole=True), Branch("end")]
    assert tree_lines([Branch("top", below)]) == [
        "top",
        "├── a title that is much longer … (open)",
        "├── a title that is much longer than",
        "│   │   the room there is for it",
        "│   └── last",
        "└── end",
    ]
