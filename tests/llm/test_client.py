"""One call to a server of the Messages API: what is tried again, what is told, what never leaks."""

from __future__ import annotations

import gc
import gzip
import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from cn.llm.client import call, check_model, count_tokens
from cn.llm.request import Answer, Block, Checked, Failure, Kind, Request, Said, Stop, Usage, read_answer, request_json
from cn.llm.usage import cost
from tests.support.hubs import ROOT, cn_env
from tests.support.model_server import KEY, MODEL, ModelServer, Reply, model_server
from tests.support.servers import free_port, gone, stalled_server

AT_ONCE = (0.0, 0.0, 0.0)
ASKED = Request(
    MODEL,
    8192,
    (Block("who you are " * 40, cached=True), Block("the hub ☕ " * 40, cached=True)),
    (Said("user", "what now?"),),
)

SERVER = ROOT / "tests/support/model_server.py"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as served:
        yield served
        assert served.problems == []


def ask(
    server: ModelServer,
    request: Request = ASKED,
    *,
    key: str = KEY,
    url: str = "",
    seconds: float = 30.0,
    pauses: Sequence[float] = AT_ONCE,
) -> Answer | Failure:
    return call(request, api_key=key, base_url=url or server.url, seconds=seconds, pauses=pauses)


def timed_out(asked: Callable[[float], Answer | Failure]) -> Failure:
    """The failure of a call that a server holds, with more seconds where a busy machine did not send the request."""
    for seconds in (0.5, 2.0, 8.0):
        found = failed(asked(seconds))
        if found.unknown:
            break
    return found


def answered(found: Answer | Failure) -> Answer:
    assert isinstance(found, Answer), found
    return found


def failed(found: Answer | Failure) -> Failure:
    assert isinstance(found, Failure), found
    return found


# What is sent, and what comes back.


def test_the_bytes_sent_are_the_bytes_shown(server: ModelServer) -> None:
    server.next("one")
    found = answered(ask(server))
    assert (found.text, found.stop, found.model, found.id) == ("one", Stop.END_TURN, MODEL, "msg_000001")
    (sent,) = server.requests
    assert (sent.method, sent.path) == ("POST", "/v1/messages")
    assert sent.body == request_json(ASKED).encode()


def test_the_second_call_reads_the_prefix_from_the_cache(server: ModelServer) -> None:
    first, second = answered(ask(server)).usage, answered(ask(server)).usage
    assert first.cache_write_tokens > 200
    assert first.cache_read_tokens == 0
    assert second == Usage(first.input_tokens, first.output_tokens, first.cache_write_tokens, 0)


def test_a_changed_hub_still_reads_the_stable_part(server: ModelServer) -> None:
    first = answered(ask(server)).usage
    changed = Request(MODEL, 8192, (ASKED.system[0], Block("another hub", cached=True)), ASKED.messages)
    second = answered(ask(server, changed)).usage
    assert 0 < second.cache_read_tokens < first.cache_write_tokens
    assert second.cache_write_tokens > 0


def test_all_text_blocks_are_one_text(server: ModelServer) -> None:
    server.next(Reply(text=("one ", "two"), thinking="hm"))
    assert answered(ask(server)).text == "one two"


@pytest.mark.parametrize("stop", [Stop.MAX_TOKENS, Stop.REFUSAL])
def test_a_cut_off_or_refused_answer_is_an_answer(server: ModelServer, stop: Stop) -> None:
    server.next(Reply("half", stop=stop.value))
    found = answered(ask(server))
    assert (found.text, found.stop, found.attempts) == ("half", stop, 1)


def test_an_answer_without_text_is_not_asked_for_again(server: ModelServer) -> None:
    server.next(Reply("", thinking="all of it", stop="max_tokens"))
    found = failed(ask(server))
    assert (found.kind, found.attempts) == (Kind.EMPTY, 1)
    assert found.usage.output_tokens > 0


# What may pass is tried again.


@pytest.mark.parametrize("status", [429, 529, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(server: ModelServer, status: int) -> None:
    server.next(Reply(status=status), Reply(status=status), Reply(status=status), "at last")
    found = answered(ask(server))
    assert (found.text, found.attempts) == ("at last", 4)
    assert found.unknown == (status in (502, 504))


@pytest.mark.parametrize(("status", "kind"), [(429, Kind.RATE_LIMITED), (529, Kind.OVERLOADED), (500, Kind.SERVER)])
def test_after_three_retries_it_fails(server: ModelServer, status: int, kind: Kind) -> None:
    server.next(*[Reply(status=status, message="later")] * 5)
    found = failed(ask(server))
    assert (found.kind, found.attempts, found.retryable) == (kind, 4, True)
    assert "later" in found.text
    assert len(server.calls) == 4


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Kind.INVALID),
        (401, Kind.AUTH),
        (402, Kind.PERMISSION),
        (403, Kind.PERMISSION),
        (404, Kind.NOT_FOUND),
        (413, Kind.TOO_LARGE),
        (422, Kind.INVALID),
    ],
)
def test_what_will_not_pass_fails_at_once(server: ModelServer, status: int, kind: Kind) -> None:
    server.next(Reply(status=status, message="no"))
    found = failed(ask(server))
    assert (found.kind, found.attempts, found.retryable, found.unknown) == (kind, 1, False, False)
    assert found.hint


@pytest.mark.parametrize("cut", ["accept", "read", "head", "body"])
def test_a_connection_that_breaks_off_is_tried_again_and_may_have_cost(server: ModelServer, cut: str) -> None:
    server.next(Reply(cut=cut), "again")
    found = answered(ask(server))
    assert (found.text, found.attempts) == ("again", 2)
    # Before the request is read, it depends on who is faster whether it went out whole.
    assert found.unknown or cut == "accept"


def test_nobody_there_costs_nothing() -> None:
    found = failed(call(ASKED, api_key=KEY, base_url=f"http://127.0.0.1:{free_port()}", seconds=30.0, pauses=AT_ONCE))
    assert (found.kind, found.attempts, found.retryable, found.unknown) == (Kind.NETWORK, 2, True, False)
    assert found.unreached, "the next run comes by itself: nobody waits for it"
    assert "cannot be reached" in found.text


def test_the_server_is_waited_for_as_it_asks(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("cn.llm.client.time.sleep", pauses.append)
    server.next(Reply(status=429, headers=(("retry-after", "0.4"),)))
    assert answered(ask(server)).attempts == 2
    assert pauses[0] >= 0.4


def test_a_server_that_asks_for_an_hour_is_left_to_a_later_run(server: ModelServer) -> None:
    server.next(Reply(status=429, headers=(("retry-after", "3600"),)))
    found = failed(ask(server))
    assert (found.attempts, found.retryable) == (1, True)


def test_a_server_may_forbid_another_try(server: ModelServer) -> None:
    server.next(Reply(status=529, headers=(("x-should-retry", "false"),)))
    assert failed(ask(server)).attempts == 1


def test_no_pause_outlasts_the_time_there_is(server: ModelServer) -> None:
    server.next(Reply(status=529))
    assert failed(ask(server, seconds=5.0, pauses=(60.0,))).attempts == 1


def test_what_is_no_message_was_paid_and_is_not_asked_for_again(server: ModelServer) -> None:
    server.next(Reply(raw=b"hello"))
    found = failed(ask(server))
    assert (found.kind, found.attempts, found.unknown) == (Kind.SERVER, 1, True)


@pytest.mark.parametrize("status", [200, 302, 403, 404])
def test_a_page_before_the_api_is_not_its_word_and_is_passed_when_it_is_gone(server: ModelServer, status: int) -> None:
    page = Reply(status=status, raw=b"\n<!doctype html><html>Log in to the network</html>")
    server.next(page)
    assert isinstance(ask(server), Answer)
    server.next(page, page, page, page)
    found = failed(ask(server))
    assert (found.kind, found.retryable, found.unknown) == (Kind.NETWORK, True, False)
    assert found.text == f"no model was reached: a page for a browser (status {status}) stands before the API"


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_is_not_the_word_of_the_api(server: ModelServer, status: int) -> None:
    with model_server() as elsewhere:
        moved = Reply(status=status, headers=(("location", f"{elsewhere.url}/v1/messages"),), raw=b"")
        server.next(moved)
        assert isinstance(ask(server), Answer)
        server.next(moved, moved, moved, moved)
        found = failed(ask(server))
        assert (found.kind, found.retryable, found.unreached) == (Kind.NETWORK, True, True)
        assert f"a redirect, which is not followed, (status {status})" in found.text
        assert "network" in found.hint
        assert "base_url" in found.hint
        assert elsewhere.requests == []


@pytest.mark.parametrize("status", [407, 511])
@pytest.mark.parametrize("raw", [b"", b"<html>Log in</html>", b"Log in"])
def test_a_network_that_wants_a_login_is_not_the_api(server: ModelServer, status: int, raw: bytes) -> None:
    login = Reply(status=status, raw=raw)
    server.next(login)
    assert isinstance(ask(server), Answer)
    server.next(login, login, login, login)
    found = failed(ask(server))
    assert (found.retryable, found.unreached) == (True, True)
    assert "wants a login" in found.text


# Time.


def test_an_answer_that_does_not_come_ends_with_the_time(server: ModelServer) -> None:
    server.next(*[Reply(hang=60.0)] * 3)
    found = timed_out(lambda seconds: ask(server, seconds=seconds))
    assert (found.kind, found.retryable, found.unknown, found.attempts) == (Kind.TIMEOUT, True, True, 1)


def test_an_answer_that_drips_ends_with_the_time(server: ModelServer) -> None:
    server.next(*[Reply(drip=0.05)] * 3)
    found = timed_out(lambda seconds: ask(server, seconds=seconds))
    assert (found.kind, found.unknown) == (Kind.TIMEOUT, True)


@contextmanager
def talking_server(first: bytes, again: bytes = b"", pause: float = 0.0) -> Iterator[str]:
    """A server that answers whatever it is asked with ``first``, then with ``again`` for ever; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()
        listener.settimeout(0.05)

        def talk() -> None:
            while not stop.is_set():
                with suppress(OSError):  # nobody asks, or whoever asked has left
                    connection = listener.accept()[0]
                    with connection:
                        connection.settimeout(10.0)
                        connection.recv(1 << 16)
                        connection.sendall(first)
                        while again and not stop.wait(pause):
                            connection.sendall(again)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            thread.join(20)


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: "


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("first", "again", "pause"),
    [
        (b"HTTP/1.1 200 OK\r\nx-slow: ", b"a", 0.05),
        (_HEAD + b"text/event-stream\r\n\r\n", b": ping\n\n", 0.05),
        (_HEAD + b"text/plain\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 1000, 0.0),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.05),
    ],
    ids=["headers", "events", "chunks", "hints"],
)
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_what_drips_without_end_ends_with_the_time(first: bytes, again: bytes, pause: float) -> None:
    with talking_server(first, again, pause) as url:
        found = timed_out(lambda seconds: call(ASKED, api_key=KEY, base_url=url, seconds=seconds, pauses=AT_ONCE))
        gc.collect()
    assert (found.kind, found.unknown, found.attempts) == (Kind.TIMEOUT, True, 1)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (_HEAD + b"text/event-stream\r\n\r\n", b"event: ping\ndata: {}\n\n" * 10_000),
        (_HEAD + b"application/json\r\n\r\n[", b"[]," * 100_000),
        (b"HTTP/1.1 500 No\r\n\r\n", b" " * 100_000),
    ],
    ids=["events", "json", "error"],
)
def test_an_answer_of_gigabytes_is_paid_once_and_not_read(first: bytes, again: bytes) -> None:
    with talking_server(first, again) as url:
        found = failed(call(ASKED, api_key=KEY, base_url=url, seconds=30.0, pauses=AT_ONCE))
    assert (found.kind, found.unknown, found.retryable, found.attempts) == (Kind.SERVER, True, False, 1)
    assert "says more than cn reads" in found.text


@pytest.mark.parametrize("charset", ["rot13", "undefined", "zip_codec", "utf-7", "\x80"])
def test_a_server_chooses_no_codec(server: ModelServer, charset: str) -> None:
    """The package decodes the text of an error as the server says."""
    header = ("content-type", f"text/plain; charset={charset}")
    server.next(Reply(status=400, headers=(header,), raw=b"because"))
    assert "because" in failed(ask(server)).text


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000, b"\xff\xfe", b"\x00", b"1e999"])
def test_json_that_is_deep_or_none_is_an_answer_that_was_paid(server: ModelServer, body: bytes) -> None:
    server.next(Reply(raw=body))
    found = failed(ask(server))
    assert (found.kind, found.attempts, found.unknown) == (Kind.SERVER, 1, True)
    server.next(Reply(status=400, raw=body))
    assert failed(ask(server)).kind is Kind.INVALID


def test_what_a_server_counts_and_calls_itself_has_bounds() -> None:
    """A price of more tokens would be no number, and each line of the log would hold such a name."""
    said = {"type": "text", "text": "hi"}
    told = {"content": [said], "stop_reason": "end_turn", "model": "m\n" * 9999, "id": "\ud800" * 9999}
    found = answered(
        read_answer(json.dumps({**told, "usage": {"input_tokens": 10**400, "output_tokens": -1}}).encode())
    )
    assert cost(found.usage, MODEL)
    assert (len(found.model), len(found.id.encode())) < (300, 900)
    assert "\n" not in found.model


def test_a_server_that_never_reads_ends_with_the_time() -> None:
    with stalled_server() as (port, _):
        found = failed(call(ASKED, api_key=KEY, base_url=f"http://127.0.0.1:{port}", seconds=0.5, pauses=()))
    assert found.kind is Kind.TIMEOUT


def test_no_thread_outlives_a_call(server: ModelServer) -> None:
    server.next(Reply(hang=60.0))
    ask(server, seconds=0.3)
    assert [t for t in threading.enumerate() if isinstance(t, threading.Timer)] == []


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("reply", "sent", "code"),
    [
        (Reply(hang=60.0), signal.SIGTERM, 143),
        (Reply(hang=60.0), signal.SIGINT, 130),
        (Reply("x" * 1000, drip=0.1), signal.SIGTERM, 143),
    ],
    ids=["silent", "silent, Ctrl-C", "drips"],
)
def test_a_signal_ends_the_wait(server: ModelServer, reply: Reply, sent: signal.Signals, code: int) -> None:
    script = (
        "import signal, sys\n"
        "from cn.cli.main import _terminate\n"
        "from cn.llm.request import Request, Said\n"
        "from cn.llm.client import call\n"
        "signal.signal(signal.SIGTERM, _terminate)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's & ignores it
        "try:\n"
        f"    call(Request({MODEL!r}, 1, (), (Said('user', 'hi'),)), api_key={KEY!r}, base_url=sys.argv[1])\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    server.next(reply)
    child = subprocess.Popen([sys.executable, "-c", script, server.url], env=cn_env(), stdin=subprocess.DEVNULL)
    try:
        server.wait(1, 60)
        child.send_signal(sent)
        assert child.wait(50) == code  # the server hangs for longer
    finally:
        child.kill()
        child.wait(20)


# Secrets and settings.


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=401, message=f"invalid x-api-key {KEY}"),
        Reply(status=400, message=f"headers: Authorization: Bearer {KEY}"),
        Reply(status=500, raw=f"Traceback … {KEY} …".encode()),
        Reply(raw=f"no message but {KEY}".encode()),
        Reply(stop="refusal", text="", stop_details={"explanation": "because"}),
    ],
    ids=str,
)
def test_the_key_is_in_no_text(
    server: ModelServer, reply: Reply, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    server.next(*[reply] * 4)
    found = ask(server)
    assert KEY not in repr(found)
    assert KEY not in caplog.text
    assert KEY not in "".join(capfd.readouterr())


def test_the_key_is_in_no_text_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise httpx2.LocalProtocolError(f"illegal header b'Bearer {KEY}'")

    monkeypatch.setattr(httpx2.Client, "send", refuse)
    found = failed(call(ASKED, api_key=KEY, base_url=f"http://127.0.0.1:{free_port()}", pauses=()))
    assert "illegal header b'Bearer ***'" in found.text


@pytest.mark.parametrize("key", ["", "sk-with\nnewline", "sk with space", "sk-é", "sk-\x00", " sk-space-before"])
def test_a_key_that_is_none_is_told_and_not_sent(server: ModelServer, key: str) -> None:
    found = failed(ask(server, key=key))
    assert (found.kind, found.attempts) == (Kind.AUTH, 0)
    assert not key or key not in found.text + found.hint
    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "api.example.org",
        "ftp://api.example.org",
        "http://",
        "http://[",
        "http://host:99999",
        "https://user:password@api.example.org",
        "https://api.example.org/?key=password",
        "-x",
    ],
)
def test_a_base_url_that_is_none_is_told_and_not_asked(server: ModelServer, url: str) -> None:
    found = failed(ask(server, url=url))
    assert (found.kind, found.attempts) == (Kind.INVALID, 0)
    assert "password" not in found.text.replace("a password", "")


def test_a_wrong_key_is_told_with_the_remedy(server: ModelServer) -> None:
    found = failed(ask(server, key="sk-ant-wrong-0123456789"))
    assert (found.kind, found.attempts) == (Kind.AUTH, 1)
    assert "ANTHROPIC_KEY" in found.hint
    assert "wrong-0123456789" not in found.text


def test_nothing_of_the_environment_reaches_a_call(server: ModelServer, home: Path) -> None:
    """In a process of its own: the package reads some of it when it is imported."""
    profile = home / ".config/anthropic/configs/default.json"
    profile.parent.mkdir(parents=True)
    profile.write_text(json.dumps({"base_url": "http://127.0.0.1:9"}))
    (home / ".netrc").write_text("machine 127.0.0.1 login netrc password leaked\n")
    (home / ".netrc").chmod(0o600)
    everything = {
        "ANTHROPIC_API_KEY": "sk-leaked",
        "ANTHROPIC_AUTH_TOKEN": "sk-leaked",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_CUSTOM_HEADERS": "x-leaked: yes\nAuthorization: Bearer sk-leaked\nanthropic-version: 1",
        "ANTHROPIC_LOG": "debug",
        "ANTHROPIC_PROFILE": "default",
        "OTEL_TRACES_EXPORTER": "console",
        "http_proxy": "http://127.0.0.1:9",
        "all_proxy": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
        "no_proxy": "",
        "NO_PROXY": "",
        "NETRC": str(home / ".netrc"),
    }
    script = (
        "import os, sys\n"
        "from cn.llm.request import Request, Said\n"
        "from cn.llm.client import call\n"
        f"asked = Request({MODEL!r}, 1, (), (Said('user', 'hi'),))\n"
        f"found = call(asked, api_key={KEY!r}, base_url=sys.argv[1])\n"
        "print(found.text)\n"
        "print(os.environ['ANTHROPIC_API_KEY'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, server.url],
        env=cn_env(everything),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("ok\nsk-leaked\n", "")
    (sent,) = server.requests
    assert "leaked" not in json.dumps(sent.headers)
    assert sent.headers["x-api-key"] == KEY
    assert "authorization" not in sent.headers
    assert "traceparent" not in sent.headers


def test_a_deprecated_model_warns_nobody(server: ModelServer) -> None:
    """The package would print a warning; :func:`check_model` tells it where it is looked for."""
    server.models = ("claude-sonnet-4-5",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answered(ask(server, Request("claude-sonnet-4-5", 1, (), (Said("user", "hi"),))))


# The Models API, and counting.


def check(server: ModelServer, model: str = MODEL, url: str = "", key: str = KEY) -> Checked | Failure:
    return check_model(model, api_key=key, base_url=url or server.url, seconds=10.0)


def test_a_model_that_is_there_is_known(server: ModelServer) -> None:
    assert check(server) == Checked(MODEL, True, "", 128_000)
    assert [(r.method, r.path) for r in server.requests] == [("GET", f"/v1/models/{MODEL}")]


@pytest.mark.parametrize("model", ["claude-sonnet-4-latest", "../messages", "a b", "☕"])
def test_a_model_that_is_not_there_is_a_failure_with_the_remedy(server: ModelServer, model: str) -> None:
    found = check(server, model)
    assert isinstance(found, Failure)
    assert (found.kind, found.text) == (Kind.NOT_FOUND, f"there is no model {model}")
    assert "llm.model" in found.hint


def test_a_model_that_is_withdrawn_is_a_failure(server: ModelServer) -> None:
    server.lifecycle = {"lifecycle": "retired", "retires_at": "2026-06-15T00:00:00Z"}
    assert isinstance(check(server), Failure)


def test_a_server_without_models_leaves_it_unknown(server: ModelServer) -> None:
    server.has_models_api = False
    found = check(server)
    assert isinstance(found, Checked)
    assert (found.known, found.id) == (False, MODEL)
    assert "no Models API" in found.note


def test_a_server_that_is_away_leaves_it_unknown(server: ModelServer) -> None:
    found = check(server, url=f"http://127.0.0.1:{free_port()}")
    assert isinstance(found, Checked)
    assert not found.known
    assert "cannot be reached" in found.note


def test_a_wrong_key_is_a_failure_of_the_check_too(server: ModelServer) -> None:
    found = check(server, key="sk-ant-wrong")
    assert isinstance(found, Failure)
    assert found.kind is Kind.AUTH


def test_tokens_are_counted_by_the_server(server: ModelServer) -> None:
    counted = count_tokens(ASKED, api_key=KEY, base_url=server.url)
    assert counted == answered(ask(server)).usage.prompt_tokens
    assert "max_tokens" not in server.requests[0].json


def test_a_server_that_cannot_count_gives_nothing(server: ModelServer) -> None:
    assert count_tokens(ASKED, api_key=KEY, base_url=f"http://127.0.0.1:{free_port()}", seconds=5) is None
    assert count_tokens(ASKED, api_key="", base_url=server.url) is None
    assert count_tokens(ASKED, api_key="sk-ant-wrong", base_url=server.url) is None


# The import costs a second.


@pytest.mark.parametrize("args", [("--version",), ("--help",), ("usage", "--help"), ("inbox", "--help")])
def test_only_a_call_imports_the_package(args: tuple[str, ...]) -> None:
    script = (
        "import sys\n"
        "from cn.cli.main import cli\n"
        f"cli.main({list(args)!r}, prog_name='cn', standalone_mode=False)\n"
        "import cn.llm.client, cn.llm.usage\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'anthropic', 'httpx2', 'pydantic'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=cn_env(), capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


# The server of the tests itself.


def test_the_server_runs_as_a_program_and_ends_with_its_owner(tmp_path: Path) -> None:
    answer = tmp_path / "answer.md"
    answer.write_text("---\nid: {id}\nack: {id}\n---\n")
    program = [sys.executable, str(ROOT / "tests/support/model_server.py"), "--port", "0", "--answer", str(answer)]
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys; print(subprocess.Popen({program!r}).pid, flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=cn_env(),
    )
    assert owner.stdout is not None
    try:
        lines = [owner.stdout.readline(), owner.stdout.readline()]
        pid = int(next(line for line in lines if line.strip().isdigit()))
        url = next(line for line in lines if line.startswith("http")).strip()
        request = Request(MODEL, 1, (), (Said("user", "id: 20260205-143000-3f2a9c"),))
        found = answered(call(request, api_key=KEY, base_url=url, seconds=20.0))
        assert found.text == "---\nid: 20260205-143000-3f2a9c\nack: 20260205-143000-3f2a9c\n---\n"
    finally:
        owner.kill()
        owner.communicate(timeout=20)
    assert gone([pid])


def test_a_request_the_api_would_refuse_is_refused_by_the_server(server: ModelServer) -> None:
    import httpx2

    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2026-10-21", "content-type": "application/json"}
    body = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    bad = [
        (401, {**headers, "authorization": "Bearer no"}, body),
        (400, {**headers, "anthropic-version": ""}, body),
        (400, {**headers, "content-type": "text/plain"}, body),
        (400, headers, {**body, "tools": []}),
        (400, headers, {**body, "temperature": 1}),
        (400, headers, {**body, "max_tokens": 0}),
        (400, headers, {**body, "messages": body["messages"] * 2}),  # type: ignore[operator]
        (400, headers, {**body, "system": [{"type": "text", "text": ""}]}),
        (400, headers, {**body, "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5}),
        (404, headers, {**body, "model": "other"}),
    ]
    with httpx2.Client(trust_env=False) as plain:
        for status, given, sent in bad:
            response = plain.post(f"{server.url}/v1/messages", headers=given, content=json.dumps(sent).encode())
            assert response.status_code == status, sent
            assert response.json()["error"]["message"]
        keyed = {**headers, "x-api-key": KEY, "anthropic-version": "2023-06-01"}
        del keyed["authorization"]
        assert plain.post(f"{server.url}/v1/messages", headers=keyed, content=json.dumps(body).encode()).is_success


def test_a_compressed_answer_is_not_unpacked(server: ModelServer) -> None:
    server.next(Reply(raw=gzip.compress(b" " * 10_000_000), headers=(("content-encoding", "gzip"),)))
    found = failed(ask(server))
    assert (found.kind, found.attempts, found.unknown) == (Kind.SERVER, 1, True)
    assert "compresses" in found.text
