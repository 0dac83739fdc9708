"""Counts calls and clients."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator

from google.protobuf.message import Message

from ....log.metrics import Counter, Histogram, Metrics, Sample
from ...metrics import CLIENTS, PROXY_UP, RECEIVED, RPC_LATENCY, STREAMS
from ..clients.registry import ClientRegistry
from ..protocol import rocketmq_pb2 as pb
from ..server.calls import RpcCall

_LANGUAGES = frozenset(pb.Language.keys())


class GatewayCounters:
    """Counts of answers, and the number of clients."""

    def __init__(self, metrics: Metrics, clients: ClientRegistry, is_up: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._clients = clients
        self._is_up = is_up
        self._latencies: dict[tuple[str, int], Histogram] = {}
        self._received: dict[str, Counter] = {}
        self.end = metrics.watch(lambda: list(self._samples()))

    def on_answer(self, call: RpcCall, request: Message | None, code: int, took_s: float, size_bytes: int) -> None:
        latency = self._latencies.get((call.rpc, code))
        if latency is None:
            latency = self._metrics.histogram(RPC_LATENCY, request_code=call.rpc, response_code=code_name(code))
            self._latencies[call.rpc, code] = latency
        latency.observe(took_s * 1000)
        received = self._received.get(call.rpc)
        if received is None:
            received = self._received[call.rpc] = self._metrics.counter(RECEIVED, request_code=call.rpc)
        received.add(size_bytes)

    def _samples(self) -> Iterator[Sample]:
        clients = self._clients.all()
        yield Sample(PROXY_UP, (), int(self._is_up()))
        yield Sample(STREAMS, (), sum(one.send is not None for one in clients))
        for kind, count in Tally((_type_name(one.client_type), _language(one.language)) for one in clients).items():
            yield Sample(CLIENTS, kind, count)


def code_name(code: int) -> str:
    try:
        return pb.Code.Name(pb.Code.ValueType(code))
    except ValueError:
        return str(code)


def _type_name(client_type: int) -> str:
    try:
        return pb.ClientType.Name(pb.ClientType.ValueType(client_type))
    except ValueError:
        return str(client_type)


def _language(stated: str) -> str:
    """A language of the protocol, as clients' own texts would make series without end."""
    return stated if stated in _LANGUAGES else "OTHER"
