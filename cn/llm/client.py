"""Ask the model: the one importer of the ``anthropic`` package.

The package brings authentication, headers, version and errors of the API. Everything else
is decided here, because a call costs money: the bytes sent are those of
:func:`cn.llm.request.request_json`, its own retries are off, nothing comes from the
environment, and no text that leaves this module holds the key. It takes a second to
import, so that is done where a call is made.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from cn.llm import request as api
from cn.llm.request import Answer, Checked, Failure, Kind, Request
from cn.llm.tool_turns import Conversation, Turn, conversation_json, read_turn
from cn.system.clock import now
from cn.system.extras import require_runtime
from cn.values.known_secrets import hide
from cn.values.text import one_line

if TYPE_CHECKING:
    import anthropic
    import httpx2

ORIGIN = "https://api.anthropic.com"
SECONDS = 600.0
"""For one call with all its attempts. The API itself gives up on an answer after ten minutes."""
CONNECT_SECONDS = 10.0
CHECK_SECONDS = 20.0
PAUSES = (1.0, 4.0, 16.0)
"""Seconds before each further attempt: three retries."""
_UNREACHED = 1
"""How often a server is tried again to which no connection came: it is down, and the next run comes by itself."""
MAX_BYTES = 2 << 20
"""What is read of one response. An answer of 128,000 tokens has less than one MiB; hostile JSON takes
thirty times its size in memory, and what looks like secrets everywhere 20 seconds a MiB."""
_Read = TypeVar("_Read", Answer, Turn)
_READ_HEADERS = ("retry-after", "x-should-retry")


def call(
    request: Request, *, api_key: str, base_url: str = "", seconds: float = SECONDS, pauses: Sequence[float] = PAUSES
) -> Answer | Failure:
    """One answer, or why there is none; blocks for at most ``seconds``, all attempts included.

    ``base_url`` is another server of the API (default :data:`ORIGIN`). What may pass is tried again,
    once for each of ``pauses``. An attempt that is never answered takes all the time there is: from
    here a slow answer looks the same, and asking twice would pay twice. Signals end the wait.
    """
    return _exchange(api.request_json(request), api.read_answer, api_key, base_url, seconds, pauses)


def call_with_tools(
    asked: Conversation, *, api_key: str, base_url: str = "", seconds: float = SECONDS, pauses: Sequence[float] = PAUSES
) -> Turn | Failure:
    """One turn of a conversation with tools; otherwise as :func:`call`."""
    return _exchange(conversation_json(asked), read_turn, api_key, base_url, seconds, pauses)


def _exchange(
    text: str,
    read: Callable[[bytes], _Read | Failure],
    api_key: str,
    base_url: str,
    seconds: float,
    pauses: Sequence[float],
) -> _Read | Failure:
    """Send a body, and read what comes; again where that may help."""
    body = text.encode("utf-8")
    with _open_session(api_key, base_url, seconds) as line:
        if isinstance(line, Failure):
            return line
        begin, attempt, unknown = time.monotonic(), 1, False
        while True:
            reply = line.ask("POST", "/v1/messages", body)
            found: _Read | Failure = reply.failure or read(reply.body)
            unknown = unknown or found.unknown
            found = replace(found, attempts=attempt, unknown=unknown, seconds=round(time.monotonic() - begin, 3))
            if not isinstance(found, Failure) or not (found.retryable and reply.again):
                return found
            attempt += 1
            kept = pauses[:_UNREACHED] if found.unreached else pauses
            pause = api.pause_before(attempt, kept, reply.retry_after, random.random())  # noqa: S311  no secret
            if pause is None or time.monotonic() + pause >= line.deadline:
                return found
            time.sleep(pause)


def check_model(model: str, *, api_key: str, base_url: str = "", seconds: float = CHECK_SECONDS) -> Checked | Failure:
    """Ask the Models API for ``model``: known, or why it cannot be used, or that nobody can tell.

    A failure means that a call would fail. A server without that API, or one that does not
    answer now, is no failure: ``Checked`` with ``known`` false.
    """
    with _open_session(api_key, base_url, seconds) as line:
        if isinstance(line, Failure):
            return line
        reply = line.ask("GET", f"/v1/models/{quote(model, safe='')}")
    failure = reply.failure
    if failure is None:
        return api.read_model(model, reply.body)
    if failure.kind is Kind.NOT_FOUND:
        kind, message = api.error_fields(reply.body)
        if kind == "not_found_error" and "model" in message:  # else it is the path that is not found
            return replace(failure, text=f"there is no model {one_line(model, 80)}", attempts=1)
        return api.unchecked(model, "the server has no Models API")
    if api.is_page(reply.body):
        return api.unchecked(model, "the server has no Models API, or a page stands before it")
    if failure.kind in (Kind.AUTH, Kind.PERMISSION):
        return replace(failure, attempts=1)
    return api.unchecked(model, failure.text)


def count_tokens(request: Request, *, api_key: str, base_url: str = "", seconds: float = CHECK_SECONDS) -> int | None:
    """The input tokens of a request as the API counts them, free of charge; None where it cannot say."""
    with _open_session(api_key, base_url, seconds) as line:
        if isinstance(line, Failure):
            return None
        reply = line.ask("POST", "/v1/messages/count_tokens", api.count_json(request).encode("utf-8"))
    if reply.failure is not None:
        return None
    return api.read_count(reply.body)


def load() -> None:
    """Import the package. :func:`call` does; see :func:`load_all`.

    It is 2,900 modules, one to three seconds and 50 MB (anthropic 2.11). Without the collector, which
    finds nothing among them, a fifth less. The package's environment is hidden, see
    :func:`_without_settings`.
    """
    require_runtime("anthropic")
    on = gc.isenabled()
    gc.disable()
    try:
        with _without_settings():
            import anthropic  # noqa: F401
    finally:
        if on:
            gc.enable()


def load_all() -> None:
    """What a first call loads beside the package, too: for a process that waits for work anyway."""
    load()
    with _open_session("none", "", 0.0):
        pass


@dataclass(frozen=True)
class _Reply:
    """One attempt: the body of the response, or a failure; ``again`` unless the server says otherwise."""

    body: bytes
    failure: Failure | None = None
    retry_after: float | None = None
    again: bool = True


class _Session:
    """One client for all attempts of a call. ``deadline`` is a time of :func:`time.monotonic`."""

    def __init__(self, api_key: str, base_url: str, deadline: float) -> None:
        import httpx2

        self.deadline = deadline
        self.secrets = (api_key,)
        self.host = urlsplit(base_url or ORIGIN).netloc
        self.watch = _Deadline(deadline)
        self.client = _client(api_key, base_url, _transport(self.watch))
        self.response_type = httpx2.Response
        self.timeout_type = httpx2.Timeout

    def ask(self, method: str, path: str, body: bytes | None = None) -> _Reply:
        """One request and its response, until the deadline."""
        import anthropic

        left = self.deadline - time.monotonic()
        if left <= 0:
            late = Failure(Kind.TIMEOUT, "no time is left", api.HINTS[Kind.TIMEOUT], retryable=True)
            return _Reply(b"", late)
        limits: Any = {"timeout": self.timeout_type(left, connect=min(left, CONNECT_SECONDS))}
        try:
            with self.watch.on(left):
                if method == "GET":
                    response = self.client.get(path, cast_to=self.response_type, options=limits)
                else:
                    response = self.client.post(path, cast_to=self.response_type, content=body, options=limits)
        except anthropic.APIStatusError as error:
            return self._refused(error)
        except Exception as error:  # the package's own, and what an answer makes it do that it does not expect
            return _Reply(b"", self._broken(error))
        return _Reply(response.content)

    def _refused(self, error: anthropic.APIStatusError) -> _Reply:
        headers, content = error.response.headers, error.response.content
        return _Reply(
            content,
            api.read_error(error.status_code, content, self.secrets),
            api.parse_retry_after(headers.get("retry-after", ""), now()),
            # Not in RFC 9110, but the API sends it and its own clients obey.
            headers.get("x-should-retry", "").lower() != "false",
        )

    def _broken(self, error: Exception) -> Failure:
        """No response, or half of one. Only a request that went out whole can have been charged.

        One that says too much, or packs it, has answered: it would do the same again, and be paid again.
        """
        import anthropic

        sent = self.watch.sent
        if self.watch.refused:
            text, hint = f"{self.host} {self.watch.refused}", "check llm.base_url: it must lead to a server of that API"
            return Failure(Kind.SERVER, one_line(hide(text, *self.secrets), 400), hint, unknown=True)
        if self.watch.expired or isinstance(error, anthropic.APITimeoutError):
            what = "did not answer in time" if sent else "does not answer"
            kind = Kind.TIMEOUT
        else:
            what = "broke off before it answered" if sent else "cannot be reached"
            kind = Kind.NETWORK
        why = one_line(str(error.__cause__ or error), 200)  # without addresses of objects
        text = f"{self.host} {what}{f': {why}' if why and not self.watch.expired else ''}"
        return Failure(kind, one_line(hide(text, *self.secrets), 400), api.HINTS[kind], retryable=True, unknown=sent)


@contextmanager
def _open_session(api_key: str, base_url: str, seconds: float) -> Iterator[_Session | Failure]:
    """A line to the server for so many seconds, or the failure that its settings are."""
    problem = _unusable(api_key, base_url)
    if problem is not None:
        yield problem
        return
    load()
    with _without_settings():
        line = _Session(api_key, base_url, time.monotonic() + seconds)
    try:
        yield line
    finally:
        line.client.close()


def _unusable(api_key: str, base_url: str) -> Failure | None:
    if not api_key:
        return Failure(Kind.AUTH, "there is no API key", "set ANTHROPIC_KEY in the environment")
    if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
        return Failure(Kind.AUTH, "the API key holds characters that no key has", "copy it again, without spaces")
    if base_url and not _is_url(base_url):
        return Failure(
            Kind.INVALID,
            "llm.base_url is no plain URL of a server",
            "write it as https://api.example.org, without a name, a password, or a query",
        )
    return None


def _is_url(text: str) -> bool:
    """Credentials in it would take the place of the key (httpx2, "Authentication")."""
    try:
        url = urlsplit(text)
        plain = not (url.username or url.password or url.query or url.fragment)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and plain
    except ValueError:
        return False


@contextmanager
def _without_settings() -> Iterator[None]:
    """Hide the package's environment while it is imported and a client is made.

    It would take from there a server, headers that override ours, and a log level that prints every
    prompt (anthropic 2.11, ``_client.py``, ``_utils/_logs.py``). cn's configuration is the only one.
    """
    hidden = {name: value for name, value in os.environ.items() if name.startswith("ANTHROPIC_")}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


def _client(api_key: str, base_url: str, transport: httpx2.BaseTransport) -> anthropic.Anthropic:
    """The package's client: no retries, no redirects, no proxy, no tracing.

    ``trust_env`` off leaves proxies, ``.netrc`` and certificate files of the environment out. The key goes
    into ``x-api-key``, the header that the API documents for it ("API overview", Authentication), and
    nowhere else: the package (2.12) would send it as a bearer token, which gateways take for another kind.
    """
    import anthropic
    import httpx2

    keyed: Any = {"X-Api-Key": api_key, "Authorization": anthropic.Omit()}
    return anthropic.Anthropic(
        api_key=api_key,
        base_url=base_url or ORIGIN,
        default_headers=keyed,
        max_retries=0,
        open_telemetry=False,
        http_client=httpx2.Client(transport=transport, trust_env=False, headers={"accept-encoding": "identity"}),
    )


class _Deadline:
    """Ends an exchange that outlasts the deadline: the limits of the package are per read, not in all.

    It follows the exchange through the ``trace`` extension of httpx2 ("Request extensions"), which
    names each step and hands out the socket; a timer shuts that down.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.expired = False
        self.sent = False
        self.refused = ""
        """Why an answer was not read to its end."""
        self._socket: socket.socket | None = None

    @contextmanager
    def on(self, seconds: float) -> Iterator[None]:
        """Watch one exchange. The timer's thread is gone afterwards, so that children can be forked."""
        self.expired, self.sent, self.refused = False, False, ""
        timer = threading.Timer(seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """One step of the exchange."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
        elif event.endswith("send_request_body.complete"):
            self.sent = True
        if self.expired and not event.endswith(".failed") and "response_closed" not in event:  # it ends anyway
            raise TimeoutError

    def _expire(self) -> None:
        self.expired = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # Not the method of an SSL socket, which drops the state that a reader uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _transport(watch: _Deadline) -> httpx2.BaseTransport:
    """The network, watched and bounded."""
    import httpx2

    class Bounded(httpx2.SyncByteStream):
        """At most :data:`MAX_BYTES` of a body."""

        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for part in self.stream:
                size += len(part)
                if size > MAX_BYTES:
                    watch.refused = "says more than cn reads"
                    raise httpx2.ReadError(watch.refused)
                if watch.expired:
                    raise TimeoutError
                yield part

        def close(self) -> None:
            self.stream.close()

    class Watched(httpx2.HTTPTransport):
        """Tells ``watch`` of every step."""

        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            request.extensions = {**request.extensions, "trace": watch.trace}
            response = super().handle_request(request)
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                response.close()  # a few bytes could become gigabytes
                watch.refused = "compresses its answer, which was not asked for"
                raise httpx2.ReadError(watch.refused)
            # A server chooses no codec for the package to decode with, and no place to go to instead.
            read = {name: response.headers[name] for name in _READ_HEADERS if name in response.headers}
            return httpx2.Response(
                response.status_code, headers=read, stream=Bounded(response.stream), extensions=response.extensions
            )

    return Watched(trust_env=False, socket_options=_keep_alive())


def _keep_alive() -> list[tuple[int, int, int]]:
    """Probes on a silent connection: a long answer must not be forgotten by a router (tcp(7))."""
    options = (getattr(socket, name, None) for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"))
    probes = [(socket.IPPROTO_TCP, option, 60) for option in options if option is not None]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *probes]
