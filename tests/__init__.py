"""The tests; ``support/`` holds what they share."""
