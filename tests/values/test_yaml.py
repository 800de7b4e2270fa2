"""Configuration is read by libyaml, and by PyYAML's own loader where that one could not, or must not."""

from __future__ import annotations

import pytest

from cn.values.errors import ConfigError
from cn.values.yaml import load_yaml


@pytest.mark.parametrize("text", ["[" * 300_000, "- " * 100_000, "[" * 100_000 + "]" * 100_000])
def test_any_depth_is_refused_and_ends_no_process(text: str) -> None:
    with pytest.raises(ConfigError):
        load_yaml(text, "hub.yaml")


def test_what_is_wrong_is_told_in_one_loaders_words() -> None:
    with pytest.raises(ConfigError, match=r"hub\.yaml:2: expected ',' or '\]', but got ':'"):
        load_yaml("a: [1\nb: 2\n", "hub.yaml")
    with pytest.raises(ConfigError, match=r"hub\.yaml:2: a is given twice"):
        load_yaml("a: 1\na: 2\n", "hub.yaml")


def test_a_character_as_two_escapes_is_read() -> None:
    assert load_yaml('a: "\\ud83d\\ude00"\n', "hub.yaml") is not None
