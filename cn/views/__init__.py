"""Looking, without a lock. The shapes of JSON stand here, below the doors."""
