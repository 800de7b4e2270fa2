"""One key from the terminal, without Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty

import click

_END = ("\x04", "\0")
"""Ctrl-D; typed ahead, while the terminal still gathered lines, it is read as the latter (termios(3), ``VEOF``)."""
_ESCAPE = "\x1b"
_SECONDS = 0.05
"""How long the rest of what one key sends may take (``\\x1b[A`` for an arrow)."""


def read_key(prompt: str) -> str:
    """The next key after this prompt, empty where the terminal is closed or Ctrl-D says so.

    Ctrl-C interrupts as everywhere. One byte is read, so that what was typed ahead is there for the next question.
    """
    number = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(number)
        tty.setcbreak(number, termios.TCSADRAIN)
        try:
            click.echo(prompt, nl=False)
            key = os.read(number, 1).decode("latin-1")
            while key == _ESCAPE and select.select([number], [], [], _SECONDS)[0]:
                os.read(number, 1)
        finally:
            termios.tcsetattr(number, termios.TCSADRAIN, before)
    except (OSError, termios.error):
        return ""
    return "" if key in _END else key
