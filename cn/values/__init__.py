"""Words that know nothing of a hub. Pure."""
