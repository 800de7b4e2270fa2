"""The hub in a browser: pages made from the views, and one form that decides as the command line does."""
