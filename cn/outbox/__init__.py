"""What leaves for peers, and what came of it."""
