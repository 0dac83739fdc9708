"""What survives of a group of Kafka's classic protocol: its members, and its committed positions."""
