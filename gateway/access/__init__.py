"""The rights of a gateway's clients: their signatures, what they may do, how much of it, and a record of what they did."""
