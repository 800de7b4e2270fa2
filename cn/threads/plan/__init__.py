"""Pure: what ends a thread of our own, and which edits are committed."""
