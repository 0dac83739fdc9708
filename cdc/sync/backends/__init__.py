"""What carries out a batch: ranges of the topic are read and folded, and the rows of a MERGE made."""
