"""The web console: pages over a lake, as HTML and JSON, and actions with a preview."""
