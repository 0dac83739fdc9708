"""RocketMQ 5's gRPC protocol, for RocketMQ's own SDKs of any language. `penstock gateway rocketmq` runs it."""
