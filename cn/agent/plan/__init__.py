"""Pure: what an agent's turn, output and ops mean, and what a model is sent."""
