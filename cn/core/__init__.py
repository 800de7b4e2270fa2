"""Pure values, parsers, formatters, rules and planners: no I/O, no clock, no randomness."""
