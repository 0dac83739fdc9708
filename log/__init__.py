"""The log: topics, producers and readers on object storage; it knows nothing of consumer groups."""
