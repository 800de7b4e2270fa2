"""Real git servers on loopback: git daemon, smart HTTP, sshd.

Each serves a folder of bare repositories, on a free port, from a process of its own that
is stopped by its process group, and dies with the test process on Linux. Where a
server's program is missing, the test is skipped with that reason.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from tests.support.hubs import bare, git, make_ssh_key

KINDS = ("path", "file", "git", "http", "ssh")
"""The kinds of remote that :func:`serve` knows."""

_START_SECONDS = 20.0
_REQUEST_SECONDS = 120.0
_SSHD = "/usr/sbin/sshd"


@dataclass(frozen=True)
class Remote:
    """A served folder of bare repositories.

    ``root`` is the folder, ``base`` its URL, ``env`` what a client needs in its
    environment (an identity for SSH).
    """

    kind: str
    root: Path
    base: str
    env: Mapping[str, str] = field(default_factory=dict)

    def url(self, name: str) -> str:
        """The URL of the repository ``NAME.git``, which may not exist."""
        return f"{self.base}/{name}.git"

    def path(self, name: str) -> Path:
        """Where that repository lies."""
        return self.root / f"{name}.git"

    def repo(self, name: str) -> str:
        """Make the bare repository ``NAME.git``; its URL."""
        bare(self.path(name))
        return self.url(name)


@contextmanager
def serve(kind: str, root: Path, scratch: Path) -> Iterator[Remote]:
    """Serve ``root`` as ``kind``; ``scratch`` takes keys, configuration and logs."""
    root.mkdir(parents=True, exist_ok=True)
    scratch.mkdir(parents=True, exist_ok=True)
    match kind:
        case "path":
            yield Remote(kind, root, str(root))
        case "file":
            yield Remote(kind, root, f"file://{quote(str(root))}")
        case "git":
            with git_daemon(root, scratch) as served:
                yield served
        case "http":
            with http_backend(root) as served:
                yield served
        case "ssh":
            with ssh_server(root, scratch) as served:
                yield served
        case _:
            raise ValueError(kind)


@contextmanager
def git_daemon(root: Path, scratch: Path, *options: str) -> Iterator[Remote]:
    """``git daemon`` on ``root``, pushes allowed: ``git://127.0.0.1:PORT``."""
    program = _git_program("git-daemon", "git daemon")
    log = scratch / "git-daemon.log"

    def command(port: int) -> list[str]:
        return [
            str(program),
            "--reuseaddr",
            "--listen=127.0.0.1",
            f"--port={port}",
            "--export-all",
            "--enable=receive-pack",
            "--informative-errors",
            "--init-timeout=20",
            "--timeout=60",
            "--max-connections=64",
            f"--base-path={root}",
            *options,
            str(root),
        ]

    with _listening(command, log) as port:
        yield Remote("git", root, f"git://127.0.0.1:{port}")


@contextmanager
def _sshd(scratch: Path, authorized_keys: Path, home: Path) -> Iterator[tuple[int, str]]:
    """OpenSSH's ``sshd`` as the current user: its port, and an ``ssh`` that knows it and lacks only a key."""
    if not Path(_SSHD).is_file():
        pytest.skip(f"{_SSHD} is missing (Debian package openssh-server)")
    if not shutil.which("ssh"):
        pytest.skip("ssh is missing (Debian package openssh-client)")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd(8), "privilege separation"
    host_key, host_public = make_ssh_key(scratch / "host_key")
    config, log = scratch / "sshd_config", scratch / "sshd.log"

    def command(port: int) -> list[str]:
        config.write_text(
            f"Port {port}\n"
            "ListenAddress 127.0.0.1\n"
            f"HostKey {host_key}\n"
            f"AuthorizedKeysFile {authorized_keys}\n"
            "PidFile none\n"
            "UsePAM no\n"
            "StrictModes no\n"
            "PermitRootLogin prohibit-password\n"
            "PasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\n"
            "AcceptEnv GIT_PROTOCOL\n"
            f"SetEnv HOME={home} GIT_CONFIG_NOSYSTEM=1 PATH={os.environ['PATH']}\n"
            "PermitTTY no\n"
            "AllowTcpForwarding no\n"
            "UseDNS no\n"
            "MaxStartups 100\n"
        )
        return [_SSHD, "-D", "-e", "-f", str(config)]

    with _listening(command, log) as port:
        known = scratch / "known_hosts"
        known.write_text(f"[127.0.0.1]:{port} {' '.join(host_public.split()[:2])}\n")
        yield (
            port,
            "ssh -F none -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes"
            f" -o UserKnownHostsFile={known} -o GlobalKnownHostsFile=/dev/null"
            " -o StrictHostKeyChecking=yes -o ConnectTimeout=20",
        )


def _ensure_login(ssh: str, port: int, log: Path) -> str:
    """The account that this key may use, or the test is skipped: it is locked."""
    user = getpass.getuser()
    probe = subprocess.run(
        [*ssh.split(), "-p", str(port), f"{user}@127.0.0.1", "exit 7"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_START_SECONDS * 2,
        check=False,
    )
    if probe.returncode == 255:
        said = log.read_text(errors="replace")
        if "locked" in said:
            pytest.skip(f"sshd refuses this account: {user} is locked")
        raise RuntimeError(f"sshd does not let us in: {probe.stderr!r}\n{said}")
    return user


@contextmanager
def ssh_server(root: Path, scratch: Path) -> Iterator[Remote]:
    """OpenSSH's ``sshd`` as the current user: ``ssh://USER@127.0.0.1:PORT/…``.

    The client's key and known hosts come through ``GIT_SSH_COMMAND``; nothing of the
    user's own SSH configuration is read on either side.
    """
    client_key, client_public = make_ssh_key(scratch / "client_key")
    keys, login = scratch / "authorized_keys", scratch / "login"
    keys.write_text(client_public + "\n")
    login.mkdir(exist_ok=True)
    with _sshd(scratch, keys, login) as (port, ssh):
        ssh += f" -i {client_key}"
        user = _ensure_login(ssh, port, scratch / "sshd.log")
        base = f"ssh://{user}@127.0.0.1:{port}{quote(str(root))}"
        yield Remote("ssh", root, base, {"GIT_SSH_COMMAND": ssh})


@contextmanager
def ssh_people(
    root: Path, scratch: Path, names: Sequence[str], entry: Callable[[str], str]
) -> Iterator[dict[str, Remote]]:
    """``sshd`` with a key for each name, behind its ``entry`` in authorized_keys."""
    keys, login, private, lines = scratch / "authorized_keys", scratch / "login", {}, []
    login.mkdir()
    for name in names:
        private[name], public = make_ssh_key(scratch / name)
        lines.append(f"{entry(name)} {public}\n")
    probe, public = make_ssh_key(scratch / "probe")
    keys.write_text("".join([*lines, public + "\n"]))
    with _sshd(scratch, keys, login) as (port, ssh):
        user = _ensure_login(f"{ssh} -i {probe}", port, scratch / "sshd.log")
        base = f"ssh://{user}@127.0.0.1:{port}{quote(str(root))}"
        of = {name: {"GIT_SSH_COMMAND": f"{ssh} -i {private[name]}"} for name in names}
        yield {name: Remote("ssh", root, base, env) for name, env in of.items()}


@contextmanager
def gitolite(scratch: Path, rules: str, names: Sequence[str]) -> Iterator[dict[str, Remote]]:
    """gitolite behind ``sshd``, as the current user: for each name the host as that person sees it.

    ``rules`` is what stands in ``conf/gitolite.conf``.
    """
    if not shutil.which("gitolite"):
        pytest.skip("gitolite is missing (Debian package gitolite3)")
    home = scratch / "git"
    home.mkdir()
    (home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    private = {}
    for name in names:
        private[name], _ = make_ssh_key(scratch / name)
    folder = home / ".gitolite"
    for words in (["setup", "-pk", str(scratch / f"{names[0]}.pub")], ["compile"], ["trigger", "POST_COMPILE"]):
        subprocess.run(["gitolite", *words], env=env, cwd=home, check=True, capture_output=True, timeout=60)
        if words[0] == "setup":
            for name in names[1:]:
                shutil.copy(scratch / f"{name}.pub", folder / "keydir")
            conf = folder / "conf/gitolite.conf"
            conf.write_text(f"repo gitolite-admin\n    RW+ = {names[0]}\n\n{rules}")
    with _sshd(scratch, home / ".ssh/authorized_keys", home) as (port, ssh):
        user = _ensure_login(f"{ssh} -i {private[names[0]]}", port, scratch / "sshd.log")
        base = f"ssh://{user}@127.0.0.1:{port}"
        repos = home / "repositories"
        yield {name: Remote("ssh", repos, base, {"GIT_SSH_COMMAND": f"{ssh} -i {private[name]}"}) for name in names}


@contextmanager
def http_backend(root: Path, user: str = "", password: str = "") -> Iterator[Remote]:
    """Smart HTTP through ``git http-backend``: ``http://127.0.0.1:PORT``.

    With ``user`` every request needs basic authentication. ``base`` holds no
    credentials, so a test adds them, or not. As a proxy it is every host (RFC 9112, 3.2.2).
    """
    program = _git_program("git-http-backend", "git http-backend")
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
    with http_server(_bridge(program, root, user, expected)) as port:
        yield Remote("http", root, f"http://127.0.0.1:{port}")


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A threaded HTTP server on loopback; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_START_SECONDS)


class Connected:
    """Connections that are held open; ``at_once`` is how many there were at the same time, at most."""

    def __init__(self) -> None:
        self.held: list[socket.socket] = []
        self.at_once = 0

    def __call__(self) -> int:
        return len(self.held)

    def add(self, connection: socket.socket) -> None:
        self.held.append(connection)
        self.at_once = max(self.at_once, sum(map(_is_open, self.held)))


def _is_open(connection: socket.socket) -> bool:
    try:
        while connection.recv(65536, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


@contextmanager
def stalled_server() -> Iterator[tuple[int, Connected]]:
    """A peer that accepts connections and never says a word.

    Yields its port and what tells how many connected so far.
    """
    connected = Connected()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        stop = threading.Event()

        def accept() -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    connected.add(listener.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1], connected
        finally:
            stop.set()
            thread.join(_START_SECONDS)
            for connection in connected.held:
                connection.close()


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def dies_with_us() -> None:
    """For ``preexec_fn``: ask Linux to kill the child when the test process dies, prctl(2)."""
    if _PRCTL is not None:
        _PRCTL(1, int(signal.SIGKILL))


def alive(pid: int) -> bool:
    """Does the process run? A zombie does not."""
    if Path("/proc/self/stat").exists():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
    else:
        done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
        state = done.stdout.decode().strip()
    return state != "" and not state.startswith("Z")


def gone(pids: Sequence[int]) -> bool:
    """Have all of them ended, now or within a moment?"""
    deadline = time.monotonic() + _START_SECONDS
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(alive(pid) for pid in pids)


_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


@contextmanager
def _listening(command: Callable[[int], Sequence[str]], log: Path) -> Iterator[int]:
    """Start a server, wait until it listens; stop its whole process group at the end.

    Another process may take the free port first; then the server ends at once, and the
    next port is tried.
    """
    for _ in range(5):
        port = free_port()
        with log.open("ab") as sink:
            server = subprocess.Popen(
                list(command(port)),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                preexec_fn=dies_with_us,
            )
        try:
            if _answers(server, port):
                yield port
                return
        finally:
            _stop(server)
    raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')}")


def _answers(server: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return server.poll() is None
    return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(2)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(_START_SECONDS)


def _git_program(file: str, name: str) -> Path:
    program = Path(git(Path.cwd(), "--exec-path")) / file
    if not program.is_file():
        pytest.skip(f"{name} is missing (it comes with git on Debian)")
    return program


def _bridge(program: Path, root: Path, user: str, expected: str) -> type[BaseHTTPRequestHandler]:
    """The handler that turns a request into a CGI call, git-http-backend(1), RFC 3875."""
    home = os.environ["HOME"]

    class Bridge(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _REQUEST_SECONDS

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def log_error(self, format: str, *args: object) -> None:
            """What is no request is said, with what came: the client sees only that it is no answer."""
            came = getattr(self, "raw_requestline", b"")[:200]
            print(f"git http-backend's server: {format % args}: {came!r}", file=sys.stderr)

        def _answer(self) -> None:
            body = self._body()
            if expected and self.headers.get("Authorization") != expected:
                self._send(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
                return
            path, _, query = re.sub(r"^http://[^/]*", "", self.path).partition("?")
            env = {
                "PATH": os.environ["PATH"],
                "HOME": home,
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "http.receivepack",
                "GIT_CONFIG_VALUE_0": "true",
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GATEWAY_INTERFACE": "CGI/1.1",
                "SERVER_PROTOCOL": self.request_version,
                "REQUEST_METHOD": self.command,
                "PATH_INFO": unquote(path),
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "REMOTE_ADDR": self.client_address[0],
                "REMOTE_USER": user,
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            done = subprocess.run(
                [str(program)],
                input=body,
                env={name: value for name, value in env.items() if value},
                capture_output=True,
                timeout=_REQUEST_SECONDS,
                check=False,
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = [line.partition(": ")[::2] for line in head.decode("latin-1").split("\r\n") if line]
            if done.returncode:  # the client sees a status only
                said = done.stderr.decode(errors="replace").strip()
                print(f"git http-backend ended with {done.returncode} at {self.path}: {said}", file=sys.stderr)
            status = next((int(v.split()[0]) for n, v in fields if n.lower() == "status"), 200 if fields else 500)
            self._send(status, [(n, v) for n, v in fields if n.lower() != "status"], content)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # trailers
            return b"".join(chunks)

        def _send(self, status: int, fields: Sequence[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in fields:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Bridge
