"""What leaves for peers, and what became of it."""
