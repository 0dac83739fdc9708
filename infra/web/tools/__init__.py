"""The pages and actions as tools of the Model Context Protocol (`penstock mcp`)."""
