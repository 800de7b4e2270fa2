"""Pure: receipts, and what time alone brings about."""
