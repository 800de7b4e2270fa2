"""The Telegram client against a real server on loopback."""

from __future__ import annotations

import gzip
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from cn.telegram import client as telegram
from cn.telegram.api import (
    Conflict,
    Failure,
    Network,
    RateLimited,
    Rejected,
    Sent,
    Server,
    Unauthorized,
    Unknown,
    describe,
    is_unsent,
)
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


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    with telegram_server() as running:
        yield running


@pytest.fixture
def client(server: TelegramServer) -> Iterator[Telegram]:
    with Telegram(TOKEN, server.url) as bot:
        yield bot


def ids(updates: object) -> list[int]:
    assert isinstance(updates, list), updates
    return [update["update_id"] for update in updates]


# What works.


def test_a_bot_learns_its_name(client: Telegram) -> None:
    assert client.get_me() == "test_bot"


def test_updates_come_until_a_later_offset_confirms_them(server: TelegramServer, client: Telegram) -> None:
    first, second = server.say("one"), server.say("two")
    assert ids(client.get_updates()) == [first, second]
    assert ids(client.get_updates(first)) == [first, second]
    assert ids(client.get_updates(second)) == [second]
    assert server.waits() == [second]
    assert ids(client.get_updates(second + 1)) == []


def test_a_poll_waits_for_the_next_message(server: TelegramServer, client: Telegram) -> None:
    threading.Timer(0.2, server.say, ("hi",)).start()
    assert len(ids(client.get_updates(timeout=20))) == 1
    assert server.count("getUpdates") == 1


def test_only_messages_and_edits_are_asked_for(server: TelegramServer, client: Telegram) -> None:
    client.get_updates()
    assert server.calls[-1].params["allowed_updates"] == '["message", "edited_message"]'


def test_an_update_that_the_library_could_not_read_is_passed_on_as_it_is(
    server: TelegramServer, client: Telegram
) -> None:
    server.raw({"message": {"message_id": "x"}})
    server.raw({"update_id": "no number"})
    found = client.get_updates()
    assert isinstance(found, list)
    assert found[0]["message"] == {"message_id": "x"}


def test_an_offset_far_ahead_is_answered_from_the_head_of_the_queue(server: TelegramServer, client: Telegram) -> None:
    id = server.say("after a quiet week the ids begin anew")
    assert ids(client.get_updates(id + 1000)) == [id]


def test_a_message_is_sent_as_plain_text_without_preview(server: TelegramServer, client: Telegram) -> None:
    text = "<b>*_[x](https://example.org)\n\n  é😀 \0 &amp; +%"
    answer = client.send_message(USER, text)
    assert isinstance(answer, Sent)
    assert server.texts() == [text]
    params = server.calls[-1].params
    assert "parse_mode" not in params
    assert params["link_preview_options"] == '{"is_disabled": true}'


def test_half_a_character_does_not_stop_a_message(server: TelegramServer, client: Telegram) -> None:
    assert isinstance(client.send_message(USER, "a\ud83d"), Sent)
    assert server.texts() == ["a?"]


def test_the_limit_of_a_message_is_that_of_the_server(server: TelegramServer, client: Telegram) -> None:
    assert isinstance(client.send_message(USER, "😀" * 2048), Sent)
    assert isinstance(client.send_message(USER, "😀" * 2049), Rejected)


def test_one_connection_serves_many_calls(server: TelegramServer, client: Telegram) -> None:
    for _ in range(20):
        assert isinstance(client.send_message(USER, "x"), Sent)
    assert server.connections == 1


# What goes wrong.


@pytest.mark.parametrize(
    ("fault", "failure", "delivered"),
    [
        (error(401, "Unauthorized"), Unauthorized, 0),
        (error(404, "Not Found"), Unauthorized, 0),
        (error(400, "Bad Request: chat not found"), Rejected, 0),
        (error(400, "Bad Request: upgraded", migrate_to_chat_id=-100), Rejected, 0),
        (error(403, "Forbidden: bot was blocked by the user"), Rejected, 0),
        (error(409, "Conflict: terminated by other getUpdates request"), Conflict, 0),
        (rate_limit(7), RateLimited, 0),
        (SERVER_ERROR, Server, 0),
        (BAD_GATEWAY, Server, 0),
        (Fault(503, b""), Server, 0),
        (Fault(418, b"teapot"), Unknown, 0),
        (NOT_JSON, Unknown, 0),
        (Fault(200, b"[]"), Unknown, 0),
        (Fault(200, b'{"ok": true}'), Unknown, 0),
        (Fault(200, b'{"ok": true, "result": {"message_id": "x"}}'), Unknown, 0),
        (Fault(200, b"\xff\xfe"), Unknown, 0),
        (CUT, Unknown, 0),
        (CUT_AFTER, Unknown, 1),
        (CUT_WITHIN, Unknown, 1),
    ],
)
def test_every_failure_of_a_message_is_a_value(
    server: TelegramServer, client: Telegram, fault: Fault, failure: type[Failure], delivered: int
) -> None:
    server.fault("sendMessage", fault)
    answer = client.send_message(USER, "hi")
    assert isinstance(answer, failure)
    assert len(server.sent) == delivered
    assert not (delivered and is_unsent(answer)), "a message that is out must not be sent again"
    assert isinstance(client.send_message(USER, "again"), Sent)


@pytest.mark.parametrize("fault", [error(401, "Unauthorized"), rate_limit(3), BAD_GATEWAY, NOT_JSON, CUT])
def test_a_poll_fails_in_the_same_ways(server: TelegramServer, client: Telegram, fault: Fault) -> None:
    server.fault("getUpdates", fault)
    assert isinstance(client.get_updates(), Failure)
    assert client.get_updates() == []


def test_the_pause_that_telegram_asks_for_is_told(server: TelegramServer, client: Telegram) -> None:
    server.fault("sendMessage", rate_limit(17), Fault(429, b"<html>"), error(429, "x", retry_after=-1))
    assert client.send_message(USER, "hi") == RateLimited(17, "Too Many Requests")
    for _ in range(2):
        answer = client.send_message(USER, "hi")
        assert isinstance(answer, RateLimited)
        assert answer.retry_after > 0


def test_a_server_that_hangs_is_given_up(
    server: TelegramServer, client: Telegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telegram, "_READ", 0.2)
    server.fault("sendMessage", Fault(seconds=1, done=True))
    assert client.send_message(USER, "hi") == Unknown("ReadTimeout")


def test_of_two_polls_the_older_one_is_told_of_the_conflict(server: TelegramServer, client: Telegram) -> None:
    answers: list[object] = []

    def poll() -> None:
        with Telegram(TOKEN, server.url) as other:
            answers.append(other.get_updates(timeout=20))

    older = threading.Thread(target=poll)
    older.start()
    while not server.count("getUpdates"):
        time.sleep(0.01)
    client.get_updates()
    older.join(10)
    assert isinstance(answers[0], Conflict)
    assert "only one bot instance" in describe(answers[0])


@pytest.mark.parametrize("origin", ["refused", "http://no-such-host.invalid", "https"])
def test_what_never_left_is_certainly_not_sent(origin: str) -> None:
    urls = {"refused": f"http://127.0.0.1:{free_port()}", "https": f"https://127.0.0.1:{free_port()}"}
    with Telegram(TOKEN, urls.get(origin, origin)) as bot:
        answer = bot.send_message(USER, "hi")
    assert isinstance(answer, Network)
    assert is_unsent(answer)


def test_a_server_without_tls_is_not_reached_by_https() -> None:
    with telegram_server() as server, Telegram(TOKEN, f"https://127.0.0.1:{server.port}") as bot:
        assert isinstance(bot.send_message(USER, "hi"), Network)


def test_a_connection_that_died_while_idle_costs_no_message(server: TelegramServer, client: Telegram) -> None:
    server.fault("sendMessage", CUT)
    client.send_message(USER, "lost")
    time.sleep(0.05)
    assert isinstance(client.send_message(USER, "hi"), Sent)
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
        Fault(502, f"/bot{TOKEN}/".encode()),
        Fault(200, f"/bot{TOKEN}/".encode()),
        Fault(404, f"/bot{TOKEN}/".encode()),
        CUT,
    ],
)
def test_the_token_is_in_no_text_and_no_log(
    server: TelegramServer, client: Telegram, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.fault("sendMessage", fault)
    server.fault("getUpdates", fault)
    for answer in (client.send_message(USER, "hi"), client.get_updates()):
        assert SECRET not in repr(answer) + describe(answer)  # type: ignore[arg-type]
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
        with Telegram(TOKEN, f"http://127.0.0.1:{port}") as bot:
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
    server: TelegramServer, client: Telegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telegram, "_WHOLE", 0.5)
    server.fault("getMe", Fault(200, b'{"ok": true, "result": {}}' + b" " * 10_000, drip=0.05))
    found = client.get_me()
    assert isinstance(found, Unknown)
    assert found.reason == "getMe had no whole answer after 0.5 seconds"
    assert client.get_me() == "test_bot"


def test_more_than_an_answer_can_hold_is_not_read(server: TelegramServer, client: Telegram) -> None:
    server.fault("getMe", Fault(200, b" " * (telegram._MOST_BYTES + 1)))
    found = client.get_me()
    assert isinstance(found, Unknown)
    assert "more than cn reads" in found.reason
    assert client.get_me() == "test_bot"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("method", ["getMe", "sendMessage", "getUpdates"])
def test_a_redirect_gets_no_token(server: TelegramServer, client: Telegram, method: str, status: int) -> None:
    with telegram_server() as elsewhere:
        place = f"{elsewhere.url}/bot{TOKEN}/{method}"
        server.fault(method, Fault(status, b"", headers=(("location", place),)))
        ask: dict[str, Callable[[], object]] = {
            "getMe": client.get_me,
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
def test_json_that_is_deep_or_none_is_no_answer(
    server: TelegramServer, client: Telegram, status: int, body: bytes
) -> None:
    server.fault("sendMessage", Fault(status, body))
    found = client.send_message(USER, "hi")
    assert isinstance(found, Failure)
    assert not (status == 200 and is_unsent(found))


@pytest.mark.parametrize("charset", ["rot13", "undefined", "zip_codec", "utf-7"])
def test_a_server_chooses_no_codec(server: TelegramServer, client: Telegram, charset: str) -> None:
    header = ("content-type", f"text/plain; charset={charset}")
    server.fault("getMe", Fault(200, b"hello", headers=(header,)))
    assert isinstance(client.get_me(), Unknown)
    assert client.get_me() == "test_bot"


def test_a_compressed_answer_is_not_unpacked(server: TelegramServer, client: Telegram) -> None:
    server.fault("getMe", Fault(200, gzip.compress(b" " * 10_000_000), headers=(("content-encoding", "gzip"),)))
    found = client.get_me()
    assert isinstance(found, Unknown)
    assert "compressed" in found.reason
    assert client.get_me() == "test_bot"
