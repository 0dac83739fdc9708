"""The cell of one queue in one group: the state of its messages, and its writes. Ownership is in `rebalance`."""
