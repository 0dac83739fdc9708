"""Messages and the columns they become: types, checks, and the way to a queue, without I/O."""
