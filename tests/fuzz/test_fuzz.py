"""Parsers against bytes that nobody would write: a value or a refusal, soon, and the same again.

``make fuzz`` runs many more examples (``TEST_FUZZ`` is their number) and keeps what it finds in
``tests/corpus/fuzz/``, which every run tries again.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.parsers import PARSERS, REFUSALS, Parser
from tests.support.figures import observed

FOUND = Path(__file__).parents[1] / "corpus" / "fuzz"
EXAMPLES = int(os.environ.get("TEST_FUZZ", "60"))
SECONDS = 2.0
TOKENS = [
    b"---", b"\n", b"\r\n", b"\r", b"\0", b"## Triage", b"decision: do:merge", b": ", b"|", b"\\", b'"', b"'",
    b"[" * 300, b"{" * 300, b"- " * 200, b"&a [*a]", b"*a", b"!!python/name:os.system ", b"<<: *a",
    b"9" * 5000,
    b"1e999", b"-1", b"NaN", b"null", b"true", "\u2028\u202e\u0085".encode(), b"\xed\xa0\x80", b"\xff\xfe",
    b"\xef\xbb\xbf", b"\\ud800", b"%00%ff%zz", b"../", b"<!--", b"```\n", b"> ", b"**Head:** ", b"x" * 20_000,
    b"\x1b[2J", b"${A}", b"${", b"9999-12-31T23:59:59Z", b"0000-00-00", b"=", b" " * 2000, b"\n" * 2000,
    b"#", b"\t",
]  # fmt: skip
_POSITION = st.floats(0, 1, allow_nan=False)
_EDIT = st.one_of(
    st.tuples(st.just("put"), _POSITION, st.sampled_from(TOKENS) | st.binary(max_size=8)),
    st.tuples(st.just("cut"), _POSITION, st.integers(1, 40).map(lambda n: b" " * n)),
    st.tuples(st.just("twice"), _POSITION, st.integers(1, 200).map(lambda n: b" " * n)),
)


def _edited(seed: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    data = seed
    for how, where, what in edits:
        at = int(where * len(data))
        match how:
            case "put":
                data = data[:at] + what + data[at:]
            case "cut":
                data = data[:at] + data[at + len(what) :]
            case _:
                data = data[: at + len(what)] + data[at:]
    return data


def _try(parser: Parser, data: bytes) -> None:
    begun = time.process_time()
    said = ""
    try:
        value = parser.parse(data)
    except REFUSALS as refused:
        said = refused.text
    assert time.process_time() - begun < SECONDS
    assert len(said) < 2000, "a refusal shows an excerpt, not the input"
    if not said and parser.again is not None:
        assert parser.parse(parser.again(value)) == value


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_answers_with_a_value_or_a_refusal(name: str) -> None:
    parser = PARSERS[name]
    examples = st.one_of(
        st.builds(_edited, st.sampled_from(parser.seeds), st.lists(_EDIT, min_size=1, max_size=6)),
        st.binary(max_size=200),
    )

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(examples)
    def run(data: bytes) -> None:
        try:
            _try(parser, data)
        except BaseException:
            if "TEST_FUZZ" in os.environ:  # the last one written is the smallest
                _keep(name, data)
            raise

    run()
    observed("fuzz", name, examples=EXAMPLES)


def _keep(name: str, data: bytes) -> None:
    FOUND.mkdir(parents=True, exist_ok=True)
    for old in FOUND.glob(f"{name}.new-*"):
        old.unlink()
    (FOUND / f"{name}.new-{hashlib.sha256(data).hexdigest()[:8]}").write_bytes(data)


@pytest.mark.parametrize("path", sorted(FOUND.glob("[!.]*")), ids=lambda path: path.name)
def test_what_was_found_before_stays_mended(path: Path) -> None:
    _try(PARSERS[path.name.partition(".")[0]], path.read_bytes())


@pytest.mark.parametrize("name", PARSERS)
def test_the_seeds_are_taken(name: str) -> None:
    for seed in PARSERS[name].seeds:
        PARSERS[name].parse(seed)
        _try(PARSERS[name], seed)
