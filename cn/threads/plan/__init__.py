"""Pure: what an end of our own threads, or an edit, comes to."""
