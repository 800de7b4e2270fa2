"""``state/peers.md``: prose for people, one YAML list for cn; each keeps its own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.protocol.hub_config import HubConfig, Reviewer
from cn.protocol.peers_file import (
    Peer,
    add_peer,
    check_names,
    format_peer,
    parse_key,
    parse_peers,
    parse_whole_key,
    remove_peer,
)
from cn.values.errors import ConfigError
from cn.values.names import NameRefused, Url, parse_name, parse_url
from cn.values.text import one_line

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGp0YmFy"
WHOLE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
PI = Peer(parse_name("pi"), parse_url("https://git.example.org/pi/hub.git"))
OMEGA = Peer(parse_name("omega"), parse_url("git@host:omega/hub.git"), "person", "2026-02-05", KEY, "pickup", True)
ODD_NAMES = ["no", "yes", "on", "null", "true", "123", "007", "0x1f", "1_000", "2026-02-05", "y"]


def url_ok(text: str) -> bool:
    try:
        parse_url(text)
    except NameRefused:
        return False
    return True


NAMES = st.one_of(st.sampled_from(ODD_NAMES), st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}",
fullmatch=True)).filter(
    lambda name: name not in ("head", "refs", "heads", "cn", "done")
)  # fmt: skip
ANY = st.text(st.characters(exclude_categories=()), max_size=30)
PEERS = st.builds(
    Peer,
    NAMES.map(parse_name),
    st.one_of(st.text("abc/:.'\"\\#é😀- {}[]&*!|>%@`", min_size=1, max_size=20), ANY).filter(url_ok).map(Url),
    ANY.map(one_line).map(lambda text: text or "agent"),
    ANY.map(one_line),
    st.sampled_from(["", KEY]),
    st.sampled_from(["mailbox", "pickup"]),
    st.booleans(),
)
PROSE = st.lists(
    st.sampled_from(["# Peers", "", "Some prose.", "- a list", "> quoted", "    code", "```sh\nls\n```", "|a|"])
)
"""Text around the block. (A fence of another language is prose as well.)"""


@settings(max_examples=30)
@given(st.lists(PEERS, unique_by=lambda p: p.name, max_size=3), PROSE, PROSE)
def test_a_list_is_read_as_it_is_written(peers: list[Peer], before: list[str], after: list[str]) -> None:
    text = "".join(f"{line}\n" for line in before) + "```yaml\n```\n" + "".join(f"{line}\n" for line in after)
    for peer in peers:
        text = add_peer(text, peer)
    assert parse_peers(text) == tuple(peers)
    assert parse_peers(text.replace("\n", "\r\n")) == tuple(peers)


@settings(max_examples=30)
@given(st.lists(PEERS, unique_by=lambda p: p.name, min_size=1, max_size=3), st.data())
def test_what_was_added_is_removed_without_a_trace(peers: list[Peer], data: st.DataObject) -> None:
    last = peers[-1]
    text = "# Peers\n\n```yaml\n# our peers\n```\n\nprose\n"
    for peer in peers[:-1]:
        text = add_peer(text, peer)
    assert remove_peer(add_peer(text, last), last.name) == text
    gone = data.draw(st.sampled_from(peers))
    left = remove_peer(add_peer(text, last), gone.name)
    assert parse_peers(left) == tuple(p for p in peers if p != gone)
    assert left.startswith("# Peers\n\n```yaml\n# our peers\n")
    assert left.endswith("```\n\nprose\n")


@given(PEERS)
def test_no_value_makes_another_line(peer: Peer) -> None:
    lines = format_peer(peer).split("\n")
    assert [line[:2] for line in lines] == ["- ", *["  "] * (len(lines) - 2), ""]
    assert len(format_peer(peer).splitlines()) == len(lines) - 1


COMMENTED = """\
# Peers of sigma

Prose before.

```yaml
# the writers
- name: pi        # she writes
  hub: https://git.example.org/pi/hub.git
  # her key is coming

# the reviewers
- {name: rho, hub: /srv/rho}

- hub: git@host:omega/hub.git
  kind: "a
    folded one"
  name: omega
# the end
```

Prose after, with `code`.
"""


def without(text: str, *lines: str) -> str:
    for line in lines:
        assert text.count(f"{line}\n") == 1
        text = text.replace(f"{line}\n", "")
    return text


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("pi", ["- name: pi        # she writes", "  hub: https://git.example.org/pi/hub.git"]),
        ("rho", ["- {name: rho, hub: /srv/rho}"]),
        ("omega", ["- hub: git@host:omega/hub.git", '  kind: "a', '    folded one"', "  name: omega"]),
    ],
)
def test_only_the_lines_of_the_entry_go(name: str, lines: list[str]) -> None:
    assert remove_peer(COMMENTED, parse_name(name)) == without(COMMENTED, *lines)
    windows = COMMENTED.replace("\n", "\r\n")
    assert remove_peer(windows, parse_name(name)) == without(COMMENTED, *lines).replace("\n", "\r\n")


def test_only_the_lines_of_the_entry_come() -> None:
    added = add_peer(COMMENTED, PI._replace(name=parse_name("tau")))
    assert added == COMMENTED.replace(
        "# the end\n", '# the end\n- name: tau\n  hub: "https://git.example.org/pi/hub.git"\n  kind: "agent"\n'
    )


@pytest.mark.parametrize("empty", ["", "[]\n", "  [ ]  \n", "# none yet\n", "# none yet\n\n[]\n# really\n", "\n\n"])
def test_the_first_peer(empty: str) -> None:
    text = f"# Peers\n\n```yaml\n{empty}```\nprose\n"
    added = add_peer(text, PI)
    assert parse_peers(added) == (PI,)
    for line in empty.split("\n"):
        assert line.strip(" []") in added
    assert parse_peers(remove_peer(added, PI.name)) == ()


@pytest.mark.parametrize("text", ["", "# Peers\n", "# Peers"])
def test_a_file_without_a_block_gets_one(text: str) -> None:
    added = add_peer(text, PI)
    assert added.startswith(text)
    assert parse_peers(text) == ()
    assert parse_peers(add_peer(added, OMEGA)) == (PI, OMEGA)


def test_indented_entries_stay_indented() -> None:
    text = "```yaml\n  - name: pi\n    hub: /srv/pi\n```\n"
    added = add_peer(text, OMEGA)
    assert added.startswith(text[:-4] + "  - name: omega\n    hub: ")
    assert remove_peer(added, OMEGA.name) == text


@pytest.mark.parametrize(
    "block",
    ["[{name: pi, hub: /srv/pi}]\n", "---\n- name: pi\n  hub: /srv/pi\n...\n", "[{name: pi,\n  hub: /srv/pi}]\n"],
)
def test_a_list_written_otherwise_is_read_but_not_edited(block: str) -> None:
    text = f"```yaml\n{block}```\n"
    assert parse_peers(text)[0].hub == "/srv/pi"
    with pytest.raises(ConfigError, match=r"state/peers\.md: cn cannot edit this list") as caught:
        add_peer(text, OMEGA)
    assert "by hand" in caught.value.hint


def test_a_dash_on_its_own_line() -> None:
    text = "```yaml\n- name: rho\n  hub: /srv/rho\n-\n  name: pi\n  hub: /srv/pi\n```\n"
    assert [p.name for p in parse_peers(text)] == ["rho", "pi"]
    with pytest.raises(ConfigError, match="cannot edit"):
        remove_peer(text, PI.name)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_that_yaml_reads_as_something_else(name: str) -> None:
    peer = PI._replace(name=parse_name(name))
    assert parse_peers(add_peer("", peer)) == (peer,)
    assert parse_peers(f"```yaml\n- name: {name}\n  hub: /srv/x\n```\n")[0].name == name


def test_dates_and_numbers_are_taken_as_text() -> None:
    peer = parse_peers("```yml\n- name: pi\n  hub: /srv/pi\n  peered: 2026-02-05\n  kind: 7\n  key:\n```")[0]
    assert (peer.peered, peer.kind, peer.key) == ("2026-02-05", "7", "")


def listed(*lines: str) -> str:
    return "# Peers\n\n```yaml\n" + "".join(f"{line}\n" for line in lines) + "```\n"


GOOD = ("- name: pi", "  hub: /srv/pi")
WRONG = [
    (listed("name: pi"), 4, "no list"),
    (listed("pi"), 4, "no list"),
    (listed("- pi"), 4, "a peer has keys"),
    (listed(*GOOD, "- "), 6, "a peer has keys"),
    (listed(*GOOD, "- hub: /srv/x"), 6, "peer '' is not valid"),
    (listed("- name: pi"), 4, "URL '' is not valid"),
    (listed("- name: Pi", "  hub: /srv/pi"), 4, "'Pi' is not valid"),
    (listed("- name: [pi]", "  hub: /srv/pi"), 4, "name must be text"),
    (listed("- name: pi", "  hub: [/srv/pi]"), 4, "hub must be text"),
    (listed("- name: pi", "  hub: yes"), 4, "hub must be text"),
    (listed("- name: pi", "  hub: ext::sh -c x"), 4, "URL 'ext::sh -c x' is not valid"),
    (listed("- name: pi", "  hub: --upload-pack=x"), 4, "is not valid"),
    (listed(*GOOD, "  url: x"), 4, "unknown key 'url'"),
    (listed(*GOOD, "  hub: /srv/x"), 6, "hub is given twice"),
    (listed(*GOOD, "  deliver: push"), 4, "'mailbox' or 'pickup'"),
    (listed(*GOOD, "  community: maybe"), 4, "community is yes or no"),
    (listed(*GOOD, "  key: AAAA"), 4, "no SSH public key"),
    (listed(*GOOD, "  key: ssh-ed25519"), 4, "no SSH public key"),
    (listed(*GOOD, "  key: ssh-ed25519 A;B"), 4, "no SSH public key"),
    (listed(*GOOD, "", *GOOD), 7, "pi is listed twice"),
    (listed(*GOOD, "\tkind: x"), 6, "cannot start any token"),
    (listed(*GOOD, "  kind: 'x"), 7, "unexpected end of stream"),
    (listed(*GOOD, "  kind: a\x07"), 6, "character that YAML does not allow"),
    (listed(*GOOD, "  kind: !!bool x"), 1, "none of its type"),
    (listed(*GOOD) + "\n" + listed(*GOOD), 10, "a second YAML block"),
    ("# Peers\n\n```yaml\n- name: pi\n", 3, "cannot be read"),
    ("~~~yaml\n- name: pi\n  hub: x\n~~~\n", 1, "cannot be read"),
    ("  ```yaml\n  - name: pi\n    hub: x\n  ```\n", 1, "cannot be read"),
]


@pytest.mark.parametrize(("text", "line", "what"), WRONG, ids=lambda v: ascii(v)[-40:])
def test_what_is_wrong_is_named(text: str, line: int, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_peers(text)
    found = re.match(r"state/peers\.md:([0-9]+): (.+)", caught.value.text, re.S)
    assert found, caught.value.text
    assert what in found[2]
    assert int(found[1]) == line
    assert caught.value.hint


def test_a_billion_laughs_are_not_expanded() -> None:
    """Thirty billion words fit into no machine."""
    levels = [f"- &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    for last in ("- *a11", "- {name: pi, hub: *a11}", "- {name: *a11, hub: x}", "- {name: pi, hub: x, kind: *a11}"):
        with pytest.raises(ConfigError):
            parse_peers(listed("- &a0 [x]", *levels, last))
        data = ["- name: x", "  hub: y", "  kind: &a0 [x]"]
        with pytest.raises(ConfigError):
            parse_peers(listed(*data, last.replace("a11", "a0")))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (KEY, KEY),
        (f"  {KEY} pi@host comment\n", KEY),
        ("sk-ssh-ed25519@openssh.com AAAA==", "sk-ssh-ed25519@openssh.com AAAA=="),
        ("ecdsa-sha2-nistp256 AAAA", "ecdsa-sha2-nistp256 AAAA"),
    ],
)
def test_keys(text: str, key: str) -> None:
    assert parse_key(text) == key


def test_of_several_keys_none_is_taken() -> None:
    assert parse_whole_key(f"# mine\n\n{WHOLE} pi@host\n") == WHOLE
    with pytest.raises(NameRefused, match="these are 2 lines, and a peer has one key"):
        parse_whole_key(f"{WHOLE}\n{WHOLE} other\n")


@pytest.mark.parametrize("text", ["", KEY.split()[1], "ssh-dss AAAA", "command=x ssh-ed25519 AAAA", 'x" ssh-rsa AAAA'])
def test_no_keys(text: str) -> None:
    with pytest.raises(NameRefused) as caught:
        parse_key(text)
    assert ".pub" in caught.value.hint


@pytest.mark.parametrize("name", ["sigma", "alice"])
def test_a_name_is_a_peer_or_decides_but_not_both(name: str) -> None:
    config = HubConfig(parse_name("sigma"), reviewers=(Reviewer(parse_name("alice")),))
    check_names(config, (PI, OMEGA))
    with pytest.raises(ConfigError, match=rf"state/peers\.md: {name} is a peer and also") as caught:
        check_names(config, (PI, OMEGA._replace(name=parse_name(name))))
    assert ".cn/hub.yaml" in caught.value.hint
