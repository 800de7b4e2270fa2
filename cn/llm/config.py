"""``.cn/agent.yaml``: the runtime's configuration (``docs/protocol/runtime.md``).

The file is committed and pushed, so secrets stay out of it: ``${VAR}`` takes them from the
environment. A variable that is missing is told when its value is needed, not before: a hub
without Telegram needs no token.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cn.protocol.hub_config import AGENT_PATH
from cn.values.config_reader import Missing, Reader, is_loopback
from cn.values.errors import ConfigError
from cn.values.names import HubPath
from cn.values.text import one_line

if TYPE_CHECKING:
    from cn.values.accepted import Accepted

ANTHROPIC_ORIGIN = "https://api.anthropic.com"
TELEGRAM_ORIGIN = "https://api.telegram.org"
API_KEY_VARIABLES = ("ANTHROPIC_KEY", "ANTHROPIC_API_KEY")
"""Either name will do, in the file too."""
TOKEN_VARIABLE = "TELEGRAM_TOKEN"  # noqa: S105  the name of a variable
LEVELS = ("debug", "info", "warning", "error")
UNLIMITED = "unlimited"


class Sealed:
    """A key or a token. Whether there is one, everybody may know; what it is, only who shows that the configuration
    is accepted which says where it goes. So no command sends one to an address that somebody pushed.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sealed) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Sealed(…)" if self else "Sealed()"

    def open(self, accepted: Accepted) -> str:
        """What it is; ``accepted`` is what :func:`cn.run.view.require_accepted` gives, and nobody else."""
        return self._value


@dataclass(frozen=True)
class Bot:
    """The bot as it is used: the token opened, whom it hears, and where Telegram is."""

    token: str = field(repr=False)
    allowed_users: tuple[int, ...]
    base_url: str


@dataclass(frozen=True)
class Model:
    """The model as it is asked: its id, the key opened, and where it is."""

    model: str
    api_key: str = field(repr=False)
    base_url: str


@dataclass(frozen=True)
class Telegram:
    """The bot. ``allowed_users`` are user ids; empty: nobody. ``base_url`` is an origin.

    ``enabled``: the file has the section, or the environment a token.
    """

    token: Sealed = field(default_factory=Sealed)
    allowed_users: tuple[int, ...] = ()
    base_url: str = TELEGRAM_ORIGIN
    enabled: bool = False


@dataclass(frozen=True)
class Llm:
    """The model. ``max_tokens`` of one answer; ``base_url`` is an origin."""

    provider: str = "anthropic"
    model: str = ""
    api_key: Sealed = field(default_factory=Sealed)
    max_tokens: int = 8192
    base_url: str = ANTHROPIC_ORIGIN


@dataclass(frozen=True)
class ContextConfig:
    """How much is packed: the last so many reflections, skills, messages of the conversation."""

    daily_threads: int = 3
    weekly_thread: bool = True
    max_skills: int = 3
    conversation_limit: int = 10


@dataclass(frozen=True)
class Daemon:
    """Seconds between polls, and seconds that one poll waits at Telegram (0: not at all)."""

    poll_interval: float = 1.0
    poll_timeout: int = 30


@dataclass(frozen=True)
class Budget:
    """Limits; None is no limit, 0 allows nothing.

    ``tokens_per_day`` counts input, cached or not, and output of a UTC day, ``turns_per_hour`` the
    calls of the last 60 minutes, failed ones too: a loop that fails is a loop.
    """

    tokens_per_day: int | None = None
    turns_per_hour: int | None = None


@dataclass(frozen=True)
class Budgets:
    """The hub's budget in all, and that of every single sender, some by name.

    A sender is what an item says in ``from``: a peer, the hub itself, ``telegram:<chat>``.
    """

    total: Budget = Budget()
    each: Budget = Budget()
    named: tuple[tuple[str, Budget], ...] = ()

    def of(self, sender: str) -> Budget:
        """The budget of one sender: its own, ``telegram`` for a chat without one, else that of each."""
        named = dict(self.named)
        return named.get(sender) or named.get(sender.partition(":")[0]) or self.each


@dataclass(frozen=True)
class AgentConfig:
    """The parsed file. Its repr shows no secret. ``warnings`` are one line each.

    ``missing`` are values of ``llm`` and ``telegram`` that nothing gives; the default stands
    in their place, and ``require_…`` raises :class:`ConfigError` (exit 3) for them.
    ``path`` is what errors name.
    """

    telegram: Telegram = Telegram()
    llm: Llm = Llm()
    context: ContextConfig = ContextConfig()
    daemon: Daemon = Daemon()
    log_level: str = "info"
    budgets: Budgets = field(default_factory=Budgets)
    warnings: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    path: str = AGENT_PATH

    def with_model(self, model: str) -> AgentConfig:
        """The same with another model; raises :class:`ConfigError` for what cannot be the id of one."""
        if not re.fullmatch(_MODEL, model):
            raise ConfigError(f"{one_line(model, 80)!r} cannot be the id of a model", "correct --model")
        missing = tuple(one for one in self.missing if one.key != "llm.model")
        return replace(self, llm=replace(self.llm, model=model), missing=missing, path="--model")

    def require_llm(self, accepted: Accepted) -> Model:
        """All that a call needs."""
        self._require("llm.")
        return Model(self.llm.model, self.llm.api_key.open(accepted), self.llm.base_url)

    def require_telegram(self, accepted: Accepted) -> Bot:
        """All that the bot needs; raises too where there is no bot."""
        self._require("telegram.")
        return Bot(self.telegram.token.open(accepted), self.telegram.allowed_users, self.telegram.base_url)

    def _require(self, prefix: str) -> None:
        for missing in self.missing:
            if missing.key.startswith(prefix):
                raise ConfigError(missing.text, missing.remedy)


_BUDGET = {"tokens_per_day": (int, 0, 10**12), "turns_per_hour": (int, 0, 10**6)}
_KEYS = {
    "telegram": ("token", "allowed_users", "base_url"),
    "llm": ("provider", "model", "api_key", "max_tokens", "base_url"),
    "context": ("daily_threads", "weekly_thread", "max_skills", "conversation_limit"),
    "daemon": ("poll_interval", "poll_timeout"),
    "logging": ("level",),
    "budgets": (*_BUDGET, "per_peer"),
}
_MODEL = r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}"


def parse_agent_config(text: str, env: Mapping[str, str], path: str = AGENT_PATH) -> AgentConfig:
    """Read the file; raises :class:`ConfigError` with file, line, key and remedy.

    An empty text is all defaults.
    ``env`` fills ``${VAR}`` and gives ``ANTHROPIC_KEY`` (or ``ANTHROPIC_API_KEY``),
    ``TELEGRAM_TOKEN``, ``ANTHROPIC_BASE_URL`` and ``TELEGRAM_BASE_URL`` where the file says
    nothing. A variable that is empty counts as missing. ``path`` is what errors name.
    """
    config = _parse(text, env, path)
    for missing in config.missing:
        if not missing.key.startswith(("llm.", "telegram.")):  # these are needed whatever runs
            raise ConfigError(missing.text, missing.remedy)
    return config


def check_agent_config(data: bytes) -> None:
    """Raise :class:`ConfigError` where the file itself is broken, whatever an environment lacks."""
    _parse(decode_agent_config(data), {}, AGENT_PATH)


def decode_agent_config(data: bytes, path: str = AGENT_PATH) -> str:
    """The file as text; raises :class:`ConfigError`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: it is not UTF-8", "save it as UTF-8") from None


def _parse(text: str, env: Mapping[str, str], path: str) -> AgentConfig:
    top = Reader.load(text, path, env, aliases=API_KEY_VARIABLES)
    top.known(_KEYS)
    sections = {name: top.section(name) for name in _KEYS}
    for name, section in sections.items():
        if name != "budgets":
            section.known(_KEYS[name])
    return AgentConfig(
        _telegram(sections["telegram"], present="telegram" in top.data),
        _llm(sections["llm"]),
        _context(sections["context"]),
        Daemon(
            sections["daemon"].number("poll_interval", (float, 0, 3600), Daemon.poll_interval),
            # Telegram itself waits no longer than 50 seconds (Bot API, getUpdates).
            sections["daemon"].number("poll_timeout", (int, 0, 50), Daemon.poll_timeout),
        ),
        sections["logging"].choice("level", LEVELS, "info"),
        _budgets(sections["budgets"]),
        tuple(top.warnings),
        tuple(top.missing),
        path,
    )


def _telegram(section: Reader, *, present: bool) -> Telegram:
    token = section.secret("token", (TOKEN_VARIABLE,))
    listed = section.items("allowed_users")
    users = [listed.number(key, (int, 1, 1 << 53), None) for key in listed.data]
    url = section.origin("base_url", "TELEGRAM_BASE_URL", TELEGRAM_ORIGIN)
    if token and url.startswith("http://") and not is_loopback(url):
        section.warn("base_url", "the token goes over plain http", "use https")
    return Telegram(Sealed(token), tuple(dict.fromkeys(u for u in users if u)), url, present or bool(token))


def _llm(section: Reader) -> Llm:
    provider = section.choice("provider", ("anthropic",), "anthropic")
    model = section.text("model", "", _MODEL)
    if "model" not in section.data:
        section.lacks("model", "it is not given", "add 'model: …' under 'llm:'")
    key = section.secret("api_key", API_KEY_VARIABLES)
    url = section.origin("base_url", "ANTHROPIC_BASE_URL", ANTHROPIC_ORIGIN)
    if key and url.startswith("http://") and not is_loopback(url):
        section.warn("base_url", "the API key goes over plain http", "use https")
    return Llm(provider, model, Sealed(key), section.number("max_tokens", (int, 1, 10**6), Llm.max_tokens), url)


def _context(section: Reader) -> ContextConfig:
    return ContextConfig(
        section.number("daily_threads", (int, 0, 100), ContextConfig.daily_threads),
        section.flag("weekly_thread", default=True),
        section.number("max_skills", (int, 0, 50), ContextConfig.max_skills),
        section.number("conversation_limit", (int, 0, 200), ContextConfig.conversation_limit),
    )


def _budgets(section: Reader) -> Budgets:
    section.known(_KEYS["budgets"])
    per_peer = section.section("per_peer")
    named = []
    for name in per_peer.data:
        if name not in _BUDGET:
            one = per_peer.section(name, where="per_peer holds tokens_per_day, turns_per_hour, and senders")
            one.known(_BUDGET)
            named.append((name, _budget(one)))
    return Budgets(_budget(section), _budget(per_peer), tuple(sorted(named)))


def _budget(section: Reader) -> Budget:
    values = {key: section.number(key, bounds, None, word=UNLIMITED) for key, bounds in _BUDGET.items()}
    return Budget(**values)


def read_agent_config(
    read: Callable[[HubPath], bytes | None], path: Path | None = None, env: Mapping[str, str] = os.environ
) -> AgentConfig:
    """``agent.yaml`` in main, which ``read`` reads, or the file at ``path``; a hub without one has the defaults."""
    if path is None:
        data, name = read(AGENT_PATH) or b"", str(AGENT_PATH)
    else:
        name = str(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{name} cannot be read: {error.strerror}", "check --config") from None
    return parse_agent_config(decode_agent_config(data, name), env, name)
