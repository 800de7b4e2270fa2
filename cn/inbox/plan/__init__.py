"""Pure: what to do with what arrives, and with a decision."""
