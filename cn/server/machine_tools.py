"""What this machine has for the server: where it listens, other servers behind it, and their secrets.

``agency.toml`` stands in ``$XDG_CONFIG_HOME/cn`` or where ``git config cn.agency`` says, so that no push can add a
command. Its tables ``server``, ``servers`` and ``secrets`` are read here; the others are about agents.
"""

from __future__ import annotations

import os
import pwd
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cn.agents.machine import UNREAD, kind_of
from cn.system.owners import read_own
from cn.values.errors import ConfigError
from cn.values.names import is_name

_MOST = 1 << 20


class Secret(NamedTuple):
    """Where a secret is taken from, once: ``command`` (argv), ``env`` (a variable), or ``file`` (``%d``: systemd's
    credentials folder).
    """

    name: str
    command: tuple[str, ...] = ()
    env: str = ""
    file: str = ""


class OtherServer(NamedTuple):
    """A server of the Model Context Protocol: started (``argv``) or reached (``url``).

    ``env`` and ``headers`` are texts in which ``{secret:NAME}`` stands for a secret. ``direct``: it runs beside the
    agent, and is written into its settings.
    """

    name: str
    argv: tuple[str, ...] = ()
    url: str = ""
    env: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    direct: bool = False
    seconds: float = 60.0


@dataclass(frozen=True)
class Settings:
    """``port`` 0: a free one. ``url`` is how agents elsewhere reach it, ``hosts`` and ``origins`` what they may say;
    ``users`` are ids of other users whose agents may come to the socket.
    """

    path: Path
    port: int = 0
    url: str = ""
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    users: tuple[int, ...] = ()
    servers: tuple[OtherServer, ...] = ()
    secrets: tuple[Secret, ...] = ()


def settings_path(told: str, env: Mapping[str, str] = os.environ) -> Path:
    """Where ``agency.toml`` is; ``told`` is what git's configuration says (``cn.agency``)."""
    if told:
        return Path(told).expanduser()
    return Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/")) / ".config") / "cn/agency.toml"


def read_settings(path: Path) -> Settings:
    """The file; all defaults where there is none. Raises :class:`ConfigError` with file, key and remedy."""
    data = read_own(path, _MOST, UNREAD)
    if data is None:
        return Settings(path)
    try:
        top = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as why:
        raise ConfigError(f"{path}: {why}", "correct the file") from None
    return _settings(path, _Table(str(path), "", top))


def _settings(path: Path, top: _Table) -> Settings:
    table = top.table("server")
    table.known("port", "url", "hosts", "origins", "users")
    secrets = tuple(_secret(name, one) for name, one in top.table("secrets").tables())
    servers = tuple(_server(name, one) for name, one in top.table("servers").tables())
    named = {one.name for one in secrets}
    for server in servers:
        for wanted in secrets_of(server):
            if wanted not in named:
                raise ConfigError(f"{path}: servers.{server.name} wants the secret {wanted!r}", "name it in [secrets]")
    return Settings(
        path,
        table.port("port"),
        table.text("url"),
        table.texts("hosts"),
        table.texts("origins"),
        tuple(_user_id(table, one) for one in table.texts("users")),
        servers,
        secrets,
    )


def _user_id(table: _Table, name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise table.wrong("users", f"there is no user {name!r}", "name one of this machine") from None


def _secret(name: str, table: _Table) -> Secret:
    table.known("command", "env", "file")
    found = Secret(name, table.texts("command"), table.text("env"), table.text("file"))
    if sum(map(bool, found[1:])) != 1:
        raise table.wrong("", "one of command, env and file is needed", "give exactly one of them")
    return found


def _server(name: str, table: _Table) -> OtherServer:
    table.known("argv", "url", "env", "headers", "cwd", "direct", "seconds")
    found = OtherServer(
        name,
        table.texts("argv"),
        table.text("url"),
        table.pairs("env"),
        table.pairs("headers"),
        table.text("cwd"),
        table.flag("direct"),
        table.number("seconds", OtherServer._field_defaults["seconds"]),
    )
    if bool(found.argv) is bool(found.url):
        raise table.wrong("", "one of argv and url is needed", "give exactly one of them")
    if found.direct and secrets_of(found):
        remedy = "put it behind the server (direct = false), or take its secret out"
        raise table.wrong("direct", "what runs beside an agent shows it everything it knows", remedy)
    return found


def secrets_of(server: OtherServer) -> tuple[str, ...]:
    """The names of the secrets that a server's settings have."""
    texts = [text for _, text in (*server.env, *server.headers)]
    return tuple(part.partition("}")[0] for text in texts for part in text.split("{secret:")[1:])


class _Table:
    """A table of the file, whose errors name the place."""

    def __init__(self, path: str, where: str, data: Mapping[str, Any]) -> None:
        self._path, self._where, self._data = path, where, data

    def wrong(self, key: str, what: str, remedy: str) -> ConfigError:
        """What is wrong with a key."""
        return ConfigError(f"{self._path}: {f'{self._where}{key}'.rstrip('.')}: {what}", remedy)

    def known(self, *names: str) -> None:
        """Raise for a key that is none of these."""
        if unknown := next((key for key in self._data if key not in names), None):
            raise self.wrong(unknown, "it is not known", f"known are {', '.join(sorted(names))}")

    def _get(self, key: str, kind: type | tuple[type, ...], words: str, default: Any) -> Any:
        value = self._data.get(key, default)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"it is {kind_of(value)}", f"write {words}")
        return value

    def table(self, key: str) -> _Table:
        """A table below."""
        return _Table(self._path, f"{self._where}{key}.", self._get(key, dict, "a table", {}))

    def tables(self) -> list[tuple[str, _Table]]:
        """All tables below, by their names."""
        for name in self._data:
            if not is_name(name) or "__" in name:
                raise self.wrong(name, f"{name!r} is no name", "use lower-case letters, digits and dashes")
        return [(name, self.table(name)) for name in self._data]

    def text(self, key: str) -> str:
        """A text."""
        return str(self._get(key, str, "a text in quotes", ""))

    def flag(self, key: str) -> bool:
        """True or false."""
        return bool(self._get(key, bool, "true or false", False))

    def port(self, key: str) -> int:
        """A port, 0 for none."""
        value = int(self._get(key, int, "a number", 0))
        if not 0 <= value < 1 << 16:
            raise self.wrong(key, f"it is {value}", "write a number below 65536")
        return value

    def number(self, key: str, default: float) -> float:
        """A number of seconds."""
        value = float(self._get(key, (int, float), "a number", default))
        if not 0 < value < 10**6:
            raise self.wrong(key, f"it is {value:g}", "write a number above 0")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        values = self._get(key, list, "a list of texts", [])
        if not all(isinstance(one, str) and "\0" not in one for one in values):
            raise self.wrong(key, "it has something that is no text", "write a list of texts in quotes")
        return tuple(values)

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """A table of texts."""
        table = self.table(key)
        return tuple((name, table.text(name)) for name in table._data)
