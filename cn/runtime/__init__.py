"""The runtime: a model as the agent (``docs/runtime.md``)."""
