"""Every RPC and every field of the protocol: bounded before it is decoded, and, where it names something, compared with what was authorised.

All is walked by the protocol's descriptors. So a new RPC, or a new field of an old one, fails here until somebody says what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from penstock.gateway.rocketmq.access.rights import rights_of
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.decode_limits import BOUNDS, FIELDS_MAX, SMALL_BYTES, FieldBound, check_bounds
from penstock.gateway.rocketmq.protocol.status import StatusError
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from tests.gateway.stage import CLIENT, gateway, route

METHODS: Final = pb.DESCRIPTOR.services_by_name["MessagingService"].methods
REQUESTS: Final[list[Descriptor]] = [method.input_type for method in METHODS]
_LISTED: Final = pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: str(one.name))

Path = tuple[FieldDescriptor, ...]


def paths_of(message: Descriptor, before: Path = ()) -> Iterator[Path]:
    """Every field of a message, and of those in it."""
    for field in message.fields:
        path = (*before, field)
        yield path
        if field.message_type is not None and len(path) < 8:
            yield from paths_of(field.message_type, path)


def dotted(path: Path) -> str:
    return ".".join(field.name for field in path)


# --- Bounds --------------------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return data + bytes((number,))


def delimited(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def within(path: Path, content: bytes) -> bytes:
    """The bytes of a request that has this content in the message that the path leads to."""
    for field in reversed(path):
        content = delimited(field.number, content)
    return content


def bound_of(request: Descriptor, path: Path) -> FieldBound:
    fields = BOUNDS[request.name]
    for field in path[:-1]:
        fields = fields[field.number].fields
    return fields[path[-1].number]


def too_much(request: Descriptor, path: Path) -> Iterator[bytes]:
    """Requests that have more in a field than is allowed, in each way in which there may be more."""
    bound, field = bound_of(request, path), path[-1]
    if bound.count is not None:
        is_number = bound.length == bound.count and not bound.is_message
        one = varint(field.number << 3) + b"\0" if is_number else delimited(field.number, b"")
        yield within(path[:-1], one * (bound.count + 1))
    if bound.length is not None and not bound.is_message:
        yield within(path[:-1], delimited(field.number, b"a" * (bound.length + 1)))


def padded(data: bytes) -> bytes:
    """A request that is large enough to be looked at: with a field behind it that the protocol does not have."""
    return data + delimited(2_000, bytes(SMALL_BYTES))


@_LISTED
def test_every_field_has_a_bound_that_is_looked_at_before_it_is_decoded(request_: Descriptor) -> None:
    seen = 0
    for path in paths_of(request_):
        for data in too_much(request_, path):
            seen += 1
            with pytest.raises(StatusError) as refused:
                check_bounds(request_.name, padded(data))
            assert refused.value.code == pb.PAYLOAD_TOO_LARGE, dotted(path)
            assert path[-1].name in refused.value.message
    assert seen


UNBOUNDED: Final = {
    "body": "the largest body of the topic",
    "key": "the largest properties of the topic, together",
    "value": "the same",
    "tag": "the same",
    "keys": "the same",
    "message_group": "the longest message group of the topic",
}
"""Texts that may be as long as the request, and what bounds them: `message_of` refuses them, before it does anything else with them."""


@_LISTED
def test_every_list_and_text_has_a_bound(request_: Descriptor) -> None:
    for path in paths_of(request_):
        field, bound = path[-1], bound_of(request_, path)
        if field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES} and bound.length is None:
            assert field.name in UNBOUNDED, dotted(path)
            assert "messages" in dotted(path) or "message" in dotted(path), "of a message alone"
        if field.type == FieldDescriptor.TYPE_MESSAGE or bound.count is not None:
            assert bound.count is not None, dotted(path)


@_LISTED
def test_what_is_within_its_bounds_is_let_through(request_: Descriptor) -> None:
    for path in paths_of(request_):
        bound, field = bound_of(request_, path), path[-1]
        if bound.is_message and bound.count is not None:
            check_bounds(request_.name, padded(within(path[:-1], delimited(field.number, b"") * bound.count)))
        elif bound.length is not None:
            check_bounds(request_.name, padded(within(path[:-1], delimited(field.number, b"a" * bound.length))))


def test_a_request_s_fields_are_bounded_together() -> None:
    """Each message may have many properties, and a request many messages."""
    properties = delimited(2, b"") * 16_384
    one = delimited(1, properties)
    check_bounds("SendMessageRequest", one * 15)
    with pytest.raises(StatusError, match=f"more than {FIELDS_MAX:,} fields"):
        check_bounds("SendMessageRequest", one * 17)


TWICE: Final = delimited(1, b"") * 2
"""More than is allowed of a message that is there once."""


def test_small_requests_are_not_looked_at() -> None:
    check_bounds("QueryRouteRequest", TWICE)
    behind = bytes(SMALL_BYTES - len(TWICE) - len(delimited(2_000, bytes(900))) + 900)
    data = TWICE + delimited(2_000, behind)
    assert len(data) == SMALL_BYTES
    check_bounds("QueryRouteRequest", data)
    with pytest.raises(StatusError):
        check_bounds("QueryRouteRequest", TWICE + delimited(2_000, behind + b"1"))


@pytest.mark.parametrize(
    "before",
    [
        b"\x81\x7d" + bytes(8),
        b"\x85\x7d" + bytes(4),
        b"\x80\x01\x00",
        b"\x10\x80\x01",
        b"\x10\xff\x01",
        b"\x10\x7f",
        delimited(77, b"\xff" * 300),
    ],
    ids=[
        "8 bytes",
        "4 bytes",
        "a tag whose first byte is empty",
        "a number whose first byte is empty",
        "two bytes",
        "one byte",
        "text",
    ],
)
def test_what_is_not_looked_at_is_passed_over(before: bytes) -> None:
    check_bounds("QueryRouteRequest", padded(before + delimited(1, b"")))
    with pytest.raises(StatusError, match="more than 1 topic"):
        check_bounds("QueryRouteRequest", padded(before + TWICE))
    with pytest.raises(StatusError, match="more than 1 topic"):
        check_bounds("AckMessageRequest", padded(delimited(3, before) + delimited(2, b"") * 2))


def test_as_many_fields_as_are_allowed_are_allowed() -> None:
    check_bounds("QueryRouteRequest", b"\x78\x01" * FIELDS_MAX)
    with pytest.raises(StatusError, match="fields"):
        check_bounds("QueryRouteRequest", b"\x78\x01" * (FIELDS_MAX + 1))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80" * 100_000,
        b"\x08" + b"\xff" * 100_000,
        delimited(1, bytes(2_000))[:-1],
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + bytes(2_000),
        b"\x0f" + bytes(2_000),
    ],
    ids=["a tag without end", "a number without end", "cut off", "a length beyond the end", "a kind that there is not"],
)
def test_what_is_no_message_is_seen_at_once(data: bytes) -> None:
    """The decoder refuses it, in its own words, or the walk does."""
    with suppress(StatusError):
        check_bounds("QueryRouteRequest", data)
    with pytest.raises(DecodeError):
        pb.QueryRouteRequest.FromString(data)


def test_a_group_is_refused_as_nothing_bounds_what_is_in_it() -> None:
    """The decoder takes it for a field that it does not know."""
    data = padded(varint(500 << 3 | 3) + b"\x78\x01" * 10 + varint(500 << 3 | 4))
    pb.QueryRouteRequest.FromString(data)
    with pytest.raises(StatusError, match="has a group"):
        check_bounds("QueryRouteRequest", data)


async def test_every_rpc_is_bounded_where_it_is_served() -> None:
    """At a gateway that admits everybody."""
    async with gateway() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        for method in METHODS:
            answer = getattr(pb, method.output_type.name)
            data = padded(next(data for path in paths_of(method.input_type) for data in too_much(method.input_type, path)))
            call: Any = channel.stream_stream(f"/{SERVICE}/{method.name}")(metadata=CLIENT, timeout=30)
            await call.write(data)
            found = answer.FromString(await call.read())
            assert found.status.code == pb.PAYLOAD_TOO_LARGE, method.name
            call.cancel()
        ask: Any = channel.unary_unary(f"/{SERVICE}/QueryRoute")
        data = await ask(route().SerializeToString(), metadata=CLIENT, timeout=30)
        assert pb.QueryRouteResponse.FromString(data).status.code == pb.OK


# --- What names something ------------------------------------------------------------------------------------------------------

AUTHORISED: Final = {"topic", "group", "topics"}
"""Fields that name what rights are asked for."""
HANDLES: Final = {
    ("AckMessageRequest", "entries.receipt_handle"),
    ("ChangeInvisibleDurationRequest", "receipt_handle"),
    ("ForwardMessageToDeadLetterQueueRequest", "receipt_handle"),
    ("EndTransactionRequest", "transaction_id"),
    ("RecallMessageRequest", "recall_handle"),
}
"""Fields that name what is acted on, by themselves: `protocol/handles.py` compares each with the request's topic and group, and
`test_acted_on.py` sends those of others."""
OWN: Final = {
    ("ReceiveMessageRequest", "attempt_id"),
}
"""Ids that a client makes, and that are looked for among what the request's group has on the request's topic, and nowhere else."""
NOT_ACTED_ON: Final = {
    "AckMessageRequest": {"entries.message_id", "entries.lite_topic"},
    "ChangeInvisibleDurationRequest": {"message_id", "lite_topic"},
    "ForwardMessageToDeadLetterQueueRequest": {"message_id", "lite_topic"},
    "EndTransactionRequest": {"message_id", "trace_context"},
    "SendMessageRequest": {"messages.system_properties.receipt_handle", "messages.system_properties.lite_topic"},
}
"""Texts that look like names, and are at most sent back."""
IN_MESSAGES: Final = "of a message that is stored, or of a command that a client has no reason to send"
PLAIN: Final = {
    "name": "of a resource, or of a broker that the client was told",
    "resource_namespace": "a part of a resource's name",
    "host": "where the client found the gateway, and is told again",
    "expression": "a filter",
    "checksum": "of a body",
    "version": "of an SDK",
    "platform": "of a client",
    "hostname": "of a client",
    "message": "of a status",
    "nonce": IN_MESSAGES,
    "thread_stack_trace": IN_MESSAGES,
    "transaction_id": IN_MESSAGES,
}
"""Texts that name nothing that could be another's."""
_OF_MESSAGES: Final = ("messages.", "verify_message_command.", "recover_orphaned_transaction_command.")


@_LISTED
def test_every_text_that_names_something_is_compared_or_not_acted_on(request_: Descriptor) -> None:
    for path in paths_of(request_):
        field, text = path[-1], dotted(path)
        if field.type != FieldDescriptor.TYPE_STRING:
            continue
        is_known = (
            (request_.name, text) in HANDLES | OWN
            or text in NOT_ACTED_ON.get(request_.name, ())
            or field.name in PLAIN
            or text.startswith(_OF_MESSAGES)
        )
        assert is_known, f"{request_.name}.{text} is new: say what it names, and compare it with what the request may act on"


@_LISTED
def test_every_resource_of_a_request_asks_for_a_right(request_: Descriptor) -> None:
    resources = [path for path in paths_of(request_) if is_asked_for(path)]
    for path in resources:
        assert path[-1].name in AUTHORISED, dotted(path)
        request: Message = getattr(pb, request_.name)()
        for number, other in enumerate(resources):
            if goes_with(path, other):
                put(request, other, "this" if other is path else f"other-{number}")
        assert "this" in {name for _, name in rights_of(request)}, f"nobody asks for a right on {request_.name}.{dotted(path)}"


def is_asked_for(path: Path) -> bool:
    """Whether a field is a resource, and not one of a command that only the gateway gives."""
    message = path[-1].message_type
    return message is not None and message.name == "Resource" and not dotted(path).startswith(_OF_MESSAGES[1:])


def goes_with(path: Path, other: Path) -> bool:
    """Whether a request can have both: not two of which there is one."""
    for one, beside in zip(path, other, strict=False):
        if one.full_name != beside.full_name:
            first, second = one.containing_oneof, beside.containing_oneof
            return first is None or second is None or first.full_name != second.full_name
    return True


def put(message: Any, path: Path, name: str) -> None:
    for field in path:
        value = getattr(message, field.name)
        is_list = hasattr(value, "add")
        message = (value[0] if len(value) else value.add()) if is_list else value
    message.name = name
