"""Telegram's Bot API: what it sends, and its client."""
