"""The application: addresses, and what answers them. It reads; one form decides."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from urllib.parse import parse_qsl, quote, urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from cn.values.text import one_line
from cn.web.decide import Filled, decide
from cn.web.guard import Guard
from cn.web.links import SECTIONS, Links
from cn.web.live import Watcher
from cn.web.page import Drawn, Page
from cn.web.pages.rest import nothing_page
from cn.web.reader import Reader
from cn.web.render import STATIC, Frame, Renderer
from cn.web.session import Sessions, take_token

MOST_BYTES = 1 << 20
"""Bytes of a form."""
_SAID = {"decided": "The decision is written into the thread's file. The next 'cn inbox process' executes it."}
_USED = (
    "The link was used already, or a later one took its place. 'cn web' prints another.\n"
    "If somebody else used it, their browser can read and decide until the server ends: by Ctrl-C, or 'kill {pid}'.\n"
)
_ENTER = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>cn</title><link rel="icon" href="/static/icon.svg">'
    '<meta http-equiv="refresh" content="0;url=/"><p><a href="/">To the hub</a></p></html>'
)
"""The browser goes on by itself: a page of this server leads to the next, so the strict cookie goes along."""


class App:
    """What the addresses of one server share."""

    def __init__(self, reader: Reader, sessions: Sessions, watcher: Watcher, tell: Callable[[int], None]) -> None:
        """``tell`` is called with the number of links that were used, whenever one was."""
        self.reader = reader
        self._tell = tell
        self.sessions = sessions
        self.watcher = watcher
        self._renderer = Renderer()

    def routes(self) -> list[Route | Mount]:
        """Every address."""
        return [
            Route("/start", self.start),
            Route("/live", self.live),
            Route("/", partial(self.show, "now")),
            *(Route(f"/{name}", partial(self.show, name)) for name in SECTIONS if name != "now"),
            Route("/thread/{rest:path}", partial(self.show, "thread")),
            Route("/thread/{rest:path}", self.decide, methods=["POST"]),
            Route("/why/{rest:path}", partial(self.show, "why")),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/{rest:path}", self.nowhere),
        ]

    async def start(self, request: Request) -> Response:
        """The link that was printed: once, it begins a session."""
        token = request.query_params.get("token", "")
        if request.method != "GET" or not await run_in_threadpool(take_token, self.reader.hub, token):
            return PlainTextResponse(_USED.format(pid=os.getpid()), 403)
        answer = HTMLResponse(_ENTER)
        answer.set_cookie(self.sessions.cookie, self.sessions.begin(), path="/", httponly=True, samesite="strict")
        await run_in_threadpool(self._tell, self.sessions.used)
        return answer

    async def show(self, kind: str, request: Request) -> Response:
        """A page."""
        rest = request.path_params.get("rest", "")
        query = dict(request.query_params)
        said = _SAID.get(query.pop("said", ""), "")
        name = f"{kind}/{rest}" if rest else kind
        drawn = await run_in_threadpool(self.draw, name, query, request.cookies, said)
        return HTMLResponse(drawn.html, drawn.status)

    async def nowhere(self, request: Request) -> Response:
        """Every other address: a page that says so, with the way to the others."""
        page = nothing_page(f"There is no page {one_line(request.url.path, 80)}.", "")
        drawn = self._renderer.draw(page, self._frame("nowhere", {}, request.cookies, "", self.reader.now()))
        return HTMLResponse(drawn.html, drawn.status)

    def draw(self, name: str, query: Mapping[str, str], cookies: Mapping[str, str], said: str = "") -> Drawn:
        """A page as this session sees it."""
        frame = partial(self._frame, name, query, cookies, said)
        if said:
            return self._renderer.draw(self.reader.page(name, query), frame(self.reader.now()))
        # Forms differ by session: what is kept is kept for one.
        asked = {**query, "\0": f"{self.sessions.form_token(cookies)} {self.sessions.used}"}
        return self.reader.draw(name, asked, lambda page, at: self._renderer.draw(page, frame(at)))

    def _frame(self, name: str, query: Mapping[str, str], cookies: Mapping[str, str], said: str, at: datetime) -> Frame:
        path = "/" if name == "now" else f"/{quote(name)}"
        here = f"{path}?{urlencode(dict(query))}" if query else path
        token = self.sessions.form_token(cookies)
        live = f"/live?{urlencode({'page': here})}"
        used = self.sessions.used
        return Frame(self.reader.title, at, Links(name), live, here, token, self.reader.actor, said, used=used)

    async def live(self, request: Request) -> Response:
        """The stream of one page: which of its parts have changed."""
        path, _, query = request.query_params.get("page", "/").partition("?")
        name, asked = path.strip("/") or "now", dict(parse_qsl(query))
        pairs = (pair.partition(".") for pair in request.query_params.get("seen", "").split(" "))
        seen = {part: digest for part, dot, digest in pairs if dot}
        cookies = dict(request.cookies)
        stream = self.watcher.stream(lambda: self.draw(name, asked, cookies).digests, seen)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def decide(self, request: Request) -> Response:
        """The form of a thread."""
        data = b""
        try:
            async for chunk in request.stream():
                data += chunk
                if len(data) > MOST_BYTES:
                    return PlainTextResponse("The form holds more than 1 MB.\n", 413)
        except ClientDisconnect:  # nobody is there to be told, and half a form is none
            return PlainTextResponse("", 400)
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            return PlainTextResponse("A form is sent as application/x-www-form-urlencoded.\n", 415)
        fields = dict(parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20))
        if not self.sessions.is_form_token(request.cookies, fields.get("csrf", "")):
            return PlainTextResponse("The form is not one of this session: open the thread again.\n", 403)
        name = request.path_params["rest"]
        filled = Filled.of(fields)
        page = await run_in_threadpool(decide, self.reader, name, filled)
        if page is None:
            return RedirectResponse(f"/thread/{quote(name)}?said=decided", 303)
        return await run_in_threadpool(self._refused, page, name, request.cookies)

    def _refused(self, page: Page, name: str, cookies: Mapping[str, str]) -> Response:
        frame = self._frame(f"thread/{name}", {}, cookies, "", self.reader.now())
        drawn = self._renderer.draw(page, frame._replace(live=""))
        return HTMLResponse(drawn.html, drawn.status)


def make_app(reader: Reader, sessions: Sessions, watcher: Watcher, port: int, tell: Callable[[int], None]) -> ASGIApp:
    """The whole application, behind its guard."""
    return Guard(Starlette(routes=App(reader, sessions, watcher, tell).routes()), sessions, port)
