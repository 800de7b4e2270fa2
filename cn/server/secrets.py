"""Secrets of other servers: taken once, at the start, and kept in this process's memory alone.

They are in no file, log, event, answer or error, and no other process can read our memory (prctl(2)).
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from cn.server.machine_tools import Secret
from cn.values.errors import ConfigError
from cn.values.text import in_base64

_SECONDS = 30.0
_MOST = 64 << 10
_SHORTEST = 4
"""Characters: shorter ones would hide ordinary words."""
_PR_SET_DUMPABLE = 4
_SPACES = re.compile(r"(?:\s|\\{1,3}[nrt])+")
"""Spaces, also as JSON shows them."""
_DIGITS = re.compile(r"[0-9]+(\.[0-9]+)?")
_LONGEST_NUMBER = 4000
"""Digits that Python makes a number of (its limit is 4300)."""
_HEX = re.compile(r"\\u[0-9a-f]{4}")


class Vault:
    """Secrets by name. ``repr`` shows none of them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        hidden = {form for value in values.values() for form in _forms(value) if len(form) >= _SHORTEST}
        self._hidden = sorted(hidden, key=len, reverse=True)
        self._numbers = {
            number for value in values.values() for one in (value, *value.splitlines()) for number in _numbers(one)
        }
        encoded = {core for value in values.values() for core in in_base64(value) if len(core) >= 2 * _SHORTEST}
        self._encoded = sorted(encoded, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Vault({', '.join(self._values)})"

    def fill(self, text: str) -> str:
        """The text with each ``{secret:NAME}`` in its place."""
        for name, value in self._values.items():
            text = text.replace(f"{{secret:{name}}}", value)
        return text

    def mask(self, text: str) -> str:
        """The text without any secret."""
        for value in self._hidden:
            if value in text:
                text = text.replace(value, "***")
        return self._mask_broken(text)

    def _mask_broken(self, text: str) -> str:
        """The same of base64 that is broken into lines, or by other spaces."""
        starts = [0, *(found.end() for found in _SPACES.finditer(text))]
        pieces = [*zip(starts, _SPACES.split(text), strict=True)]
        if len(pieces) < 2:
            return text
        whole = "".join(piece for _, piece in pieces)
        behind = [*itertools.accumulate(len(piece) for _, piece in pieces)]
        spans = list[tuple[int, int]]()
        for core in self._encoded:
            at = whole.find(core)
            while at >= 0:
                spans.append((at, at + len(core)))
                at = whole.find(core, at + len(core))

        def place(at: int) -> int:
            """Where this character of all pieces stands in the text."""
            number = bisect.bisect_right(behind, at)
            start, piece = pieces[number]
            return start + at - (behind[number] - len(piece))

        shown, upto = list[str](), 0
        for first, end in sorted(spans):
            start, stop = place(first), place(end - 1) + 1
            if start >= upto:
                shown += [text[upto:start], "***"]
            upto = max(upto, stop)
        return "".join([*shown, text[upto:]])

    def mask_all(self, value: Any) -> Any:
        """The same with all texts in a JSON value; a number that shows a secret becomes the text ``***``."""
        match value:
            case str():
                return self.mask(value)
            case dict():
                return {self.mask(str(key)): self.mask_all(one) for key, one in value.items()}
            case list():
                return [self.mask_all(one) for one in value]
            case int() | float() if not isinstance(value, bool) and self._is_shown_by(value):
                return "***"
            case _:
                return value

    def _is_shown_by(self, number: int | float) -> bool:
        return abs(number) in self._numbers or any(form in json.dumps(number) for form in self._hidden)


def _forms(value: str) -> list[str]:
    """A secret and its lines, also as strings of JSON show them, and how it stands in base64."""
    lines = [line for line in value.splitlines() if len(line) >= 2 * _SHORTEST]
    plain = [value, *lines]
    written = [form for one in plain for form in (*_in_json(one), *_in_python(one))]
    return [*plain, *written, *in_base64(value)]


def _in_python(value: str) -> list[str]:
    """How Python shows it, as in its errors."""
    return [repr(value)[1:-1], ascii(value)[1:-1], repr(value.encode("utf-8", "surrogatepass"))[2:-1]]


def _numbers(value: str) -> list[int | float]:
    """What a secret of digits is as a number: leading zeros are lost then, and the last digits of a long one."""
    if not _DIGITS.fullmatch(value) or len(value.replace(".", "").lstrip("0")) < _SHORTEST:
        return []
    found: list[int | float] = [float(value)]
    if value.isdigit() and len(value) <= _LONGEST_NUMBER:
        found.append(int(value))
    return found


def _in_json(value: str) -> set[str]:
    """How it stands in a string of JSON (RFC 8259, section 7), and in one of JSON within JSON."""
    found = {value}
    for _ in range(2):
        dumped = {json.dumps(one, ensure_ascii=ascii)[1:-1] for one in found for ascii in (True, False)}
        dumped |= {one.replace("/", "\\/") for one in dumped}
        found |= dumped | {_HEX.sub(lambda match: match[0][:2] + match[0][2:].upper(), one) for one in dumped}
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
