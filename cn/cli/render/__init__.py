"""How answers look: text for people, JSON for programs."""
