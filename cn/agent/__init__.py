"""The agent's interface: one item in, one output out, archived before anything of it is executed."""
