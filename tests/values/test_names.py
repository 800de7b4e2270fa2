"""Names are built only by their parsers; what they let through is safe to hand to git."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cn.values.names import (
    NameRefused,
    Oid,
    digest,
    fold,
    is_local,
    is_owned,
    is_protected,
    join_branch,
    parse_branch,
    parse_hub_path,
    parse_name,
    parse_oid,
    parse_thread_name,
    parse_topic,
    parse_url,
    thread_name,
    topic_of,
)
from tests.support.hubs import try_git

PI, SIGMA = parse_name("pi"), parse_name("sigma")
HEAD = Oid("3f2a9c1e" * 5)
anything = st.text(st.characters(exclude_categories=()), max_size=40)
near_names = st.text("abcZ09-_./:@{}~^ \\\n*?[é\u202e", max_size=20)


@pytest.mark.parametrize("text", ["pi", "sigma", "a", "0", "a-b_c", "a" * 40])
def test_names(text: str) -> None:
    assert parse_name(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Pi",
        "-pi",
        "_pi",
        "pi/",
        "p i",
        "pi\n",
        "a" * 41,
        "pí",
        "pi.x",
        "../x",
        "head",
        "refs",
        "heads",
        "cn",
        "done",
    ],
    ids=ascii,
)
def test_no_names(text: str) -> None:
    with pytest.raises(NameRefused) as caught:
        parse_name(text)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["a" * 40, "0123456789" * 4, "b" * 64])
def test_object_ids(text: str) -> None:
    assert parse_oid(text) == text


@pytest.mark.parametrize("text", ["", "a" * 39, "a" * 41, "A" * 40, "g" * 40, "a" * 63, "a" * 40 + "\n", "HEAD"])
def test_no_object_ids(text: str) -> None:
    with pytest.raises(NameRefused):
        parse_oid(text)


@pytest.mark.parametrize(
    "text", ["pi/topic", "pi/a/b", "pi/-x", "pi/ünï", "pi/$(x)", "pi/a;b|c", "pi/'x'", "pi/@", "pi/a.b", "Pi/X"]
)
def test_branches(text: str) -> None:
    branch = parse_branch(text)
    assert topic_of(branch) == text.partition("/")[2]


BAD_BRANCHES = [
    "", "pi", "pi/", "/pi", "pi//x", "pi/.x", "pi/x.", "pi/x.lock", "pi.lock/x", "pi/../x", "pi/a..b",
    "pi/a b", "pi/a~", "pi/a^", "pi/a:b", "pi/a?", "pi/a*", "pi/a[", "pi/a\\b", "pi/a\x7f", "pi/a\nb",
    "pi/a\0b", "pi/@{x",
]  # fmt: skip


@pytest.mark.parametrize("text", [*BAD_BRANCHES, "-pi/x", "refs/heads/x", "pi/\udcff"], ids=ascii)
def test_no_branches(text: str) -> None:
    with pytest.raises(NameRefused):
        parse_branch(text)


def git_takes(branch: str) -> bool:
    ref = f"refs/heads/{branch}".encode("utf-8", "surrogateescape")
    if b"\0" in ref:
        return False
    return try_git(".", "check-ref-format", ref.decode("utf-8", "surrogateescape")).returncode == 0


@pytest.mark.parametrize("text", [t for t in BAD_BRANCHES if t not in ("pi",)], ids=ascii)
def test_git_refuses_these_branches_too(text: str) -> None:
    assert not git_takes(text)


@given(near_names.map(lambda t: f"pi/{t}"))
@example("pi/a.lock/b")
@example("pi/@{")
def test_a_branch_is_what_git_takes(text: str) -> None:
    try:
        parse_branch(text)
    except NameRefused:
        assert not git_takes(text)
    else:
        assert git_takes(text)


@given(anything)
def test_a_branch_is_safe_on_a_command_line(text: str) -> None:
    try:
        branch = parse_branch(text)
    except NameRefused:
        return
    assert not branch.startswith(("-", "/", "."))
    assert ".." not in branch
    branch.encode()


@pytest.mark.parametrize("text", ["topic", "re-x", "a.b", "_x", "-x", "0", "a" * 100])
def test_topics(text: str) -> None:
    assert join_branch(PI, parse_topic(text)) == parse_branch(f"pi/{text}")


@pytest.mark.parametrize(
    "text", ["", ".x", "x.", "a/b", "A", "a b", "a..b", "x.lock", "é", "a" * 101, "a\n"], ids=ascii
)
def test_no_topics(text: str) -> None:
    with pytest.raises(NameRefused):
        parse_topic(text)


@given(near_names)
def test_a_topic_makes_a_branch(text: str) -> None:
    try:
        topic = parse_topic(text)
    except NameRefused:
        return
    assert topic_of(parse_branch(f"pi/{topic}")) == topic


@pytest.mark.parametrize("text", ["a", "a/b.md", "threads/inbox/x.md", ".cn/hub.yaml", "-x", "a b", ".gitignore"])
def test_hub_paths(text: str) -> None:
    assert parse_hub_path(text) == text


@pytest.mark.parametrize(
    "text", ["", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", ".git", ".git/config", "a/.GIT/x", "a\0b"]
)
def test_no_hub_paths(text: str) -> None:
    with pytest.raises(NameRefused):
        parse_hub_path(text)


GOOD_URLS = [
    ("/srv/git/pi.git", True),
    ("../pi.git", True),
    ("./a:b", True),
    ("/a:b/c", True),
    ("pi.git", True),
    ("dir with space/pi.git", True),
    ("file:///srv/pi.git", True),
    ("git://host/pi.git", False),
    ("git://127.0.0.1:9418/pi.git", False),
    ("http://host/pi.git", False),
    ("https://u:p@host:8443/pi.git", False),
    ("ssh://git@host:22/pi.git", False),
    ("ssh://[::1]/pi.git", False),
    ("git@host:pi.git", False),
    ("host:pi.git", False),
    ("[::1]:pi.git", False),
    ("host:-x", False),
]


@pytest.mark.parametrize(("text", "local"), GOOD_URLS)
def test_urls(text: str, local: bool) -> None:
    assert parse_url(text) == text
    assert is_local(text) is local


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " ext::sh -c touch% x",
        " --upload-pack=touch x",
        " /srv/hub.git",
        "/srv/hub.git\u00a0",
        "-x",
        "--upload-pack=touch x",
        "-oProxyCommand=x:y",
        "ext::sh -c touch% x",
        "fd::3",
        "ext::",
        "::x",
        "foo::https://host/x",
        "ssh::x",
        "ftp://host/x",
        "ftps://host/x",
        "rsync://host/x",
        "ext://host/x",
        "HTTPS://host/x",
        "git+ssh://host/x",
        "data://x",
        "://x",
        "https://",
        "https:///x",
        "ssh://-oProxyCommand=x/y",
        "ssh://git@-oProxyCommand=x/y",
        "git://-x/y",
        "https://host/\nx",
        "https://host/\x00x",
        "https://host/\x1b[2Jx",
        "https://host/\u202ex",
        "\thost:x",
        "a\udc80",
    ],
    ids=ascii,
)
def test_no_urls(text: str) -> None:
    with pytest.raises(NameRefused) as caught:
        parse_url(text)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", caught.value.text)


@given(st.one_of(anything, st.text("ext:/-@[]a.", max_size=12)))
def test_no_url_is_an_option_or_names_a_remote_helper(text: str) -> None:
    try:
        url = parse_url(text)
    except NameRefused:
        return
    assert not url.startswith("-")
    assert not re.match(r"[A-Za-z0-9+.-]*::", url)
    scheme = re.match(r"([A-Za-z0-9+.-]+)://", url)
    assert scheme is None or scheme[1] in ("file", "git", "http", "https", "ssh")


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("proposal", "20260205-pi-proposal.md"),
        ("a.b_c-d", "20260205-pi-a.b_c-d.md"),
        ("Upper", "20260205-pi-Upper.md"),
        ("a/b", "20260205-pi-a-b-3f2a9c1e.md"),
        ("a b", "20260205-pi-a-b-3f2a9c1e.md"),
        ("ünï", "20260205-pi-n-3f2a9c1e.md"),
        ("世界", "20260205-pi-branch-3f2a9c1e.md"),
        ("-x", "20260205-pi-x-3f2a9c1e.md"),
        ("$(x)", "20260205-pi-x-3f2a9c1e.md"),
    ],
)
def test_thread_name(topic: str, name: str) -> None:
    assert thread_name("20260205", PI, topic, HEAD, frozenset()) == name


def test_a_taken_name_gets_the_head() -> None:
    plain = thread_name("20260205", PI, "Topic", HEAD, frozenset())
    assert thread_name("20260205", PI, "topic", HEAD, frozenset({fold(plain)})) == "20260205-pi-topic-3f2a9c1e.md"


def test_the_longest_plain_name_has_120_bytes() -> None:
    room = 120 - len("20260205-pi-.md")
    assert thread_name("20260205", PI, "a" * room, HEAD, frozenset()).endswith(f"-{'a' * room}.md")
    longer = thread_name("20260205", PI, "a" * (room + 1), HEAD, frozenset())
    assert longer.endswith("-3f2a9c1e.md")
    assert len(longer) == 120


topics = st.one_of(near_names, anything, st.text("aA", min_size=90, max_size=120))
heads = st.text("0123456789abcdef", min_size=40, max_size=40).map(Oid)


@given(st.lists(st.tuples(topics, heads), max_size=8, unique_by=lambda pair: pair[1]))
@example([("x" * 110, Oid("a" * 39 + end)) for end in "0123"])
@example([("X", Oid("a" * 39 + end)) for end in "0123"])
def test_thread_names_never_collide(branches: list[tuple[str, Oid]]) -> None:
    taken: set[str] = set()
    for topic, head in branches:
        name = thread_name("20260205", PI, topic, head, frozenset(taken))
        assert fold(name) not in taken
        assert len(name.encode()) <= 120
        assert re.fullmatch(r"20260205-pi-[A-Za-z0-9._-]+\.md", name)
        assert parse_thread_name(name) == name
        taken.add(fold(name))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("20260205-pi-x", "20260205-pi-x.md"),
        ("20260205-pi-x.md", "20260205-pi-x.md"),
        ("threads/inbox/20260205-pi-x.md", "20260205-pi-x.md"),
        ("threads/inbox/done/20260205-pi-x.md", "20260205-pi-x.md"),
        ("done/20260205-pi-x", "20260205-pi-x.md"),
    ],
)
def test_parse_thread_name(text: str, name: str) -> None:
    assert parse_thread_name(text) == name


@pytest.mark.parametrize("text", ["", ".md", "../x", "a/b", ".hidden", "-x", "a\nb", "a\u202eb", "threads/inbox/../x"])
def test_no_thread_names(text: str) -> None:
    with pytest.raises(NameRefused):
        parse_thread_name(text)


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@given(anything)
def test_fold_is_one_key_for_all_spellings(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert fold(decomposed(text)) == fold(text)
    assert fold(unicodedata.normalize("NFC", text).casefold()) == fold(text)


@pytest.mark.parametrize("other", ["STRASSE", "straße", "Strasse"])
def test_fold_of_case(other: str) -> None:
    assert fold(other) == fold("strasse")


PROTECTED = [
    ".cn/hub.yaml", ".cn/agent.yaml", ".cn", ".cn/anything/else", "spec/SOUL.md", "spec/USER.md", "spec/Hub.md",
    "state/peers.md", ".gitignore", ".gitattributes", ".gitmodules", "docs/.gitattributes",
    "threads/.gitignore",
]  # fmt: skip
SPELLINGS: list[Callable[[str], str]] = [
    str,
    str.upper,
    str.lower,
    str.title,
    lambda path: path.replace("s", "\u017f"),  # long s folds to s
    lambda path: path[:2] + "\u200c" + path[2:],  # HFS+ ignores it
    lambda path: path + "\ufeff",
]


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize("spell", SPELLINGS)
def test_protected_in_any_spelling(path: str, spell: Callable[[str], str]) -> None:
    assert is_protected(spell(path))


@pytest.mark.parametrize(
    "path",
    ["README.md", "docs/d.md", "spec/OTHER.md", "state/x.md", "cn/hub.yaml", ".cnx", "gitignore", "state/peers.mdx"],
)
def test_not_protected(path: str) -> None:
    assert not is_protected(path)


@pytest.mark.parametrize(
    "path", ["threads/x", "logs/x", "state/x", "Threads/x", "LOGS", "\u017ftate/x", "lo\u200dgs/x"]
)
def test_owned(path: str) -> None:
    assert is_owned(path)


@pytest.mark.parametrize("path", ["docs/threads/x", "threadsx/y", "README.md", "logs.md"])
def test_not_owned(path: str) -> None:
    assert not is_owned(path)


def test_a_digest_tells_its_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest("a")
    assert digest("\udcff")


@pytest.mark.parametrize("text", ["head", "refs", "heads", "cn", "done"])
def test_a_reserved_name_is_said_to_be_reserved(text: str) -> None:
    with pytest.raises(NameRefused) as refused:
        parse_name(text)
    assert refused.value.text == f"name {text!r} is reserved"
    assert "cn, done, head, heads, refs" in refused.value.hint
