"""The gateway: RocketMQ 5's gRPC protocol for the lake, so that clients of any language use it with their own SDKs.

`penstock gateway` runs it. It keeps nothing but connections: what must last lies in the log, in queues' cells and in groups' records.
"""
