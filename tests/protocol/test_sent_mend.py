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
    fields = {"status": "refused", "reason": "signature-policy: x", "branch": f"pi/{topic}", "kind": "proposal"}
    item = Item(OUT, topic, Oid("a" * 40), "answered", AT, fields)
    assert mend_text(item, Name("sigma")) == told.format(f"'cn withdraw sigma:{topic}'")
