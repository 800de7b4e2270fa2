"""The next step about what was refused at a peer is one that can be done."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cn.protocol.ledger import OUT, Item
from cn.protocol.sent_mend import mend_text
from cn.values.names import Name, Oid

AT = datetime(2026, 2, 5, 14, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("fix", "mend it, then 'cn propose fix sigma' moves it there; {} takes it back"),
        (
            "deep/er",
            "mend it, then 'cn propose deep-er sigma' proposes it under a name that cn writes; {} takes this one away",
        ),
        (
            "UPPER",
            "mend it, then 'cn propose upper sigma' proposes it under a name that cn writes; {} takes this one away",
        ),
    ],
)
def test_a_name_that_cn_does_not_write_is_proposed_under_another(topic: str, told: str) -> None:
    fields = {"status": "refused", "reason": "clean-merge: x", "branch": f"pi/{topic}", "kind": "proposal"}
    item = Item(OUT, topic, Oid("a" * 40), "answered", AT, fields)
    assert mend_text(item, Name("sigma")) == told.format(f"'cn withdraw sigma:{topic}'")


@pytest.mark.parametrize(
    ("reason", "begins"),
    [
        (
            "signature-policy: hub.yaml asks for merges that are signed with the peer's pinned key",
            "if aaaaaaaa is ours, 'cn sign KEY' where",
        ),
        ("signature-policy: the tip is not signed", "if aaaaaaaa is ours, 'cn sign KEY' where"),
        ("signature-policy: the tip is longer than cn reads for a signature", "mend it"),
        ("signature-policy: git ends over the signatures of 0123abcd in the branch", "mend it"),
    ],
)
def test_what_lacks_a_signature_is_signed(reason: str, begins: str) -> None:
    fields = {"status": "refused", "reason": reason, "branch": "pi/fix", "kind": "proposal"}
    assert mend_text(Item(OUT, "fix", Oid("a" * 40), "answered", AT, fields), Name("sigma")).startswith(begins)
