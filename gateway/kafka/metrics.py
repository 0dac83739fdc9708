"""The metrics of Kafka's gateway. Names are those that the usual exporter gives to a broker's, where it has the metric."""

from __future__ import annotations

from ...log.metrics import counter, gauge, histogram

CONNECTIONS = gauge("kafka_server_socket_server_metrics_connection_count", "Open connections", labels=())
UP = gauge("penstock_kafka_gateway_up", "1 while the gateway serves calls, 0 while it ends", labels=())
REQUEST_LATENCY = histogram(
    "kafka_network_requestmetrics_totaltimems",
    "From a request's arrival to its answer, waiting fetches too",
    (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000),
    labels=("request_code", "response_code"),
)

FETCHED_BYTES = counter(
    "kafka_server_brokertopicmetrics_bytesout_total",
    "Record batches in answers of Fetch, as they are sent",
    "By",
    labels=("topic",),
)

CATALOGUE = (CONNECTIONS, UP, REQUEST_LATENCY, FETCHED_BYTES)
