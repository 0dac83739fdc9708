"""A span of OpenTelemetry for each call, in its client's trace. Needs ``penstock[opentelemetry]`` and a configured SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...log.runtime.runtime import Clock
from .calls import AnsweredCall

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class CallSpans:
    """A span for each answered call. The library's work within it has no spans."""

    def __init__(self, clock: Clock, tracer: Tracer, *, system: str, service: str) -> None:
        """``system``: the messaging system. ``service``: the full name of the RPCs' service."""
        self._clock = clock
        self._tracer = tracer
        self._system = system
        self._service = service

    def on_answer(self, call: AnsweredCall) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        end_ns = self._clock.wall_ms() * 1_000_000
        said = {"traceparent": call.traceparent, "tracestate": call.tracestate}
        span = self._tracer.start_span(
            f"{self._service}/{call.rpc}",
            context=TraceContextTextMapPropagator().extract(said, context=Context()),
            kind=SpanKind.SERVER,
            start_time=end_ns - round(call.took_s * 1e9),
            attributes={
                "rpc.system": "grpc",
                "rpc.service": self._service,
                "rpc.method": call.rpc,
                "messaging.system": self._system,
                "messaging.client.id": call.client_id,
                "client.address": call.peer,
                "enduser.id": call.principal,
                "penstock.status.code": call.code,
                "penstock.request.bytes": call.size_bytes,
            },
        )
        if call.is_failure:
            span.set_status(Status(StatusCode.ERROR, call.code_name))
        span.end(end_ns)


def spans(clock: Clock, *, system: str, service: str) -> CallSpans | None:
    """None without OpenTelemetry or a configured SDK."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return CallSpans(clock, provider.get_tracer("penstock"), system=system, service=service)
