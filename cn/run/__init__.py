"""The frame of every run: what it reads, what it collects for its commit, what it remembers."""
