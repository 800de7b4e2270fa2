"""The agent's interface: one item in, one output out, archived before it is executed."""
