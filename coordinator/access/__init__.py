"""The rights of clients at a gateway: principals, their sealed secrets, and what they are granted.

Nothing here knows a protocol. A gateway reads the record and decides by it; operators change it by compare-and-set.
"""
