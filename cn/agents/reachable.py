"""What there is of the kernel's on this machine that no wrap may let an agent reach: made for a probe to try."""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import sys
from contextlib import ExitStack, suppress
from typing import Final, Self

from cn.agents import seccomp
from cn.agents.probe import Outside
from cn.agents.wraps import Wrap

_GET_ID, _UNLINK, _SET_TIMEOUT, _OF_USER = 0, 9, 15, -4
"""``KEYCTL_GET_KEYRING_ID``, ``KEYCTL_UNLINK``, ``KEYCTL_SET_TIMEOUT``, ``KEY_SPEC_USER_KEYRING`` (keyctl(2))."""
_KEPT_SECONDS: Final = 300
"""After which the kernel drops the key, should we be killed."""


class Reachable:
    """A key, and sockets that listen, as long as it is entered. ``outside`` is what the probe is told of them.

    Abstract sockets are part of the network where the kernel cannot keep a program from them alone.
    """

    def __init__(self, wrap: Wrap | None) -> None:
        self._wrap = wrap
        self._open = ExitStack()
        self.outside = Outside(keyctl=0, keyring=0, key=0, abstract="", ports=None, net=0)

    def __enter__(self) -> Self:
        try:
            self._add_key()
            if self._wrap is None or not self._wrap.network or seccomp.has_scope():
                self._listen_abstract()
            if self._wrap and not self._wrap.network:
                self._listen()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def heard(self) -> bool:
        """Did a datagram arrive?"""
        if self.outside["ports"]:
            with suppress(BlockingIOError):
                return bool(self._datagrams.recv(1))
        return False

    def _add_key(self) -> None:
        """A key of the user's; none where the kernel has no keys for us."""
        numbers = seccomp.KNOWN.get(os.uname().machine)
        if sys.platform != "linux" or numbers is None:
            return
        call = ctypes.CDLL(None).syscall
        name = f"cn-probe-{secrets.token_hex(8)}".encode()
        key = call(numbers.add_key, b"user", name, b"x", ctypes.c_size_t(1), _OF_USER)
        if key > 0:
            self._open.callback(call, numbers.keyctl, _UNLINK, key, _OF_USER)
            call(numbers.keyctl, _SET_TIMEOUT, key, _KEPT_SECONDS)
            keyring = call(numbers.keyctl, _GET_ID, _OF_USER, 0)
            self.outside.update({"keyctl": numbers.keyctl, "keyring": keyring, "key": key})

    def _listen_abstract(self) -> None:
        if sys.platform == "linux":
            self.outside["abstract"] = f"cn-probe-{secrets.token_hex(8)}"
            listener = self._open.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind("\0" + self.outside["abstract"])
            listener.listen()

    def _listen(self) -> None:
        listener = self._open.enter_context(socket.socket(socket.AF_INET))
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        self._datagrams = self._open.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._datagrams.bind(("127.0.0.1", 0))
        self._datagrams.setblocking(False)
        self.outside["ports"] = listener.getsockname()[1], self._datagrams.getsockname()[1]
        with suppress(OSError):
            self.outside["net"] = os.stat("/proc/self/ns/net").st_ino
