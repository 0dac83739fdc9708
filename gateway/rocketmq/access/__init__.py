"""The rights of clients: their signatures, what they may do, and how much of it."""
