"""The frame of every run: what it reads, plans, gathers and remembers."""
