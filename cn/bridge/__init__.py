"""The bridge: a client of the Model Context Protocol on standard input and output, beside the files of an agent."""
