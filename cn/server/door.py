"""Who comes in: each request is of an agent by its token, or of the user by the socket that only the user can open.

ASGI (asgi.readthedocs.io), before anything of the request is read. No argument of a call names the caller.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

from cn.agency.names import Uuid, is_uuid, parse_uuid
from cn.agency.operations import ByHandler, ByUser, Principal
from cn.agency.rows import Facts
from cn.agency.tokens import hash_token, principal_of_token
from cn.server.arrivals import NEW, Arrivals
from cn.server.toolbox import Caller

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Look: TypeAlias = Callable[[Callable[[Facts], ByHandler | None]], Awaitable[ByHandler | None]]

Digest: TypeAlias = Callable[[Caller], Awaitable[str]]

CALLER: Final = "cn.caller"
WRITE, BRIDGE, REQUEST = b"cn-write", b"cn-bridge", b"cn-request"
"""Headers of the bridge: it may write for the user; it places contents itself; its name for the request."""
TOOLS = b"cn-tools"
"""A header of the answer: another one where the caller would be shown other tools."""
_REQUEST = re.compile(rb"[0-9a-f]{32}")
_FRESH = 1.0
"""Seconds that a token counts as good without another look: each operation asks again whether its agent lives."""
_BEARER = b"bearer "
_NOBODY = "no live agent has this token"
_OF_BEFORE = (
    "the server was started anew since this token was given, and while it was away anybody could listen at this port: "
    "the token counts over the server's socket alone"
)
_GONE = "the hub was moved or removed while this server ran: nothing was done; its user starts one where it is now"
_ONLY_POST = "only POST is answered: nothing is sent that was not asked for, and there is no session to end"
AT_ONCE: Final = 32
"""Requests of one caller that are under way at a time."""
_TOO_MANY = f"{AT_ONCE} of your requests are under way: wait for the answer of one, then ask again; nothing was done"
_TOO_OFTEN = "you open one connection after the other: keep one, and ask over it; nothing was done"
_UNAUTHORIZED, _NOT_ALLOWED, _TOO_MANY_REQUESTS, _UNAVAILABLE = 401, 405, 429, 503
_MORE_HEADERS: Final = {
    _UNAUTHORIZED: (b"www-authenticate", b'Bearer realm="cn"'),
    _NOT_ALLOWED: (b"allow", b"POST"),
    _TOO_MANY_REQUESTS: (b"retry-after", b"1"),
}
"""What a status has to say besides (RFC 6750, section 3; RFC 9110, section 15.5.6; RFC 6585, section 4)."""
_MOST_KNOWN = 1000


class Door:
    """Lets requests to ``app`` with a :class:`Caller` in their scope, and answers the others with 401.

    Of one caller :data:`AT_ONCE` are under way, and more get 429; all are POST, and others get 405: a stream that a
    client opens (MCP, "Listening for Messages from the Server") would never end, and hold a connection.

    ``look`` asks the records; what comes over the socket at ``user_socket`` without a token is ``user``'s. ``tools`` is
    a digest of what a caller is shown. ``before`` are the agents of servers before this one: while none ran, anybody
    could listen at its port and be told their tokens, so those count over our sockets alone. Nobody is let in where the
    hub is no more ``here``: 503, and nothing was done. ``arrivals`` knows which agents open connections without pause:
    429, and the connection is closed.
    """

    def __init__(
        self,
        app: App,
        look: Look,
        user: ByUser,
        user_socket: str,
        tools: Digest,
        before: Collection[Uuid] = (),
        here: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        arrivals: Arrivals | None = None,
    ) -> None:
        self._arrivals = arrivals
        self._here, self._clock = here, clock
        self._app, self._look, self._user, self._user_socket, self._tools = app, look, user, user_socket, tools
        self._before = frozenset(before)
        self._known: dict[str, tuple[float, ByHandler]] = {}
        self._under_way: Counter[Principal] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the server's own start and end."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif not self._here():
            await _refuse(send, _GONE, _UNAVAILABLE)
        elif isinstance(caller := await self._caller(scope), str):
            await _refuse(send, caller, _UNAUTHORIZED)
        else:
            scope[CALLER] = caller
            await self._let_in(caller, scope, receive, send)

    async def _let_in(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, which is under way until it is answered."""
        who = caller.principal
        is_new = scope.pop(NEW, False)
        agent = who.agent if isinstance(who, ByHandler) else ""
        if self._arrivals and is_new and is_uuid(agent) and not self._arrivals.show(parse_uuid(agent)):
            await _refuse(send, _TOO_OFTEN, _TOO_MANY_REQUESTS, closes=True)
        elif scope["method"] != "POST":
            await _refuse(send, _ONLY_POST, _NOT_ALLOWED)
        elif self._under_way[who] >= AT_ONCE:
            await _refuse(send, _TOO_MANY, _TOO_MANY_REQUESTS)
        else:
            self._under_way[who] += 1
            try:
                if caller.bridged:
                    send = _with_header(send, TOOLS, (await self._tools(caller)).encode())
                await self._app(scope, receive, send)
            finally:
                self._under_way[who] -= 1
                if not self._under_way[who]:
                    del self._under_way[who]

    async def _caller(self, scope: Scope) -> Caller | str:
        """Who it is, or why nobody."""
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        told = headers.get(b"authorization")
        if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
            return _NOBODY
        place, port = scope.get("server") or ("", None)
        if told is None:
            mine = place == self._user_socket
            return Caller(self._user, headers.get(WRITE) == b"1", *_of_bridge(headers)) if mine else _NOBODY
        if told[: len(_BEARER)].lower() != _BEARER:
            return _NOBODY
        principal = await self._principal(told[len(_BEARER) :].strip().decode("latin-1"))
        if principal is None:
            return _NOBODY
        if port is not None and principal.agent in self._before:
            return _OF_BEFORE
        return Caller(principal, True, *_of_bridge(headers))

    async def _principal(self, token: str) -> ByHandler | None:
        """The live agent that has this token."""
        name, now = hash_token(token), self._clock()
        known = self._known.get(name)
        if known and now - known[0] < _FRESH:
            return known[1]
        self._known.pop(name, None)
        principal = await self._look(lambda facts: principal_of_token(token, facts))
        if principal:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[name] = now, principal
        return principal


def _with_header(send: Send, name: bytes, value: bytes) -> Send:
    """The same, with a header more in its answer."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (name, value)]
        await send(message)

    return sent


def _of_bridge(headers: Mapping[bytes, bytes]) -> tuple[bool, str]:
    """Is it a bridge, and what does it call this request?"""
    name = headers.get(REQUEST, b"")
    return BRIDGE in headers, name.decode() if _REQUEST.fullmatch(name) else ""


async def _refuse(send: Send, why: str, status: int, *, closes: bool = False) -> None:
    """An answer that is an error, and why; the last one over its connection where that ``closes``."""
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [_MORE_HEADERS[status]] if status in _MORE_HEADERS else []
    headers += [(b"connection", b"close")] if closes else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
