"""One question to a model, and what it cost."""
