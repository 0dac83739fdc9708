"""Topics as Kafka knows them: brokers, partitions, offsets, creation."""
