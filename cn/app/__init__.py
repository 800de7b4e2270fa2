"""Use cases: lock, recover, observe, decide, execute, report."""
