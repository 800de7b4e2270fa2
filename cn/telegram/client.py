"""The Telegram Bot API over HTTP: the one importer of its client library.

python-telegram-bot carries the requests and knows the API's errors; what comes back is
Telegram's own JSON (:mod:`cn.telegram.api` reads it) or a ``Failure``.
The token is a part of every URL, so no text of the library leaves this module unread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from cn.system.extras import require_runtime
from cn.telegram.api import Failure, Trouble
from cn.values.errors import ConfigError
from cn.values.known_secrets import hide
from cn.values.text import one_line

if TYPE_CHECKING:
    from telegram import Bot
    from telegram.error import TelegramError
    from telegram.request import BaseRequest

ORIGIN = "https://api.telegram.org"
_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{1,100}")
_CONNECT, _READ, _WRITE = 10.0, 30.0, 20.0
"""Seconds until a request counts as failed; a long poll gets its own time on top."""
_WHOLE = 90.0
"""Seconds for a whole exchange: a server that sends a byte now and then never meets the limits above."""
_MOST_BYTES = 8 << 20
"""What is read of one answer. A hundred updates, the most that come at once, have less than one MiB."""
_PATIENCE = 5.0
"""Seconds of a pause that Telegram asks for without saying how long."""
_UPDATES = ["message", "edited_message"]


class Connection:
    """Telegram for a program with an asyncio loop; connections are kept alive.

    ``base_url`` is an origin (``https://host:port``). Raises :class:`ConfigError` for a
    token that cannot be one, without showing it.
    """

    def __init__(self, token: str, base_url: str = ORIGIN) -> None:
        if not _TOKEN.fullmatch(token):
            raise ConfigError(
                "the Telegram token has not the form 123456:ABC…", "set TELEGRAM_TOKEN to what @BotFather gave you"
            )
        self._secret = token.partition(":")[2]
        self._bot, self._requests = _make_bot(token, base_url.rstrip("/"), self._clean)

    async def get_updates(self, offset: int | None, seconds: float) -> list[Any] | Failure:
        """Updates from ``offset`` on, after at most ``seconds`` of waiting.

        Asking for an offset confirms everything before it: Telegram forgets that.
        """
        params: dict[str, Any] = {"timeout": max(0, round(seconds)), "allowed_updates": _UPDATES}
        if offset is not None:
            params["offset"] = offset
        updates: list[Any] | Failure = await self._call("getUpdates", params, list, seconds)
        return updates

    async def send_message(self, chat_id: int, text: str) -> Failure | None:
        """One message of plain text of at most 4096 UTF-16 units (``split_text``); None: Telegram has it.

        Without a preview of links: a text written by a model must not make Telegram fetch
        an address. Whether a failed message may be sent again, ``Failure.is_unsent`` tells.
        """
        clean = text.encode("utf-8", "replace").decode()
        params = {"chat_id": chat_id, "text": clean, "link_preview_options": {"is_disabled": True}}
        answer = await self._call("sendMessage", params, dict)
        if isinstance(answer, Failure) or isinstance(answer.get("message_id"), int):
            return answer if isinstance(answer, Failure) else None
        return Failure(Trouble.UNKNOWN, "sendMessage answered something else")

    async def close(self) -> None:
        """Close the connections; whatever was asked is given up."""
        for request in self._requests:
            await request.shutdown()

    def _clean(self, text: str) -> str:
        """One line without the secret half of the token."""
        return one_line(hide(text, self._secret), 300)

    async def _call(self, method: str, params: dict[str, Any], wanted: type, seconds: float = 0) -> Any:
        """The ``result`` of Telegram's answer as JSON of the type ``wanted``, or a :class:`Failure`.

        Telegram may take ``seconds`` longer than usual.
        """
        from telegram import error

        exchange = self._bot.do_api_request(method, api_kwargs=params, read_timeout=seconds + _READ)
        try:
            answer = await asyncio.wait_for(exchange, seconds + _WHOLE)
        except TimeoutError:
            return Failure(Trouble.UNKNOWN, f"{method} had no whole answer after {seconds + _WHOLE:g} seconds")
        except error.TelegramError as why:
            found = getattr(why, "failure", None)
            if isinstance(found, Failure):
                return found
            told = f"{why}: write to the bot there, and it answers there" if _is_moved(why) else str(why)
            return Failure(_trouble(why), self._clean(told))
        except Exception as why:  # an answer that the library does not expect
            return Failure(Trouble.UNKNOWN, self._clean(f"{type(why).__name__}: {why}"))
        return answer if isinstance(answer, wanted) else Failure(Trouble.UNKNOWN, f"{method} answered something else")


def _is_moved(why: TelegramError) -> bool:
    """Is the group another chat now? The library says its new id (``migrate_to_chat_id``)."""
    from telegram import error

    return isinstance(why, error.ChatMigrated)


def _trouble(why: TelegramError) -> Trouble:
    from telegram import error

    match why:
        case error.InvalidToken() | error.EndPointNotFound():
            return Trouble.UNAUTHORIZED
        case error.Conflict():
            return Trouble.CONFLICT
        case error.Forbidden() | error.BadRequest() | error.ChatMigrated():
            return Trouble.REJECTED
        case _:
            return Trouble.UNKNOWN


class Telegram:
    """The same for a program without a loop: each call blocks until it is answered.

    A context manager; the connection is kept for the calls within.
    """

    def __init__(self, token: str, base_url: str = ORIGIN) -> None:
        self._runner = asyncio.Runner()
        self._connection = Connection(token, base_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()

    def send_message(self, chat_id: int, text: str) -> Failure | None:
        """As :meth:`Connection.send_message`."""
        return self._runner.run(self._connection.send_message(chat_id, text))


def _make_bot(token: str, origin: str, clean: Callable[[str], str]) -> tuple[Bot, list[BaseRequest]]:
    """The library's client with our view of what can go wrong on the way."""
    require_runtime("telegram")
    _import_httpx()
    import httpx
    from telegram import Bot
    from telegram.error import NetworkError, TelegramError
    from telegram.request import HTTPXRequest, RequestData
    from telegram.warnings import PTBUserWarning

    for name in ("httpx", "httpcore", "telegram"):  # they log URLs, and what cannot be parsed
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # It would rather give us its own objects. Those raise for an update that lacks a field, and
    # one such update would then stop all that follow.
    warnings.filterwarnings("ignore", "Please use 'Bot", PTBUserWarning)
    never_left = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)

    class Failed(TelegramError):
        def __init__(self, failure: Failure) -> None:
            super().__init__("")
            self.failure = failure

    class Request(HTTPXRequest):
        async def do_request(
            self, url: str, method: str, request_data: RequestData | None = None, *rest: Any, **timeouts: Any
        ) -> tuple[int, bytes]:
            try:
                status, body = await super().do_request(url, method, request_data, *rest, **timeouts)
            except NetworkError as why:
                cause = why.__cause__
                reason = type(cause).__name__ + (f": {cause}" if str(cause) else "")
                trouble = Trouble.NETWORK if isinstance(cause, never_left) else Trouble.UNKNOWN
                raise Failed(Failure(trouble, clean(reason))) from None
            if status == 429:
                raise Failed(Failure(Trouble.RATE_LIMITED, "Too Many Requests", _retry_after(body)))
            if status >= 500:
                raise Failed(Failure(Trouble.SERVER, f"HTTP status {status}"))
            if 300 <= status < 400:
                raise Failed(Failure(Trouble.NETWORK, f"HTTP status {status}: a redirect, which is not followed"))
            if status < 300 and _is_page(body):
                raise Failed(Failure(Trouble.NETWORK, f"HTTP status {status} with a page for a browser"))
            if status >= 400 and not _is_telegrams(status, body):
                raise Failed(Failure(Trouble.NETWORK, f"HTTP status {status} of something that stands before it"))
            return status, body

    verify = httpx.create_ssl_context() if origin.startswith("https:") else False
    requests: list[BaseRequest] = [
        Request(
            connection_pool_size=1,
            connect_timeout=_CONNECT,
            read_timeout=_READ,
            write_timeout=_WRITE,
            httpx_kwargs={
                "verify": verify,  # one for both: it weighs megabytes
                "trust_env": origin.startswith("https:"),  # else a proxy would read the token
                "headers": {"accept-encoding": "identity"},
                "event_hooks": {"response": [_bound(httpx)]},
            },
        )
        for _ in range(2)
    ]
    bot = Bot(token, base_url=f"{origin}/bot", get_updates_request=requests[0], request=requests[1])
    return bot, requests


def _bound(httpx: ModuleType) -> Callable[[Any], Awaitable[None]]:
    """A hook that lets of an answer at most :data:`_MOST_BYTES` in, and none that is compressed."""

    class Bounded(httpx.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in self.stream:
                size += len(part)
                if size > _MOST_BYTES:
                    raise httpx.ReadError("it says more than cn reads")
                yield part

        async def aclose(self) -> None:
            await self.stream.aclose()

    async def bound(response: Any) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx.ReadError("its answer is compressed, which was not asked for")
        response.stream = Bounded(response.stream)

    return bound


def load() -> None:
    """Import all that a message takes, which else happens on the way: a process that waits can do it then."""
    import anyio
    import h11  # noqa: F401

    Connection("1:x")
    anyio.run(anyio.sleep, 0)


def _import_httpx() -> None:
    """httpx without its command line, which would load click, rich and pygments where they are there.

    ``None`` in ``sys.modules`` makes an import fail (Python, "The import system", 5.3.1), and
    httpx goes on without.
    """
    if "httpx" not in sys.modules:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]
        try:
            import httpx  # noqa: F401
        finally:
            del sys.modules["httpx._main"]


def _is_telegrams(status: int, body: bytes) -> bool:
    """Is it Telegram that refuses (https://core.telegram.org/bots/api#making-requests), and no proxy or gateway?"""
    try:
        told = json.loads(body)
        return told["ok"] is False and told["error_code"] == status
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_page(body: bytes) -> bool:
    """Is it a page for a browser, such as a network's login? The Bot API answers in JSON alone."""
    return body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


def _retry_after(body: bytes) -> float:
    """``parameters.retry_after`` of an error, in seconds."""
    try:
        seconds = float(json.loads(body)["parameters"]["retry_after"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return _PATIENCE
    return seconds if 0 < seconds < 1e6 else _PATIENCE
