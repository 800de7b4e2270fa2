"""Commands that a remedy tells people to type, with names that others chose quoted safely.

Whoever can push to origin chooses names of files, whoever is a peer chooses topics. A person, or
an agent, types what a remedy says; nothing in such a name may then be more than a name.
"""

from __future__ import annotations

import re

from cn.values.text import is_plain, redact

NAME = "NAME"
"""Stands for a word that cannot be typed."""

_SPECIAL = r"[\s!\"#$&'()*;<=>?\[\\\]^`{|}~]"
_PATTERN = r"^:|\\[*?\[\\]"
"""What git reads as more than a path (gitglossary(7), "pathspec")."""
_BY_PATH = r"\bgit (?=(?:-C \{\} )?(?:add|checkout|commit|diff|log|mv|restore|rm|update-index)\b)"
"""A git that takes paths. One that takes URLs and names of branches reads none of them as a pattern."""


def command(template: str, *words: str) -> str:
    r"""A command to type, in quotes: ``'git rm -- state/queue/a\ b.md'``.

    Each ``{}`` of ``template`` becomes one word. Characters that a shell reads are escaped one by one,
    which holds also where the quotes around the command are typed with it; a git that takes paths is told to
    read them literally where a word would be a pattern. A word that is not shown as it is (control and
    bidirectional characters, passwords in URLs) is never part of a command: ``NAME`` stands for it, and
    the text says how to type it. The caller's own text has to name it.
    """
    plain = [is_plain(word) and redact(word) == word for word in words]
    typed = [escape(word) if ok else NAME for word, ok in zip(words, plain, strict=True)]
    if any(re.search(_PATTERN, word) for word in typed):
        template = re.sub(_BY_PATH, "git --literal-pathspecs ", template)
    line = f"'{template.format(*typed)}'"
    if all(plain):
        return line
    if all(map(is_plain, words)):
        return f"{line} (for {NAME} type the URL with its password, which is not shown)"
    return f"{line} (for {NAME} let the shell complete the name, which hides characters)"


def push_step(place: str, commit: str, ref: str, lease: str = "") -> str:
    """The push that sets ``ref``, by its whole name, to exactly this commit; ``lease``: where it has to be before.

    A tag or a branch that is called by the digits of a commit, as whoever may push there can make one, is what git
    takes for the left side of a refspec (git-push(1), "<refspec>"); of ``COMMIT~0`` there can be none.
    """
    if lease:
        return command("git push --force-with-lease={}:{} {} {}~0:{}", ref, lease, place, commit, ref)
    return command("git push {} {}~0:{}", place, commit, ref)


def escape(word: str) -> str:
    """``word`` as one word for bash, zsh and POSIX shells, inside single quotes too: nothing in it is run."""
    return re.sub(_SPECIAL, r"\\\g<0>", word) or "''"
