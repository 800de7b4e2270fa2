"""What can execute, defined on this machine: runners, repositories, and how agents are watched (``docs/agency.md``).

``agency.toml`` stands in ``$XDG_CONFIG_HOME/cn`` or where ``git config cn.agency`` says; the records only name what is
in it, so that no push can add a command. Its tables ``servers`` and ``secrets`` are read by who reaches those.
"""

from __future__ import annotations

import os
import pwd
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from cn.agents.wraps import NAMED, Wrap, unfit
from cn.system.owners import read_own
from cn.values.errors import ConfigError
from cn.values.names import is_name

RESULTS = ("none", "builtin", "claude")
"""How what a runner says is read."""
DEFAULT = "builtin"
PERSON = "person"
_SHIPPED = ("builtin", "claude", "person")
_MOST = 1 << 20


@dataclass(frozen=True)
class Runner:
    """How an agent is started. Texts may have the placeholders of :mod:`cn.agents.runners`.

    ``argv`` empty: nothing is started, a person works it. ``env`` are the names of variables that it gets from the
    server's own environment, ``set`` more of them; ``input`` is a file for its standard input. ``shell``: what it
    starts can run programs, so it needs a ``wrap``, unless ``unguarded`` says that it may do without. ``underlings``
    are other runners that its agents may name when they delegate.
    """

    name: str
    argv: tuple[str, ...]
    env: tuple[str, ...] = ()
    set: tuple[tuple[str, str], ...] = ()
    input: str = ""
    files: tuple[tuple[str, str], ...] = ()
    model: str = ""
    tools: str = ""
    result: str = "none"
    shell: bool = True
    wrap: Wrap | None = None
    unguarded: bool = False
    underlings: tuple[str, ...] = ()

    @property
    def is_person(self) -> bool:
        """Does somebody work it by hand?"""
        return not self.argv

    @property
    def unsafe(self) -> str:
        """Why it must not be started as it is, and what to do; empty where it may."""
        if not self.shell or self.unguarded:
            return ""
        if self.wrap:
            why = unfit(self.wrap, os.geteuid())
            return f"runner {self.name} can run programs, and {why}, or write 'unguarded = true'" if why else ""
        return (
            f"runner {self.name} can run programs, and nothing keeps it from the hub, from other agents' tokens and "
            f"from your home folder: set 'wrap' to one of {', '.join(NAMED)}, or write 'unguarded = true'"
        )


@dataclass(frozen=True)
class Watch:
    """How agents are watched; all in seconds but ``calls``.

    ``silence``: said and asked nothing for so long, it is ended. ``grace``: from the signal to end until everything is
    killed. ``pause``: the first one of a handler that is stuck; it doubles. ``life``: so long an agent keeps its place
    without getting anywhere while others wait for one. ``calls``: so many times the same call with the same arguments
    in a row.
    """

    silence: float = 900.0
    grace: float = 20.0
    pause: float = 60.0
    life: float = 1800.0
    calls: int = 20


@dataclass(frozen=True)
class Repositories:
    """Repositories that agents may get, by name or by patterns of URLs; ``fresh`` in seconds."""

    named: tuple[tuple[str, str], ...] = ()
    patterns: tuple[str, ...] = ()
    fresh: float = 60.0


@dataclass(frozen=True)
class Machine:
    """What this machine has for agents. ``path`` is the file, for messages."""

    path: Path
    default: str = DEFAULT
    runners: tuple[Runner, ...] = ()
    watch: Watch = Watch()
    repos: Repositories = Repositories()

    def runner(self, name: str) -> Runner | None:
        """By its name, the default one for an empty name."""
        return next((one for one in self.runners if one.name == (name or self.default)), None)


UNREAD = "let the user of cn read it; XDG_CONFIG_HOME or HOME leads there, where 'git config cn.agency' names no file"


def machine_path(told: str, env: Mapping[str, str] = os.environ) -> Path:
    """Where ``agency.toml`` is; ``told`` is what git's configuration says (``cn.agency``)."""
    if told:
        return Path(told).expanduser()
    return Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/")) / ".config") / "cn/agency.toml"


def read_machine(path: Path) -> Machine:
    """The file; all defaults where there is none. Raises :class:`ConfigError` with file, key and remedy."""
    return parse_machine(read_own(path, _MOST, UNREAD) or b"", path)


def parse_machine(data: bytes, path: Path) -> Machine:
    """The bytes of ``agency.toml``; raises :class:`ConfigError`."""
    try:
        top = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as why:
        raise ConfigError(f"{path}: {why}", "correct the file") from None
    reader = _Reader(str(path), "", top)
    agents = reader.table("agents")
    agents.known("runner", *(part.name for part in fields(Watch)))
    usual = Watch()
    machine = Machine(
        path,
        agents.text("runner", DEFAULT),
        _runners(reader.table("runners")),
        Watch(
            agents.number("silence", usual.silence),
            agents.number("grace", usual.grace),
            agents.number("pause", usual.pause),
            agents.number("life", usual.life),
            max(2, int(agents.number("calls", usual.calls))),
        ),
        _repositories(reader.table("repos")),
    )
    for one in machine.runners:
        if unknown := next((name for name in one.underlings if machine.runner(name) is None), None):
            where = reader.table("runners").table(one.name)
            raise where.wrong("underlings", f"there is no runner {unknown!r}", "name some of [runners]")
    if machine.runner("") is None:
        raise agents.wrong("runner", f"there is no runner {machine.default!r}", "name one of [runners]")
    return machine


def _runners(table: _Reader) -> tuple[Runner, ...]:
    shipped = {name: _read_runner(name, _shipped(name)) for name in _SHIPPED}
    for name in table.data:
        if not is_name(name):
            raise table.wrong(name, f"{name!r} is no name", "use lower-case letters, digits and dashes")
        one = table.table(name)
        like = one.choice("like", (name, *shipped), name)
        shipped[name] = _read_runner(name, one, shipped.get(like))
    return tuple(shipped.values())


def _shipped(name: str) -> _Reader:
    file = resources.files("cn.agents") / "runners" / f"{name}.toml"
    return _Reader(f"{name}.toml", "", tomllib.loads(file.read_text("utf-8")))


_WRAP_KEYS = ("visible", "network", "user")


def _read_runner(name: str, table: _Reader, base: Runner | None = None) -> Runner:
    """A runner; what it does not say is as in ``base``."""
    table.known(*(part.name for part in fields(Runner) if part.name != "name"), "like", *_WRAP_KEYS)
    base = base or Runner(name, ())
    if "argv" not in table.data and not base.argv and base.name != PERSON:
        raise table.wrong("argv", "it is not given", "write the command as a list: argv = ['program', 'argument']")
    given = {
        "argv": table.texts("argv", base.argv),
        "env": table.texts("env", base.env),
        "set": table.pairs("set", base.set),
        "files": table.pairs("files", base.files),
        "input": table.text("input", base.input),
        "model": table.text("model", base.model),
        "tools": table.text("tools", base.tools),
        "result": table.choice("result", RESULTS, base.result),
        "shell": table.flag("shell", base.shell or (name != "person" and bool(table.text("tools", base.tools)))),
        "unguarded": table.flag("unguarded", base.unguarded),
        "underlings": table.texts("underlings", base.underlings),
        "wrap": _wrap(table, base.wrap),
    }
    if name == "person" and given["argv"]:
        raise table.wrong("argv", "nothing is started for a person", "take another name for this runner")
    return replace(base, name=name, **given)  # type: ignore[arg-type]


def _unfit_user(name: str) -> str:
    """Why a user of this machine cannot be one of agents; empty where it can. What they leave is ended as all that this
    user runs (kill(1), ``-1``).
    """
    try:
        number = pwd.getpwnam(name).pw_uid
    except KeyError:
        return ""  # told where an agent is to start
    if number == 0:
        return "is root, from whom nothing is kept"
    return "is who serves, from whom nothing of the hub is kept" if number == os.geteuid() else ""


def _wrap(table: _Reader, base: Wrap | None) -> Wrap | None:
    if not {"wrap", *_WRAP_KEYS} & table.data.keys() or (base is None and "wrap" not in table.data):
        return base
    found = table.data.get("wrap", base.name if base else "")
    own: tuple[str, ...] = ()
    if isinstance(found, list):
        own, found = table.texts("wrap", ()), "own"
    elif found not in NAMED:
        raise table.wrong("wrap", f"it is {found!r}", f"name one of {', '.join(NAMED)}, or give a command as a list")
    user = table.text("user", base.user if base else "")
    if (found == "sudo") is not bool(user):
        raise table.wrong("user", "wrap = 'sudo' needs a user, and no other takes one", "user = 'NAME' says who")
    if user and (why := _unfit_user(user)):
        raise table.wrong("user", f"{user} {why}", "name a user that runs these agents and nothing else")
    paths = table.texts("visible", base.visible if base else ())
    if wrong := next((one for one in paths if not one.startswith("/")), None):
        raise table.wrong("visible", f"{wrong!r} is no absolute path", "begin it with /")
    return Wrap(str(found), own, paths, table.flag("network", base.network if base else True), user)


def _repositories(table: _Reader) -> Repositories:
    urls = {key: table.text(key, "") for key in table.data if key not in ("patterns", "fresh")}
    for name in urls:
        if not is_name(name):
            raise table.wrong(name, f"{name!r} is no name", "use lower-case letters, digits and dashes")
    return Repositories(tuple(urls.items()), table.texts("patterns", ()), table.number("fresh", Repositories.fresh))


def kind_of(value: object) -> str:
    """What a value of TOML is, without the value: where it stands wrongly it may be a secret."""
    kinds = {bool: "true or false", str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a time")


class _Reader:
    """A table of the file, whose errors name the place."""

    def __init__(self, path: str, where: str, data: Mapping[str, Any]) -> None:
        self.path, self.where, self.data = path, where, data

    def wrong(self, key: str, what: str, remedy: str) -> ConfigError:
        return ConfigError(f"{self.path}: {self.where}{key}: {what}", remedy)

    def known(self, *names: str) -> None:
        """Raise for a key that is none of these."""
        if unknown := next((key for key in self.data if key not in names), None):
            raise self.wrong(unknown, "it is not known", f"known are {', '.join(sorted(names))}")

    def _get(self, key: str, kind: type | tuple[type, ...], words: str, default: Any) -> Any:
        value = self.data.get(key, default)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"it is {kind_of(value)}", f"write {words}")
        return value

    def table(self, key: str) -> _Reader:
        return _Reader(self.path, f"{self.where}{key}.", self._get(key, dict, "a table", {}))

    def text(self, key: str, default: str) -> str:
        return str(self._get(key, str, "a text in quotes", default))

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._get(key, bool, "true or false", default))

    def number(self, key: str, default: float) -> float:
        value = float(self._get(key, (int, float), "a number", default))
        if not 0 <= value < 10**9:
            raise self.wrong(key, f"it is {value:g}", "write a number from 0")
        return value

    def choice(self, key: str, words: tuple[str, ...], default: str) -> str:
        value = self.text(key, default)
        if value not in words:
            raise self.wrong(key, f"it is {value!r}", f"write one of {', '.join(words)}")
        return value

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        values = self._get(key, (list, tuple), "a list of texts", default)
        if not all(isinstance(one, str) and "\0" not in one for one in values):
            raise self.wrong(key, "it has something that is no text", "write a list of texts in quotes")
        return tuple(values)

    def pairs(self, key: str, default: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        if key not in self.data:
            return default
        table = self.table(key)
        return tuple((name, table.text(name, "")) for name in table.data)
