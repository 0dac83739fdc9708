"""Following a topic's log in one process: the view, ways around damage, and the rows of entries."""
