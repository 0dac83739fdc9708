"""Delayed messages as they are sent: into the timer log, with their time; and what no delayed message can be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.log import DELAY_LEVELS, LOG_SCHEMA, SEND_SCHEMA, TopicLimits
from penstock.log.message.message import from_us
from penstock.log.produce.delays import DESTINATION_QUEUE, RecallHandle, delivery_us, named_queue, without_destinations
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S
from tests.thorough import examples

Message = penstock.Message
NOW_US = 1_800_000_000_000_000
SOON = timedelta(hours=1)


def connect(store: MemoryStore | None = None, *, limits: TopicLimits | None = None) -> penstock.Lake:
    lake = penstock.connect(store=store or MemoryStore(), maintenance=False)
    lake.create_topic("orders", message_type="DELAY", queues=4, limits=limits)
    return lake


def sent(lake: penstock.Lake) -> list[penstock.MessageView]:
    return list(lake.reader("%TIMER%orders").messages())


def test_a_delayed_message_waits_in_the_timer_log_and_is_not_in_its_topic() -> None:
    at = datetime.now(UTC) + SOON
    message = Message(b"unpaid?", "user-7", "check", ["order-1"], {"amount": "10"}, at)
    with connect() as lake:
        with lake.producer("orders") as producer:
            receipt = producer.send(message)
            result = receipt.result(timeout=TIMEOUT_S)
            assert result == penstock.SendResult(receipt.message_id, None, None, recall_handle=result.recall_handle)
            before = datetime.now(UTC)
            producer.send(message._replace(delivery_timestamp=None, delay=SOON)).result(timeout=TIMEOUT_S)
        assert list(lake.reader("orders").messages()) == []
        first, second = sent(lake)
    assert (first.body, first.message_group, first.tag, first.keys) == (b"unpaid?", "user-7", "check", ("order-1",))
    assert (first.properties, first.message_id, first.delivery_timestamp) == ({"amount": "10"}, result.message_id, at)
    assert second.delivery_timestamp is not None
    assert abs(second.delivery_timestamp - SOON - before) < timedelta(seconds=TIMEOUT_S), "counted from the sending"
    assert result.recall_handle is not None
    assert RecallHandle.decode(result.recall_handle) == ("orders", 0, at.timestamp() * 1e6, result.message_id)


def test_a_delay_counts_from_the_birth_of_its_message() -> None:
    with connect() as lake, lake.producer("orders") as producer:
        for _ in range(12):  # the parts of milliseconds are others each time
            producer.send(Message(b"1", delay=SOON)).result(timeout=TIMEOUT_S)
        handles = producer.send_batch([Message(b"2", delay=2 * SOON), Message(b"1", delay=SOON)]).result(TIMEOUT_S).recall_handles
        found = sent(lake)
    assert [one.delivery_timestamp for one in found] == [one.born_timestamp + int(one.body) * SOON for one in found]
    assert [from_us(RecallHandle.decode(handle).due_us) for handle in handles] == [one.delivery_timestamp for one in found[-2:]]


def test_the_queue_that_a_sender_names_travels_along_and_is_taken_out_again() -> None:
    at = datetime.now(UTC) + SOON
    table = pa.table(
        {"body": [b"a", b"b"], "queue": [None, 2], "delivery_timestamp": [at, at], "properties": [[("p", "1")], None]},
        schema=pa.schema([SEND_SCHEMA.field(name) for name in ("body", "queue", "delivery_timestamp", "properties")]),
    )
    with connect() as lake:
        with lake.producer("orders") as producer:
            producer.send(Message(b"3", delivery_timestamp=at, properties={"p": "0"}), queue=3)
            with pytest.raises(penstock.InvalidArgument, match=r"topic has no such queue.*orders.*0 to 3.*4"):
                producer.send(Message(b"4", delivery_timestamp=at), queue=4)
            handles = producer.send_batch(table).result(timeout=TIMEOUT_S).recall_handles
        rows = lake.reader("%TIMER%orders").to_arrow()
    assert [dict(one) for one in rows["properties"].to_pylist()] == [
        {"p": "0", DESTINATION_QUEUE: "3"},
        {"p": "1"},
        {DESTINATION_QUEUE: "2"},
    ]
    assert rows["queue"].to_pylist() == [0, 0, 0]
    back = without_destinations(rows)
    assert back["queue"].to_pylist() == [3, None, 2]
    assert [dict(one) for one in back["properties"].to_pylist()] == [{"p": "0"}, {"p": "1"}, {}]
    assert without_destinations(back.drop_columns(["queue"]).append_column("queue", back["queue"])).num_rows == 3
    decoded = [RecallHandle.decode(handle) for handle in handles]
    assert [(one.offset, one.message_id) for one in decoded] == list(zip([1, 2], rows["message_id"].to_pylist()[1:], strict=True))
    assert handles[-1] == handles[1:][0]


def test_a_user_cannot_give_the_name_under_which_the_queue_travels() -> None:
    message = Message(b"", delay=SOON, properties={DESTINATION_QUEUE: "3"})
    with connect() as lake, lake.producer("orders") as producer:
        with pytest.raises(penstock.InvalidArgument, match="a property's name must be visible characters"):
            producer.send(message)
        with pytest.raises(penstock.InvalidArgument, match="a property's name must be visible characters"):
            producer.send_batch([message])
        table = pa.table(
            {"body": [b""], "delivery_timestamp": [datetime.now(UTC)], "properties": [[(DESTINATION_QUEUE, "3")]]},
            schema=pa.schema([SEND_SCHEMA.field(name) for name in ("body", "delivery_timestamp", "properties")]),
        )
        with pytest.raises(penstock.InvalidArgument, match="a property's name must be visible characters"):
            producer.send_batch(table)


def test_the_levels_are_those_of_rocketmq() -> None:
    """§2.13: 1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h."""
    seconds = [1, 5, 10, 30, *(60 * minute for minute in range(1, 11)), 1200, 1800, 3600, 7200]
    assert [penstock.delay_level(level).total_seconds() for level in range(1, 19)] == seconds
    assert len(DELAY_LEVELS) == 18
    for level in (0, 19, -1, True, 1.0, "3", None):
        with pytest.raises(penstock.InvalidArgument, match=r"no such delay level.*1 to 18"):
            penstock.delay_level(level)  # type: ignore[arg-type]


LIMITS = TopicLimits(max_delay=timedelta(days=1))
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - what is refused
BAD: list[tuple[dict[str, Any], type[penstock.PenstockError], str]] = [
    ({"delivery_timestamp": NAIVE}, penstock.InvalidArgument, "delivery_timestamp must have a zone.*2030-01-01.*attach a tzinfo"),
    ({"delivery_timestamp": 1_900_000_000}, penstock.InvalidArgument, "must be a datetime.*1900000000.*fromtimestamp"),
    ({"delivery_timestamp": "tomorrow"}, penstock.InvalidArgument, "must be a datetime.*'tomorrow'"),
    ({"delivery_timestamp": datetime(1969, 12, 31, tzinfo=UTC)}, penstock.InvalidArgument, "must not be before 1970.*1969"),
    ({"delivery_timestamp": datetime(9999, 1, 1, tzinfo=UTC)}, penstock.LimitExceeded, "too far ahead.*at most 24 h.*delay=…"),
    ({"delay": timedelta(days=1, seconds=60)}, penstock.LimitExceeded, r"too far ahead.*at most 24 h.*1,441 min.*delay=…"),
    ({"delay": timedelta.max}, penstock.LimitExceeded, "too far ahead"),
    ({"delay": timedelta(microseconds=-1)}, penstock.InvalidArgument, "delay is too short.*0 or more"),
    ({"delay": timedelta.min}, penstock.InvalidArgument, "delay is too short.*0 or more"),
    (
        {"delay": "3"},
        penstock.InvalidArgument,
        "delay is no duration.*a timedelta or a number of seconds, 0 or more; observed: '3'",
    ),
    ({"delay": 2**70}, penstock.LimitExceeded, "too far ahead"),
    (
        {"delay": SOON, "delivery_timestamp": datetime.now(UTC)},
        penstock.InvalidArgument,
        "a delivery_timestamp or a delay, not both",
    ),
    (
        {},
        penstock.MessageTypeMismatch,
        "takes DELAY messages, and this is a NORMAL.*give the message a delivery_timestamp or a delay",
    ),
    ({"message_group": "g"}, penstock.MessageTypeMismatch, "takes DELAY messages, and this is a FIFO message"),
]


@pytest.mark.parametrize(("given", "error", "said"), BAD)
def test_what_no_delayed_message_can_be(given: dict[str, Any], error: type[penstock.PenstockError], said: str) -> None:
    with connect(limits=LIMITS) as lake:
        with lake.producer("orders") as producer:
            producer.send(Message(b"good", "g", delay=SOON))
            for send in (producer.send, lambda message: producer.send_batch([Message(b"no", delay=SOON), message])):
                with pytest.raises(error, match=said):
                    send(Message(b"bad", **given))
            producer.send(Message(b"good", "g", delay=SOON))
        assert [one.body for one in sent(lake)] == [b"good", b"good"]


def test_of_a_batch_the_error_says_which_message_it_is_and_nothing_is_sent() -> None:
    with connect() as lake, lake.producer("orders") as producer:
        for bad, said in (
            (
                Message(b"no time"),
                r"operation: send_batch; object: message 2; .*nothing of the batch was sent; give the message a del",
            ),
            (Message(b"late", delay=100 * 24 * SOON), r"operation: send_batch; object: message 2; .*sent; ask for an earlier time"),
            (Message("text", delay=SOON), r"the body must be bytes.*object: message 2"),  # type: ignore[arg-type]
            (
                Message(b"tag", tag="a|b", delay=SOON),
                r"must not contain.*object: message 2; .*a\|b\)\. nothing of the batch was sent$",
            ),
        ):
            with pytest.raises(penstock.CallError, match=said):
                producer.send_batch(message for message in (Message(b"0", delay=SOON), Message(b"1", delay=SOON), bad))
        assert sent(lake) == []


def test_a_message_without_a_time_is_refused_also_behind_good_ones_of_its_group() -> None:
    with connect() as lake, lake.producer("orders") as producer:
        for group in ("g", None):
            for _ in range(3):
                producer.send(Message(b"x", group, delay=SOON))
            with pytest.raises(penstock.MessageTypeMismatch, match="takes DELAY messages"):
                producer.send(Message(b"x", group))


@pytest.mark.parametrize(
    ("column", "error", "said"),
    [
        (pa.array([0, None], LOG_SCHEMA.field("delivery_timestamp").type), penstock.MessageTypeMismatch, "is null.*row 1"),
        (pa.array([0, 0], pa.timestamp("us")), penstock.InvalidArgument, "column delivery_timestamp has no zone.*tz=UTC"),
        (
            pa.array([0, 1 << 60], pa.timestamp("us", "UTC")),
            penstock.LimitExceeded,
            r"more than 1 day, 0:00:00 from now.*row 1.*delay=…",
        ),
        (pa.array([-1, 0], pa.timestamp("ms", "Europe/Berlin")), penstock.InvalidArgument, "before 1970.*row 0"),
        (pa.array(["a", "b"]), penstock.InvalidArgument, "column delivery_timestamp has the wrong type"),
        (None, penstock.MessageTypeMismatch, "takes DELAY messages, and this is none"),
    ],
)
def test_what_no_table_of_delayed_messages_can_be(column: pa.Array | None, error: type[penstock.PenstockError], said: str) -> None:
    columns = {"body": pa.array([b"1", b"2"])} | ({} if column is None else {"delivery_timestamp": column})
    with connect(limits=LIMITS) as lake:
        with lake.producer("orders") as producer, pytest.raises(error, match=said):
            producer.send_batch(pa.table(columns))
        assert sent(lake) == []


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO"])
def test_topics_of_other_types_take_no_delay(kind: penstock.MessageTypeLike) -> None:
    group = "g" if kind == "FIFO" else None
    table = pa.table({"body": [b"x"], "message_group": pa.array([group], pa.string()), "delivery_timestamp": [datetime.now(UTC)]})
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", message_type=kind)
        with lake.producer("orders") as producer:
            for given in ({"delay": SOON}, {"delivery_timestamp": datetime.now(UTC)}, {"delivery_timestamp": NAIVE}):
                with pytest.raises(
                    penstock.MessageTypeMismatch, match=f"takes {kind} messages, and this is a DELAY message.*leave"
                ):
                    producer.send(Message(b"x", group, **given))
            with pytest.raises(penstock.MessageTypeMismatch, match=f"takes {kind} messages, and this is a DELAY message.*row 0"):
                producer.send_batch(table)
        assert list(lake.reader("orders").messages()) == []
        assert set(lake.topics()) == {"orders"}


LOOSE: Any = st.one_of(
    st.none(),
    st.datetimes(timezones=st.none() | st.just(UTC) | st.timezones()),
    st.timedeltas(),
    st.integers(),
    st.text(max_size=3),
    st.floats(),
)


@settings(max_examples=examples(300), deadline=None)
@given(LOOSE, LOOSE)
def test_any_value_is_a_time_within_the_limit_or_refused_with_an_error_of_ours(at: Any, delay: Any) -> None:
    if at is None and delay is None:
        return  # told before by its type
    try:
        due_us = delivery_us(Message(b"", delivery_timestamp=at, delay=delay), timedelta(days=40), NOW_US)
    except penstock.PenstockError:
        return
    assert 0 <= due_us <= NOW_US + timedelta(days=40) // timedelta(microseconds=1)
    seconds = timedelta(seconds=delay) if isinstance(delay, int | float) else delay
    assert from_us(due_us) == (from_us(NOW_US) + seconds if at is None else at)


def test_sequences_hold_through_the_timer_log() -> None:
    """A named producer that is opened again drops what was accepted, and its earlier instance is fenced."""
    with connect() as lake:
        first = lake.producer("orders", name="billing")
        for sequence in (3, 5):
            first.send(Message(b"%d" % sequence, delay=SOON), sequence=sequence).result(timeout=TIMEOUT_S)
        with lake.producer("orders", name="billing") as again:
            assert again.last_sequence == 5
            results = [again.send(Message(b"%d" % n, delay=SOON), sequence=n).result(timeout=TIMEOUT_S) for n in (3, 5, 6)]
            assert [one.duplicate for one in results] == [True, True, False]
            assert [one.recall_handle is None for one in results] == [True, True, False]
            with pytest.raises(penstock.FencedError):
                first.send(Message(b"late", delay=SOON), sequence=9).result(timeout=TIMEOUT_S)
        assert [one.body for one in sent(lake)] == [b"3", b"5", b"6"]


def test_a_table_with_sequences_leaves_out_what_was_accepted() -> None:
    at = datetime.now(UTC) + SOON
    table = pa.table({"body": [b"1", b"2", b"3"], "sequence": [1, 2, 3], "delivery_timestamp": [at] * 3})
    with connect() as lake:
        with lake.producer("orders", name="n") as producer:
            assert len(producer.send_batch(table.slice(0, 2)).result(timeout=TIMEOUT_S).recall_handles) == 2
        with lake.producer("orders", name="n") as producer:
            result = producer.send_batch(table).result(timeout=TIMEOUT_S)
            assert (result.rows, result.duplicates, result.offsets) == (1, 2, None)
            assert [RecallHandle.decode(one).offset for one in result.recall_handles] == [2]
        with lake.producer("orders", name="n") as producer:
            assert producer.send_batch(table).result(timeout=TIMEOUT_S).recall_handles == ()


def test_a_lowered_or_raised_limit_of_delay_counts_for_producers_opened_then() -> None:
    store = MemoryStore()
    with connect(store) as lake:
        lake.alter_topic("orders", limits=TopicLimits(max_delay=timedelta(days=60), max_body_bytes=3))
        with lake.producer("orders") as producer:
            producer.send(Message(b"far", delay=timedelta(days=50))).result(timeout=TIMEOUT_S)
            with pytest.raises(penstock.LimitExceeded, match="at most 3 bytes"):
                producer.send(Message(b"long", delay=SOON))
    with penstock.connect(store=store, maintenance=False) as lake:
        assert lake.topics()["orders"].settings.limits.max_delay == timedelta(days=60)


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(days=-1), 0, None, timedelta(days=5000), 2**70])
def test_what_no_limit_of_delay_can_be(delay: Any) -> None:
    with pytest.raises(
        (penstock.InvalidArgument, penstock.LimitExceeded), match=r"delay is (no duration|too short|too long) \(operation: limits"
    ):
        TopicLimits(max_delay=delay)


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "x",
        "no handle",
        "ä",
        None,
        7,
        b"djE",
        RecallHandle("orders", 1, 2, "id").encode() + "A",
        RecallHandle("o", -1, 2, "i").encode(),
        "djEgb3JkZXJzIDE",
    ],
)
def test_what_is_no_recall_handle(handle: Any) -> None:
    with pytest.raises(penstock.InvalidArgument, match=r"this is no recall handle.*SendResult"):
        RecallHandle.decode(handle)


def test_large_batches_are_staged_and_wait_all_the_same() -> None:
    at = datetime.now(UTC) + SOON
    body = bytes(range(256)) * 4 * 256
    with connect() as lake:
        with lake.producer("orders", memory_bytes=1 << 28) as producer:
            table = pa.table({"body": [body] * 40, "delivery_timestamp": [at] * 40})
            handles = producer.send_batch(table).result(timeout=TIMEOUT_S).recall_handles
        found = sent(lake)
        assert [one.offset for one in found] == list(range(40))
        assert [RecallHandle.decode(handle).message_id for handle in handles] == [one.message_id for one in found]
        assert all(one.delivery_timestamp == at for one in found)


@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "1_0", " 1", "\u0661", "4096", "9" * 5000])
def test_what_no_queue_is_called_names_none(text: str) -> None:
    assert named_queue({DESTINATION_QUEUE: text}) is None
    assert named_queue({DESTINATION_QUEUE: "7"}) == 7
    assert named_queue({}) is None
