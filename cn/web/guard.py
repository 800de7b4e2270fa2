"""What every request must be, and what every answer says to the browser.

Host against names that lead here from elsewhere (DNS rebinding), a session for every page, the same origin and a token
for every form (https://fetch.spec.whatwg.org/#origin-header); the policy allows what this server sends itself, and no
script or style within a page (https://www.w3.org/TR/CSP3/).
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cn.web.session import HOST, Sessions

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_OPEN = ("/static/", "/start")
_METHODS = ("GET", "HEAD", "POST")


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, sessions: Sessions, port: int) -> None:
        self._app = app
        self._sessions = sessions
        self._hosts = (f"{HOST}:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(Request(scope))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if host not in self._hosts or len(request.headers.getlist("host")) != 1:
            return _refuse("This server answers under its own address only.", 421)
        if request.method not in _METHODS:
            return _refuse("Pages are read, and forms are sent.", 405)
        if request.method == "POST" and not _is_same_origin(request.headers, host):
            return _refuse("The form was sent from another page.", 403)
        if not request.url.path.startswith(_OPEN) and not self._sessions.holds(request.cookies):
            return _refuse("Open the link that 'cn web' printed; it works once. 'cn web' prints another.", 403)
        return None


def _is_same_origin(headers: Mapping[str, str], host: str) -> bool:
    """A browser says from where a form was sent; what says nothing is refused."""
    return headers.get("origin") == f"http://{host}" and headers.get("sec-fetch-site", "same-origin") == "same-origin"


def _refuse(text: str, status: int) -> Response:
    return PlainTextResponse(f"{text}\n", status)
