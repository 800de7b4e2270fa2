"""What peers and other clones rely on: one module for each page of ``docs/protocol``. Pure."""
