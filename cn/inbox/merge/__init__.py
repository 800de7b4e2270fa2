"""Merging approved branches into main, in memory."""
