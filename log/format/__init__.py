"""The objects of a topic's log as bytes and as values: entries, states, checkpoints, hand-overs, and the fold over them."""
