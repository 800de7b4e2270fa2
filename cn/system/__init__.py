"""This machine and this installation: files, clock, systemd, child processes, extras."""
