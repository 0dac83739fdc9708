"""The metrics of RocketMQ's gateway. Names and units are RocketMQ's where its proxy has the metric."""

from __future__ import annotations

from ...log.metrics import gauge, histogram

PROXY_UP = gauge("rocketmq_proxy_up", "1 while the gateway serves calls, 0 while it ends", labels=())
RPC_LATENCY = histogram(
    "rocketmq_rpc_latency",
    "From a call's arrival to its answer, long polls too",
    (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000),
    labels=("request_code", "response_code"),
)
STREAMS = gauge("penstock_gateway_streams", "Clients whose telemetry stream is open", labels=())

CATALOGUE = (PROXY_UP, RPC_LATENCY, STREAMS)
