"""Kafka's codes for whatever went wrong, and where an answer says them."""

from __future__ import annotations

import inspect
from typing import Any

import kafka.errors
import pytest
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.producer import ProduceResponse

from penstock.coordinator import GroupNotFound
from penstock.gateway.access.refusals import Forbidden, Unauthorized
from penstock.gateway.kafka.wire import messages
from penstock.gateway.kafka.wire.apis import APIS, Api, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode, KafkaRefusal, refusal_of
from penstock.gateway.kafka.wire.messages import decode_request, encode_answer
from penstock.gateway.kafka.wire.names import topic_of
from penstock.gateway.kafka.wire.produce import parse_produce
from penstock.gateway.kafka.wire.refusals import refused
from penstock.log import errors
from tests.gateway.kafka.wire.test_messages import EVERY, ids, request
from tests.gateway.kafka.wire.test_records_by_hand import produce_request

BY_HAND = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS}
REFUSAL = KafkaRefusal(ErrorCode.KAFKA_STORAGE_ERROR, "the store does not answer")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UnknownOutcome("?"), ErrorCode.REQUEST_TIMED_OUT),
        (errors.StoreUnavailable("?"), ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.NotWritten("?"), ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.StorageFull("?"), ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.BackPressureError("?"), ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.ClosedError("?"), ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.PermissionDenied("?"), ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.NewerFormatError("?"), ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.TopicNotFound("?"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (errors.TopicDeleted("?"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (errors.TopicExists("?"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (errors.OffsetOutOfRange("?"), ErrorCode.OFFSET_OUT_OF_RANGE),
        (errors.LimitExceeded("?"), ErrorCode.MESSAGE_TOO_LARGE),
        (errors.InvalidArgument("?"), ErrorCode.INVALID_REQUEST),
        (errors.DataDamaged("?"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (GroupNotFound("?"), ErrorCode.GROUP_ID_NOT_FOUND),
        (Unauthorized("?"), ErrorCode.SASL_AUTHENTICATION_FAILED),
        (Forbidden("?"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (KafkaRefusal(ErrorCode.INVALID_CONFIG, "?"), ErrorCode.INVALID_CONFIG),
        (RuntimeError("a secret"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_each_error_has_its_code(error: Exception, code: ErrorCode) -> None:
    refusal = refusal_of(error)
    assert refusal.code is code
    assert "a secret" not in refusal.message


def test_the_codes_are_those_that_clients_know() -> None:
    numbers = {getattr(kind, "errno", None) for _, kind in inspect.getmembers(kafka.errors, inspect.isclass)}
    assert {number for number in numbers if isinstance(number, int)} == set(ErrorCode)


def test_a_name_that_no_topic_can_have_has_a_code_of_its_own() -> None:
    assert topic_of("orders") == "orders"
    for name in ("", "a/b", "x" * 5_000):
        with pytest.raises(KafkaRefusal) as refusal:
            topic_of(name)
        assert refusal.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(("api", "version"), [(api, version) for api, version in EVERY if api.key not in BY_HAND], ids=ids)
def test_a_request_that_failed_as_a_whole_has_an_answer_that_says_so(api: Api, version: int) -> None:
    asked = decode_request(api, version, memoryview(request(api.key, version)))
    answer: Any = refused(api, version, asked, REFUSAL)
    data = encode_answer(api, version, answer)
    told = messages._message(api, "Response").decode(data, version=version)
    found = [told.error_code] if messages.has_answer_field(api, version, "error_code") else []
    for name in ("topics", "responses", "results", "groups", "coordinators"):
        for one in getattr(told, name, None) or ():
            of_partitions = api.key in (ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH) and name == "topics"
            found += [part.error_code for part in one.partitions] if of_partitions else [one.error_code]
    assert {*found} == {ErrorCode.KAFKA_STORAGE_ERROR}


@pytest.mark.parametrize("version", range(APIS[ApiKey.PRODUCE].lowest, APIS[ApiKey.PRODUCE].highest + 1))
def test_a_failed_produce_says_it_of_each_partition_and_nothing_without_acks(version: int) -> None:
    def answered(acks: int) -> Any:
        data = produce_request(version, [("orders", [(1, b"x"), (2, b"y")])], acks=acks)
        return refused(APIS[ApiKey.PRODUCE], version, parse_produce(version, memoryview(data)), REFUSAL)

    (topic,) = ProduceResponse.decode(b"".join(answered(-1)), version=version).responses
    assert [(one.index, one.error_code, one.base_offset) for one in topic.partition_responses] == [(1, 56, -1), (2, 56, -1)]
    assert answered(0) is None


@pytest.mark.parametrize("version", range(APIS[ApiKey.FETCH].lowest, APIS[ApiKey.FETCH].highest + 1))
def test_a_failed_fetch_says_it_at_the_top_or_of_each_partition(version: int) -> None:
    api = APIS[ApiKey.FETCH]
    answer: Any = refused(api, version, decode_request(api, version, memoryview(request(api.key, version))), REFUSAL)
    told = FetchResponse.decode(b"".join(answer), version=version)
    codes = [one.error_code for topic in told.responses for one in topic.partitions]
    assert (told.error_code, codes) == ((56, []) if version >= 7 else (0, [56]))


def test_metadata_of_all_topics_has_no_place_for_an_error() -> None:
    api = APIS[ApiKey.METADATA]
    asked = decode_request(api, 1, memoryview(b"\xff\xff\xff\xff"))
    assert refused(api, 1, asked, REFUSAL) is None
