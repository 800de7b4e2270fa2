"""Everything that starts git or knows its formats."""
