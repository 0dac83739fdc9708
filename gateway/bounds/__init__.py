"""The bounds of what callers hold of a gateway and make it log, whatever the protocol."""
