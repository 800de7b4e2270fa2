"""Several search at once: the detector is the same for all, and a long text keeps nobody from an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from cn.protocol.rules import NO_SECRETS
from cn.secrets import in_turn, scanner
from cn.secrets.findings import refuse
from cn.secrets.in_turn import LARGE, MOST, find_in_turn
from cn.secrets.scanner import Text, may_hold, text_of
from cn.values.known_secrets import KnownSecrets

KEY = "AKIA" + "A1B2" * 4


def large(word: str, secret: str = KEY) -> Text:
    """A text that waits for its turn, of different lines, with a secret at its end."""
    return text_of(word, "".join(f"{word} {n}\n" for n in range(LARGE // 4)) + secret)


def test_threads_that_search_at_once_find_the_same() -> None:
    texts = [large("a"), text_of("b", KEY), text_of("c", "nothing, sk-"), large("d")] * 4
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: len(find_in_turn([text])), texts))
    assert found == [1, 1, 0, 1] * 4


def test_a_large_text_lets_the_others_go_on_and_a_small_one_waits_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()
    held, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(scanner, "_found", _watched(scanner._found, seen, held, go_on))
    with ThreadPoolExecutor(2) as pool:
        try:
            first = pool.submit(find_in_turn, [large("first")])
            assert held.wait(60)
            second = pool.submit(find_in_turn, [large("second")])
            while len(in_turn._LINE) < 2:  # it is in line
                time.sleep(0.001)
            assert len(find_in_turn([text_of("small", KEY)])) == 1
            assert not [line for line in seen if line.startswith("second")], "one large text at a time"
        finally:
            go_on.set()
        assert (len(first.result(60)), len(second.result(60))) == (1, 1)
    begun = next(at for at, line in enumerate(seen) if line.startswith("second"))
    ended = max(at for at, line in enumerate(seen) if line.startswith("first"))
    assert begun < ended, "the second went on before the first was at its end"
    assert not len(in_turn._LINE)


def _watched(
    search: Callable[..., set[tuple[str, str]]], seen: list[str], held: threading.Event, go_on: threading.Event
) -> Callable[..., set[tuple[str, str]]]:
    """A search that tells what it looks at, and stops at the first line of the first text."""

    def look(part: str, ours: KnownSecrets) -> set[tuple[str, str]]:
        seen.append(part)
        if part == "first 0":
            held.set()
            assert go_on.wait(60)
        return search(part, ours)

    return look


@pytest.mark.parametrize("between", ["\n", " "], ids=["lines", "one line"])
def test_more_different_secrets_than_are_looked_for_are_refused_whatever_they_are(between: str) -> None:
    keys = [f"AKIA{n:016d}" for n in range(MOST + 1)]
    found = find_in_turn([text_of("content", between.join(keys))])
    marks = {one.fingerprint for one in find_in_turn([text_of("content", between.join(keys[:-1]))])}
    assert len(marks) == MOST
    assert "" not in marks
    refusal = refuse(found, marks)
    assert refusal
    assert refusal.rule == NO_SECRETS
    assert f"more than {MOST} different ones" in refusal.reason
    assert "secrets:" not in refusal.remedy


def test_the_same_line_again_and_again_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()
    plain = scanner._found

    def look(part: str, ours: KnownSecrets) -> set[tuple[str, str]]:
        seen.append(part)
        return plain(part, ours)

    monkeypatch.setattr(scanner, "_found", look)
    found = find_in_turn([text_of("content", f"{KEY}\n\n" * 1000)])
    assert [one.line for one in found] == list(range(1, 2000, 2))
    assert seen == [KEY, ""]


def test_a_text_that_is_made_to_take_long_is_refused_for_that_and_cannot_be_let_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_turn, "SECONDS", 0.0)
    (found,) = find_in_turn([text_of("content", "a://b:c@" * (LARGE // 4))])
    refused = refuse([found], [KEY])
    assert refused
    assert refused.rule == NO_SECRETS
    assert refused.reason == "content, line 1: looks like a secret (what takes longer than 0 s to search)"
    assert "several smaller texts" in refused.remedy
    assert not find_in_turn([text_of("content", "a://b:c@")]), "a small one takes no time"


@pytest.mark.parametrize("between", ["\n", "_"], ids=["lines", "one line"])
def test_whether_there_may_be_a_secret_is_looked_for_in_parts_wherever_it_stands(
    between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an expression goes over a text, no other thread of the process goes on."""
    lengths = list[int]()
    plain = scanner._is_mixed

    def look(piece: str) -> bool:
        lengths.append(len(piece))
        return plain(piece)

    monkeypatch.setattr(scanner, "_is_mixed", look)
    words = (f"{'w' * 49}{between}" * (3 * LARGE // 50)).rstrip(between)
    assert not may_hold(text_of("content", words))
    assert max(lengths) <= LARGE + 1_000
    for at in (0, *range(LARGE - 200, LARGE + 200, 7), 2 * LARGE, len(words)):
        assert may_hold(text_of("content", f"{words[:at]} {KEY} {words[at:]}")), at
        assert may_hold(text_of("content", f"{words[:at]}{'w' * 20}7{'w' * 20}{words[at:]}")), at
