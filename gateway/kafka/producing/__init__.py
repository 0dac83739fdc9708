"""What clients produce, from the checks of a batch to its offset."""
