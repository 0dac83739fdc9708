"""The pages as values, one module each."""
