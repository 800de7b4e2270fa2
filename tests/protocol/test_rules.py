"""Every rule as a table: facts, and the refusal with its remedy or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol import rules
from cn.protocol.hub_config import HubConfig, Reviewer
from cn.protocol.rules import MergeFacts, Person, TreeChange
from cn.protocol.thread_file import Merge, Triage
from cn.values.errors import Refusal
from cn.values.names import Oid, parse_name
from cn.values.timestamps import parse_stamp

PI, SIGMA, ALICE = parse_name("pi"), parse_name("sigma"), parse_name("alice")
HEAD, OTHER = Oid("3f2a9c1e" * 5), Oid("77777777" * 5)
CONFIG = HubConfig(SIGMA, reviewers=(Reviewer(ALICE, "alice@example.org"),))


def check(refusal: Refusal | None, rule: str, *words: str, notify: bool = False) -> None:
    """The refusal is of this rule ("": there is none), says why and what to do."""
    if not rule:
        assert refusal is None
        return
    assert refusal is not None
    assert (refusal.rule, refusal.notify) == (rule, notify)
    assert refusal.remedy
    assert refusal.reason.isprintable()
    for word in words:
        assert word in refusal.reason


@pytest.mark.parametrize(
    ("actor", "rule"),
    [("sigma", ""), ("alice", ""), ("pi", rules.VALID_ACTOR), ("bob", rules.VALID_ACTOR), ("sigm", rules.VALID_ACTOR)],
)
def test_valid_actor(actor: str, rule: str) -> None:
    refusal = rules.valid_actor(parse_name(actor), CONFIG)
    check(refusal, rule, actor)
    assert refusal is None or "sigma, alice" in refusal.remedy


@pytest.mark.parametrize(
    ("said", "explicit", "rule"),
    [
        ("", False, ""),
        ("APPROVED", False, ""),
        ("APPROVED", True, ""),
        ("", True, rules.MERGE_NEEDS_APPROVAL),
        ("REJECTED", False, rules.MERGE_NEEDS_APPROVAL),
        ("REJECTED", True, rules.MERGE_NEEDS_APPROVAL),
        ("approved", False, rules.MERGE_NEEDS_APPROVAL),
        ("Approved", True, rules.MERGE_NEEDS_APPROVAL),
        ("APPROVED by pi", False, rules.MERGE_NEEDS_APPROVAL),
        ("NOT APPROVED", False, rules.MERGE_NEEDS_APPROVAL),
        ("APPROVED\u200b", False, rules.MERGE_NEEDS_APPROVAL),
    ],
)
def test_merge_needs_approval(said: str, explicit: bool, rule: str) -> None:
    triage = Triage(Merge(), SIGMA, parse_stamp("2026-02-05"), approval=said)
    check(rules.approval(triage, HEAD, explicit), rule, "3f2a9c1e")


@pytest.mark.parametrize(
    ("actor", "people", "identities", "rule"),
    [
        (SIGMA, [], [], ""),
        (SIGMA, [Person("Pi", "pi@example.org")], ["sigma", "Sigma", "s@example.org"], ""),
        (PI, [], [], rules.NO_SELF_MERGE),
        (SIGMA, [Person("Sigma", "x@example.org")], ["sigma"], rules.NO_SELF_MERGE),
        (SIGMA, [Person("x", "S@Example.ORG")], ["s@example.org"], rules.NO_SELF_MERGE),
        (SIGMA, [Person("Pi", "p"), Person("STRASSE", "x")], ["straße"], rules.NO_SELF_MERGE),
        (SIGMA, [Person("Pi", "p"), Person("x", "s@x")], ["", "s@x"], rules.NO_SELF_MERGE),
        (SIGMA, [Person("", "")], ["", "sigma"], ""),
        (SIGMA, [Person("", "")], [""], ""),
        (SIGMA, [Person("sigma two", "s2@x")], ["sigma", "s@x"], ""),
        (ALICE, [Person("sigma", "s@x")], ["alice", "alice@example.org"], ""),
    ],
)
def test_no_self_merge(actor: str, people: list[Person], identities: list[str], rule: str) -> None:
    check(rules.no_self_merge(parse_name(actor), PI, people, identities), rule, actor)


@pytest.mark.parametrize(
    ("facts", "rule", "words"),
    [
        (MergeFacts(HEAD, True), "", []),
        (MergeFacts(HEAD, False), rules.REBASE_BEFORE_MERGE, ["no history in common"]),
        (
            MergeFacts(HEAD, True, shown_upon="b" * 40),
            rules.REBASE_BEFORE_MERGE,
            ["upon bbbbbbbb, which main does not"],
        ),
        (MergeFacts(HEAD, True, stale=("a",)), rules.REBASE_BEFORE_MERGE, ["main changed since: a"]),
        (MergeFacts(HEAD, True, stale=("a", "b", "c", "d", "e")), rules.REBASE_BEFORE_MERGE, ["a, b, c and 2 more"]),
        (MergeFacts(HEAD, True, stale=("a\n\u202e",)), rules.REBASE_BEFORE_MERGE, ["a<U+000A><U+202E>"]),
        (MergeFacts(HEAD, True, conflicts=("a",), dirty=("b",)), "", []),
    ],
)
def test_rebase_before_merge(facts: MergeFacts, rule: str, words: list[str]) -> None:
    check(rules.merged_as_read(facts), rule, *words, notify=True)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (MergeFacts(HEAD, True), []),
        (MergeFacts(HEAD, True, commits=1200), ["it has 1,200 commits, more than the 500 whose authors cn checks"]),
        (MergeFacts(HEAD, True, unnamed=1500), ["it changes 1,500 files, not all of which a thread names (1,000 at"]),
        (MergeFacts(HEAD, True, unnamed=1000), ["it changes 1,000 files, not all of which its thread names"]),
    ],
)
def test_what_is_larger_than_cn_merges(facts: MergeFacts, words: list[str]) -> None:
    check(rules.within_limits(facts), rules.CLEAN_MERGE if words else "", *words, notify=True)


@pytest.mark.parametrize(
    ("path", "mode", "old_mode", "what"),
    [
        ("docs/readme.md", "100644", "000000", ""),
        ("docs/readme.md", "000000", "100644", ""),
        ("bin/run", "100755", "100644", ""),
        ("spec/notes.md", "100644", "000000", ""),
        ("thread/x", "100644", "000000", ""),
        (".cn/hub.yaml", "100644", "100644", "is protected"),
        (".cn/anything", "100644", "000000", "is protected"),
        (".CN/Hub.yaml", "100644", "000000", "is protected"),
        (".c\u200dn/hub.yaml", "100644", "000000", "is protected"),
        ("spec/SOUL.md", "100644", "100644", "is protected"),
        ("spec/soul.MD", "000000", "100644", "is protected"),
        ("state/peers.md", "100644", "100644", "is protected"),
        (".gitattributes", "100644", "000000", "is protected"),
        ("docs/.gitattributes", "100644", "000000", "is protected"),
        ("docs/.GitIgnore", "100644", "000000", "is protected"),
        (".gitmodules", "100644", "000000", "is protected"),
        ("threads/inbox/x.md", "100644", "000000", "is one of cn's own"),
        ("THREADS/x", "100644", "000000", "is one of cn's own"),
        ("logs/x", "000000", "100644", "is one of cn's own"),
        ("state/ledger/pi/open", "100644", "100644", "is one of cn's own"),
        ("threads", "100644", "000000", "is one of cn's own"),
        ("message.md", "100644", "000000", "is what a message of cn's holds"),
        ("message.md", "000000", "100644", ""),
        ("docs/message.md", "100644", "000000", ""),
        ("docs/x", "120000", "000000", "is a symbolic link"),
        ("docs/x", "100644", "120000", "is a symbolic link"),
        ("docs/x", "000000", "120000", "is a symbolic link"),
        ("lib", "160000", "000000", "is a submodule"),
        ("lib", "000000", "160000", "is a submodule"),
    ],
    ids=ascii,
)
def test_protected_paths(path: str, mode: str, old_mode: str, what: str) -> None:
    changes = [TreeChange("a", "100644"), TreeChange(path, mode, old_mode)]
    check(rules.no_protected_path(changes), rules.PROTECTED_PATHS if what else "", what, notify=True)


@pytest.mark.parametrize(
    ("facts", "rule", "words", "notify"),
    [
        (MergeFacts(HEAD, True), "", [], False),
        (MergeFacts(HEAD, True, conflicts=("a", "b")), rules.CLEAN_MERGE, ["conflict in a, b"], True),
        (MergeFacts(HEAD, True, dirty=("a",)), rules.CLEAN_MERGE, ["your a has local changes"], False),
        (MergeFacts(HEAD, True, dirty=("a", "b")), rules.CLEAN_MERGE, ["your a, b have local changes"], False),
        (MergeFacts(HEAD, True, conflicts=("a",), dirty=("b",)), rules.CLEAN_MERGE, ["conflict"], True),
    ],
)
def test_clean_merge(facts: MergeFacts, rule: str, words: list[str], notify: bool) -> None:
    check(rules.clean(facts), rule, *words, notify=notify)


@pytest.mark.parametrize(
    ("signature", "shared", "trusted", "rule"),
    [
        ("verified SHA256:x", True, False, ""),
        ("verified SHA256:x", False, False, ""),
        ("unverified", False, False, ""),
        ("unverified", True, True, ""),
        ("unverified", True, False, rules.SIGNATURE),
        ("", True, False, rules.SIGNATURE),
        ("", False, False, ""),
    ],
)
def test_signature_policy(signature: str, shared: bool, trusted: bool, rule: str) -> None:
    check(rules.proven_sender(signature, shared, trusted), rule)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("trusted", [True, False])
def test_a_bad_signature_is_refused_everywhere(shared: bool, trusted: bool) -> None:
    check(rules.proven_sender("bad", shared, trusted), rules.SIGNATURE)
    check(rules.signed_merge("bad", required=shared), rules.SIGNATURE, notify=True)


@pytest.mark.parametrize(
    ("ours", "known", "tip", "rule"),
    [
        (True, HEAD, HEAD, ""),
        (True, None, HEAD, ""),
        (True, HEAD, OTHER, rules.CREATOR_ONLY_DELETE),
        (False, HEAD, HEAD, rules.CREATOR_ONLY_DELETE),
        (False, None, HEAD, rules.CREATOR_ONLY_DELETE),
    ],
)
def test_creator_only_delete(ours: bool, known: Oid | None, tip: Oid, rule: str) -> None:
    check(rules.may_delete(ours, known, tip), rule)


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=30), min_size=1))
def test_no_path_or_name_breaks_the_line_of_a_refusal(texts: list[str]) -> None:
    facts = MergeFacts(HEAD, True, stale=tuple(texts), conflicts=tuple(texts), dirty=tuple(texts))
    people = [Person(text, text) for text in texts]
    found = [
        rules.merged_as_read(facts),
        rules.clean(facts),
        rules.no_protected_path([TreeChange(text, "120000") for text in texts]),
        rules.no_self_merge(SIGMA, PI, people, texts),
        rules.approval(Triage(Merge(), SIGMA, parse_stamp("2026-02-05"), approval=texts[0]), HEAD, False),
    ]
    for refusal in found:
        if refusal is not None:
            assert len(refusal.reason.splitlines()) == 1
            refusal.reason.encode()


@pytest.mark.parametrize(
    ("path", "old_mode", "what"),
    [
        ("docs/grüße 日本.md", "000000", ""),
        ("docs/\x1b[2J\x1b[H.md", "000000", "<U+001B>[2J"),
        ("docs/a\nb.md", "000000", "docs/a<U+000A>b.md"),
        ("docs/a\tb.md", "000000", "docs/a<U+0009>b.md"),
        ("docs/fdp\u202exe.md", "000000", "<U+202E>"),
        ("docs/READ\u200bME", "000000", "<U+200B>"),
        ("state\ufe0f/peers.md", "000000", "state<U+FE0F>/peers.md holds control or hidden characters: U+FE0F"),
        ("docs/a\u00a0b", "000000", "hidden characters"),
        ("docs/a\u2800b", "000000", "docs/a<U+2800>b"),
        ("docs/✏\ufe0f notes.md", "000000", ""),
        ("docs/✏\ufe0f\ufe00 notes.md", "000000", "docs/✏️<U+FE00> notes.md"),
        ("docs/README\U00016fe4.md", "000000", "docs/README<U+16FE4>.md"),
        ("docs/README\U0001d159.md", "000000", "docs/README<U+1D159>.md"),
        (f"docs/{'a' * 120}\U00016fe4", "000000", "hidden characters: U+16FE4"),
        ("docs/\x9b2J.md", "000000", "<U+009B>"),
        ("docs/\udcff.md", "000000", "<U+DCFF>"),
        ("docs/\x1b[2J.md", "100644", ""),  # main has it already
        (f"docs/{'ü' * 127}a", "000000", ""),
        (f"docs/{'ü' * 128}/a", "000000", "a part of it has 256 bytes, and file systems hold 255"),
        (f"{'d/' * 499}ab", "000000", ""),
        (f"{'d/' * 500}a", "000000", "it has 1001 bytes, and cn takes paths of up to 1000"),
        (f"{'d/' * 5000}a", "100644", ""),
    ],
)
def test_only_fit_names(path: str, old_mode: str, what: str) -> None:
    found = rules.only_fit_names([TreeChange(path, "100644", old_mode)])
    check(found, rules.VALID_NAME if what else "", what, notify=True)
    assert rules.only_fit_names([TreeChange(path, "000000", "100644")]) is None


def test_all_that_stands_in_the_way_is_told_together() -> None:
    stale = rules.merged_as_read(MergeFacts(HEAD, True, stale=("a",)))
    protected = rules.no_protected_path([TreeChange(".cn/hub.yaml", "100644")])
    dirty = rules.clean(MergeFacts(HEAD, True, dirty=("b",)))
    own = rules.no_self_merge(PI, PI, (), ())
    assert rules.join_refusals([None, None]) is None
    assert rules.join_refusals([None, stale, None]) == stale
    both = rules.join_refusals([protected, stale, dirty])
    assert both is not None
    assert both.rule == rules.PROTECTED_PATHS
    assert both.reason == ".cn/hub.yaml is protected; also rebase-before-merge: main changed since: a"
    assert both.remedy.startswith("leave it out of the branch")
    assert both.remedy.endswith("; rebase the branch on the latest main and push it again")
    assert both.notify
    here = rules.join_refusals([own, stale, dirty])
    assert here is not None
    assert not here.notify
    assert "also rebase-before-merge" in here.reason
    assert "also clean-merge: your b has" in here.reason
