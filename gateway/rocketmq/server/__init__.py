"""The server of RocketMQ's protocol: the frame of every call."""
