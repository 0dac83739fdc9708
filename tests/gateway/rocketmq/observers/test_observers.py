"""What a gateway tells of its calls: counts, the audit log, spans, and the facts of log lines."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from penstock.consumers.statistics import CONSUMER_CONNECTIONS
from penstock.gateway.metrics import CLIENTS, RECEIVED
from penstock.gateway.observers.audit import AuditLog
from penstock.gateway.observers.spans import CallSpans
from penstock.gateway.peers.clients import AlikeClients
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.metrics import PROXY_UP, RPC_LATENCY, STREAMS
from penstock.gateway.rocketmq.observers.calls import AnswerDispatcher
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.metadata import CallMetadata
from penstock.gateway.rocketmq.server.calls import RpcCall
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from penstock.log.metrics import MemoryMetrics, Metric
from penstock.log.produce.metrics import MESSAGES_IN, PRODUCER_CONNECTIONS
from penstock.log.runtime.runtime import SystemClock
from tests.gateway.stage import CLIENT, ask, gateway, route

PRODUCER = pb.TelemetryCommand(
    settings=pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[pb.Resource(name="orders")]))
)


def seen(served: Gateway) -> dict[tuple[Metric, tuple[str, ...]], float]:
    assert isinstance(served.metrics, MemoryMetrics)
    return {(one.metric, one.labels): one.value for one in served.metrics.samples()}


async def test_calls_and_clients_are_counted() -> None:
    async with gateway() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        await ask(channel, "QueryRoute", route())
        await ask(channel, "QueryRoute", route())
        await ask(channel, "QueryRoute", route("absent"))
        odd = (*CLIENT[:1], ("x-mq-language", "one of my own"))
        await ask(channel, "Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER), (("x-mq-client-id", "b"), *odd[1:]))
        stream: Any = channel.stream_stream(f"/{SERVICE}/Telemetry")(metadata=CLIENT, timeout=30)
        await stream.write(PRODUCER.SerializeToString())
        await stream.read()
        found = seen(served)
        assert (found[PROXY_UP, ()], found[STREAMS, ()]) == (1, 1)
        assert found[RECEIVED, ("QueryRoute",)] == 2 * len(route().SerializeToString()) + len(route("absent").SerializeToString())
        assert found[CLIENTS, ("PRODUCER", "PYTHON")] == 1
        assert {labels[1] for metric, labels in found if metric == CLIENTS} == {"PYTHON", "OTHER"}
        assert isinstance(served.metrics, MemoryMetrics)
        counts = {one.labels: sum(one.counts) for one in served.metrics.distributions() if one.metric == RPC_LATENCY}
        assert (counts["QueryRoute", "OK"], counts["QueryRoute", "TOPIC_NOT_FOUND"]) == (2, 1)
    assert not seen(served).keys() & {(PROXY_UP, ())}, "a gateway that has ended tells nothing more"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.name == "penstock.gateway.audit"]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return dict(getattr(record, "fields", {}))


@pytest.mark.parametrize("every", [False, True])
def test_the_audit_log_says_who_did_what(every: bool, caplog: pytest.LogCaptureFixture) -> None:
    audit = AnswerDispatcher([AuditLog(every=every)])
    call = RpcCall(
        "SendMessage",
        CallMetadata(client_id="c", language="JAVA", request_id="r", authorization="secret"),
        "peer",
        principal="shop",
    )
    send = pb.SendMessageRequest(messages=[pb.Message(topic=pb.Resource(name="orders"))])
    with caplog.at_level(logging.INFO, logger="penstock.gateway.audit"):
        audit.on_answer(call, send, pb.OK, 0.001, 10)
        audit.on_answer(call, None, pb.UNAUTHORIZED, 0.001, 10)
        audit.on_answer(call, pb.SendMessageRequest(messages=[pb.Message()]), pb.FORBIDDEN, 0.001, 10)
    refused = ["shop SendMessage -: UNAUTHORIZED", "shop SendMessage -: FORBIDDEN"]
    assert lines(caplog) == (["shop SendMessage orders: OK", *refused] if every else refused)
    found = fields(caplog.records[-1])
    assert (found["principal"], found["client_id"], found["language"], found["request_id"]) == ("shop", "c", "JAVA", "r")
    assert "secret" not in str(found) + repr(call)


def test_log_lines_have_what_a_call_says_of_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with gateway() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            await ask(channel, "QueryRoute", route("absent"), (*CLIENT, ("x-mq-request-id", "r-1")))

    with caplog.at_level(logging.INFO, logger="penstock.gateway"):
        asyncio.run(main())
    (record,) = [one for one in caplog.records if one.name == "penstock.gateway"]
    found = fields(record)
    assert (found["rpc"], found["client_id"], found["request_id"], found["code"]) == (
        "QueryRoute",
        CLIENT[0][1],
        "r-1",
        pb.TOPIC_NOT_FOUND,
    )


def test_a_call_has_a_span_in_its_client_s_trace() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = AnswerDispatcher([CallSpans(SystemClock(), provider.get_tracer("test"), system="rocketmq", service=SERVICE)])
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    spans.on_answer(
        RpcCall("SendMessage", CallMetadata(client_id="c", traceparent=trace), "peer", principal="shop"), None, pb.OK, 0.25, 7
    )
    spans.on_answer(RpcCall("AckMessage", CallMetadata(), "peer"), None, pb.FORBIDDEN, 0.25, 7)
    first, second = exporter.get_finished_spans()
    assert (first.name, first.kind) == ("apache.rocketmq.v2.MessagingService/SendMessage", SpanKind.SERVER)
    assert first.context is not None
    assert first.parent is not None
    assert (f"{first.context.trace_id:032x}", f"{first.parent.span_id:016x}") == (trace[3:35], trace[36:52])
    assert first.end_time is not None
    assert first.start_time is not None
    assert first.end_time - first.start_time == 250_000_000
    assert first.attributes is not None
    assert first.attributes["enduser.id"] == "shop"
    assert (first.status.status_code, second.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert second.parent is None


def test_every_call_of_a_gateway_is_audited_where_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        options = RocketMQOptions(port=0, audit=True)
        async with gateway(options) as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            await ask(channel, "QueryRoute", route())

    with caplog.at_level(logging.INFO, logger="penstock.gateway.audit"):
        asyncio.run(main())
    assert lines(caplog) == [f"{CLIENT[0][1]} QueryRoute orders: OK"]


async def test_consumers_and_producers_behind_the_clients_are_counted_as_those_of_the_library() -> None:
    async with gateway() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        topic, group = pb.Resource(name="orders"), pb.Resource(name="billing")
        message = pb.Message(topic=topic, body=b"paid", system_properties=pb.SystemProperties(message_id="0" * 34))
        await ask(channel, "SendMessage", pb.SendMessageRequest(messages=[message]))
        request = pb.ReceiveMessageRequest(group=group, message_queue=pb.MessageQueue(topic=topic), batch_size=1)
        request.invisible_duration.FromSeconds(30)
        request.filter_expression.CopyFrom(pb.FilterExpression(type=pb.TAG, expression="*"))
        receive: Any = channel.unary_stream(f"/{SERVICE}/ReceiveMessage")
        frames = [frame async for frame in receive(request.SerializeToString(), metadata=CLIENT, timeout=30)]
        assert len(frames) == 3
        found = seen(served)
        assert found[PRODUCER_CONNECTIONS, ("orders",)] == 1
        assert served.metrics.value(MESSAGES_IN, topic="orders") == 1  # type: ignore[attr-defined]  # of MemoryMetrics
        assert {labels for metric, labels in found if metric == CONSUMER_CONNECTIONS} == {("billing",)}
    assert not {metric for metric, _ in seen(served)} & {PRODUCER_CONNECTIONS, CONSUMER_CONNECTIONS}


async def test_the_list_of_gateways_tells_of_clients_by_their_own_words() -> None:
    consumer = pb.Settings(client_type=pb.PUSH_CONSUMER, subscription=pb.Subscription(group=pb.Resource(name="billing")))
    consumer.subscription.subscriptions.add().topic.name = "orders"
    consumer.subscription.subscriptions[0].expression.expression = "*"
    async with gateway() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        said = (("x-mq-client-id", "c"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.0.7"))
        stream: Any = channel.stream_stream(f"/{SERVICE}/Telemetry")(metadata=said, timeout=30)
        await stream.write(pb.TelemetryCommand(settings=consumer).SerializeToString())
        await stream.read()
        (told,) = served.peers.clients()
        assert told == AlikeClients(kind="PUSH_CONSUMER", language="JAVA", version="5.0.7", group="billing", topics=("orders",))
        await served.peers._renew_once()
        own = served.peers.own
        assert own is not None
        assert (own.clients, own.alike) == (1, (told,))
        stream.cancel()
