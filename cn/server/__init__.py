"""The server: Agency's tools for agents over MCP, other servers behind it, secrets, and the process that has them."""
