"""The agent's desk: one item in, one output out, archived before anything of it happens."""
