"""The gateways: other systems' protocols for the lake, for their unmodified clients.

A gateway keeps nothing but connections: what must last lies in the log, in queues' cells and in groups' records.
"""
