"""One write to Agency's records, in a process to be killed: ``writer.py FOLDER WHAT [POINT]``; prints ``done``.

``WHAT`` is ``found``, ``event`` or ``file``. At ``POINT`` the process dies: ``asked``, when git was told to move the
ref and has not answered; ``moved``, when it has; ``kept``, when the index has it too.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from cn.agency.store.derived import DerivedIndex
from cn.agency.store.index import Index
from cn.git.ref_writer import RefWriter
from tests.support.records import create, found, look, reopen

FILE = "11111111-1111-4111-8111-111111111111"
NEW = "22222222-2222-4222-8222-222222222222"
CONTENT = b"what is written\n" * 20


def die(*_: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _install(point: str) -> None:
    if point == "asked":

        def tell_and_die(self: RefWriter, child: Any, words: bytes) -> str:
            child.stdin.write(words)
            child.stdin.flush()
            return str(die())

        RefWriter._converse = tell_and_die  # type: ignore[method-assign]
    elif point == "moved":
        Index.set_tip = die  # type: ignore[method-assign, assignment]
    elif point == "kept":
        DerivedIndex.close = die  # type: ignore[method-assign, assignment]


def main(folder: Path, what: str, point: str = "") -> None:
    if what == "found":
        _install(point)
        store = found(folder)
    else:
        store = reopen(folder)
        with store.reading():
            pass
        _install(point)
        store.write(create(CONTENT, file=NEW) if what == "file" else look(FILE))
    print("done", flush=True)
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
