"""What git's configuration says where cn asks for it, read with one process when the hub is opened.

Asked for one by one, the same few settings took 20 processes of a run.
"""

from __future__ import annotations

from typing import NamedTuple

from cn.shell.git import Git

_ASKED = (
    r"^(remote\.origin\.(url|pushurl)|url\..*\.(push)?insteadof|core\.filemode"
    r"|user\.(name|email|signingkey)|commit\.gpgsign|cn\.sign)$"
)
_OVERRIDDEN = "commit.gpgsign"
"""What the runner sets for its own calls (:mod:`cn.shell.hardened`): git reads that last."""


class Setting(NamedTuple):
    """One line of the configuration: scope, key (section and name in lower case), value."""

    scope: str
    key: str
    value: str


class GitConfig(NamedTuple):
    """The settings in the order git reads them, so the last one counts."""

    settings: tuple[Setting, ...] = ()

    def all(self, key: str) -> list[str]:
        """Every value of ``key``."""
        return [s.value for s in self.settings if s.key == key]

    def last(self, key: str) -> str:
        """The value that counts, empty where there is none."""
        return (self.all(key) or [""])[-1]

    def is_true(self, key: str) -> bool:
        """Is it switched on (git-config(1), "Values")?"""
        text = self.last(key).strip().lower()
        return text in ("true", "yes", "on") or (text.lstrip("+-").isdigit() and int(text) != 0)

    def is_false(self, key: str) -> bool:
        """Is it there, and switched off?"""
        return bool(self.all(key)) and self.last(key).strip().lower() in ("", "false", "no", "off", "0")

    @property
    def rewrites(self) -> bool:
        """Do ``url.….insteadOf`` or ``pushInsteadOf`` make one URL of another?"""
        return any(s.key.startswith("url.") for s in self.settings)


def read_config(git: Git) -> GitConfig:
    """The configuration of a repository, without what the runner itself sets."""
    fields = git.run("config", "--show-scope", "-z", "--get-regexp", _ASKED, check=False).fields
    found = [_setting(scope, pair) for scope, pair in zip(fields[::2], fields[1::2], strict=False)]
    ours = [number for number, setting in enumerate(found) if setting.key == _OVERRIDDEN][-1:]
    return GitConfig(tuple(setting for number, setting in enumerate(found) if number not in ours))


def _setting(scope: str, pair: str) -> Setting:
    key, newline, value = pair.partition("\n")
    return Setting(scope, key, value if newline else "true")
