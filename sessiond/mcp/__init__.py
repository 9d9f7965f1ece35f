"""`sessiond mcp`: a Model Context Protocol server that gives an agent the memory of all tools. A client like any other."""
