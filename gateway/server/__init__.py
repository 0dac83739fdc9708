"""What surrounds a gateway of any protocol: its options, TLS, health, and the life of its process."""
