"""What the user said, sentence by sentence: each is shown by a test that is there, or says why it is none of ours."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_PROMISES = tomllib.loads((_FOLDER / "promises.toml").read_text("utf-8"))["promise"]
_KEYS = {"shown_by", "not_here"}


@cache
def _tests(name: str) -> list[str]:
    """The tests of ``FILE`` in this folder, or of ``FOLDER/FILE`` beside it."""
    folder, _, file = name.rpartition("/")
    path = (_FOLDER.parent / folder if folder else _FOLDER) / f"test_{file}.py"
    return re.findall(r"^def test_(\w+)\(", path.read_text("utf-8"), re.MULTILINE) if path.exists() else []


def test_every_promise_has_a_test_or_says_why_not() -> None:
    assert len(_PROMISES) > 180
    for promise in _PROMISES:
        (key,) = promise.keys() - {"said"}
        assert key in _KEYS, promise
        assert promise[key], promise
        if key == "shown_by":
            for shown in [promise[key]] if isinstance(promise[key], str) else promise[key]:
                file, _, test = shown.partition("::")
                assert test in _tests(file), promise


def test_no_promise_stands_twice_and_nearly_all_are_shown() -> None:
    said = [promise["said"] for promise in _PROMISES]
    assert sorted(said) == sorted(set(said))
    assert sum("not_here" in promise for promise in _PROMISES) < 5
