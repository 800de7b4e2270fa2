"""``agent.yaml``: what is wrong is named with file, line, key and remedy; no secret is ever shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.llm.config import (
    ANTHROPIC_ORIGIN,
    TELEGRAM_ORIGIN,
    Bot,
    Budget,
    ContextConfig,
    Daemon,
    Sealed,
    Telegram,
    parse_agent_config,
)
from cn.values.config_reader import is_loopback, parse_origin
from cn.values.errors import EXIT_CONFIG, ConfigError
from tests.examples.test_configuration import AGENT_YAML
from tests.support.hubs import ROOT
from tests.support.runtime import ACCEPTED

SECRET, TOKEN = "sk-ant-Very-Secret_1", "12345:AAbbCC-dd_ee"
ENV = {"ANTHROPIC_KEY": SECRET, "TELEGRAM_TOKEN": TOKEN}


def error(text: str, env: dict[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_agent_config(text, env or {})
    assert caught.value.exit_code == EXIT_CONFIG
    assert caught.value.hint
    return caught.value


def test_a_whole_file_is_read() -> None:
    config = parse_agent_config(AGENT_YAML, ENV)
    assert config.telegram == Telegram(Sealed(TOKEN), (498316684,), enabled=True)
    assert config.require_telegram(ACCEPTED) == Bot(TOKEN, (498316684,), TELEGRAM_ORIGIN)
    assert config.llm.api_key.open(ACCEPTED) == SECRET
    assert config.require_llm(ACCEPTED).model == "claude-sonnet-4-latest"
    assert (config.llm.provider, config.llm.max_tokens) == ("anthropic", 8192)
    assert (config.context, config.daemon, config.log_level) == (ContextConfig(), Daemon(), "info")
    assert (config.warnings, config.missing) == ((), ())
    assert parse_agent_config(AGENT_YAML.replace("\n", "\r\n"), ENV) == config


def test_the_template_is_read_and_needs_no_telegram() -> None:
    text = (ROOT / "hub-template/.cn/agent.yaml").read_text("utf-8")
    config = parse_agent_config(text, {"ANTHROPIC_KEY": SECRET})
    assert config.require_llm(ACCEPTED).api_key == SECRET
    assert not config.telegram.enabled
    shown = parse_agent_config(re.sub(r"^# ?(?=[a-z ]+:|  +)", "", text, flags=re.M), ENV)
    assert shown.telegram.allowed_users == (498316684,)
    assert shown.budgets.of("pi") == Budget(tokens_per_day=500000)


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "llm:\ntelegram:\n"])
def test_nothing_is_all_defaults_until_something_is_needed(text: str) -> None:
    config = parse_agent_config(text, {})
    assert (config.context, config.daemon, config.llm.base_url) == (ContextConfig(), Daemon(), ANTHROPIC_ORIGIN)
    for require in (config.require_llm, config.require_telegram):
        with pytest.raises(ConfigError) as caught:
            require(ACCEPTED)
        assert caught.value.exit_code == EXIT_CONFIG
        assert re.match(r"\.cn/agent\.yaml:\d+: (llm|telegram)\.\w+: ", caught.value.text)
        assert caught.value.hint


@pytest.mark.parametrize("name", ["ANTHROPIC_KEY", "ANTHROPIC_API_KEY"])
@pytest.mark.parametrize("text", ["", "llm:\n  api_key: ${ANTHROPIC_KEY}\n", "llm: {api_key: '${ANTHROPIC_API_KEY}'}"])
def test_either_name_of_the_key_will_do(name: str, text: str) -> None:
    assert parse_agent_config(text, {name: f" {SECRET}\n"}).llm.api_key.open(ACCEPTED) == SECRET


def test_a_missing_variable_is_named_with_file_line_key_and_remedy() -> None:
    config = parse_agent_config(AGENT_YAML, {"ANTHROPIC_KEY": ""})
    with pytest.raises(ConfigError) as caught:
        config.require_llm(ACCEPTED)
    assert caught.value.text == (
        ".cn/agent.yaml:9: llm.api_key: the environment has no ANTHROPIC_KEY or ANTHROPIC_API_KEY"
    )
    assert caught.value.hint == "set ANTHROPIC_KEY or ANTHROPIC_API_KEY in the environment"
    with pytest.raises(ConfigError, match=re.escape(".cn/agent.yaml:2: telegram.token: the environment has no")):
        config.require_telegram(ACCEPTED)


def test_a_variable_that_any_run_needs_is_missed_at_once() -> None:
    assert (
        error("context:\n  max_skills: ${N}\n").text == ".cn/agent.yaml:2: context.max_skills: the environment has no N"
    )
    assert parse_agent_config("telegram:\n  allowed_users: ['${ME}']\n", {}).telegram.allowed_users == ()


def test_values_are_expanded_and_typed() -> None:
    text = """\
telegram:
  allowed_users: ["${ME}", 7, 7]
  base_url: ${BOT:-http://127.0.0.1:8081}
llm:
  model: claude-${SIZE}-4
  max_tokens: ${MAX:-100}
context:
  weekly_thread: ${WEEKLY}
daemon:
  poll_interval: ${EVERY}
"""
    config = parse_agent_config(text, {"ME": "42", "SIZE": "opus", "WEEKLY": "False", "EVERY": "0.5"})
    assert config.telegram.allowed_users == (42, 7)
    assert config.telegram.base_url == "http://127.0.0.1:8081"
    assert (config.llm.model, config.llm.max_tokens) == ("claude-opus-4", 100)
    assert not config.context.weekly_thread
    assert config.daemon.poll_interval == 0.5


def test_what_a_variable_holds_is_a_value_and_adds_no_key() -> None:
    evil = "x'\nlogging:\n  level: debug\n# ${ANTHROPIC_KEY}"
    found = error("logging:\n  level: ${LEVEL}\n", {"LEVEL": evil, **ENV})
    assert evil not in found.text
    # A variable's own '${…}' is not expanded again.
    config = parse_agent_config("llm:\n  api_key: ${K}\n", {"K": "${ANTHROPIC_KEY}", **ENV})
    assert config.llm.api_key.open(ACCEPTED) == "${ANTHROPIC_KEY}"


def test_the_environment_says_what_the_file_does_not() -> None:
    env = {**ENV, "ANTHROPIC_BASE_URL": "http://localhost:1/", "TELEGRAM_BASE_URL": "http://[::1]:2"}
    config = parse_agent_config("", env)
    assert (config.llm.base_url, config.telegram.base_url) == ("http://localhost:1", "http://[::1]:2")
    assert (config.llm.api_key, config.telegram.token, config.telegram.enabled) == (Sealed(SECRET), Sealed(TOKEN), True)
    given_ = parse_agent_config("llm:\n  base_url: https://a.example\n", env)
    assert given_.llm.base_url == "https://a.example"
    found = error("", {"TELEGRAM_BASE_URL": "http://u:hush@h/"})
    assert found.text == "the environment's TELEGRAM_BASE_URL is no origin such as https://host:8443"


@pytest.mark.parametrize("text", [
    f"llm:\n  api_key: {SECRET}\n",
    f"llm:\n  api_key: ${{ANTHROPIC_API_KEY:-{SECRET}}}\n",
    f"telegram:\n  token: {TOKEN}\n",
])  # fmt: skip
def test_a_secret_in_the_file_works_with_a_warning_that_does_not_show_it(text: str) -> None:
    config = parse_agent_config(text, {})
    assert Sealed(SECRET) in (config.llm.api_key, Sealed(SECRET if config.telegram.token == Sealed(TOKEN) else ""))
    (warning,) = config.warnings
    assert warning.startswith(".cn/agent.yaml:2: ")
    assert SECRET not in warning
    assert TOKEN not in warning


def test_a_key_over_plain_http_is_a_warning_but_on_this_machine() -> None:
    text = "llm:\n  api_key: ${K}\n  base_url: http://far.example\n"
    assert "plain http" in parse_agent_config(text, {"K": "x"}).warnings[0]
    assert not parse_agent_config(text.replace("far.example", "127.0.0.1:9"), {"K": "x"}).warnings


@pytest.mark.parametrize("env", [{"ANTHROPIC_KEY": "a\nx-evil: b"}, {"ANTHROPIC_KEY": "a b"}, {"ANTHROPIC_KEY": "é"}])
def test_a_key_that_no_header_can_carry_is_refused_unshown(env: dict[str, str]) -> None:
    assert env["ANTHROPIC_KEY"] not in error("", env).text


def test_no_secret_is_shown() -> None:
    config = parse_agent_config(AGENT_YAML, ENV)
    for shown in (repr(config), str(config), f"{config.llm}", repr(config.telegram)):
        assert SECRET not in shown
        assert TOKEN not in shown


@pytest.mark.parametrize(("text", "line", "problem"), [
    ("- a", 1, "it must hold keys"),
    ("llm:\n  model: [", 2, ""),
    ("llm:\n  model: a\n  model: b", 3, "given twice"),
    ("llm:\n  modle: a", 2, "unknown key 'llm.modle'"),
    ("daemon: {poll_timeout: 1, wait: 2}", 1, "unknown key 'daemon.wait'"),
    ("Telegram:\n  token: x", 1, "unknown key 'Telegram'"),
    ("llm: anthropic", 1, "llm: it holds keys of its own"),
    ("llm:\n  provider: openai", 2, "llm.provider: it is one of anthropic"),
    ("llm:\n  model: 4", 2, "llm.model: it must be text"),
    ("llm:\n  model: a b", 2, "llm.model: it does not look like one"),
    ("llm:\n  model: ${M", 2, "is not closed"),
    ("llm:\n  model: ${A:-${B}}", 2, "is not closed"),
    ("llm:\n  max_tokens: '8'", 2, "llm.max_tokens must be a number"),
    ("llm:\n  max_tokens: 0", 2, "must lie between"),
    ("llm:\n  max_tokens: 1.5", 2, "whole number"),
    ("llm:\n  max_tokens: .nan", 2, "must lie between"),
    ("llm:\n  api_key: 7", 2, "llm.api_key: it must be text"),
    ("telegram:\n  allowed_users: 7", 2, "telegram.allowed_users: it is a list"),
    ("telegram:\n  allowed_users:\n    - 7\n    - x", 4, "telegram.allowed_users.1 must be a number"),
    ("telegram:\n  allowed_users: [true]", 2, "must be a number"),
    ("telegram:\n  allowed_users: [0]", 2, "must lie between"),
    ("llm:\n  base_url: x\ntelegram:\n  base_url: https://a", 2, "llm.base_url is no origin"),
    ("llm:\n  base_url: https://a\ntelegram:\n  base_url: ftp://a", 4, "telegram.base_url is no origin"),
    ("context:\n  weekly_thread: 1", 2, "context.weekly_thread: it is true or false"),
    ("context:\n  daily_threads: -1", 2, "must lie between"),
    ("daemon:\n  poll_interval: true", 2, "must be a number"),
    ("daemon:\n  poll_timeout: 51", 2, "must lie between 0 and 50"),
    ("logging:\n  level: loud", 2, "logging.level: it is one of debug"),
    ("budgets:\n  tokens_per_day: none", 2, "must be a number"),
    ("budgets:\n  per_peer: 5", 2, "holds keys of its own"),
    ("budgets:\n  per_peer:\n    pi:\n      turns: 5", 4, "unknown key 'budgets.per_peer.pi.turns'"),
    ("budgets:\n  per_peer:\n    pi: 5", 3, "per_peer holds tokens_per_day, turns_per_hour, and senders"),
    ("budgets:\n  turns_per_hour: 9\n  per_peer:\n    turns_per_hour: -5", 4, "must lie between"),
])  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, problem: str) -> None:
    found = error(text)
    assert found.text.startswith(f".cn/agent.yaml:{line}: "), found.text
    assert problem in found.text
    assert found.hint


def test_an_alias_that_holds_itself_is_refused() -> None:
    assert error("llm: &a\n  model: *a\n").text
    assert error("x: &a [*a]\n").text


def test_budgets_fall_from_the_name_to_each_sender() -> None:
    text = """\
budgets:
  tokens_per_day: 1000
  turns_per_hour: unlimited
  per_peer:
    turns_per_hour: 30
    pi:
      tokens_per_day: 0
    telegram:
      turns_per_hour: 60
    telegram:42: {}
"""
    budgets = parse_agent_config(text, {}).budgets
    assert budgets.total == Budget(1000, None)
    assert budgets.of("omega") == Budget(None, 30)
    assert budgets.of("pi") == Budget(0, None)
    assert budgets.of("telegram:1") == Budget(None, 60)
    assert budgets.of("telegram:42") == Budget()
    assert parse_agent_config("", {}).budgets.of("pi") == Budget()


@pytest.mark.parametrize(("text", "origin"), [
    ("https://api.anthropic.com", "https://api.anthropic.com"),
    ("https://API.example.org/", "https://api.example.org"),
    ("HTTP://localhost:80", "http://localhost:80"),
    ("http://[::1]:8080", "http://[::1]:8080"),
    *((text, None) for text in (
        "", "localhost:80", "https://", "ftp://a", "file:///etc", "https://u@a", "https://u:p@a", "https://a/v1",
        "https://a?x", "https://a?", "https://a#x", "https://a:b", "https://a:99999", "https://a b",
        "https://a\n", "https://а.example", "https://-a", "https://a\\b", "https://@a",
    )),
])  # fmt: skip
def test_an_origin_is_scheme_and_host_only(text: str, origin: str | None) -> None:
    assert parse_origin(text) == origin


@given(st.text(max_size=30).map(lambda t: f"http://{t}") | st.text(max_size=30))
def test_an_origin_is_itself_an_origin(text: str) -> None:
    origin = parse_origin(text)
    assert origin is None or parse_origin(origin) == origin


def test_this_machine_is_known() -> None:
    here = ("127.0.0.1", "[::1]", "localhost")
    assert all(is_loopback(f"http://{host}:1") for host in here)
    assert not any(is_loopback(f"http://{host}:1") for host in ("127.evil.example", "10.0.0.1"))


@given(st.text(max_size=80))
def test_any_text_is_a_configuration_or_an_error_without_secrets(text: str) -> None:
    try:
        told = repr(parse_agent_config(text, ENV))
    except ConfigError as found:
        told = found.text + found.hint
    assert SECRET not in told
