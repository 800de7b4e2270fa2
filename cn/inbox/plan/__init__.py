"""Pure: what arrives becomes, and what a decision comes to."""
