"""One run, one ref update (``docs/protocol/transaction.md``)."""
