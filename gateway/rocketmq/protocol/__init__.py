"""RocketMQ's protocol: its messages, the metadata of its calls, and its statuses."""
