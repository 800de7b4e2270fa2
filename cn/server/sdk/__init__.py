"""The one place that imports the official MCP library: a server of our tools, and clients of other servers."""
