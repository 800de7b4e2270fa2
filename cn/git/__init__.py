"""All that starts git or knows its formats."""
