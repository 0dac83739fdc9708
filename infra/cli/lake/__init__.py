"""Commands about stored data: topics, delayed messages, transactions, and maintenance."""
