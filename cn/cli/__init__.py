"""Click commands: parse, call one use case, render."""
