"""The common part of captures of any database; each database's room adds a decoder of its log, and positions."""
