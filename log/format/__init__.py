"""The objects of a topic's log as bytes and as values, and the fold over them."""
