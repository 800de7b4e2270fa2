"""``cn web`` as a browser meets it: who may look, what a form needs, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from cn.web.connections import MOST, patient_protocol
from tests.support.hubs import cn_env, git
from tests.support.world import Node, World, is_in_main
from tests.web.site import SECONDS, Site, is_alive, serving

THREAD = "pi/proposal"


def build(world: World) -> Node:
    """A hub in which one proposal waits."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, message="Add <b>a doc</b> & more")
    sigma.sync()
    return sigma


@pytest.fixture
def waiting(world: World) -> Node:
    """A hub to decide in."""
    return build(world)


@pytest.fixture
def site(waiting: Node) -> Iterator[Site]:
    """Its server, entered by the link."""
    with serving(waiting.root) as running:
        assert running.enter().status == 200
        yield running


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Node:
    """A hub that nobody changes."""
    return build(World(tmp_path_factory.mktemp("still"), template))


@pytest.fixture(scope="module")
def looked_at(still: Node) -> Iterator[Site]:
    """Its server, for who only looks, or is refused."""
    with serving(still.root) as running:
        assert running.enter().status == 200
        yield running


def test_the_link_works_once_and_nothing_is_shown_without_it(waiting: Node) -> None:
    with serving(waiting.root) as site:
        for path in ("/", "/threads", "/thread/pi/proposal", "/live?page=/", "/log", "/nowhere"):
            refused = site.ask(path)
            assert (refused.status, "proposal" in refused.text) == (403, False), path
        assert site.ask("/start?token=wrong").status == site.ask("/start").status == 403
        entered = site.enter()
        assert entered.status == 200
        flags = entered.headers["set-cookie"].lower()
        assert "httponly" in flags
        assert "samesite=strict" in flags
        assert site.ask("/").status == 200
        assert site.ask(f"/start?token={site.token}", Cookie="x=y").status == 403, "it was used"
        assert site.ask("/", Cookie=f"{site.cookie}x").status == 403


def test_another_link_is_given_for_a_server_that_runs(waiting: Node) -> None:
    with serving(waiting.root) as site:
        said = json.loads(waiting.cn("web", "--json").stdout)
        assert said["link"].startswith(f"http://{site.host}/start?token=")
        assert site.enter().status == 403, "only the last link counts"
        site.link = said["link"]
        assert site.enter().status == 200
        kept = [path.read_bytes() for path in (waiting.root / ".git/cn").glob("web.*")]
        assert not any(site.token.encode() in data for data in kept)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}"])
def test_it_answers_under_its_own_address_only(looked_at: Site, host: str) -> None:
    port = looked_at.host.rpartition(":")[2]
    for path in ("/", "/static/page.css", f"/start?token={looked_at.token}"):
        assert looked_at.ask(path, Host=host.format(port=port)).status == 421
    assert looked_at.ask("/", Host=f"localhost:{port}").status == 200


def test_a_form_in_chunks_is_refused_before_one_is_read(looked_at: Site) -> None:
    """Any user of the machine can send one, and would be paid for each chunk of a byte."""
    host, _, port = looked_at.host.partition(":")
    with socket.create_connection((host, int(port)), SECONDS) as one:
        headers = f"POST /decide HTTP/1.1\r\nHost: {looked_at.host}\r\nTransfer-Encoding: chunked\r\n\r\n"
        one.sendall(headers.encode() + b"1\r\n \r\n" * 100)
        said = b""
        while part := one.recv(4096):
            said += part
    assert said.startswith(b"HTTP/1.1 411 ")


def test_every_answer_carries_the_policy(looked_at: Site) -> None:
    for path in ("/", "/nowhere", "/thread/none", "/static/htmx.min.js", "/start?token=x"):
        headers = looked_at.ask(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_a_page_has_no_script_or_style_of_its_own_and_names_nothing_elsewhere(looked_at: Site) -> None:
    for path in (
        "/",
        "/threads?state=all",
        f"/thread/{THREAD}",
        "/agent",
        "/peers",
        "/log",
        "/history",
        f"/why/{THREAD}",
    ):
        answer = looked_at.ask(path)
        assert answer.status == 200, (path, answer.text)
        assert not re.search(
            r"<script(?![^>]* src=\"/static/)[^>]*>|<style|\sstyle=|\son[a-z]+=|javascript:", answer.text
        )
        assert not re.search(r"(?:src|href|action|srcset)=\"(?!/|#|\?)", answer.text), path
        assert not re.search(r"(?:src|href)=\"//", answer.text)


def test_foreign_text_is_escaped(looked_at: Site) -> None:
    for path in ("/", f"/thread/{THREAD}", "/threads"):
        text = looked_at.ask(path).text
        assert "&lt;b&gt;a doc&lt;/b&gt; &amp; more" in text
        assert "<b>a doc" not in text


def test_a_decision_of_the_page_is_the_one_of_the_command_line(world: World, waiting: Node, site: Site) -> None:
    head = (waiting.root / "threads/inbox" / waiting.only_thread()).read_text().partition("**Head:** ")[2][:40]
    answer = site.send(THREAD, {**site.form(THREAD), "verb": "do:merge"})
    assert (answer.status, answer.headers["location"]) == (303, f"/thread/{THREAD}?said=decided")
    shown = site.ask(answer.headers["location"]).text
    assert "decided: do:merge by sigma" in shown
    (row,) = json.loads(waiting.cn("inbox", "--json").stdout)
    assert (row["state"], row["decision"], row["actor"]) == ("decided", "do:merge", "sigma")
    waiting.process()
    assert is_in_main(waiting, head)
    assert "done: merged" in site.ask(f"/thread/{THREAD}").text


@pytest.mark.parametrize(
    ("fields", "decision"),
    [
        ({"verb": "defer", "word": "later", "until": "3d"}, "defer:later"),
        ({"verb": "delete", "word": "no  thanks"}, "delete:no thanks"),
        ({"verb": "delegate", "word": "alice"}, "delegate:alice"),
        ({"verb": "do:reply", "word": "re-it", "body": "Yes\r\nand no"}, "do:reply:re-it"),
        ({"verb": "do:reply", "word": "", "body": "Yes"}, "do:reply:re-proposal"),
        ({"verb": "do:custom", "word": "look into it"}, "do:custom:look into it"),
    ],
)
def test_each_decision_can_be_written_by_a_reviewer(waiting: Node, fields: dict[str, str], decision: str) -> None:
    waiting.configure("reviewers:\n  - name: alice\n  - name: bob\n")
    with serving(waiting.root, "--actor", "bob") as site:
        site.enter()
        assert site.send(THREAD, {**site.form(THREAD), **fields}).status == 303
    (row,) = json.loads(waiting.cn("inbox", "--json").stdout)
    assert (row["decision"], row["actor"]) == (decision, "bob")
    said = fields.get("body", "").replace("\r\n", "\n")
    assert said in waiting.thread(waiting.only_thread())


def test_it_is_offered_to_whom_it_can_be_handed(waiting: Node) -> None:
    waiting.configure("reviewers:\n  - name: alice\n")
    with serving(waiting.root) as site:
        site.enter()
        offered = re.findall('<option value="([^"]+)">', site.ask(f"/thread/{THREAD}").text)
        assert "alice" in offered
        for name in offered:
            assert site.send(THREAD, {**site.form(THREAD), "verb": "delegate", "word": name}).status == 303


def test_who_may_not_decide_cannot_start_it(waiting: Node) -> None:
    assert "may not decide" in waiting.cn("web", "--actor", "mallory", check=2).stderr


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": ""},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "multipart/form-data; boundary=x"},
        {"Cookie": "x=y"},
    ],
)
def test_a_form_from_elsewhere_is_refused(still: Node, looked_at: Site, headers: dict[str, str]) -> None:
    before = still.thread(still.only_thread())
    answer = looked_at.send(THREAD, {**looked_at.form(THREAD), "verb": "do:merge"}, **headers)
    assert answer.status in (403, 415)
    assert still.thread(still.only_thread()) == before


@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
def test_a_form_without_its_token_is_refused(still: Node, looked_at: Site, token: str) -> None:
    before = still.thread(still.only_thread())
    fields = {**looked_at.form(THREAD), "verb": "do:merge", "csrf": token}
    assert looked_at.send(THREAD, fields).status == 403
    assert still.thread(still.only_thread()) == before


def test_the_token_of_another_session_is_none_here(waiting: Node, site: Site) -> None:
    first, cookie = site.form(THREAD), site.cookie
    site.link = json.loads(waiting.cn("web", "--json").stdout)["link"]
    site.enter()
    assert site.cookie != cookie
    assert site.send(THREAD, {**first, "verb": "do:merge"}).status == 403
    assert site.send(THREAD, {**site.form(THREAD), "verb": "do:merge"}).status == 303


def test_a_thread_that_changed_since_it_was_shown_is_not_decided(world: World, waiting: Node, site: Site) -> None:
    fields = site.form(THREAD)
    world.propose(world.nodes["pi"], waiting, files={"docs/other.md": "changed\n"}, force=True)
    waiting.sync()
    answer = site.send(THREAD, {**fields, "verb": "delete", "word": "kept <words>"})
    assert answer.status == 409
    assert "has changed since it was shown" in answer.text
    assert "kept &lt;words&gt;" in answer.text, "what was typed is not lost"
    assert " checked>" not in answer.text, "what was chosen was about something else"
    assert json.loads(waiting.cn("inbox", "--json").stdout)[0]["state"] == "pending"


def test_a_head_that_is_elsewhere_is_told_with_the_way_to_main(waiting: Node, site: Site) -> None:
    git(waiting.root, "switch", "--quiet", "--create", "other")
    text = site.ask("/").text
    assert "HEAD is other, and cn works on main only" in text
    assert "run &#39;git switch main&#39;, then run again" in text


def test_what_a_rule_refuses_is_told_with_the_next_step(still: Node, looked_at: Site) -> None:
    for fields, told in (
        ({"verb": "defer", "word": ""}, "lacks its payload"),
        ({"verb": "delegate", "word": "nobody-known"}, "nobody-known"),
        ({"verb": "nonsense", "word": "x"}, "no decision was chosen"),
        ({"verb": "do:reply", "word": "re-it", "body": ""}, "needs the text of the reply"),
        ({"verb": "delete", "word": f"key AKIA{'Q' * 16}"}, "secret"),
    ):
        answer = looked_at.send(THREAD, {**looked_at.form(THREAD), **fields})
        assert (answer.status, told in answer.text) == (409, True), (fields, answer.text)
    assert json.loads(still.cn("inbox", "--json").stdout)[0]["state"] == "pending"


def test_too_much_is_refused(looked_at: Site) -> None:
    fields = {**looked_at.form(THREAD), "verb": "do:reply", "body": "x" * (1 << 20)}
    assert looked_at.send(THREAD, fields).status == 413
    assert looked_at.ask("/", "PUT").status == looked_at.ask("/", "DELETE").status == 405
    assert looked_at.ask("/threads", "POST", "", Origin=f"http://{looked_at.host}").status == 405


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/nothing", "/thread/..%2f..%2fx"]
)
def test_no_path_leads_out_of_the_pages(looked_at: Site, path: str) -> None:
    assert looked_at.ask(path).status == 404


def test_an_address_without_a_page_says_so_and_leads_to_the_others(looked_at: Site) -> None:
    for path in ("/nowhere/%3Cb%3E", "/thread", "/why", "/thread/", "/why/"):
        answer = looked_at.ask(path)
        assert (answer.status, "<h1>Not here" in answer.text, 'href="/log"' in answer.text) == (404, True, True), path
        assert "<b>" not in answer.text.partition("<footer>")[0], path


@pytest.mark.parametrize(
    "path", ["/threads?page=0&state=x&age=x&peer=%00", "/log?page=x&count=-1", "/threads?page=99999"]
)
def test_a_query_that_means_nothing_shows_what_it_can(looked_at: Site, path: str) -> None:
    assert looked_at.ask(path).status == 200


def test_a_wrong_time_of_the_log_is_told(looked_at: Site) -> None:
    answer = looked_at.ask("/log?since=whenever")
    assert (answer.status, "--since" in answer.text) == (400, True)


HALVES = {
    "nothing": "",
    "a line": "GET / HTTP/1.1\r\n",
    "no body": "POST /start HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 9\r\n\r\n",
    "one and a half": "GET /static/no HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HTTP/1.1\r\n",
}


@pytest.mark.parametrize("half", HALVES.values(), ids=list(HALVES))
def test_half_sent_requests_of_any_number_keep_nobody_out(looked_at: Site, half: str) -> None:
    host, _, port = looked_at.host.partition(":")
    with ExitStack() as held:
        for _ in range(MOST + 50):
            one = held.enter_context(socket.create_connection((host, int(port)), SECONDS))
            with suppress(ConnectionError):  # whoever waited the longest is gone already
                one.sendall(half.format(host=looked_at.host).encode())
                if "static" in half:
                    one.recv(1)
        assert looked_at.ask("/").status == 200


def test_a_burst_of_connections_takes_nobodys_request(looked_at: Site) -> None:
    """All come while the server is away, ours first: what it asks is read before it is ended for those behind it."""
    host, _, port = looked_at.host.partition(":")
    with ExitStack() as held:
        os.kill(looked_at.process.pid, signal.SIGSTOP)
        try:
            ours = held.enter_context(socket.create_connection((host, int(port)), SECONDS))
            ours.sendall(f"GET / HTTP/1.1\r\nHost: {looked_at.host}\r\nCookie: {looked_at.cookie}\r\n\r\n".encode())
            for _ in range(2 * MOST):
                one = held.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex((host, int(port)))
        finally:
            os.kill(looked_at.process.pid, signal.SIGCONT)
        assert ours.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("half", [HALVES[name] for name in ("nothing", "a line", "no body")])
def test_a_connection_that_sends_no_whole_request_is_closed_and_one_that_is_answered_is_not(half: str) -> None:
    async def scene() -> None:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == "/slow":
                asked.set()
                await answered.wait()
            await Request(scope, receive).body()
            await PlainTextResponse("here")(scope, receive, send)

        with socket.create_server(("127.0.0.1", 0)) as sock:
            config = uvicorn.Config(app, http=patient_protocol(0.2), lifespan="off", log_config=None)
            server = uvicorn.Server(config)
            task = asyncio.create_task(server.serve(sockets=[sock]))
            port = sock.getsockname()[1]
            slow, ask = await asyncio.open_connection("127.0.0.1", port)
            ask.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(asked.wait(), SECONDS)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(half.format(host="x").encode())
            await asyncio.wait_for(reader.read(), SECONDS)  # until it is closed
            answered.set()
            assert (await asyncio.wait_for(slow.readuntil(b"here"), SECONDS)).startswith(b"HTTP/1.1 200")
            for one in (ask, writer):
                one.close()
            server.should_exit = True
            await asyncio.wait_for(task, SECONDS)

    asyncio.run(scene())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_with_its_terminal_and_leaves_nothing(waiting: Node, number: signal.Signals) -> None:
    with serving(waiting.root) as site:
        site.enter()
        stream = socket.create_connection((site.host.partition(":")[0], int(site.host.rpartition(":")[2])), SECONDS)
        ask = f"GET /live?page=/ HTTP/1.1\r\nHost: {site.host}\r\nCookie: {site.cookie}\r\n\r\n"
        stream.sendall(ask.encode())
        assert b"200 OK" in stream.recv(4096)
        assert site.end(number) == 0, "an open stream does not keep it"
        stream.close()
    left = {path.name for path in (waiting.root / ".git/cn").glob("web.*")}
    assert left == {"web.lock"}


@contextmanager
def detached(hub: Node) -> Iterator[tuple[Site, int]]:
    """A server that goes on without its terminal, entered; and its process. It is ended with the block."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cn", "--hub", str(hub.root), "web", "--detach", "--json"],
        env=cn_env(), capture_output=True, text=True, timeout=SECONDS, check=True, start_new_session=True,
    )  # fmt: skip
    pid = int(json.loads((hub.root / ".git/cn/web.json").read_text())["pid"])
    try:
        site = Site(None, json.loads(done.stdout)["link"])  # type: ignore[arg-type]
        assert site.enter().status == 200
        yield site, pid
    finally:
        os.kill(pid, signal.SIGTERM)
        for _ in range(200):
            if not is_alive(pid):
                break
            time.sleep(0.05)
    assert not is_alive(pid)


def test_detached_it_goes_on_and_is_found_again(waiting: Node) -> None:
    with detached(waiting) as (site, pid):
        assert "proposal" in site.ask("/").text
        assert f"process {pid}" in waiting.cn("web").stderr


def test_detached_it_starts_in_a_hub_in_which_nothing_ran(world: World) -> None:
    fresh = world.hub("sigma")
    assert not (fresh.root / ".git/cn").exists()
    with detached(fresh) as (site, _):
        for page in ("/", "/threads?state=all", "/agent", "/peers", "/log", "/history"):
            assert site.ask(page).status == 200, page


BROWSER = """#!{python}
import json, os, pathlib, sys
page = pathlib.Path(sys.argv[1].removeprefix("file://"))
found = {{"argv": sys.argv[1:], "mode": page.stat().st_mode & 0o777, "page": page.read_text(), "place": str(page)}}
pathlib.Path({told!r}).write_text(json.dumps(found))
"""
"""A browser that keeps what it was started with."""


@pytest.mark.parametrize("name", ["xdg-open", "a browser of one's own"])
def test_the_link_stands_in_no_argument_and_in_a_file_for_its_user_alone(
    waiting: Node, tmp_path: Path, name: str
) -> None:
    """All users of a machine see the arguments of a process, and the first to come by the link decides."""
    told, programs = tmp_path / "told", tmp_path / "programs"
    programs.mkdir()
    for tool in ("git", "env"):  # and no xdg-open of this machine
        (programs / tool).symlink_to(shutil.which(tool) or "")
    browser = programs / name
    browser.write_text(BROWSER.format(python=sys.executable, told=str(told)))
    browser.chmod(0o755)
    env = {"PATH": str(programs), "BROWSER": "" if name == "xdg-open" else f"{shlex.quote(str(browser))} %s"}
    mask = os.umask(0)
    try:
        with serving(waiting.root, "--open", env=env) as site:
            end = time.monotonic() + SECONDS
            while not told.exists() or not told.read_text():
                assert time.monotonic() < end
                time.sleep(0.02)
            seen = json.loads(told.read_text())
            place = Path(seen["place"])
            assert site.token not in " ".join(seen["argv"])
            assert seen["mode"] == 0o600
            assert f'content="0;url={site.link}"' in seen["page"]
            assert "<script" not in seen["page"]
            assert site.enter().status == 200
            assert not place.exists(), "it was used"
            waiting.cn("web", "--open", env=env)
            assert place.exists()
            again = json.loads(waiting.cn("web", "--json").stdout)["link"]
            assert not place.exists(), "it leads nowhere any more"
            site.link = again
            waiting.cn("web", "--open", env=env)
            site.end()
            assert not place.exists(), "the server has ended"
    finally:
        os.umask(mask)


def test_who_was_not_first_is_told_that_somebody_else_may_decide(waiting: Node) -> None:
    with detached(waiting) as (site, pid):
        assert "links were used" not in site.ask("/").text
        own, said = site.cookie, waiting.cn("web", "--json")
        site.link = json.loads(said.stdout)["link"]
        assert site.enter().status == 200, "another comes by the second link, and the first browser goes on"
        late = site.ask(f"/start?token={site.token}")
        assert late.status == 403
        assert f"'kill {pid}'" in late.text
        shown = site.ask("/", Cookie=own)
        assert shown.status == 200
        assert "2 links were used since the server began" in shown.text
        log = (waiting.root / ".git/cn/web.log").read_text()
        assert log.count("a browser came in by the link") == 2
        assert "2 links used so far" in waiting.cn("web").stderr


def test_a_port_that_is_taken_is_told(waiting: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}" in waiting.cn("web", "--port", port, check=2).stderr
        said = waiting.cn("web", "--detach", "--port", port, check=1)
        assert "did not start" in said.stderr
        assert port in said.stderr


def test_it_listens_on_loopback_alone(looked_at: Site) -> None:
    tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    if not tables[0].exists():
        pytest.skip("no /proc/net/tcp (proc(5)) on this system")
    port = f"{int(looked_at.host.rpartition(':')[2]):04X}"
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    assert {row[1] for row in rows if row[1].endswith(f":{port}") and row[3] == "0A"} == {f"0100007F:{port}"}


def test_an_agent_may_not_start_it(waiting: Node) -> None:
    done = waiting.cn("web", check=1, env={"CN_ROLE": "agent"})
    assert "may not run" in done.stderr
