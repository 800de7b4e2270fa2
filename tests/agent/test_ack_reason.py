"""Thirty-seven items were once processed by empty acknowledgements in eight seconds: not here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.agent.plan.ack_reason import check_reason

EMPTY = [
    "acknowledged", "Acknowledged.", "ACKNOWLEDGED!!!", "ＡＣＫＮＯＷＬＥＤＧＥＤ",
    "ack\u200bnow\u00adledged", "a c k n o w l e d g e d", "noted, no action needed",
    "Noted -- no action needed 👍", "no_action_needed", "message received and processed",
    "ok done thanks", "OK. Done. Thanks.", "nothing to do here", "item has been handled successfully",
    "Item 20260205-140007-3fa2c1 has been processed", "LGTM, thank you!",
    "No further action required at this time.", "n/a n/a n/a n/a", "I have read the message.",
    "It's done, we're good", "ack ack ack ack", "received with thanks", "✅✅✅✅✅✅✅✅✅✅✅✅",
    "..............", "-- -- -- -- --", "aaaaaaaaaaaaaa", "ababababababab", "hm hm hm hm hm",
    "duplicate duplicate duplicate", "1234567890123", "zur Kenntnis genommen, danke",
    "message reçu et traité, merci", "mensaje recibido, gracias", "已收到消息，确认处理完成，谢谢",
    "ack from pi", "a\u0338c\u0338k\u0338nowledged", "done      thanks", "done\n\n\nthanks\n\nall",
    "xxxx yyyy zzzz", "aaab aabb abbb aab",
]  # fmt: skip


@pytest.mark.parametrize("reason", EMPTY, ids=ascii)
def test_filler_says_nothing(reason: str) -> None:
    refused = check_reason(reason)
    assert "says nothing" in refused
    assert "write" in refused
    assert "\n" not in refused


SHORT = [
    "", " ", "ok", "duplicate", "重复的提案", "dup \n\t\n     dup",
    "why\u200b\u200b\u200b\u200b\u200b\u200b\u200b",
]  # fmt: skip


@pytest.mark.parametrize("reason", SHORT, ids=ascii)
def test_fewer_than_ten_characters_are_too_few(reason: str) -> None:
    assert "at least 10" in check_reason(reason)


TELLING = [
    "duplicate of pi/proposal", "a duplicate", "waiting on review", "superseded by #42",
    "doublon de pi/proposal", "重复于昨天的提案，已合并过了", "すでに統合済みの提案と重複",
    "спам от неизвестного", "यह कल के प्रस्ताव की नकल है", "đã gộp vào hôm qua", "مكرر من الأمس تماما",
    "כפילות של ההצעה מאתמול", "이미 병합된 제안의 중복", "ข้อเสนอนี้ซ้ำกับเมื่อวาน",
    "Duplikat von pi/proposal", "no access to the repository", "done already in rho's branch",
    "acknowledged; alice decides on Monday", "spam from an unknown sender", "the build is red on main",
    "nothing to do: the release was cancelled",
]  # fmt: skip


@pytest.mark.parametrize("reason", TELLING, ids=ascii)
def test_a_real_reason_passes_in_any_language(reason: str) -> None:
    assert check_reason(reason) == ""


FILLER = [
    "ack", "acknowledged", "noted", "ok", "done", "thanks", "no", "action", "needed", "item", "message",
    "received",
]  # fmt: skip
filler = st.sampled_from(FILLER)


@given(st.lists(filler, min_size=4, max_size=12), st.sampled_from([" ", ", ", "... ", " — ", "\n", "_", "/"]))
def test_filler_in_any_order_and_case_says_nothing(words: list[str], between: str) -> None:
    assert check_reason(between.join(words))
    assert check_reason(between.join(words).upper())
    assert check_reason(between.join(words).title() + "!")


@given(st.lists(filler, max_size=6), st.lists(filler, max_size=6))
def test_one_telling_phrase_is_enough_among_filler(before: list[str], after: list[str]) -> None:
    assert check_reason(" ".join([*before, "superseded by the rewrite", *after])) == ""


@given(st.text(max_size=80))
def test_any_text_gets_one_visible_line(reason: str) -> None:
    refused = check_reason(reason)
    assert refused.isprintable()
    assert refused == "" or "write" in refused
