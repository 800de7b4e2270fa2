"""The page on the architecture, and CONTRIBUTING, name what there is; the picture is that of the code."""

from __future__ import annotations

import importlib
import importlib.util
import keyword
import re
from types import ModuleType

import pytest

from tests.support.hubs import ROOT

PAGE = ROOT / "docs/architecture.md"
_CODE = re.compile(r"`([^`\n]+)`")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs/architecture.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _without_lines(table: str) -> list[list[str]]:
    """The cells of each row, but for the number of lines."""
    return [[c for c in row.split("|") if not re.fullmatch(r" [\d,]+ ", c)] for row in table.split("\n")]


def test_the_picture_is_drawn_from_the_code(script: ModuleType) -> None:
    """If this fails: ``make tables``, and look at the picture."""
    assert script.PICTURE.read_text("utf-8") == script.Drawing(script.read_imports()).svg()


def test_the_table_is_written_from_the_code(script: ModuleType) -> None:
    """Lines are as they were when the page was written."""
    text = PAGE.read_text("utf-8")
    assert _without_lines(script.fill_page(text, script.read_imports())) == _without_lines(text)


def test_every_package_stands_in_one_stratum(script: ModuleType) -> None:
    named = [name for packages in script.STRATA.values() for name in packages]
    assert sorted(named) == sorted(script.read_packages())


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_module_and_test_that_a_page_names_exists(page: str) -> None:
    """Paths with a slash count from the root, or from ``cn/``; ``*`` stands for any name."""
    text = (ROOT / page).read_text("utf-8")
    named = {
        word.rstrip("/.,;")
        for code in _CODE.findall(text)
        for word in code.split()
        if re.fullmatch(r"(?:cn|tests|docs|benchmarks|demo|cron|hub-template)/[\w./*-]*|[\w/*]+/\w+\.py", word)
    }
    assert named
    lost = [name for name in sorted(named) if not (list(ROOT.glob(name)) or list((ROOT / "cn").glob(name)))]
    assert lost == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_a_name_that_a_page_puts_into_a_module_is_there(page: str) -> None:
    text = " ".join((ROOT / page).read_text("utf-8").split())
    named = re.findall(r"`(\w+)` (?:in|of) `((?:cn/)?[\w/]+\.py)`", text)
    named = [(name, path) for name, path in named if not keyword.issoftkeyword(name)]
    assert named
    for name, path in named:
        found = [p for p in (ROOT / path, ROOT / "cn" / path) if p.exists()]
        assert re.search(rf"^(?:def |class )?(?:\w+, )*{name}\b", found[0].read_text("utf-8"), re.M), (
            f"{name} in {path}"
        )


def test_every_function_that_the_page_for_python_names_exists() -> None:
    text = (ROOT / "docs/api.md").read_text("utf-8")
    named = re.findall(r"`(cn\.[a-z_.]+)\.(\w+)(?:\(|`)", text)
    assert named
    for module, name in named:
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"
