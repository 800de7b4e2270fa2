"""The only input and output: git, files, lock, transaction, clock."""
