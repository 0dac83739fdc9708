"""Messages and the columns they become."""
