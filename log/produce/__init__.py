"""The producer, from accumulator to receipts."""
