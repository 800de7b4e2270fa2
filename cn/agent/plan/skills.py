"""Skills: pages that tell the agent how to do something, and which of them belong to a message.

Matching is by keyword overlap, which anybody can follow by eye.
The page that teaches the format of an answer is not matched: it is the contract, in every request.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cn.values.names import HubPath
from cn.values.text import one_line
from cn.values.yaml import YamlRefused, read_frontmatter

FILE = "SKILL.md"
FOLDERS = (HubPath("skills"), HubPath("src/agent/skills"))
"""Where skills lie; of two with one name the first folder's comes first."""
CONTRACT = "agent-ops"
"""The folder of the skill that teaches the format of an answer."""
_KEYS = ("name", "description")
_MAX_DESCRIPTION = 1000
_WORD = re.compile(r"[^\W_]+")
STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as ask at be because been before being but by can could did do
    does doing done each for from get give go had has have he her here him his how i if in into is it its just
    know let like make may me might more most much must my need new no not now of on one only or other our out
    over please same say see shall she should so some such take tell than thank thanks that the their them
    then there these they thing this those to too up us use very want was way we well were what when where
    which who why will with would yes yet you your
    """.split()  # noqa: SIM905  a list of 150 literals cannot be read
)
"""English words that say nothing of a subject."""


@dataclass(frozen=True)
class Skill:
    """One ``SKILL.md``: ``name`` from its folder or its frontmatter, ``body`` without frontmatter."""

    path: HubPath
    name: str
    description: str
    body: str

    @property
    def is_contract(self) -> bool:
        """Does it teach the format of an answer?"""
        return self.path.split("/")[-2:-1] == [CONTRACT]


def is_skill(path: str) -> bool:
    """Is it the path of a skill: a ``SKILL.md`` with a folder of its own in one of :data:`FOLDERS`?"""
    return any(
        path.startswith(f"{folder}/") and path.endswith(f"/{FILE}") and path.count("/") > folder.count("/") + 1
        for folder in FOLDERS
    )


def parse_skill(path: HubPath, text: str) -> Skill:
    """Read one; total: frontmatter that cannot be read is part of the body.

    Without a ``description`` it is the first paragraph below the title.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    fields: dict[str, object] = {}
    with suppress(YamlRefused):
        fields, text = read_frontmatter(text)
    name, description = (value if isinstance(value := fields.get(key), str) else "" for key in _KEYS)
    name = one_line(name) or path.split("/")[-2]
    return Skill(path, name, one_line(description or _first_paragraph(text), _MAX_DESCRIPTION), text.strip("\n"))


def _first_paragraph(text: str) -> str:
    blocks = re.split(r"\n[ \t]*\n", text.strip())
    return next((b for b in blocks if b.strip() and not b.lstrip().startswith(("#", "---", "```"))), "")


def tokens(text: str) -> frozenset[str]:
    """The words of a text that can match: case-folded, compatible forms as one, no stop words.

    Single characters count only where a script writes words with one (not in ASCII).
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    words = _WORD.findall(folded)
    return frozenset(w for w in words if w not in STOP_WORDS and not (len(w) == 1 and w.isascii()))


def match_skills(message: str, skills: Iterable[Skill], limit: int) -> tuple[Skill, ...]:
    """The skills that share most words with a message in name and description, the best first.

    Ties go by path; without a word in common a skill stays out, and so does the contract.
    """
    wanted = tokens(message)
    scored = [(len(wanted & tokens(f"{s.name} {s.description}")), s) for s in skills if not s.is_contract]
    found = sorted((-score, s.path, s) for score, s in scored if score)
    return tuple(skill for _, _, skill in found[:limit])


def find_contract(skills: Sequence[Skill]) -> Skill | None:
    """The contract: in the first of :data:`FOLDERS` that has one, there the first by path."""
    found = [s for s in skills if s.is_contract]
    return min(found, key=lambda s: (not s.path.startswith(f"{FOLDERS[0]}/"), s.path), default=None)
