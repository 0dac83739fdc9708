"""A PostgreSQL captured by Debezium on Kafka Connect, through Kafka gateways, into Delta tables that equal it, beneath kills."""
