"""Pure: what an operation comes to, and who may do it."""
