from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.consumers.ranges.offsets import QueuePositions
from penstock.log import MESSAGE_SCHEMA, InvalidArgument, LimitExceeded, TagFilter
from penstock.spark.source.options import OPTIONS, parse

LAKE = {"lake": "s3://bucket/lake", "path": "orders"}


def test_the_least_that_must_be_said() -> None:
    stream = parse(LAKE, stream=True)
    assert (stream.place.url, stream.place.read_only, stream.topic) == ("s3://bucket/lake", True, "orders")
    assert (stream.start, stream.fail_on_data_loss, stream.columns) == (QueuePositions("latest"), True, tuple(MESSAGE_SCHEMA.names))
    batch = parse(LAKE, stream=False)
    assert (batch.start, batch.end) == (QueuePositions("earliest"), QueuePositions("latest"))


def test_names_are_taken_in_any_case_as_spark_gives_them() -> None:
    options = parse(
        {
            "LAKE": "s3://b/l",
            "topic": "orders",
            "startingoffsets": ' {"0": 12, "3": -2, "4": -1} ',
            "maxoffsetspertrigger": "1000",
            "MAXBYTESPERTRIGGER": "2000",
            "failOnDataLoss": "FALSE",
            "damaged": "skip",
            "columns": "body, offset",
            "tags": "paid || refunded",
            "group": "spark",
            "numTasks": "3",
            "coordination": "dynamodb://table",
        },
        stream=True,
    )
    assert options.start == QueuePositions("earliest", {0: 12, 3: "earliest", 4: "latest"})
    assert (options.max_offsets_per_trigger, options.max_bytes_per_trigger) == (1000, 2000)
    assert (options.fail_on_data_loss, options.skip_damaged) == (False, True)
    assert (options.columns, options.keep) == (("body", "offset"), TagFilter(frozenset({"paid", "refunded"})))
    assert (options.group, options.tasks_max, options.place.coordination) == ("spark", 3, "dynamodb://table")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5+02:00", datetime(2026, 1, 31, 12, 0, 0, 500_000, timezone(timedelta(hours=2)))),
        ("1769860800123", datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC)),
        ("253402300799999", datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        ("2026-01-31T12:00:00.123000000Z", datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC)),
    ],
)
def test_times_are_said_with_a_zone_or_in_milliseconds(text: str, time: datetime) -> None:
    options = parse({**LAKE, "startingTimestamp": text, "endingTimestamp": text}, stream=False)
    assert (options.start, options.end) == (QueuePositions(time), QueuePositions(time))


def test_queues_that_are_not_named_are_read_whole() -> None:
    options = parse({**LAKE, "startingOffsets": '{"1": 5}', "endingOffsets": '{"1": 9}'}, stream=False)
    assert (options.start.default, options.end.default) == ("earliest", "latest")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("startingOfsets", "startingOffsets"),
        ("starting_offsets", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("failondataloss2", "failOnDataLoss"),
        ("colums", "columns"),
        ("tag", "tags"),
        ("laek", "lake"),
    ],
)
def test_an_unknown_option_suggests_the_near_one(name: str, meant: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"no option '{name}'.*Did you mean {meant}\?$"):
        parse({**LAKE, name: "x"}, stream=None)


def test_an_unknown_option_that_is_like_none_names_all() -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse({**LAKE, "zzz": "1"}, stream=None)
    assert all(name in str(raised.value) for name in OPTIONS)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"startingOffsets": "newest"}, "startingOffsets is wrong: it is not JSON"),
        ({"startingOffsets": "[1, 2]"}, "does not name offsets by queue"),
        ({"startingOffsets": "{}"}, "does not name offsets by queue"),
        ({"startingOffsets": '{"one": 1}'}, "'one' is no queue"),
        ({"startingOffsets": '{"1": "5"}'}, "'5' is no offset"),
        ({"startingOffsets": '{"1": -3}'}, "-3 is no offset"),
        ({"startingOffsets": '{"1": true}'}, "True is no offset"),
        ({"startingOffsets": '{"1": 5, "1": 6}'}, "a queue is named twice"),
        ({"startingOffsets": '{"1": 5, "01": 6}'}, "'01' is no queue"),
        ({"startingOffsets": '{"\u0661": 5}'}, "is no queue"),
        ({"startingOffsets": f'{{"1": {2**63}}}'}, "is no offset"),
        ({"startingOffsets": '{"1": 5.0}'}, "5.0 is no offset"),
        ({"startingOffsets": '{"-1": 5}'}, "'-1' is no queue"),
        ({"startingOffsets": "[" * 100_000}, "it is not JSON"),
        ({"startingTimestamp": "yesterday"}, r"startingTimestamp is wrong.*milliseconds since 1970"),
        ({"startingTimestamp": "2026-01-31T12:00:00"}, "it has no zone"),
        ({"startingTimestamp": "9" * 30}, "startingTimestamp is wrong"),
        ({"startingTimestamp": "2026-01-31T12:00:00.1230001Z"}, "more digits than microseconds"),
        ({"startingTimestamp": "1", "startingOffsets": "earliest"}, "startingOffsets and startingTimestamp are both given"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is wrong: it is no positive whole number"),
        ({"maxOffsetsPerTrigger": str(2**63)}, "maxOffsetsPerTrigger is wrong: it is no positive whole number"),
        ({"maxOffsetsPerTrigger": "9" * 5000}, "maxOffsetsPerTrigger is wrong: it is no positive whole number"),
        ({"maxOffsetsPerTrigger": "\u0661\u0662"}, "maxOffsetsPerTrigger is wrong: it is no positive whole number"),
        ({"maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger is wrong: it is no positive whole number"),
        ({"maxBytesPerTrigger": "1 GB"}, "maxBytesPerTrigger is wrong"),
        ({"failOnDataLoss": "no"}, r"failOnDataLoss is wrong.*true or false"),
        ({"columns": "offset, bodies"}, "there are no columns 'bodies'"),
        ({"columns": ""}, "there are no columns ''"),
        ({"columns": "offset,offset"}, "a column is named twice"),
        ({"tags": "a ||"}, "bad tag filter"),
        ({"group": "%DLQ%x"}, "cannot begin like a dead-letter queue's"),
        ({"topic": "others"}, r"two topics are named.*orders, others"),
        ({"lake": "memory://x"}, "in the memory of one process"),
        ({"numTasks": "many"}, "numTasks is wrong"),
        ({"coordination": "nonsense://x"}, "not a coordination table's URL"),
        ({"startingOffsets": '{"1": 5}', "endingOffsets": '{"0": 9, "1": 3}'}, "above endingOffsets in queue 1.*5 to 3"),
        ({"startingTimestamp": "2000", "endingTimestamp": "1000"}, "startingTimestamp is after endingTimestamp"),
    ],
)
def test_a_bad_value_says_what_is_expected(option: dict[str, str], says: str) -> None:
    with pytest.raises((InvalidArgument, LimitExceeded), match=says):
        parse({**LAKE, **option}, stream=None)


def test_sql_is_no_tag() -> None:
    with pytest.raises(InvalidArgument, match="a condition on properties stands where tags are expected"):
        parse({**LAKE, "tags": "amount > 5 AND tag = 'x'"}, stream=None)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r'the lake is missing.*\.option\("lake"'):
        parse({"path": "orders"}, stream=None)
    with pytest.raises(InvalidArgument, match=r'the topic is missing.*\.load\("orders"\)'):
        parse({"lake": "s3://b/l"}, stream=None)


def test_options_of_a_batch_and_of_a_stream_are_kept_apart() -> None:
    with pytest.raises(InvalidArgument, match=r"endingOffsets.*a stream has no end"):
        parse({**LAKE, "endingOffsets": "latest"}, stream=True)
    with pytest.raises(InvalidArgument, match=r"maxOffsetsPerTrigger.*spark.readStream"):
        parse({**LAKE, "maxOffsetsPerTrigger": "5"}, stream=False)
