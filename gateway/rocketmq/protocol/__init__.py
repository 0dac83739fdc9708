"""RocketMQ's protocol: messages, metadata, and statuses."""
