"""Secrets of other servers: taken once, at the start, and kept in this process's memory alone.

They are in no file, log, event, answer or error, and no other process can read our memory (prctl(2)).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from cn.server.machine_tools import Secret
from cn.values.errors import ConfigError
from cn.values.known_secrets import KnownSecrets

_SECONDS = 30.0
_MOST = 64 << 10
_SHORTEST = 4
"""Characters: shorter ones would hide ordinary words."""
_PR_SET_DUMPABLE = 4
_DIGITS = re.compile(r"[0-9]+(\.[0-9]+)?")
_LONGEST_NUMBER = 4000
"""Digits that Python makes a number of (its limit is 4300)."""


class Vault:
    """Secrets by name. ``repr`` shows none of them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._known = KnownSecrets(values.values(), _SHORTEST)
        self._numbers = {
            number for value in values.values() for one in (value, *value.splitlines()) for number in _numbers(one)
        }

    def __repr__(self) -> str:
        return f"Vault({', '.join(self._values)})"

    def fill(self, text: str) -> str:
        """The text with each ``{secret:NAME}`` in its place."""
        for name, value in self._values.items():
            text = text.replace(f"{{secret:{name}}}", value)
        return text

    def mask(self, text: str) -> str:
        """The text without any secret."""
        return self._known.mask_broken(text)

    def mask_line(self, line: str) -> str:
        """The same of a line of a log, which may hold a part of one: programs break what they log."""
        return self._known.mask_parts(line)

    def mask_all(self, value: Any) -> Any:
        """The same with all texts in a JSON value. Those that stand under the same key may be parts of one: elements of
        a list, or lines of an answer. A number that shows a secret becomes the text ``***``.
        """
        rows = defaultdict[str | None, list[str]](list)
        _gather(value, "", rows)
        masked = {key: iter(self._known.mask_all_broken(texts)) for key, texts in rows.items()}
        return self._put(value, "", masked)

    def _put(self, value: Any, key: str, masked: Mapping[str | None, Iterator[str]]) -> Any:
        """The value with what is ``masked`` in the place of its texts, in the order of :func:`_gather`."""
        match value:
            case str():
                return next(masked[key])
            case dict():
                return {next(masked[None]): self._put(one, str(name), masked) for name, one in value.items()}
            case list():
                return [self._put(one, key, masked) for one in value]
            case int() | float() if not isinstance(value, bool) and self._is_shown_by(value):
                return "***"
            case _:
                return value

    def _is_shown_by(self, number: int | float) -> bool:
        return abs(number) in self._numbers or bool(self._known.places(json.dumps(number)))


def _gather(value: Any, key: str, rows: Mapping[str | None, list[str]]) -> None:
    """Add all texts of a JSON value to the rows of the keys under which they stand; the keys have a row, too."""
    match value:
        case str():
            rows[key].append(value)
        case dict():
            for name, one in value.items():
                rows[None].append(str(name))
                _gather(one, str(name), rows)
        case list():
            for one in value:
                _gather(one, key, rows)


def _numbers(value: str) -> list[int | float]:
    """What a secret of digits is as a number: leading zeros are lost then, and the last digits of a long one."""
    if not _DIGITS.fullmatch(value) or len(value.replace(".", "").lstrip("0")) < _SHORTEST:
        return []
    found: list[int | float] = [float(value)]
    if value.isdigit() and len(value) <= _LONGEST_NUMBER:
        found.append(int(value))
    return found


def take_secrets(secrets: Sequence[Secret], env: MutableMapping[str, str] = os.environ) -> Vault:
    """Take each from where it is, and out of ``env``, which children would inherit.

    Raises :class:`ConfigError` with the secret's name, and nothing of what a command said.
    """
    values = {one.name: _take(one, env) for one in secrets}
    for one in secrets:
        env.pop(one.env, None)
    return Vault(values)


def _take(secret: Secret, env: Mapping[str, str]) -> str:
    if secret.command:
        value = _run(secret)
    elif secret.env:
        value = env.get(secret.env, "")
    else:
        value = _read(secret, env)
    if not value.strip():
        raise ConfigError(f"the secret {secret.name!r} is empty", "correct [secrets] in agency.toml, and its source")
    return value


def _run(secret: Secret) -> str:
    try:
        done = subprocess.run(
            secret.command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        remedy = f"it has {_SECONDS:.0f} s, and nobody answers questions there"
        raise ConfigError(f"the command of the secret {secret.name!r} did not end", remedy) from None
    except OSError as why:
        reason = f"the command of the secret {secret.name!r} cannot be started: {why.strerror}"
        raise ConfigError(reason, f"is {secret.command[0]} installed?") from None
    if done.returncode:
        reason = f"the command of the secret {secret.name!r} ended with {done.returncode}"
        raise ConfigError(reason, "run it by hand to see why")
    return _decode(secret, done.stdout)


def _read(secret: Secret, env: Mapping[str, str]) -> str:
    path = secret.file.replace("%d", env.get("CREDENTIALS_DIRECTORY", "%d"))
    if path.startswith("%d"):
        raise ConfigError(
            f"the secret {secret.name!r} is in %d, which systemd gives", "start it as a service with LoadCredential="
        )
    try:
        with Path(path).expanduser().open("rb") as file:
            return _decode(secret, file.read(_MOST + 1))
    except OSError as why:
        raise ConfigError(f"the secret {secret.name!r} cannot be read: {why.strerror}", f"check {path}") from None


def _decode(secret: Secret, data: bytes) -> str:
    if len(data) > _MOST:
        raise ConfigError(f"the secret {secret.name!r} is longer than {_MOST >> 10} KiB", "is this the right source?")
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"the secret {secret.name!r} is no text", "is this the right source?") from None


def keep_to_ourselves() -> None:
    """No core dumps, and no other process of the same user reads our memory or environment."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
