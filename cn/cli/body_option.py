"""The options ``--body`` and ``--body-file``: the text below a head."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from typing import Any

import click

from cn.values.errors import UsageError

_MOST = 8 << 20
_OPEN = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Pipes that the shell has opened for us (``<(…)``): somebody writes into these."""


def body_options(help: str) -> Callable[[Any], Any]:
    """Both options, as the parameters ``body`` and ``body_file`` of a command (for :func:`read_body`)."""
    body = click.option("--body", default="", help=help)
    file = click.option("--body-file", metavar="FILE", type=click.Path(), help="The same, from a file ('-': stdin).")
    return lambda command: body(file(command))


def read_body(body: str, path: str | None) -> str:
    """``body``, or the text of the file ``path`` (``-``: standard input), at most 8 MB of UTF-8.

    Raises :class:`UsageError`. A named pipe may have no writer and a device no end: neither is read.
    """
    if path is None:
        return body
    if body:
        raise UsageError("--body and --body-file exclude each other", "give one of them")
    try:
        data = sys.stdin.buffer.read(_MOST + 1) if path == "-" else _read(path)
    except OSError as why:
        raise UsageError(f"cannot read {path}: {why.strerror}", "give a file, or '-' for stdin") from None
    if len(data) > _MOST:
        raise UsageError(f"{path} holds more than {_MOST >> 20} MB", "give a shorter text")
    try:
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise UsageError("the text is not UTF-8", "write it as UTF-8") from None


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode) and not (stat.S_ISFIFO(mode) and path.startswith(_OPEN)):
            raise UsageError(f"{path} is no regular file", "give a file, or '-' for stdin")
        os.set_blocking(fd, True)
        return file.read(_MOST + 1)
