"""Folders that cannot be written, also where tests run as root."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.hubs import cn_env
from tests.support.world import Node

_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def obey_permissions() -> None:
    """For ``preexec_fn``: root may do everything; without these capabilities it may not (capabilities(7))."""
    if os.geteuid() == 0 and _PRCTL is not None:
        for capability in (1, 2, 3):  # DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER
            assert _PRCTL(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP


@contextmanager
def closed(folder: Path, mode: int = 0o555) -> Iterator[None]:
    """Nobody may write in this folder."""
    if os.geteuid() == 0 and _PRCTL is None:
        pytest.skip("root may do everything here")
    before = folder.stat().st_mode
    folder.chmod(mode)
    try:
        yield
    finally:
        folder.chmod(before)


def obedient(node: Node, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run cn on this hub with no more rights than the files give."""
    done = subprocess.run(
        [sys.executable, "-m", "cn", "--hub", str(node.root), *words],
        env=cn_env({"PYTHONDONTWRITEBYTECODE": "1", **(env or {})}), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False, preexec_fn=obey_permissions,
    )  # fmt: skip
    assert "internal error" not in done.stderr, done.stderr
    return done
