"""RocketMQ 5's gRPC protocol, so that clients of any language use the lake with RocketMQ's own SDKs. `penstock gateway rocketmq` runs it."""
