"""The web console: pages over a lake, the same as JSON, and actions that are shown before they are done."""
