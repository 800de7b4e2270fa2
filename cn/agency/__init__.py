"""Agency: outcomes, handlers, permissions, files and mail as records in git (``docs/protocol/agency.md``)."""
