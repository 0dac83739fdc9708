"""The server of RocketMQ's protocol: what surrounds every call."""
