"""Following a topic's log in one process."""
