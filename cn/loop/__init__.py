"""The two commands of cron: sync and process."""
