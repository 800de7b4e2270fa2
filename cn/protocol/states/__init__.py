"""The state machines of thread, agent, sender and receiver, as tables."""
