"""One module for each group of commands: parse, call one use case, render."""
