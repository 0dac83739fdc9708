"""What a lake stores of its groups: records, progress of broadcasting members, and what retention and collection must spare for them."""
