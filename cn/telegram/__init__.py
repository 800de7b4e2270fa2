"""Telegram's interface, and its client."""
