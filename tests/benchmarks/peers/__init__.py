"""Kafka and RocketMQ on this machine, to measure ours beside them.

Both are fetched from Maven Central into a cache and run there; nothing of them lies in this repository or ships with it. Kafka, RocketMQ and
their Python clients are under the Apache licence 2.0, librdkafka inside Kafka's client under BSD-2-Clause.
"""
