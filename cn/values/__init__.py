"""Values that know nothing of a hub: names, text, times, errors. Pure."""
