"""The dataclass that is made when it is first met is the one that Python makes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from hubs import cn_env

from cn.core import value


def _types(make: Any) -> tuple[Any, Any, Any]:
    @make(frozen=True)
    class Base:
        name: str
        count: int = 1

    @make(frozen=True)
    class Derived(Base):
        rest: tuple[str, ...] = dataclasses.field(default_factory=tuple)

    @make(frozen=True, order=True)
    class Ordered:
        at: int

    return Base, Derived, Ordered


def _facts(make: Any) -> list[object]:
    base, derived, ordered = _types(make)
    one = derived("a", rest=("x",))  # its base has no instance yet
    two = dataclasses.replace(one, count=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "b"
    with pytest.raises(TypeError):
        base()
    match two:
        case derived(name, count):
            matched = (name, count)
    return [
        matched,
        repr(one).rpartition(".")[2],
        one == derived("a", 1, ("x",)),
        one == two,
        hash(one) == hash(derived("a", 1, ("x",))),
        [field.name for field in dataclasses.fields(one)],
        dataclasses.asdict(two),
        repr(base("a")).rpartition(".")[2],
        sorted([ordered(2), ordered(1)]) == [ordered(1), ordered(2)],
    ]


def test_it_is_the_dataclass_that_python_makes() -> None:
    lazily: Any = value.dataclass
    assert _facts(lazily) == _facts(dataclasses.dataclass)


def test_a_class_without_instances_is_not_made() -> None:
    probe = (
        "import cn.core.effect as e, dataclasses\n"
        "before = dataclasses.is_dataclass(e.Drop)\n"
        "e.Drop('a')\n"
        "print(before, dataclasses.is_dataclass(e.Drop), dataclasses.is_dataclass(e.Put))"
    )
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=cn_env())
    assert done.stdout.split() == ["False", "True", "False"]
