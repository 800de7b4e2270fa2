"""A browser that leaves in the middle of a form is no fault of ours."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from cn.web.app import App


def test_who_leaves_in_the_middle_of_a_form_causes_no_error() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"csrf=", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    response: Response = asyncio.run(App.decide(cast("App", None), request))
    assert response.status_code == 400
    assert not parts
