"""Skills: read whatever they hold, matched by words that anybody can follow."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.agent.plan.prompt import Skill, find_contract, is_skill, match_skills, parse_skill, tokens
from cn.values.names import HubPath


def skill(folder: str, description: str, name: str = "") -> Skill:
    path = HubPath(f"{folder}/SKILL.md")
    return Skill(path, name or folder.rpartition("/")[2], description, "body")


@pytest.mark.parametrize(("text", "name", "description", "body"), [
    ("---\nname: review\ndescription: How to\n---\n# R\n\ntext\n", "review", "How to", "# R\n\ntext"),
    ("# Writing\n\nHow to\nwrite.\n\nMore.\n", "x", "How to write.", "# Writing\n\nHow to\nwrite.\n\nMore."),
    ("---\r\ndescription: >\r\n  two\r\n  lines\r\n---\r\nb", "x", "two lines", "b"),
    ("---\nname: [1]\n---\nb", "x", "b", "b"),
    ("---\nname: [\n---\nb", "x", "", "---\nname: [\n---\nb"),
    ("---\nname: 007\ndescription: no\n---\nb", "007", "no", "b"),
    ("---\ndescription: a\ndescription: b\n---\nb", "x", "", "---\ndescription: a\ndescription: b\n---\nb"),
    ("---\na: &a [x]\nname: *a\n---\nb", "x", "", "---\na: &a [x]\nname: *a\n---\nb"),
    ("---\nonly words\n---\nb", "x", "", "---\nonly words\n---\nb"),
    ("intro\n\n---\nname: y\n---\nb", "x", "intro", "intro\n\n---\nname: y\n---\nb"),
    ("---\nno end\n\nb", "x", "b", "---\nno end\n\nb"),
    ("---\n" + "a: b\n" * 9000 + "---\nb", "x", "", None),
    ("", "x", "", ""),
    ("\ufeffHi", "x", "Hi", "Hi"),
])  # fmt: skip
def test_a_skill_is_read_whatever_it_holds(text: str, name: str, description: str, body: str | None) -> None:
    found = parse_skill(HubPath("skills/x/SKILL.md"), text)
    assert (found.name, found.description) == (name, description)
    assert body is None or found.body == body


@given(st.text(max_size=60), st.text(max_size=60))
def test_reading_never_fails(head: str, body: str) -> None:
    for text in (head, f"---\n{head}\n---\n{body}"):
        parse_skill(HubPath("skills/x/SKILL.md"), text)


@pytest.mark.parametrize(("path", "yes"), [
    ("skills/a/SKILL.md", True), ("skills/a/b/SKILL.md", True), ("src/agent/skills/agent/a/SKILL.md", True),
    ("skills/SKILL.md", False), ("src/agent/skills/SKILL.md", False), ("skills/a/README.md", False),
    ("other/skills/a/SKILL.md", False), ("skills/a/xSKILL.md", False),
])  # fmt: skip
def test_where_skills_lie(path: str, yes: bool) -> None:
    assert is_skill(path) is yes


def test_words_are_folded_and_say_something() -> None:
    assert tokens("Please REVIEW the Straße, ﬁle_name x 3!") == {"review", "strasse", "file", "name"}
    assert tokens("审 查") == {"审", "查"}
    assert tokens("I would like you to do that, thanks") == frozenset()


SKILLS = [
    skill("skills/b-review", "Reviewing proposals and merge requests"),
    skill("skills/a-review", "Merge and review of proposals"),
    skill("skills/mail", "Writing mail to peers"),
    skill("skills/deploy", "Production deploys and rollback"),
    skill("skills/agent-ops", "review merge proposals deploy mail"),
]


def names(message: str, limit: int = 3) -> list[str]:
    return [s.name for s in match_skills(message, SKILLS, limit)]


def test_most_words_in_common_come_first_and_ties_go_by_path() -> None:
    assert names("please review these proposals, then deploys: merge") == ["a-review", "b-review", "deploy"]
    assert names("the proposals merge") == ["a-review", "b-review"]
    assert names("ROLLBACK") == ["deploy"]


def test_without_a_word_in_common_none_is_matched() -> None:
    assert names("hello there") == []
    assert names("") == []
    assert names("review", 0) == []


def test_a_word_counts_once_however_often_it_is_said() -> None:
    assert names("deploys deploys deploys proposals merge", 1) == ["a-review"]


def test_the_order_of_the_skills_is_nothing() -> None:
    message = "review merge mail deploys proposals writing"
    wanted = match_skills(message, SKILLS, 9)
    for seed in range(9):
        assert match_skills(message, random.Random(seed).sample(SKILLS, len(SKILLS)), 9) == wanted


def test_the_contract_is_found_and_never_matched() -> None:
    other = skill("src/agent/skills/agent/agent-ops", "review")
    assert find_contract([other, *SKILLS]) is SKILLS[-1]
    assert find_contract([other]) is other
    assert find_contract(SKILLS[:-1]) is None
    assert match_skills("review", [other], 3) == ()
