"""What people look at: read without a lock, nothing written."""
