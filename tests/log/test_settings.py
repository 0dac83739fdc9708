"""A topic's settings as they are stored: what earlier versions wrote and read stays so, and they are told of what they cannot know."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.log import Routing
from penstock.log.errors import InvalidArgument, LimitExceeded, NewerFormatError
from penstock.log.format.stored_json import StoredForm, parse_stored
from penstock.log.limits import FORMAT_BASIC, FORMAT_EXTENDED, TopicLimits
from penstock.log.topic.settings import TopicRecord, TopicSettings, decode_record, encode_record


class Earlier(StoredForm, frozen=True):
    """What an earlier version knows: its fields do not matter, as none is what this version adds."""

    format: int


def encoded(**settings: Any) -> bytes:
    return encode_record(TopicRecord(settings=TopicSettings(**settings), incarnation="i"))


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({"message_type": "MIXED"}, 3),
        ({"routing": "murmur2"}, 3),
        ({"routing": "crc32", "message_type": "FIFO"}, 3),
        ({"limits": TopicLimits(max_headers=10_000)}, 3),
        ({"limits": TopicLimits(max_headers_bytes=2**20)}, 3),
        ({"configs": (("cleanup.policy", "compact"), ("segment.ms", "100"))}, 5),
        ({"configs": (("cleanup.policy", "compact"),), "message_type": "MIXED"}, 5),
    ],
)
def test_settings_that_earlier_versions_do_not_know_say_so(settings: dict[str, Any], written: int) -> None:
    data = encoded(**settings)
    assert decode_record(data, where="here").settings == TopicSettings(**settings)
    with pytest.raises(
        NewerFormatError, match=rf"another version.*expected: format 1 or 2; observed: format {written}.*upgrade this process"
    ):
        parse_stored(data, Earlier, what="settings", where="here", formats=(FORMAT_BASIC, FORMAT_EXTENDED))


def test_a_routing_is_one_of_three() -> None:
    assert TopicSettings(routing="MURMUR2").routing is Routing.MURMUR2  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"no such routing.*expected: xxhash64, murmur2, crc32; observed: 'fnv1a'"):
        TopicSettings(routing="fnv1a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("configs", "told"),
    [
        ({"a": "1"}, "must be a tuple of pairs"),
        ((("a", 1),), "must be a tuple of pairs"),
        ((("a", "1"), ("a", "2")), "name one twice"),
        ((("a", "1" * 1_001),), "too long"),
        (tuple((str(number), "") for number in range(101)), "too many"),
    ],
)
def test_configs_are_few_short_texts(configs: Any, told: str) -> None:
    with pytest.raises((InvalidArgument, LimitExceeded), match=told):
        TopicSettings(configs=configs)


def test_other_settings_are_stored_as_before() -> None:
    document = json.loads(encoded(limits=TopicLimits(max_properties=7)))
    assert document["format"] == 1
    assert set(document["settings"]) == {"message_type", "queues", "retention", "retention_bytes", "limits"}
    assert set(document["settings"]["limits"]) == {"body_bytes", "properties_bytes", "properties", "group_bytes", "delay"}
    assert decode_record(encoded(limits=TopicLimits(max_properties=7)), where="here").settings.limits.headers_max == 7


def test_configs_are_the_same_in_whatever_order_they_are_given() -> None:
    one, other = ("cleanup.policy", "compact"), ("segment.ms", "100")
    assert TopicSettings(configs=(one, other)) == TopicSettings(configs=(other, one))
