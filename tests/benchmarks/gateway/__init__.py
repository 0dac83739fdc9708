"""The RocketMQ gateway: what a message costs it, and how it stands beside the library, beside bare gRPC, and beside RocketMQ itself."""
