"""Random tokens."""

from __future__ import annotations

import secrets


def nonce() -> str:
    """16 random hex digits."""
    return secrets.token_hex(8)
