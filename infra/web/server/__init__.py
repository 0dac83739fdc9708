"""The HTTP server of the console: who may call, how answers are protected, and how pages are drawn."""
