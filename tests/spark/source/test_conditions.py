"""Conditions give the rows that Spark's own evaluation gives, however many queries of one DataFrame there are, pushed down or not."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.spark.source.topics import TopicFolder, topic_folder
from tests.thorough import thoroughly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DRAWN = thoroughly(12, 6)
PUSHED = "spark.sql.python.filterPushdown.enabled"
ZONE = "America/New_York"


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicFolder]:
    """Entries of several store times, half of them in the table."""
    with topic_folder(tmp_path_factory.mktemp("conditions") / "lake", queues=3) as topic:
        for number in range(8):
            topic.send(7, groups=5)
            if number == 4:
                topic.publish()
        yield topic


def literal(time: datetime) -> str:
    return f"timestamp '{time.isoformat(sep=' ', timespec='microseconds')}'"


def local(time: datetime) -> str:
    """The same without a zone, as the session's."""
    from zoneinfo import ZoneInfo

    return f"timestamp_ntz '{time.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}'"


def conditions(times: Sequence[datetime]) -> list[str]:
    """Every kind of condition on every column that one can be pushed down on, at the bounds and beside them."""
    found = []
    near = [time + timedelta(microseconds=step) for time in (times[0], times[3], times[-1]) for step in (-1000, -1, 0, 1)]
    for operator in ("=", "<=>", "<", "<=", ">", ">=", "<>"):
        found += [f"store_timestamp {operator} {literal(time)}" for time in near]
        found += [f"{literal(times[3])} {operator} store_timestamp", f"store_timestamp {operator} {local(times[3])}"]
        found += [f"queue {operator} {queue}" for queue in (-1, 1, 3, 2**31 - 1, 2**31, 2**32 + 1)]
        found += [f"offset {operator} {offset}" for offset in (-1, 0, 9, 2**31, 2**63 - 1, "9.5D", "9.0D", "9.5", "'9'")]
        found += [
            f"{column} {operator} {value}"
            for column in ("tag", "message_group")
            for value in ("'paid'", "'user-1'", "'PAID'", "NULL")
        ]
        found += [f"tag {operator} 'PAID' COLLATE UTF8_LCASE", f"body {operator} X'31'", f"producer {operator} 'x'"]
        found += [f"born_timestamp {operator} {literal(times[3])}", f"queue {operator} NULL", f"offset {operator} NULL"]
        found += [f"delivery_timestamp {operator} {literal(times[3])}", f"store_timestamp {operator} NULL"]
        found += [f"store_timestamp {operator} timestamp '{year}'" for year in ("0001-01-01", "9999-12-31 23:59:59.999999Z")]
    some = f"{literal(times[0])}, {literal(times[-1])}"
    found += [
        f"store_timestamp IN ({some})",
        f"store_timestamp NOT IN ({some}, NULL)",
        f"store_timestamp BETWEEN {some.replace(',', ' AND')}",
    ]
    for values in ("1", "0, 2", "0, NULL", "7, 2147483648"):
        found += [f"queue IN ({values})", f"queue NOT IN ({values})", f"offset IN ({values})", f"NOT offset IN ({values})"]
    found += ["tag IN ('paid', NULL)", "tag NOT IN ('paid')", "tag NOT IN ('paid', NULL)", "tag IN ('x', 'paid', 'PAID')"]
    for column in ("queue", "offset", "store_timestamp", "tag", "message_group", "delivery_timestamp", "keys", "properties"):
        found += [f"{column} IS NULL", f"{column} IS NOT NULL", f"NOT ({column} IS NULL)"]
    found += [f"{column} LIKE '{like}'" for column in ("tag", "message_group") for like in ("pa%", "%id", "%ai%", "paid", "p_id")]
    found += [
        "tag = 'paid' OR queue = 1",
        "NOT (tag = 'paid' AND queue = 1)",
        "coalesce(tag, 'none') = 'none'",
        "properties['number'] = '7'",
    ]
    return found


def rows(frames: Sequence[DataFrame]) -> list[list[tuple[int, int]]]:
    """Of each, its places; asked for together, as what a query costs is its beginning."""
    from pyspark.sql import functions as F

    numbered = [frame.select(F.lit(number).alias("number"), "queue", "offset") for number, frame in enumerate(frames)]
    found: list[list[tuple[int, int]]] = [[] for _ in frames]
    for row in functools.reduce(lambda one, other: one.unionAll(other), numbered).collect():
        found[row["number"]].append((row["queue"], row["offset"]))
    return [sorted(one) for one in found]


def judged(frame: DataFrame, conditions: Sequence[str]) -> list[list[tuple[int, int]]]:
    """The same by values instead of filters, of which no source hears."""
    from pyspark.sql import functions as F

    truth = frame.select(
        "queue", "offset", *(F.expr(one).alias(f"truth{number}") for number, one in enumerate(conditions))
    ).collect()
    return [sorted((row[0], row[1]) for row in truth if row[2 + number]) for number in range(len(conditions))]


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets the session's, until the test ends."""
    before: dict[str, str | None] = {}

    def put(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield put
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def test_conditions_choose_what_sparks_own_evaluation_does(
    spark: SparkSession, topic: TopicFolder, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.session.timeZone", ZONE)
    conf(PUSHED, "true")
    read = spark.read.format("penstock").option("lake", topic.url).load(topic.name)
    times = sorted({message.store_timestamp.astimezone(UTC) for message in topic.messages()})
    assert len(times) >= 5
    every = conditions(times)
    chance = random.Random(13)
    drawn = [" AND ".join(f"({one})" for one in chance.sample(every, chance.randint(1, 2))) for _ in range(DRAWN)]
    latest = f"store_timestamp > {literal(times[-1])}"
    assert rows([read.where(one) for one in (latest, *drawn)]) == judged(read, [latest, *drawn])


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_queries_of_one_dataframe_have_their_own_rows(
    spark: SparkSession, topic: TopicFolder, conf: Callable[[str, str], None], pushed: str
) -> None:
    conf(PUSHED, pushed)
    read = spark.read.format("penstock").option("lake", topic.url).load(topic.name)
    stored = {queue: end - start for queue, (start, end) in topic.offsets().items()}
    planned = read.where("queue = 0")
    assert planned.rdd.getNumPartitions() > 0
    assert read.where("queue = 1").count() == stored[1]
    assert read.count() == sum(stored.values())
    assert planned.count() == stored[0]
    assert [len(one) for one in rows([read.where("queue = 1"), read.where("queue = 2"), read])] == [
        stored[1],
        stored[2],
        sum(stored.values()),
    ]
