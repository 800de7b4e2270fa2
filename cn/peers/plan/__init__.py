"""Pure: an inbound branch as it was read and checked."""
