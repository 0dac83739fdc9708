"""The gateways: other systems' protocols for the lake, so that their unmodified clients use it. Here is what any gateway needs.

A gateway keeps nothing but connections: what must last lies in the log, in queues' cells and in groups' records.
"""
