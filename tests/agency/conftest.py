"""Records in memory, just founded."""

from __future__ import annotations

import pytest

from cn.agency.names import Uuid
from tests.support.agency import Records


@pytest.fixture
def records() -> Records:
    made = Records()
    made.found()
    return made


@pytest.fixture
def root(records: Records) -> Uuid:
    head = records.rows.head()
    assert head
    return head.root
