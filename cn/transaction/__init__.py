"""Commit a run with one ref update; survive a kill at any instant (``docs/protocol/transaction.md``)."""
