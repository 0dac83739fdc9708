"""The calls and clients of RocketMQ's gateway, for observers."""
