"""Agents: what starts them, where they work, and how they end."""
