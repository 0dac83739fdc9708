"""The demo: real change events of a shop, in order through a topic into Delta tables."""
