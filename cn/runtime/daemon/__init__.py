"""Receive from Telegram, and run the processor as a child."""
