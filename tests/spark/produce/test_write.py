"""Ordered writes in a session: whole batches in order, bodies of all kinds, once by name and number, and errors in a line."""

from __future__ import annotations

import decimal
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.coordinator.lakes import LakePlace, lakes
from penstock.log import Routing, queue_of
from penstock.log.errors import (
    FencedError,
    InvalidArgument,
    LimitExceeded,
    MessageTypeMismatch,
    MissingDependency,
    PenstockError,
    ReadOnlyError,
    TopicNotFound,
)
from penstock.spark import WriteResult, ordered_writer, write_ordered
from penstock.spark.produce.columns import MessageColumns
from penstock.spark.produce.write import OrderedWriter, WriteSteps
from penstock.spark.versions import TIMES_IN_JSON, has

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUEUES = 4


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[penstock.Lake]:
    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=QUEUES)
        lake.create_topic("plain", queues=2)
        yield lake
    lakes.close()


def orders(spark: SparkSession, count: int = 300, groups: int = 17) -> DataFrame:
    """Orders of some users, in no order at all."""
    from pyspark.sql import functions as F

    number = F.col("id")
    user = F.concat(F.lit("user-"), (number % groups).cast("string"))
    return spark.range(count).select(user.alias("user"), number.alias("seq"), F.lit("né").alias("note")).orderBy(F.xxhash64("seq"))


def read(lake: penstock.Lake, topic: str = "orders") -> list[penstock.MessageView]:
    return list(lake.reader(topic).messages())


def by_group(lake: penstock.Lake) -> dict[str | None, list[int]]:
    found: dict[str | None, list[int]] = defaultdict(list)
    for message in read(lake):
        found[message.message_group].append(message.json()["seq"])
    return found


def test_groups_are_in_order_and_routed_as_every_producer_routes(spark: SparkSession, lake: penstock.Lake) -> None:
    result = write_ordered(orders(spark), lake, "orders", message_group="user", order_by="seq")
    messages = read(lake)
    assert result.rows == len(messages) == 300
    assert result.queues is not None
    assert sum(end - start for start, end in result.queues.values()) == 300
    for group, rows in by_group(lake).items():
        assert rows == [number for number in range(300) if f"user-{number % 17}" == group]
    assert all(message.queue == queue_of(str(message.message_group), QUEUES) for message in messages)
    assert len({message.message_id for message in messages}) == 300
    assert len({message.born_timestamp for message in messages}) == 1
    assert json.loads(messages[0].body) == {"seq": messages[0].json()["seq"], "note": "né"}
    # What others send afterwards to a group comes behind.
    with lake.producer("orders") as producer:
        producer.send(penstock.Message(b'{"seq": 999}', message_group="user-3")).result()
    assert by_group(lake)["user-3"][-1] == 999


def test_a_mixed_topic_takes_rows_with_and_without_a_group(spark: SparkSession, lake: penstock.Lake) -> None:
    lake.create_topic("mixed", message_type="MIXED", queues=QUEUES)
    rows = spark.sql("SELECT IF(id % 2 = 0, concat('g', id % 6), NULL) user, id FROM range(80)")
    write_ordered(rows, lake, "mixed", message_group="user", order_by="id")
    found = read(lake, "mixed")
    assert len(found) == 80
    assert all(one.queue == queue_of(one.message_group, QUEUES) for one in found if one.message_group is not None)
    assert {one.queue for one in found if one.message_group is None} == set(range(QUEUES)), "by their content"
    write_ordered(rows.select("id"), lake, "mixed", message_group=None, order_by=())
    assert len(read(lake, "mixed")) == 160


@pytest.mark.parametrize("routing", [Routing.MURMUR2, Routing.CRC32])
def test_groups_go_by_the_topics_routing(spark: SparkSession, lake: penstock.Lake, routing: Routing) -> None:
    lake.create_topic("kafkas", message_type="MIXED", queues=QUEUES, routing=routing)
    rows = spark.sql("SELECT IF(id % 9 = 0, NULL, concat('ü', id % 17)) user, id seq FROM range(300)")
    result = write_ordered(rows, lake, "kafkas", message_group="user", order_by="seq")
    found = read(lake, "kafkas")
    assert result.rows == len(found) == 300
    grouped = [one for one in found if one.message_group is not None]
    assert all(one.queue == queue_of(str(one.message_group), QUEUES, routing) for one in grouped)
    for group in {one.message_group for one in grouped}:
        numbers = [one.json()["seq"] for one in grouped if one.message_group == group]
        assert numbers == sorted(numbers)
    rows.selectExpr("user message_group", "CAST(CAST(seq AS STRING) AS BINARY) body").write.format("penstock").mode(
        "append"
    ).options(lake=lake.url, topic="kafkas").save()
    found = read(lake, "kafkas")
    assert len(found) == 600
    assert all(one.queue == queue_of(one.message_group, QUEUES, routing) for one in found if one.message_group is not None)


def test_order_may_fall_and_have_several_columns(spark: SparkSession, lake: penstock.Lake) -> None:
    from pyspark.sql import functions as F

    rows = orders(spark, 60).withColumn("half", F.col("seq") % 2)
    write_ordered(rows, lake, "orders", message_group=F.lit("one"), order_by=["half", F.col("seq").desc()])
    assert by_group(lake)["one"] == [*range(58, -1, -2), *range(59, 0, -2)]


def test_labels_and_a_named_queue(spark: SparkSession, lake: penstock.Lake) -> None:
    rows = spark.sql(
        "SELECT 'g' user, 'paid' label, array('k1', 'k2') ks, map('a', '1') props, 2 q, 'text' payload UNION ALL "
        "SELECT 'g', NULL, NULL, NULL, NULL, 'bare'"
    )
    write_ordered(
        rows,
        lake,
        "orders",
        message_group="user",
        order_by=(),
        body="payload",
        tag="label",
        keys="ks",
        properties="props",
        queue="q",
    )
    found = {message.body: message for message in read(lake)}
    full, bare = found[b"text"], found[b"bare"]
    assert (full.tag, full.keys, full.properties, full.queue) == ("paid", ("k1", "k2"), {"a": "1"}, 2)
    assert (bare.tag, bare.keys, bare.properties, bare.queue) == (None, (), {}, queue_of("g", QUEUES))


def test_bodies_of_all_kinds(spark: SparkSession, lake: penstock.Lake) -> None:
    rows = spark.sql(
        "SELECT 'g' user, X'00FF' b, 'tëxt' t, named_struct('a', 1, 'n', CAST(NULL AS INT)) s, array(1, 2) l, 7 i, "
        "DATE'2026-01-31' d, true f, CAST(12.50 AS DECIMAL(9,2)) m"
    )
    kinds: dict[str, Any] = {"s": {"a": 1, "n": None}, "l": [1, 2], "i": 7, "d": "2026-01-31", "f": True, "m": 12.5}
    for name in ("b", "t", *kinds):
        write_ordered(rows, lake, "orders", message_group="user", order_by=(), body=name)
    raw, text, *others = [message.body for message in read(lake)]
    assert raw == b"\x00\xff"
    assert text == "tëxt".encode()
    assert [json.loads(body) for body in others] == list(kinds.values())
    assert json.loads(others[-1], parse_float=decimal.Decimal) == decimal.Decimal("12.50")
    assert date.fromisoformat(json.loads(others[3])) == date(2026, 1, 31)


def test_times_in_bodies_keep_their_microseconds_and_labels_are_found_in_any_case(spark: SparkSession, lake: penstock.Lake) -> None:
    rows = spark.sql(
        "SELECT 'g' Account, 'x' Label, TIMESTAMP'9999-12-31 23:59:59.999999Z' z, TIMESTAMP_NTZ'2026-01-31 00:00:00.000001' n"
    )
    write_ordered(rows, lake, "orders", message_group="account", tag="LABEL", order_by="z")
    (message,) = read(lake)
    assert (message.message_group, message.tag) == ("g", "x")
    assert message.json() == {"z": "9999-12-31T23:59:59.999999Z", "n": "2026-01-31T00:00:00.000001"}


def test_a_time_of_day_in_a_body_keeps_its_microseconds_or_is_refused(spark: SparkSession, lake: penstock.Lake) -> None:
    from pyspark.sql import functions as F

    if spark.version < "4.1":
        pytest.skip("refused by this Spark: the type TIME (since 4.1)")
    rows = spark.sql("SELECT 'g' g, TIME'12:00:00.123456' t")
    for body in (None, "t", F.struct("t")):
        if not has(TIMES_IN_JSON):
            with pytest.raises(MissingDependency, match=r"TIME in a body.*expected: pyspark 4.2 or newer.*Cast it to a string"):
                write_ordered(rows, lake, "orders", message_group="g", order_by=(), body=body)
            continue
        write_ordered(rows, lake, "orders", message_group="g", order_by=(), body=body)
    expected = [{"t": "12:00:00.123456"}, "12:00:00.123456", {"t": "12:00:00.123456"}] if has(TIMES_IN_JSON) else []
    assert [message.json() for message in read(lake)] == expected


def test_nothing_is_visible_before_all_is(spark: SparkSession, lake: penstock.Lake) -> None:
    seen: dict[str, int] = {}
    columns = MessageColumns(message_group="user", order_by=("seq",))
    writer = OrderedWriter(
        LakePlace.of(lake),
        "orders",
        columns,
        name="etl",
        timeout=timedelta(minutes=1),
        part_bytes=2_000,
        steps=WriteSteps(after=lambda step: seen.update({step: len(read(lake))})),
    )
    result = writer.write(orders(spark), 0)
    assert seen == {"begun": 0, "staged": 0, "linked": 300}
    assert len({message.store_timestamp for message in read(lake)}) == 1
    assert result.entry is not None


@pytest.mark.thorough
def test_a_batch_is_written_once_and_a_name_has_one_owner(spark: SparkSession, lake: penstock.Lake, tmp_path: Path) -> None:
    def write(batch: int, rows: DataFrame) -> WriteResult:
        return write_ordered(rows, lake, "orders", message_group="user", order_by="seq", name="etl", batch_id=batch)

    rows = orders(spark, 20)
    assert not write(3, rows).duplicate
    again = write(3, rows)
    assert again.duplicate
    assert again.rows == 0
    assert write(1, rows).duplicate
    records = len(list(tmp_path.rglob("staged/jobs/*/record")))
    assert write(4, rows.limit(0)).rows == 0
    assert len(list(tmp_path.rglob("staged/jobs/*/record"))) == records == 1
    assert write(5, rows).rows == 20
    assert len(read(lake)) == 40

    def overtaken(step: str) -> None:
        if step == "staged":
            write(6, rows)

    columns = MessageColumns(message_group="user", order_by=("seq",))
    late = OrderedWriter(
        LakePlace.of(lake), "orders", columns, name="etl", timeout=timedelta(minutes=1), steps=WriteSteps(after=overtaken)
    )
    with pytest.raises(FencedError):
        late.write(rows, 6)
    assert len(read(lake)) == 60
    assert late.write(rows, 6).duplicate


def test_a_stream_writes_each_batch_once(spark: SparkSession, lake: penstock.Lake, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    rows = orders(spark, 50)
    rows.coalesce(1).write.parquet(str(source))
    schema = rows.schema

    def run(writer: OrderedWriter, folder: Path) -> None:
        stream = spark.readStream.schema(schema).parquet(str(source)).writeStream.foreachBatch(writer)
        stream.option("checkpointLocation", str(folder)).trigger(availableNow=True).start().awaitTermination()

    def forget(batch: int) -> None:
        for name in (str(batch), f".{batch}.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)

    writer = ordered_writer(lake, "orders", message_group="user", order_by="seq")
    run(writer, checkpoint)
    assert writer.last is not None
    assert writer.last.rows == 50
    forget(0)
    run(writer, checkpoint)
    assert writer.last.duplicate
    forget(0)
    run(ordered_writer(lake, "orders", message_group="user", order_by="seq"), checkpoint)
    assert len(read(lake)) == 50
    rows.withColumn("seq", rows.seq + 100).coalesce(1).write.mode("append").parquet(str(source))
    shutil.copytree(checkpoint, back := tmp_path / "put back")
    for folder in ("commits", "offsets", "sources/0"):  # as it was before the first batch
        shutil.rmtree(back / folder)
    with pytest.raises(Exception, match=r"no repetition of it.*expected: 50 rows; observed: 100 rows.*a new name"):
        run(ordered_writer(lake, "orders", message_group="user", order_by="seq"), back)
    assert len(read(lake)) == 50
    assert {message.producer for message in read(lake)} == {f"spark/{json.loads((checkpoint / 'metadata').read_text())['id']}"}

    # A name that has come further does not take a checkpoint that begins anew: its first batches would be lost.
    write_ordered(rows, lake, "orders", message_group="user", order_by="seq", name="etl", batch_id=7)
    with pytest.raises(
        Exception, match=r"InvalidArgument: under this name later batches are written already.*needs a new name"
    ) as raised:
        run(ordered_writer(lake, "orders", message_group="user", order_by="seq", name="etl"), tmp_path / "another")
    assert "linking.py" not in str(raised.value)


@pytest.mark.thorough
def test_a_second_write_of_a_batch_under_its_name_is_refused_not_passed_over(
    spark: SparkSession, lake: penstock.Lake, tmp_path: Path
) -> None:
    rows = orders(spark, 40)
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))

    def run(*writers: OrderedWriter) -> None:
        def halves(batch: DataFrame, number: int) -> None:
            for half, writer in enumerate(writers):
                writer(batch.where(f"seq % 2 = {half}"), number)

        stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in")).writeStream.foreachBatch(halves)
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()

    def writer(name: str | None = None) -> OrderedWriter:
        return ordered_writer(lake, "orders", message_group="user", order_by="seq", name=name)

    once = writer()
    for two in ((writer(), writer()), (once, once)):
        with pytest.raises(Exception, match=r"InvalidArgument: batch 0 has been written .*would be lost.*its own name"):
            run(*two)
        assert {message.json()["seq"] % 2 for message in read(lake)} == {0}
    run(once, writer("odd"))  # the restart passes over what is there, and brings the rest
    assert sorted(message.json()["seq"] for message in read(lake)) == list(range(40))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        (
            {"message_group": "usr"},
            InvalidArgument,
            r"message_group: there is no column 'usr'.*user, seq, note.*Did you mean 'user'\?",
        ),
        ({"order_by": ["seq", "nte"]}, InvalidArgument, r"order_by: there is no column 'nte'.*Did you mean 'note'\?"),
        ({"body": "seq.inner"}, InvalidArgument, "body: .*INVALID_EXTRACT"),
        (
            {"keys": "note"},
            InvalidArgument,
            "keys is of a type that does not fit.*object: note.*array of strings.*observed: string",
        ),
        ({"tag": "struct"}, InvalidArgument, "there is no column 'struct'"),
        ({"queue": 9}, InvalidArgument, "the topic has queues 0 to 3"),
        ({"queue": 2**70}, InvalidArgument, "the topic has queues 0 to 3"),
        ({"message_group": None}, InvalidArgument, "FIFO messages, so message_group must name a column"),
        ({"name": "etl"}, InvalidArgument, "name and batch_id belong together"),
        ({"name": "etl", "batch_id": -1}, InvalidArgument, "not a batch's number"),
        ({"topic": "plain"}, InvalidArgument, "NORMAL messages, which have no message group.*message_group=user"),
        ({"topic": "nowhere"}, TopicNotFound, "nowhere"),
        ({"lake": "memory://mine"}, InvalidArgument, "Spark's executors are other processes"),
        ({"timeout": "3"}, InvalidArgument, "timeout is no duration.*a timedelta or a number of seconds, above 0.*observed: '3'"),
    ],
    ids=str,
)
def test_a_bad_call_is_told_in_a_line(
    spark: SparkSession, lake: penstock.Lake, changes: dict[str, Any], error: type[PenstockError], said: str
) -> None:
    call = {"lake": lake, "topic": "orders", "message_group": "user", "order_by": "seq", **changes}
    with pytest.raises(error, match=said) as raised:
        write_ordered(orders(spark, 3), **call)
    assert len(str(raised.value)) < 400
    assert not read(lake)


def test_a_lake_that_is_read_only_is_not_written_to(spark: SparkSession, lake: penstock.Lake) -> None:
    with penstock.connect(lake.url, read_only=True) as reading, pytest.raises(ReadOnlyError):
        write_ordered(orders(spark, 3), reading, "orders", message_group="user", order_by="seq")


def test_a_null_body_is_a_tombstone(spark: SparkSession, lake: penstock.Lake) -> None:
    rows = orders(spark, 4).selectExpr("*", "if(seq = 2, NULL, note) AS text")
    write_ordered(rows, lake, "orders", message_group="user", order_by="seq", body="text")
    assert sorted((message.body for message in read(lake)), key=str) == [None, *["né".encode()] * 3]


@pytest.mark.thorough
def test_bad_rows_are_told_in_a_line_and_nothing_of_the_batch_is_there(spark: SparkSession, lake: penstock.Lake) -> None:
    from pyspark.sql import functions as F

    rows = orders(spark, 50)
    some = F.when(F.col("seq") != 33, F.col("user"))
    for name, column, error, said in (
        ("user", some, MessageTypeMismatch, "message_group is null, in column user"),
        ("user", F.repeat(F.lit("x"), 64), LimitExceeded, "the message group is over 63 bytes, in column user"),
        ("note", F.repeat(F.lit("x"), F.lit(4 * 2**20 + 1)), LimitExceeded, "the body is over 4194304 bytes, in column note"),
    ):
        with pytest.raises(error, match=said) as raised:
            write_ordered(rows.withColumn(name, column), lake, "orders", message_group="user", order_by="seq", body="note")
        assert len(str(raised.value)) < 300
    assert not read(lake)
    # What is not ours stays as Spark says it.
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        write_ordered(rows.withColumn("note", F.expr("1 div (seq - 7)")), lake, "orders", message_group="user", order_by="seq")


def test_a_topic_without_groups_takes_rows_in_turn_or_by_queue(spark: SparkSession, lake: penstock.Lake) -> None:
    from pyspark.sql import functions as F

    rows = orders(spark, 40)
    write_ordered(rows, lake, "plain", message_group=None, order_by=())
    assert {message.queue for message in read(lake, "plain")} == {0, 1}
    write_ordered(rows, lake, "plain", message_group=None, order_by="seq", queue=F.col("seq") % 2)
    found = [(message.queue, message.json()["seq"]) for message in read(lake, "plain")]
    for queue in (0, 1):
        mine = [seq for at, seq in found if at == queue][-20:]
        assert mine == list(range(queue, 40, 2))
    write_ordered(rows, lake, "plain", message_group=None, order_by="seq", queue=F.when(F.col("seq") < 5, F.lit(1)))
    found = [(message.queue, message.json()["seq"]) for message in read(lake, "plain")][-40:]
    assert {at for at, seq in found if seq < 5} == {1}
    with pytest.raises(InvalidArgument, match="nothing to order within"):
        write_ordered(rows, lake, "plain", message_group=None, order_by="seq")


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("queue", [2**32 + 1, -(2**32) + 1, 2**31, 2**63 - 1])
def test_a_queue_beyond_an_int_is_none(
    spark: SparkSession, lake: penstock.Lake, request: pytest.FixtureRequest, queue: int, ansi: str
) -> None:
    from pyspark.sql import functions as F

    before = str(spark.conf.get("spark.sql.ansi.enabled"))
    request.addfinalizer(lambda: spark.conf.set("spark.sql.ansi.enabled", before))
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    rows = orders(spark, 4)
    with pytest.raises(InvalidArgument, match="the topic has queues 0 to 3, in column"):
        write_ordered(rows, lake, "orders", message_group="user", order_by="seq", queue=F.lit(queue))
    assert read(lake) == []


def test_text_of_a_collation_is_a_body_as_it_is(spark: SparkSession, lake: penstock.Lake) -> None:
    from pyspark.sql import functions as F

    rows = orders(spark, 1).select("user", "seq", F.collate("note", "UTF8_LCASE").alias("note"))
    write_ordered(rows, lake, "orders", message_group="user", order_by="seq", body="note")
    assert [message.body for message in read(lake)] == ["né".encode()]
