"""Traces through topics: the context a message carries, and the spans its listeners run in, by OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from datetime import timedelta

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

import penstock
from penstock.consumers.handlers.results import BatchResult, ConsumeResult, RetryAfter, judge
from penstock.infra.tracing import traced, with_context
from tests.lakes import read_all, send_all

FOREIGN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traces:
    """A tracer, and the spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("test")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def only(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found


@pytest.fixture
def traces() -> Traces:
    return Traces()


def sent(*messages: penstock.Message) -> list[penstock.MessageView]:
    """The messages as a reader of the topic gets them."""
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        send_all(lake, messages)
        return read_all(lake)


def message(**properties: str) -> penstock.Message:
    return penstock.Message(b"paid", message_group="user-7", properties=properties)


def _succeed(_: object) -> ConsumeResult:
    return ConsumeResult.SUCCESS


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def test_a_listener_runs_in_a_span_below_the_sender_s(traces: Traces) -> None:
    with traces.tracer.start_as_current_span("checkout"):
        (view,) = sent(with_context(message(amount="10")))
    seen: list[object] = []

    def listen(one: penstock.MessageView) -> ConsumeResult:
        """What a listener does."""
        seen.append((one, trace.get_current_span().get_span_context().span_id))
        return ConsumeResult.SUCCESS

    listener = traced(listen, group="billing", tracer=traces.tracer)
    assert listener(view) is ConsumeResult.SUCCESS
    assert listener.__doc__ == "What a listener does."
    span, sender = traces.only("process orders"), traces.only("checkout")
    assert seen == [(view, ids(span)[1])]
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == ids(sender)
    assert span.kind is SpanKind.CONSUMER
    assert span.status.status_code is StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "messaging.system": "penstock",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "billing",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.message.id": view.message_id,
        "messaging.message.body.size": 4,
        "penstock.message.offset": 0,
        "penstock.message.group": "user-7",
    }
    assert view.properties["amount"] == "10"


def test_what_the_worker_was_doing_is_no_parent(traces: Traces) -> None:
    (view,) = sent(message())
    with traces.tracer.start_as_current_span("worker"):
        traced(_succeed, tracer=traces.tracer)(view)
    assert traces.only("process orders").parent is None


def test_a_context_of_any_other_sender_is_taken_up(traces: Traces) -> None:
    (view,) = sent(message(traceparent=FOREIGN, tracestate="vendor=1"))
    traced(_succeed, tracer=traces.tracer)(view)
    parent = traces.only("process orders").parent
    assert parent is not None
    assert f"{parent.trace_id:032x}-{parent.span_id:016x}" in FOREIGN
    assert parent.trace_state.get("vendor") == "1"


@pytest.mark.parametrize("bad", ["", "nonsense", "00-0-0-00", FOREIGN + "-more"])
def test_a_context_that_is_none_begins_a_trace(traces: Traces, bad: str) -> None:
    (view,) = sent(message(traceparent=bad))
    traced(_succeed, tracer=traces.tracer)(view)
    assert traces.only("process orders").parent is None


def test_a_batch_links_every_sender_once(traces: Traces) -> None:
    outgoing = []
    for name in ("first", "second"):
        with traces.tracer.start_as_current_span(name):
            outgoing += [with_context(message()), with_context(message())]
    views = sent(*outgoing, message())

    assert traced(_succeed, tracer=traces.tracer)(views) is ConsumeResult.SUCCESS
    span = traces.only("process orders")
    assert span.parent is None
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [
        ids(traces.only("first")),
        ids(traces.only("second")),
    ]
    assert (span.attributes or {})["messaging.batch.message_count"] == 5


def test_a_listener_that_raises_fails_its_span_and_still_raises(traces: Traces) -> None:
    def listen(_: penstock.MessageView) -> None:
        raise ValueError("no such customer")

    (view,) = sent(message())
    with pytest.raises(ValueError, match="no such customer"):
        traced(listen, tracer=traces.tracer)(view)
    span = traces.only("process orders")
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


@pytest.mark.parametrize(
    "result",
    [
        ConsumeResult.SUCCESS,
        BatchResult(1),
        ConsumeResult.FAILURE,
        ConsumeResult.DEAD_LETTER,
        RetryAfter(timedelta(seconds=5), "busy"),
        None,
    ],
)
def test_a_span_fails_with_what_a_consumer_takes_for_a_failure(traces: Traces, result: object) -> None:
    (view,) = sent(message())
    assert traced(lambda _: result, tracer=traces.tracer)(view) is result
    status = traces.only("process orders").status
    failure = judge(result, 1).failure
    assert (failure is None) == (result in (ConsumeResult.SUCCESS, BatchResult(1)))
    assert status.status_code is (StatusCode.UNSET if failure is None else StatusCode.ERROR)
    assert status.description == (None if failure is None else failure.reason)


def test_a_batch_that_succeeded_in_part_fails_its_span(traces: Traces) -> None:
    views = sent(message(), message(), message())
    traced(lambda _: BatchResult(2), tracer=traces.tracer)(views)
    assert traces.only("process orders").status.status_code is StatusCode.ERROR


def test_an_asyncio_listener_stays_one(traces: Traces) -> None:
    async def listen(one: penstock.MessageView) -> ConsumeResult:
        await asyncio.sleep(0)
        assert trace.get_current_span().is_recording()
        return ConsumeResult.FAILURE

    (view,) = sent(message())
    listener = traced(listen, tracer=traces.tracer)
    assert asyncio.iscoroutinefunction(listener)
    assert asyncio.run(listener(view)) is ConsumeResult.FAILURE
    assert traces.only("process orders").status.status_code is StatusCode.ERROR


def test_a_message_passed_on_gets_the_new_context_in_place_of_the_old(traces: Traces) -> None:
    old = message(traceparent=FOREIGN, tracestate="vendor=1", amount="10")
    with traces.tracer.start_as_current_span("relay") as span:
        passed = with_context(old)
    assert passed.properties["amount"] == "10"
    assert f"{span.get_span_context().span_id:016x}" in passed.properties["traceparent"]
    assert "tracestate" not in passed.properties  # it belongs to the trace that it came with
    assert old.properties["traceparent"] == FOREIGN


def test_without_a_trace_a_message_keeps_what_it_carries() -> None:
    carried = message(traceparent=FOREIGN)
    assert with_context(carried) is carried


@pytest.fixture
def without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)


@pytest.mark.usefixtures("without_opentelemetry")
def test_without_opentelemetry_nothing_changes() -> None:
    with pytest.raises(ImportError):
        importlib.util.find_spec("opentelemetry.trace")
    carried = message()

    def listen(one: object) -> object:
        return one

    assert with_context(carried) is carried
    assert traced(listen) is listen
