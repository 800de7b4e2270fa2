"""A row of the log leads to what explains it, and nowhere where nothing does."""

from __future__ import annotations

from datetime import UTC, datetime

from cn.protocol.log import Row
from cn.views.log import LoggedAction
from cn.web.pages.log import explained_by


def test_a_row_that_nothing_explains_has_no_link() -> None:
    row = LoggedAction(Row(datetime(2026, 1, 1, tzinfo=UTC), "pi/refused", "refused"))
    assert explained_by(row, lambda _: False) == ""
    assert explained_by(row, {"pi/refused"}.__contains__) == "pi/refused"
