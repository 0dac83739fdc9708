"""The producer: the accumulator, delays, and the receipts that callers get."""
