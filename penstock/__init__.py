"""Ordered message queues with RocketMQ's semantics on nothing but object storage."""
