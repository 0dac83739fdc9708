"""A span of OpenTelemetry for each call, in its client's trace. Needs ``penstock[opentelemetry]`` and a configured SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import Message

from ....log.runtime.runtime import Clock
from ..protocol import rocketmq_pb2 as pb
from ..server.calls import RpcCall
from ..server.rpcs import SERVICE
from .counters import code_name

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_FINE = frozenset({pb.OK, pb.MESSAGE_NOT_FOUND, pb.MULTIPLE_RESULTS})


class CallSpans:
    """A span for each answered call. The library's work within it has no spans."""

    def __init__(self, clock: Clock, tracer: Tracer) -> None:
        self._clock = clock
        self._tracer = tracer

    def on_answer(self, call: RpcCall, request: Message | None, code: int, took_s: float, size_bytes: int) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        end_ns = self._clock.wall_ms() * 1_000_000
        said = {"traceparent": call.metadata.traceparent, "tracestate": call.metadata.tracestate}
        span = self._tracer.start_span(
            f"{SERVICE}/{call.rpc}",
            context=TraceContextTextMapPropagator().extract(said, context=Context()),
            kind=SpanKind.SERVER,
            start_time=end_ns - round(took_s * 1e9),
            attributes={
                "rpc.system": "grpc",
                "rpc.service": SERVICE,
                "rpc.method": call.rpc,
                "messaging.system": "rocketmq",
                "messaging.client.id": call.metadata.client_id,
                "client.address": call.peer,
                "enduser.id": call.principal,
                "penstock.status.code": code,
                "penstock.request.bytes": size_bytes,
            },
        )
        if code not in _FINE:
            span.set_status(Status(StatusCode.ERROR, code_name(code)))
        span.end(end_ns)


def spans(clock: Clock) -> CallSpans | None:
    """None without OpenTelemetry or a configured SDK."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return CallSpans(clock, provider.get_tracer("penstock"))
