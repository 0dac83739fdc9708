"""The cell of one queue in one group: what became of each message, who may change it, and how it is written.

Which member owns the queue is in `rebalance`.
"""
