"""The HTTP server of the console."""
