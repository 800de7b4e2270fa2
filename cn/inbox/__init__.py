"""What arrives from peers, and the decisions on it."""
