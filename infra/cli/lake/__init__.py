"""Commands about what a lake stores: topics, delayed messages, transactions, and the maintenance of all of it."""
