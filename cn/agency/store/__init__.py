"""Where Agency's records are: a bare repository, and an index that is derived from it."""
