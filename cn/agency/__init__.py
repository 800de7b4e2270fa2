"""Agency: outcomes, handlers, files, grants and mail of an organisation of agents and people, as records in git."""
