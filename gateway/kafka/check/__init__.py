"""A check of a gateway by what Kafka's clients do."""
