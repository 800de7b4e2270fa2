"""``hub.yaml``: what is wrong is named with file, line and remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.hub_config import HubConfig, Limits, Reviewer, parse_config
from cn.values.errors import EXIT_CONFIG, ConfigError
from cn.values.names import HubPath, parse_name
from cn.values.yaml import load_yaml

NAMES = (
    st.text("abz019_-", max_size=39)
    .map(lambda n: "a" + n)
    .filter(lambda name: name not in ("head", "refs", "heads", "cn", "done"))
)
LOCAL = ("logs/input", "logs/output", "state/conversation.json")


@st.composite
def configs(draw: st.DrawFn) -> HubConfig:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    return HubConfig(
        name=parse_name(names[0]),
        main=draw(st.sampled_from(["main", "trunk", "release/1.0", "no", "1"])),
        interface=draw(st.sampled_from(["triage", "queue"])),
        reviewers=tuple(Reviewer(parse_name(n), draw(st.sampled_from(["", "a@example.org"]))) for n in names[1:]),
        mailbox=draw(st.sampled_from(["", "post", "off"])),
        mailbox_trusted=draw(st.booleans()),
        local=tuple(HubPath(p) for p in draw(st.lists(st.sampled_from(LOCAL), max_size=2))),
        explicit_approval=draw(st.booleans()),
        rebase=draw(st.sampled_from(["when-needed", "always"])),
        signed=draw(st.sampled_from(["optional", "required"])),
        notice_days=draw(st.integers(1, 3650)),
        lock_wait=draw(st.floats(0, 3600)),
        limits=Limits(
            peer_seconds=draw(st.floats(1, 3600)),
            thread_bytes=draw(st.integers(1024, 1 << 20)),
            hops=draw(st.integers(0, 100)),
        ),
    )


def dump(config: HubConfig) -> str:
    """The file a person would write for a configuration."""
    data: dict[str, Any] = {
        "name": str(config.name),
        "main": config.main,
        "interface": config.interface,
        "reviewers": [{"name": str(r.name),
        **({"email": r.email} if r.email else {})} for r in config.reviewers],
        "mailbox": config.mailbox,
        "mailbox_trusted": config.mailbox_trusted,
        "local": [str(p) for p in config.local],
        "merge": {"explicit_approval": config.explicit_approval, "rebase": config.rebase, "signed": config.signed},
        "notice_days": config.notice_days,
        "lock_wait": config.lock_wait,
        "limits": {
            "peer_seconds": config.limits.peer_seconds,
            "thread_bytes": config.limits.thread_bytes,
            "hops": config.limits.hops,
        },
    }  # fmt: skip
    return str(yaml.safe_dump(data, allow_unicode=True))


@given(configs())
def test_a_configuration_is_read_as_it_is_written(config: HubConfig) -> None:
    assert parse_config(dump(config)) == config
    assert parse_config(dump(config).replace("\n", "\r\n")) == config


def test_a_name_is_enough() -> None:
    config = parse_config("name: sigma\n")
    assert config == HubConfig(parse_name("sigma"))
    assert config.is_actor("sigma")
    assert not config.is_actor("pi")


def test_reviewers_may_be_plain_names() -> None:
    config = parse_config("name: sigma\nreviewers: [alice, {name: bob, email: b@example.org}]\n")
    assert config.reviewers == (Reviewer(parse_name("alice")), Reviewer(parse_name("bob"), "b@example.org"))
    assert config.is_actor("alice")
    assert config.is_actor("bob")


@pytest.mark.parametrize(
    "name", ["no", "yes", "on", "null", "true", "123", "007", "0x1f", "1_000", "1e3", "2026-02-05"]
)
def test_a_name_is_what_is_written(name: str) -> None:
    """YAML would read False, 83, 31, 1000 or a date."""
    assert parse_config(f"name: {name}\n").name == name
    assert parse_config(f"name: sigma\nreviewers:\n- name: {name}\n").reviewers[0].name == name


WRONG = [
    ("", 1, "the key 'name' is missing"),
    ("[]", 1, "it must hold keys"),
    ("sigma", 1, "it must hold keys"),
    ("main: main", 1, "the key 'name' is missing"),
    ("name:", 1, "name '' is not valid"),
    ("\n\nname: Sigma", 3, "'Sigma' is not valid"),
    ("name: [sigma]", 1, "must be text"),
    ("name: sigma\nname: pi", 2, "name is given twice"),
    ("name: sigma\nlimits:\n  hops: 1\n  hops: 2", 4, "hops is given twice"),
    ("name: sigma\nwake: sh -c x", 2, "unknown key 'wake'"),
    ("name: sigma\n1: x", 2, "a key must be text"),
    ("name: sigma\nno: x", 2, "a key must be text"),
    ("name: sigma\n? [a]\n: x", 2, "a key must be text"),
    ("name: sigma\ninterface: mail", 2, "interface: it is one of triage, queue"),
    ("name: sigma\ninterface: no", 2, "interface: it must be text"),
    ("name: sigma\nmain: 1.0", 2, "main: it must be text"),
    ("name: sigma\nmain: ''", 2, "no branch name"),
    ("name: sigma\nmain: -x", 2, "no branch name"),
    ("name: sigma\nmain: a..b", 2, "no branch name"),
    ('name: sigma\nmain: "a\\nb"', 2, "no branch name"),
    ("name: sigma\nmain: x.lock", 2, "no branch name"),
    ("name: sigma\nmain: a//b", 2, "no branch name"),
    ("name: sigma\nmailbox: --all", 2, "name of a git remote"),
    ("name: sigma\nmailbox: git://host/box.git", 2, "'git remote add mailbox URL' adds one"),
    ("name: sigma\nmailbox: /srv/box.git", 2, "and no URL"),
    ("name: sigma\nmailbox_trusted: 1", 2, "mailbox_trusted: it is true or false"),
    ("name: sigma\nmailbox_trusted: 'yes'", 2, "mailbox_trusted: it is true or false"),
    ("name: sigma\nreviewers: alice", 2, "reviewers: it is a list"),
    ("name: sigma\nreviewers:\n- 1", 3, "a reviewer is a name"),
    ("name: sigma\nreviewers:\n- {name: a, key: b}", 3, "a reviewer is a name"),
    ("name: sigma\nreviewers:\n- {email: b}", 3, "a reviewer is a name"),
    ("name: sigma\nreviewers:\n- {name: a, email: 1}", 3, "reviewers.0.email: it must be text"),
    ("name: sigma\nreviewers: [Alice]", 2, "'Alice' is not valid"),
    ("name: sigma\nreviewers: [a, a]", 2, "listed twice"),
    ("name: sigma\nreviewers: [sigma]", 2, "the hub's own"),
    ("name: sigma\nlocal: logs", 2, "local: it is a list"),
    ("name: sigma\nlocal: [../x]", 2, "'../x' cannot stay local"),
    ("name: sigma\nlocal: [/etc]", 2, "'/etc' cannot stay local"),
    ("name: sigma\nlocal: [state/ledger]", 2, "'state/ledger' cannot stay local"),
    ("name: sigma\nlocal: [1]", 2, "must be text"),
    ("name: sigma\nlocal: [.git/hooks]", 2, "cannot stay local"),
    ("name: sigma\nmerge: true", 2, "merge: it holds keys of its own"),
    ("name: sigma\nmerge: {squash: true}", 2, "unknown key 'merge.squash'; known: explicit_approval, rebase, signed"),
    ("name: sigma\nmerge: {explicit_approval: 'no'}", 2, "true or false"),
    ("name: sigma\nlimits: [1]", 2, "limits: it holds keys"),
    ("name: sigma\nlimits:\n  speed: 1", 3, "unknown key 'limits.speed'"),
    ("name: sigma\nlimits:\n  hops: -1", 3, "between 0 and 100"),
    ("name: sigma\nnotice_days: 0", 2, "between 1 and 3650"),
    ("name: sigma\nnotice_days: x", 2, "must be a number"),
    ("name: sigma\nnotice_days: true", 2, "must be a number"),
    ("name: sigma\nnotice_days: 1.5", 2, "must be a whole number"),
    ("name: sigma\nnotice_days: .inf", 2, "between 1 and 3650"),
    ("name: sigma\nnotice_days: .nan", 2, "between 1 and 3650"),
    ("name: sigma\nnotice_days: 1" + "0" * 400, 2, "between 1 and 3650"),
    ("name: sigma\nlock_wait: .nan", 2, "between 0 and 3600"),
    ("name: sigma\n\tmain: x", 2, "cannot start any token"),
    ("name: sigma\nmain: [", 2, "expected the node content"),
    ("name: sigma\nmain: 'x", 2, "unexpected end of stream"),
    ("name: sigma\nmain: *x", 2, "undefined alias"),
    ("name: sigma\nmain: !!python/name:os.system x", 2, "could not determine a constructor"),
    ("name: sigma\nmailbox_trusted: !!bool x", 1, "none of its type"),
    ("name: sigma\nnotice_days: !!int ''", 1, "none of its type"),
    ("name: sigma\nmain: a\x07b", 2, "character that YAML does not allow"),
    ("name: sigma\n<<: {main: x}", 2, "could not determine a constructor"),
    ("---\nname: sigma\n---\nname: pi", 3, "but found another document"),
    ("x" + "[" * 1000, 1, ""),
    ("name: " + "[" * 1000, 1, ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "what"), WRONG, ids=lambda v: ascii(v)[-40:])
def test_what_is_wrong_is_named(text: str, line: int, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    found = re.match(r"\.cn/hub\.yaml:([0-9]+): (.+)", caught.value.text, re.S)
    assert found, caught.value.text
    assert what in found[2]
    assert int(found[1]) == line or (what == "" and int(found[1]) >= 1)
    assert caught.value.hint == "correct .cn/hub.yaml and commit it"
    assert caught.value.exit_code == EXIT_CONFIG


@pytest.mark.parametrize("key", ["name", "main", "local", "reviewers", "limits", "notice_days", "merge", "x"])
def test_a_billion_laughs_are_not_expanded(key: str) -> None:
    """Thirty billion words fit into no machine."""
    levels = "".join(f"- &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    text = f"local:\n- &a0 [x]\n{levels}{'name: sigma' if key != 'name' else ''}\n{key}: *a11\n"
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    assert len(caught.value.text) < 300


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_is_a_configuration_or_refused(text: str) -> None:
    for whole in (text, f"name: sigma\n{text}", f"name: sigma\nmain: {text}"):
        try:
            parse_config(whole)
        except ConfigError as error:
            found = error.text, error.hint
        else:
            continue
        assert found[0].startswith(".cn/hub.yaml:")
        assert found[1]


def test_other_files_are_named_as_they_are_called() -> None:
    with pytest.raises(ConfigError, match=r"state/x\.md:2: a is given twice"):
        load_yaml("a: 1\na: 2", "state/x.md")
