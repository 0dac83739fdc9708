"""The gateways: other systems' protocols for the lake, for their unmodified clients. Here is what any gateway needs.

A gateway keeps nothing but connections: what must last lies in the log, in queues' cells and in groups' records.
"""
