"""The observers of calls: counts, the audit log, and spans."""
