"""Find keys and tokens in what is about to leave or to be committed."""
