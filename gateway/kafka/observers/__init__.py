"""What observers are told of answers."""
