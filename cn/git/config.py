"""Git's configuration as far as cn uses it, read with one process when the hub is opened.

Asked for one by one, the same few settings took 20 processes of a run.
"""

from __future__ import annotations

from typing import NamedTuple

from cn.git.process import Git

_ASKED = (
    r"^(remote\.origin\.(url|pushurl)|url\..*\.(push)?insteadof|core\.filemode"
    r"|user\.(name|email|signingkey)|commit\.gpgsign|cn\.sign|remote\..*\.(promisor|partialclonefilter)"
    r"|extensions\.partialclone)$"
)
_OVERRIDDEN = "commit.gpgsign"
"""What the runner sets for its own calls (:mod:`cn.git.environment`): git reads that last."""

_PARTIAL = (".promisor", ".partialclonefilter")
_PARTIAL_OLD = "extensions.partialclone"
"""What git before 2.24 wrote; its value is the remote."""


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

    @property
    def partial(self) -> dict[str, list[str]]:
        """Remotes that keep objects to themselves (git-clone(1), ``--filter``), and the keys that say so."""
        found: dict[str, list[str]] = {}
        for setting in dict.fromkeys(s._replace(scope="") for s in self.settings):
            for end in _PARTIAL:
                if setting.key.startswith("remote.") and setting.key.endswith(end):
                    name = setting.key.removeprefix("remote.").removesuffix(end)
                    found.setdefault(name, []).append(setting.key)
            if setting.key == _PARTIAL_OLD:
                found.setdefault(setting.value, []).append(setting.key)
        return found


def read_config(git: Git) -> GitConfig:
    """The configuration of a repository, without what the runner itself sets."""
    fields = git.run("config", "--show-scope", "-z", "--get-regexp", _ASKED, check=False).fields
    found = [_setting(scope, pair) for scope, pair in zip(fields[::2], fields[1::2], strict=False)]
    ours = [number for number, setting in enumerate(found) if setting.key == _OVERRIDDEN][-1:]
    return GitConfig(tuple(setting for number, setting in enumerate(found) if number not in ours))


def _setting(scope: str, pair: str) -> Setting:
    key, newline, value = pair.partition("\n")
    return Setting(scope, key, value if newline else "true")
