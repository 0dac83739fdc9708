"""Following a topic's log in one process: the view, its probes, ways around damage, and the rows of entries."""
