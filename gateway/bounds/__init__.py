"""What callers may hold of a gateway, and how often they make it say something. It knows no protocol."""
