"""Who the clients of a gateway are, what they may do, and how much of it."""
