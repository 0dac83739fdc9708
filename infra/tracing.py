"""Traces through topics, by OpenTelemetry: a message carries its sender's context, and its listener runs in a span of that trace.

    producer.send(tracing.with_context(penstock.Message(b"paid", message_group="user-7")))
    lake.push_consumer("orders", group="billing", listener=tracing.traced(listen))

The context travels as the properties ``traceparent`` and ``tracestate``, as W3C writes them. So it outlives retries, dead letters and redrive. Both
calls change nothing without OpenTelemetry (``penstock[opentelemetry]``) installed and set up.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from ..consumers.handlers.results import judge
from ..log.message.message import Message

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

L = TypeVar("L", bound=Callable[..., Any])

TRACE_PROPERTIES = ("traceparent", "tracestate")
_SCOPE = "penstock"


class _Delivered(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def queue(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def message_id(self) -> str: ...
    @property
    def message_group(self) -> str | None: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


def with_context(message: Message) -> Message:
    """The message with the current trace context, if any, in place of an earlier one."""
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return message
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    if not carrier:
        return message
    kept = {name: value for name, value in message.properties.items() if name not in TRACE_PROPERTIES}
    return message._replace(properties={**kept, **carrier})


def traced(listener: L, *, group: str | None = None, tracer: Tracer | None = None) -> L:
    """A listener that runs inside a span ``process <topic>`` of kind CONSUMER.

    A single message's context is the span's parent; a batch's are links. The span fails when the listener raises or returns a failure. An asyncio
    listener stays one. ``tracer`` is ``opentelemetry.trace.get_tracer("penstock")`` unless given; ``group`` is noted as the consumer group.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        return listener
    using = tracer or trace.get_tracer(_SCOPE)

    if inspect.iscoroutinefunction(listener):

        @functools.wraps(listener)
        async def listen_async(delivered: Any, *args: Any) -> Any:  # noqa: ANN401 - whatever the listener takes and returns
            with _span(using, delivered, group) as span:
                return _noted(span, await listener(delivered, *args), delivered)

        return cast("L", listen_async)

    @functools.wraps(listener)
    def listen(delivered: Any, *args: Any) -> Any:  # noqa: ANN401 - whatever the listener takes and returns
        with _span(using, delivered, group) as span:
            return _noted(span, listener(delivered, *args), delivered)

    return cast("L", listen)


@contextmanager
def _span(tracer: Tracer, delivered: _Delivered | Sequence[_Delivered], group: str | None) -> Iterator[Span]:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, get_current_span

    batch = not hasattr(delivered, "properties")
    messages = cast("Sequence[_Delivered]", delivered if batch else [delivered])
    contexts = [_context(message) for message in messages]
    links = []
    if batch:
        origins = [get_current_span(context).get_span_context() for context in contexts]
        # Messages of one sender's span need one link.
        links = [Link(origin) for origin in {one.span_id: one for one in origins if one.is_valid}.values()]
    topic = messages[0].topic if messages else ""
    with tracer.start_as_current_span(
        f"process {topic}".rstrip(),
        context=Context() if batch else contexts[0],
        kind=SpanKind.CONSUMER,
        links=links,
        attributes=_attributes(messages, group, batch=batch),
    ) as span:
        yield span


def _context(message: _Delivered) -> Context:
    """The context of the sender alone: the worker's thread may have had another."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(message.properties, context=Context())


def _attributes(messages: Sequence[_Delivered], group: str | None, *, batch: bool) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {"messaging.system": "penstock", "messaging.operation.type": "process"}
    if group is not None:
        attributes["messaging.consumer.group.name"] = group
    if batch:
        attributes["messaging.batch.message_count"] = len(messages)
    if messages:
        attributes["messaging.destination.name"] = messages[0].topic
        attributes["messaging.destination.partition.id"] = str(messages[0].queue)
    if messages and not batch:
        attributes["messaging.message.id"] = messages[0].message_id
        attributes["messaging.message.body.size"] = len(messages[0].body or b"")
        attributes["penstock.message.offset"] = messages[0].offset
        if messages[0].message_group is not None:
            attributes["penstock.message.group"] = messages[0].message_group
    return attributes


def _noted(span: Span, result: object, delivered: _Delivered | Sequence[_Delivered]) -> object:
    from opentelemetry.trace import Status, StatusCode

    verdict = judge(result, 1 if hasattr(delivered, "properties") else len(delivered))
    if verdict.failure is not None:
        span.set_status(Status(StatusCode.ERROR, verdict.failure.reason))
    return result
