"""The bounds of what callers hold of a gateway and make it log. No protocol is known here."""
