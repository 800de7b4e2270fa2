"""Pure: an inbound branch after it was read and checked."""
