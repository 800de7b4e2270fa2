"""The Telegram client against a real server on loopback."""

from __future__ import annotations

import base64
import gzip
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cn.telegram import client as telegram
from cn.telegram.api import Failure, Trouble
from cn.telegram.client import Connection, Telegram
from cn.values.errors import ConfigError
from tests.support.hubs import ROOT, cn_env
from tests.support.servers import free_port
from tests.support.telegram_server import (
    BAD_GATEWAY,
    CUT,
    CUT_AFTER,
    CUT_WITHIN,
    NOT_JSON,
    SERVER_ERROR,
    TOKEN,
    USER,
    Fault,
    TelegramServer,
    error,
    rate_limit,
    telegram_server,
)

SECRET = TOKEN.partition(":")[2]


class Bot(Telegram):
    """A client without a loop that asks for updates, too."""

    def get_updates(self, offset: int | None = None, timeout: float = 0) -> list[Any] | Failure:
        return self._runner.run(self._connection.get_updates(offset, timeout))


def trouble(answer: object) -> Trouble | None:
    assert answer is None or isinstance(answer, Failure), answer
    return answer.trouble if answer else None


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    with telegram_server() as running:
        yield running


@pytest.fixture
def client(server: TelegramServer) -> Iterator[Bot]:
    with Bot(TOKEN, server.url) as bot:
        yield bot


def ids(updates: object) -> list[int]:
    assert isinstance(updates, list), updates
    return [update["update_id"] for update in updates]


# What works.


def test_updates_come_until_a_later_offset_confirms_them(server: TelegramServer, client: Bot) -> None:
    first, second = server.say("one"), server.say("two")
    assert ids(client.get_updates()) == [first, second]
    assert ids(client.get_updates(first)) == [first, second]
    assert ids(client.get_updates(second)) == [second]
    assert server.waits() == [second]
    assert ids(client.get_updates(second + 1)) == []


def test_a_poll_waits_for_the_next_message(server: TelegramServer, client: Bot) -> None:
    threading.Timer(0.2, server.say, ("hi",)).start()
    assert len(ids(client.get_updates(timeout=20))) == 1
    assert server.count("getUpdates") == 1


def test_only_messages_and_edits_are_asked_for(server: TelegramServer, client: Bot) -> None:
    client.get_updates()
    assert server.calls[-1].params["allowed_updates"] == '["message", "edited_message"]'


def test_an_update_that_the_library_could_not_read_is_passed_on_as_it_is(server: TelegramServer, client: Bot) -> None:
    server.raw({"message": {"message_id": "x"}})
    server.raw({"update_id": "no number"})
    found = client.get_updates()
    assert isinstance(found, list)
    assert found[0]["message"] == {"message_id": "x"}


def test_an_offset_far_ahead_is_answered_from_the_head_of_the_queue(server: TelegramServer, client: Bot) -> None:
    id = server.say("after a quiet week the ids begin anew")
    assert ids(client.get_updates(id + 1000)) == [id]


def test_a_message_is_sent_as_plain_text_without_preview(server: TelegramServer, client: Bot) -> None:
    text = "<b>*_[x](https://example.org)\n\n  é😀 \0 &amp; +%"
    assert client.send_message(USER, text) is None
    assert server.texts() == [text]
    params = server.calls[-1].params
    assert "parse_mode" not in params
    assert params["link_preview_options"] == '{"is_disabled": true}'


def test_half_a_character_does_not_stop_a_message(server: TelegramServer, client: Bot) -> None:
    assert client.send_message(USER, "a\ud83d") is None
    assert server.texts() == ["a?"]


def test_the_limit_of_a_message_is_that_of_the_server(server: TelegramServer, client: Bot) -> None:
    assert client.send_message(USER, "😀" * 2048) is None
    assert trouble(client.send_message(USER, "😀" * 2049)) is Trouble.REJECTED


def test_one_connection_serves_many_calls(server: TelegramServer, client: Bot) -> None:
    for _ in range(20):
        assert client.send_message(USER, "x") is None
    assert server.connections == 1


# What goes wrong.


@pytest.mark.parametrize(
    ("fault", "failure", "delivered"),
    [
        (error(401, "Unauthorized"), Trouble.UNAUTHORIZED, 0),
        (error(404, "Not Found"), Trouble.UNAUTHORIZED, 0),
        (error(400, "Bad Request: chat not found"), Trouble.REJECTED, 0),
        (error(400, "Bad Request: upgraded", migrate_to_chat_id=-100), Trouble.REJECTED, 0),
        (error(403, "Forbidden: bot was blocked by the user"), Trouble.REJECTED, 0),
        (error(409, "Conflict: terminated by other getUpdates request"), Trouble.CONFLICT, 0),
        (rate_limit(7), Trouble.RATE_LIMITED, 0),
        (SERVER_ERROR, Trouble.SERVER, 0),
        (BAD_GATEWAY, Trouble.SERVER, 0),
        (Fault(503, b""), Trouble.SERVER, 0),
        (Fault(418, b"teapot"), Trouble.NETWORK, 0),
        (Fault(200, b"\n<!doctype html><html>Log in</html>", "text/html"), Trouble.NETWORK, 0),
        (Fault(200, b"\xef\xbb\xbf<html>Log in</html>", "text/html"), Trouble.NETWORK, 0),
        (Fault(302, b""), Trouble.NETWORK, 0),
        (Fault(307, b"<html>moved</html>", "text/html"), Trouble.NETWORK, 0),
        (Fault(401, b"<html>401</html>"), Trouble.NETWORK, 0),
        (Fault(404, b'{"ok": false}'), Trouble.NETWORK, 0),
        (Fault(403, b'{"ok": false, "error_code": 404}'), Trouble.NETWORK, 0),
        (NOT_JSON, Trouble.UNKNOWN, 0),
        (Fault(200, b"[]"), Trouble.UNKNOWN, 0),
        (Fault(200, b'{"ok": true}'), Trouble.UNKNOWN, 0),
        (Fault(200, b'{"ok": true, "result": {"message_id": "x"}}'), Trouble.UNKNOWN, 0),
        (Fault(200, b"\xff\xfe"), Trouble.UNKNOWN, 0),
        (CUT, Trouble.UNKNOWN, 0),
        (CUT_AFTER, Trouble.UNKNOWN, 1),
        (CUT_WITHIN, Trouble.UNKNOWN, 1),
    ],
)
def test_every_failure_of_a_message_is_a_value(
    server: TelegramServer, client: Bot, fault: Fault, failure: Trouble, delivered: int
) -> None:
    server.fault("sendMessage", fault)
    answer = client.send_message(USER, "hi")
    assert trouble(answer) is failure
    assert answer is not None
    assert len(server.sent) == delivered
    assert not (delivered and answer.is_unsent), "a message that is out must not be sent again"
    assert client.send_message(USER, "again") is None


@pytest.mark.parametrize("fault", [error(401, "Unauthorized"), rate_limit(3), BAD_GATEWAY, NOT_JSON, CUT])
def test_a_poll_fails_in_the_same_ways(server: TelegramServer, client: Bot, fault: Fault) -> None:
    server.fault("getUpdates", fault)
    assert isinstance(client.get_updates(), Failure)
    assert client.get_updates() == []


def test_the_pause_that_telegram_asks_for_is_told(server: TelegramServer, client: Bot) -> None:
    server.fault("sendMessage", rate_limit(17), Fault(429, b"<html>"), error(429, "x", retry_after=-1))
    assert client.send_message(USER, "hi") == Failure(Trouble.RATE_LIMITED, "Too Many Requests", 17)
    for _ in range(2):
        answer = client.send_message(USER, "hi")
        assert trouble(answer) is Trouble.RATE_LIMITED
        assert answer is not None
        assert answer.retry_after > 0


def test_a_server_that_hangs_is_given_up(server: TelegramServer, client: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telegram, "_READ", 0.2)
    server.fault("sendMessage", Fault(seconds=1, done=True))
    assert client.send_message(USER, "hi") == Failure(Trouble.UNKNOWN, "ReadTimeout")


def test_of_two_polls_the_older_one_is_told_of_the_conflict(server: TelegramServer, client: Bot) -> None:
    answers: list[object] = []

    def poll() -> None:
        with Bot(TOKEN, server.url) as other:
            answers.append(other.get_updates(timeout=20))

    older = threading.Thread(target=poll)
    older.start()
    while not server.count("getUpdates"):
        time.sleep(0.01)
    client.get_updates()
    older.join(10)
    assert trouble(answers[0]) is Trouble.CONFLICT
    assert "only one bot instance" in str(answers[0])


@pytest.mark.parametrize("origin", ["refused", "http://no-such-host.invalid", "https"])
def test_what_never_left_is_certainly_not_sent(origin: str) -> None:
    urls = {"refused": f"http://127.0.0.1:{free_port()}", "https": f"https://127.0.0.1:{free_port()}"}
    with Telegram(TOKEN, urls.get(origin, origin)) as bot:
        answer = bot.send_message(USER, "hi")
    assert trouble(answer) is Trouble.NETWORK
    assert answer is not None
    assert answer.is_unsent


def test_a_server_without_tls_is_not_reached_by_https() -> None:
    with telegram_server() as server, Telegram(TOKEN, f"https://127.0.0.1:{server.port}") as bot:
        assert trouble(bot.send_message(USER, "hi")) is Trouble.NETWORK


def test_a_connection_that_died_while_idle_costs_no_message(server: TelegramServer, client: Bot) -> None:
    server.fault("sendMessage", CUT)
    client.send_message(USER, "lost")
    time.sleep(0.05)
    assert client.send_message(USER, "hi") is None
    assert server.texts() == ["hi"]


# The token.


@pytest.mark.parametrize("token", ["", "987", "987:a b", "123:a/../x", "123:x\nHost: y", f" {TOKEN}"])
def test_a_text_that_is_no_token_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Connection(token)
    assert token == "" or token not in str(refused.value) + refused.value.hint


@pytest.mark.parametrize(
    "fault",
    [
        error(401, "Unauthorized"),
        error(400, f"Bad Request: /bot{TOKEN}/sendMessage"),
        error(400, f"Error: url /bot{TOKEN}/ {base64.b64encode(TOKEN.encode()).decode()}"),
        Fault(502, f"/bot{TOKEN}/".encode()),
        Fault(200, f"/bot{TOKEN}/".encode()),
        Fault(404, f"/bot{TOKEN}/".encode()),
        CUT,
    ],
)
def test_the_token_is_in_no_text_and_no_log(
    server: TelegramServer, client: Bot, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.fault("sendMessage", fault)
    server.fault("getUpdates", fault)
    for answer in (client.send_message(USER, "hi"), client.get_updates()):
        shown = (repr(answer) + str(answer)).lower()  # the library writes what Telegram says in its own case
        assert SECRET.lower() not in shown
        assert base64.b64encode(TOKEN.encode()).decode()[2:40].lower() not in shown
    assert SECRET not in caplog.text
    assert SECRET not in repr(vars(client)) + repr(vars(client._connection)["_requests"])


def test_the_token_is_not_in_the_reason_why_nothing_was_reached(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for origin in (f"http://127.0.0.1:{free_port()}", "http://[bad", "ftp://127.0.0.1", "http://127.0.0.1:99999"):
        with Telegram(TOKEN, origin) as bot:
            answer = bot.send_message(USER, "hi")
        assert isinstance(answer, Failure)
        assert SECRET not in repr(answer)
    assert SECRET not in caplog.text


# The server as a script.


def test_the_server_is_a_program_that_people_can_talk_to() -> None:
    port = free_port()
    program = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/support/telegram_server.py"), "--port", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=cn_env(),
        encoding="utf-8",
    )
    assert program.stdin
    assert program.stdout
    try:
        assert f":{port} " in program.stdout.readline()
        program.stdin.write("hello\n")
        program.stdin.flush()
        with Bot(TOKEN, f"http://127.0.0.1:{port}") as bot:
            updates = bot.get_updates(timeout=10)
            assert isinstance(updates, list)
            assert updates[0]["message"]["text"] == "hello"
            bot.send_message(USER, "hi")
        assert program.stdout.readline() == "bot: hi\n"
    finally:
        program.kill()
        program.communicate()


def test_the_server_can_be_spoken_to_with_anything() -> None:
    with telegram_server() as server, socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 404")


# What a server may cost.


def test_an_answer_that_drips_has_a_deadline_of_its_own(
    server: TelegramServer, client: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telegram, "_WHOLE", 0.5)
    server.fault("getUpdates", Fault(200, b'{"ok": true, "result": []}' + b" " * 10_000, drip=0.05))
    found = client.get_updates()
    assert isinstance(found, Failure)
    assert found.trouble is Trouble.UNKNOWN
    assert found.reason == "getUpdates had no whole answer after 0.5 seconds"
    assert client.get_updates() == []


def test_more_than_an_answer_can_hold_is_not_read(server: TelegramServer, client: Bot) -> None:
    server.fault("getUpdates", Fault(200, b" " * (telegram._MOST_BYTES + 1)))
    found = client.get_updates()
    assert isinstance(found, Failure)
    assert found.trouble is Trouble.UNKNOWN
    assert "more than cn reads" in found.reason
    assert client.get_updates() == []


def test_a_proxy_of_the_environment_reads_no_token(server: TelegramServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with Bot(TOKEN, server.url) as client:
        assert client.send_message(USER, "hi") is None


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("method", ["sendMessage", "getUpdates"])
def test_a_redirect_gets_no_token(server: TelegramServer, client: Bot, method: str, status: int) -> None:
    with telegram_server() as elsewhere:
        place = f"{elsewhere.url}/bot{TOKEN}/{method}"
        server.fault(method, Fault(status, b"", headers=(("location", place),)))
        ask: dict[str, Callable[[], object]] = {
            "getUpdates": client.get_updates,
            "sendMessage": lambda: client.send_message(USER, "hi"),
        }
        found = ask[method]()
        assert isinstance(found, Failure)
        assert elsewhere.connections == 0
        assert SECRET not in repr(found)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"ok":true,"result":' * 100_000, b"9" * 100_000, b"\xff\xfe", b"\x00"]
)
@pytest.mark.parametrize("status", [200, 400, 429])
def test_json_that_is_deep_or_none_is_no_answer(server: TelegramServer, client: Bot, status: int, body: bytes) -> None:
    server.fault("sendMessage", Fault(status, body))
    found = client.send_message(USER, "hi")
    assert isinstance(found, Failure)
    assert not (status == 200 and found.is_unsent)


@pytest.mark.parametrize("charset", ["rot13", "undefined", "zip_codec", "utf-7"])
def test_a_server_chooses_no_codec(server: TelegramServer, client: Bot, charset: str) -> None:
    header = ("content-type", f"text/plain; charset={charset}")
    server.fault("getUpdates", Fault(200, b"hello", headers=(header,)))
    assert trouble(client.get_updates()) is Trouble.UNKNOWN
    assert client.get_updates() == []


def test_a_compressed_answer_is_not_unpacked(server: TelegramServer, client: Bot) -> None:
    server.fault("getUpdates", Fault(200, gzip.compress(b" " * 10_000_000), headers=(("content-encoding", "gzip"),)))
    found = client.get_updates()
    assert isinstance(found, Failure)
    assert found.trouble is Trouble.UNKNOWN
    assert "compressed" in found.reason
    assert client.get_updates() == []


def test_a_token_of_one_letter_masks_nothing() -> None:
    from cn.telegram.client import Connection

    connection = Connection("1:a")
    assert connection._clean("at last an answer") == "at last an answer"
    assert Connection("1:abcdefgh")._clean("bot1:abcdefgh/getMe") == "bot1:***/getMe"
