"""What arrives from peers, and how it is decided."""
