"""Threads of our own, and what people edited in cn's folders."""
