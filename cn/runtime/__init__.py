"""A model at the agent's desk."""
