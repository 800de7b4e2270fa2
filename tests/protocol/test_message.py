"""A message is one commit whose id is the message's; the same message, the same bytes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cn.protocol.layout import CONCERN, FINAL, MESSAGE, NOT_FINAL, NOTICE
from cn.protocol.message import (
    About,
    Message,
    MessageRefused,
    format_message,
    object_id,
    own_topic,
    parse_message,
    seal,
    tree_bytes,
)
from cn.values.names import NameRefused, Oid, join_branch, parse_branch, parse_name, parse_topic
from cn.values.text import one_line
from cn.values.timestamps import parse_stamp
from tests.support.hubs import git, try_git

PI, SIGMA = parse_name("pi"), parse_name("sigma")
HEAD, MERGE = Oid("3f2a9c1e" * 5), Oid("1a2b3c4d" * 5)
AT = parse_stamp("2026-02-05T15:00:07Z")
ABOUT = About(parse_branch("pi/proposal"), HEAD, "merged", MERGE, "fine")
FULL = Message(MESSAGE, SIGMA, PI, "Re: hello", AT, "Body\n\n---\n\nmore", str(HEAD), ABOUT, 3)

ANY = st.text(st.characters(exclude_categories=()), max_size=60)
ODD_NAMES = ["no", "yes", "on", "off", "y", "n", "true", "false", "null", "123", "007", "0x1f", "1_000",
"1e5",
             "2026-02-05", "0", "0o7", "1-2", "a-", "pi"]  # fmt: skip
NAMES = st.one_of(st.sampled_from(ODD_NAMES), st.from_regex(r"[a-z0-9][a-z0-9_-]{0,5}",
fullmatch=True)).filter(
    lambda name: name not in ("head", "refs", "heads", "cn", "done")
)  # fmt: skip
LINES = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
BODIES = st.one_of(LINES, st.sampled_from(["---\nx: y\n---", "😀\r\nx\r\r\ny", "\ufeffx", "a\0b", "# x\n\n---"]))


def valid_branch(text: str) -> bool:
    try:
        parse_branch(f"pi/{text}")
    except NameRefused:
        return False
    return True


BRANCHES = st.one_of(LINES, st.text("ab/<!-|\"'😀é", max_size=20)).filter(valid_branch)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Messages as planners build them, free text in its canonical form."""
    about = None
    if draw(st.booleans()):
        about = About(
            parse_branch(f"pi/{draw(BRANCHES)}"),
            HEAD,
            draw(st.sampled_from(FINAL + NOT_FINAL)),
            draw(st.sampled_from([None, MERGE, Oid("b" * 64)])),
            one_line(draw(ANY), 500),
        )
    return Message(
        draw(st.sampled_from([MESSAGE, NOTICE, CONCERN])),
        parse_name(draw(NAMES)),
        parse_name(draw(NAMES)),
        one_line(draw(ANY)),
        draw(st.datetimes(datetime(1000, 1, 1), datetime(9998, 1, 1),
        timezones=st.just(UTC))).replace(microsecond=0),
        "\n".join(draw(BODIES).replace("\r\n", "\n").split("\r\n")).strip("\n").replace("\r", ""),
        one_line(draw(ANY), 500),
        about,
        draw(st.integers(0, 1000)),
    )  # fmt: skip


@settings(max_examples=60)
@given(messages())
def test_a_message_is_read_as_it_is_written(message: Message) -> None:
    data = format_message(message)
    assert parse_message(data) == message
    assert format_message(parse_message(data)) == data
    assert data.partition(b"\n---\n")[0].isascii()


@settings(max_examples=60)
@given(messages())
def test_other_line_ends_and_a_byte_order_mark_are_read(message: Message) -> None:
    data = format_message(message)
    assert parse_message(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")) == message


@given(ANY, ANY, ANY, ANY)
def test_no_text_becomes_a_header_field(subject: str, body: str, reason: str, reply: str) -> None:
    message = Message(NOTICE, SIGMA, PI, subject, AT, body, reply, About(ABOUT.branch, HEAD, "refused", None, reason))
    found = parse_message(format_message(message))
    assert (found.kind, found.sender, found.to, found.created, found.hops) == (NOTICE, SIGMA, PI, AT, 0)
    assert found.about is not None
    assert (found.about.branch, found.about.head, found.about.status) == (ABOUT.branch, HEAD, "refused")
    assert (found.subject, found.about.reason) == (one_line(subject), one_line(reason, 500))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_that_yaml_reads_as_something_else(name: str) -> None:
    message = Message(MESSAGE, parse_name(name), PI, "x", AT)
    assert parse_message(format_message(message)).sender == name


@pytest.mark.parametrize(
    "subject", ["😀 done", "日本", "a\u202eb", "\ud83d\ude00", '"x" \\n', "a: b # c", "- x", "\x7f\x85"]
)
def test_any_subject_arrives(subject: str) -> None:
    found = parse_message(format_message(Message(MESSAGE, PI, SIGMA, subject, AT))).subject
    assert found == one_line(subject)


def test_a_subject_written_as_json_is_read() -> None:
    data = format_message(FULL).replace(b'"Re: hello"', b'"\\ud83d\\ude00"')
    assert parse_message(data).subject == "😀"


def test_lone_surrogates_in_a_body_do_not_stop_a_message() -> None:
    assert parse_message(format_message(Message(MESSAGE, PI, SIGMA, "x", AT, "a\udcffb"))).body == "a\\udcffb"


def plain(**fields: str) -> bytes:
    known = {
        "cn": "message/1", "kind": "message", "from": "pi", "to": "sigma", "subject": "x",
        "created": "2026-02-05T15:00:00Z", **fields,
    }  # fmt: skip
    return ("---\n" + "".join(f"{k}: {v}\n" for k, v in known.items() if v) + "---\n\nbody\n").encode()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"created": '"2026-02-05T15:00:00+00:00"'},
        {"later": "key"},
        {"x": "[1, {a: b}]"},
        {"hops": "0"},
        {"subject": "|\n  x"},
        {"about": "{}"},
    ],
)
def test_messages_of_other_writers(fields: dict[str, str]) -> None:
    found = parse_message(plain(**fields))
    assert (found.sender, found.subject, found.body) == (PI, "x", "body")


def test_the_indentation_of_a_body_stays() -> None:
    assert parse_message(plain(later="[x]").replace(b"\nbody", b"\n    code")).body == "    code"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x", b"---\n", b"---\n---\n", b"--- \ncn: message/1\n---\n", b"\n" + plain(), plain()[:40],
        b"\xff\xfe",
        plain(cn="message/2"), plain(cn=""), plain(cn="[message/1]"), plain(kind="order"), plain(kind=""),
        plain(kind="1"),
        plain(**{"from": ""}), plain(**{"from": "Pi"}), plain(**{"from": "no"}), plain(**{"from": "12"}),
        plain(**{"from": "[pi]"}), plain(to="pi/x"), plain(to="''"), plain(subject="1"),
        plain(subject="{a: b}"),
        plain(created="today"), plain(created="12"), plain(created="2026-02-05"),
        plain(created="'2026-13-01'"),
        plain(hops="-1"), plain(hops="1001"), plain(hops="true"), plain(hops="1.0"), plain(hops="'1'"),
        plain(hops="9" * 5000),
        plain(about="x"), plain(about="[x]"), plain(about="{branch: pi/x}"),
        plain(about=f"{{branch: pi/x, head: '{HEAD}', status: approved}}"),
        plain(about=f"{{branch: pi/x, head: '{HEAD[:39]}', status: merged}}"),
        plain(about=f"{{branch: pi, head: '{HEAD}', status: merged}}"),
        plain(about=f"{{branch: 'pi/../x', head: '{HEAD}', status: merged}}"),
        plain(about=f"{{branch: pi/x, head: '{HEAD}', status: merged, merge: HEAD}}"),
        plain(about="{branch: pi/x, head: {}, status: merged}"),
        plain(x="!!bool x"), plain(x="!!int ''"), plain(x="!!float ''"), plain(x="!!timestamp x"),
        plain(x="!!python/none x"),
        plain(x="!!binary é"), plain(x="[" * 9000), plain(x="{" * 9000), plain(x="- " * 9000),
        plain(x="&a [*a]"),
        plain(x="&a 1", y="*a"), plain(x="&a {b: 1}", y="{<<: *a}"), plain(x="\t- y"), plain(x="'"),
        plain(x="{[a]: b}"), plain(x="{a: 1, a: 2}"), plain(x="1\nfrom: omega"),
        plain(x="y" * 20_000), plain(x="\x01"),
    ],
    ids=lambda data: ascii(data)[-40:],
)  # fmt: skip
def test_no_message(data: bytes) -> None:
    with pytest.raises(MessageRefused, match=r"message\.md cannot be read: ") as caught:
        parse_message(data)
    assert caught.value.hint


@pytest.mark.parametrize("last", ["cn: *a8", "x: *a8", "x: {<<: *a8}"])
def test_a_billion_laughs_are_not_expanded(last: str) -> None:
    levels = "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
    with pytest.raises(MessageRefused):
        parse_message(f"---\na0: &a0 [x]\n{levels}{last}\n---\n".encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for text in (data, b"---\n" + data + b"\n---\n", plain() + data, plain(x="") + data):
        with suppress(MessageRefused):
            parse_message(text)


@given(ANY)
def test_any_frontmatter_is_a_message_or_refused(text: str) -> None:
    with suppress(MessageRefused):
        parse_message(plain(x=text.encode("utf-8", "replace").decode()))


# The commit.


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_git_gives_a_message_the_same_id(algorithm: str, tmp_path: Path) -> None:
    git(".", "init", "-q", "-b", FULL.kind, f"--object-format={algorithm}", str(tmp_path))
    messages = [
        FULL,
        Message(NOTICE, PI, SIGMA, "", AT),
        Message(CONCERN, PI, SIGMA, "😀\nx", parse_stamp("0001-01-01"), "a\0b\r\nc"),
        Message(MESSAGE, PI, SIGMA, "x" * 300, parse_stamp("9999-12-31T23:59Z"), "é" * 1000),
    ]
    authors = [("Sigma", "s@example.org"), ("", ""), ("<evil>\n\0", "a\nb <c>"), ("Ünï \udcff", "x y")]
    for message, author in zip(messages, authors, strict=True):
        sealed = seal(message, author, algorithm)
        blob = git(tmp_path, "hash-object", "-w", "--stdin", stdin=sealed.content)
        assert blob == object_id("blob", sealed.content, algorithm)
        tree = git(tmp_path, "mktree", stdin=f"100644 blob {blob}\tmessage.md\n")
        assert tree == object_id("tree", tree_bytes(sealed.content, algorithm), algorithm)
        assert git(tmp_path, "hash-object", "-t", "commit", "-w", "--stdin", stdin=sealed.commit) == sealed.id
        git(tmp_path, "update-ref", f"refs/heads/{message.kind}", sealed.id)
        assert seal(message, author, algorithm) == sealed
        assert git(tmp_path, "log", "-1", "--format=%P", sealed.id) == ""
    checked = try_git(tmp_path, "fsck", "--strict")
    assert (checked.returncode, checked.stderr) == (0, b"")


def test_fast_import_makes_the_same_commit(tmp_path: Path) -> None:
    git(".", "init", "-q", str(tmp_path))
    sealed = seal(FULL, ("Sigma", "s@example.org"))
    stream = (
        b"blob\nmark :1\ndata %d\n%s\n" % (len(sealed.content), sealed.content)
        + b"commit refs/heads/sigma/x\nauthor Sigma <s@example.org> 1770303607 +0000\n"
        + b"committer Sigma <s@example.org> 1770303607 +0000\ndata 10\nRe: hello\n\nM 100644 :1 message.md\n"
    )
    git(tmp_path, "fast-import", "--quiet", stdin=stream)
    assert git(tmp_path, "rev-parse", "refs/heads/sigma/x") == sealed.id
    assert git(tmp_path, "cat-file", "commit", sealed.id).encode() == sealed.commit.rstrip(b"\n")


@settings(max_examples=40)
@given(messages(), messages())
def test_other_messages_have_other_ids(one: Message, two: Message) -> None:
    me = ("Sigma", "s@example.org")
    assert (seal(one, me).id == seal(two, me).id) == (one == two)


@given(ANY, st.lists(ANY, max_size=3), st.sampled_from(["", "a..b", "x.lock", "-x", ".", "...", "a...b", "ä" * 99]))
def test_a_topic_of_ours_is_always_valid_and_free(wish: str, taken: list[str], other: str) -> None:
    for text in (wish, other, other + wish, f"notice-{wish}"):
        topic = own_topic(text, frozenset(taken), HEAD)
        assert parse_topic(topic) == topic
        parse_branch(join_branch(SIGMA, topic))
        again = own_topic(text, frozenset({*taken, topic}), HEAD)
        assert again != topic
        assert own_topic(text, frozenset({topic, again}), HEAD) not in (topic, again)


@pytest.mark.parametrize(
    ("wish", "taken", "topic"),
    [
        ("re-x", [], "re-x"),
        ("re-x", ["re-x"], "re-x-3f2a9c1e"),
        ("re-x", ["re-x", "re-x-3f2a9c1e"], "re-x-3f2a9c1e3f2a9c1e"),
        ("Re X", [], "re-x-3f2a9c1e"),
        ("a/b", [], "a-b-3f2a9c1e"),
        ("", [], "message-3f2a9c1e"),
        ("x.lock", [], "x-lock-3f2a9c1e"),
        ("a...b", [], "a.b-3f2a9c1e"),
        ("a" * 90, [], "a" * 90),
        ("a" * 91, [], "a" * 90 + "-3f2a9c1e"),
    ],
)
def test_topics_of_ours(wish: str, taken: list[str], topic: str) -> None:
    assert own_topic(wish, frozenset(taken), HEAD) == topic


@pytest.mark.parametrize("status", FINAL)
def test_final_statuses(status: str) -> None:
    assert About(ABOUT.branch, HEAD, status).final


@pytest.mark.parametrize("status", NOT_FINAL)
def test_statuses_that_end_nothing(status: str) -> None:
    assert not About(ABOUT.branch, HEAD, status).final
