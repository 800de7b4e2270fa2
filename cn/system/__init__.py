"""This machine: files, clock, randomness, crontab, systemd, child processes."""
