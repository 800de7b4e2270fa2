"""Pure: what became of our branches, and what is due by time."""
