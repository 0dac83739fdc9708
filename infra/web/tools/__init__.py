"""The pages and actions as tools of a program that speaks the Model Context Protocol (`penstock mcp`)."""
