"""Lakes and clocks for users' tests."""
