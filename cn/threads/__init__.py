"""Threads of our own, and people's edits."""
