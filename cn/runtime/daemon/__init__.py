"""Receiving from Telegram, and running the processor as a child."""
