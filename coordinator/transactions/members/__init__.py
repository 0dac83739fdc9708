"""The cells of a producer group's members: rows of transactions, their state and their bytes, and which groups and members there are."""
