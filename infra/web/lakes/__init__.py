"""The lakes of the console, opened on demand, and their shared looks."""
