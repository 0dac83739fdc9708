"""The actions of operators: each is previewed, done once, and logged."""
