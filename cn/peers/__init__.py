"""What peers and the mailbox have now."""
