"""Counts calls."""

from __future__ import annotations

from ...log.metrics import Counter, Histogram, Metric, Metrics
from ..metrics import RECEIVED
from .calls import AnsweredCall


class CallCounters:
    """Counts answers by RPC and code."""

    def __init__(self, metrics: Metrics, latency: Metric) -> None:
        """``latency``: the protocol's histogram of milliseconds, by ``request_code`` and ``response_code``."""
        self._metrics = metrics
        self._latency = latency
        self._latencies: dict[tuple[str, int], Histogram] = {}
        self._received: dict[str, Counter] = {}

    def on_answer(self, call: AnsweredCall) -> None:
        latency = self._latencies.get((call.rpc, call.code))
        if latency is None:
            latency = self._metrics.histogram(self._latency, request_code=call.rpc, response_code=call.code_name)
            self._latencies[call.rpc, call.code] = latency
        latency.observe(call.took_s * 1000)
        received = self._received.get(call.rpc)
        if received is None:
            received = self._received[call.rpc] = self._metrics.counter(RECEIVED, request_code=call.rpc)
        received.add(call.size_bytes)
