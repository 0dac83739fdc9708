"""Consumer groups of Kafka's classic protocol: members, rebalances and committed positions."""
