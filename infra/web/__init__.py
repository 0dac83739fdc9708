"""The web console: pages over a lake, the same as JSON, and actions with a preview."""
