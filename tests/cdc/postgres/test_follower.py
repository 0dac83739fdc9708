"""What is confirmed to the server, and when: only what is durable, only where the stream may begin again. Without a server."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.cdc.capture import batches
from penstock.cdc.postgres import event_sender, positions
from penstock.cdc.postgres import follower as follower_module
from penstock.cdc.postgres.envelopes import EnvelopeEncoder, EventOrigin
from penstock.cdc.postgres.event_sender import EventSender
from penstock.cdc.postgres.follower import SlotFollower
from penstock.cdc.postgres.stream import Keepalive, XLogData
from penstock.cdc.postgres.values import TypeConversions
from penstock.log import UnknownOutcome

RELATION = bytes.fromhex("520000000170007400640001016964000000001700000000")


class Sent:
    """A batch that becomes durable when the test says so."""

    def __init__(self, sequences: list[int]) -> None:
        self.sequences = sequences
        self.future: Future[None] = Future()

    def done(self) -> bool:
        return self.future.done()

    def result(self) -> None:
        self.future.result(0)


class Producer:
    def __init__(self, last_sequence: int = -1, *, at_once: bool = False) -> None:
        self.last_sequence = last_sequence
        self.at_once = at_once
        self.batches: list[Sent] = []
        self.bodies: list[bytes] = []
        self.through: list[int | None] = []

    def send_batch(self, table: Any, *, through: int | None = None) -> Sent:
        self.through.append(through)
        self.bodies += table["body"].to_pylist()
        sent = Sent(table["sequence"].to_pylist())
        if self.at_once:
            sent.future.set_result(None)
        self.batches.append(sent)
        return sent

    @property
    def sequences(self) -> list[int]:
        return [number for batch in self.batches for number in batch.sequences]


@dataclass
class Clock:
    now_s: float = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(1000 * self.now_s)


@dataclass
class Stream:
    """Says what the test has it say; time passes where nothing comes."""

    clock: Clock
    said: list[XLogData | Keepalive | None]
    confirmed: list[int] = field(default_factory=list)
    asked: list[bool] = field(default_factory=list)

    def read(self) -> XLogData | Keepalive | None:
        return self.said.pop(0)

    def wait(self, timeout_s: float) -> None:
        self.clock.now_s += 2

    def confirm(self, lsn: int, now_us: int, *, ask: bool = False) -> None:
        self.confirmed.append(lsn)
        self.asked.append(ask)


def transaction(commit: int, end: int, rows: Iterable[int]) -> list[XLogData | Keepalive | None]:
    begin = struct.pack(">cQqI", b"B", commit, 0, 7)
    texts = [str(row).encode() for row in rows]
    inserts = [b"I\0\0\0\1N\0\1t" + struct.pack(">I", len(text)) + text for text in texts]
    return [XLogData(commit, body) for body in (begin, RELATION, *inserts, struct.pack(">cBQQq", b"C", 0, commit, end, 0))]


def follower(out: EventSender, clock: Clock, reached: list[str] | None = None) -> SlotFollower:
    envelopes = EnvelopeEncoder(
        EventOrigin("db", "slot"),
        TypeConversions(lambda oid: None),
        keys=lambda relation: ("id",),
        reread=lambda *asked: None,
        now_ms=clock.wall_ms,
    )
    points = [] if reached is None else reached
    return SlotFollower(envelopes, out, clock, reached=points.append, on_progress=lambda: None)


def following(
    producer: Producer, said: list[XLogData | Keepalive | None], clock: Clock, out: EventSender | None = None
) -> tuple[list[int], EventSender]:
    """What was confirmed, and the sender. It is stopped when there is nothing more to say."""
    out = out or EventSender(producer)  # type: ignore[arg-type]
    stream = Stream(clock, said)
    follower(out, clock).run(stream, lambda: not stream.said, None)  # type: ignore[arg-type]
    return stream.confirmed, out


def test_only_what_is_durable_is_confirmed() -> None:
    producer, clock = Producer(), Clock()
    confirmed: list[int] = []

    class Slow(Stream):
        def wait(self, timeout_s: float) -> None:
            super().wait(timeout_s)
            confirmed.append(self.confirmed[-1])
            if len(confirmed) == 3:
                producer.batches[0].future.set_result(None)

    said = [*transaction(800, 880, [1, 2]), None, None, None, None, None]
    stream = Slow(clock, said)
    out = EventSender(producer)  # type: ignore[arg-type]
    follower(out, clock).run(stream, lambda: not stream.said, None)  # type: ignore[arg-type]
    assert confirmed == [0, 0, 0, 880, 880]


def test_amid_a_transaction_nothing_of_it_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_sender, "BATCH_EVENTS_MAX", 2)
    first, second = transaction(800, 880, [1]), transaction(960, 1000, range(5))
    confirmed, _ = following(Producer(at_once=True), [*first, *second[:-1], Keepalive(2000, False), None, None], Clock())
    assert max(confirmed) == 880


def test_an_idle_stream_confirms_what_the_server_has_passed() -> None:
    confirmed, _ = following(Producer(at_once=True), [*transaction(800, 880, []), None, Keepalive(5000, True), None, None], Clock())
    assert confirmed[-1] == 5000


def test_a_keepalive_waits_for_what_came_before_it() -> None:
    producer = Producer()
    with pytest.raises(TimeoutError):  # in the end it waits for the batch
        following(producer, [*transaction(800, 880, [1]), Keepalive(5000, True), None], Clock())
    [batch] = producer.batches
    assert len(batch.sequences) == 1


def test_nothing_is_confirmed_behind_a_transaction_that_runs_into_later_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "ORDER_BITS", 2)
    producer = Producer(at_once=True)
    large, small = transaction(800, 808, range(20)), transaction(808, 816, [1])
    confirmed, _ = following(producer, [*large, None, *small, None, Keepalive(832, True), None], Clock())
    assert max(confirmed) == 0
    assert producer.sequences == sorted(set(producer.sequences))
    again = Producer(at_once=True)
    confirmed, _ = following(again, [*large, *small, None, Keepalive(872, True), None, None], Clock())
    assert confirmed[-1] == 872
    assert again.sequences == producer.sequences


def test_what_comes_again_is_left_out() -> None:
    producer, clock = Producer(at_once=True), Clock()
    both = [*transaction(800, 880, [1, 2]), *transaction(960, 1000, [3])]
    _, out = following(producer, [*both, None], clock)
    following(producer, [*both, *transaction(1040, 1080, [4]), None], clock, out)
    assert len(producer.sequences) == len(set(producer.sequences)) == 4
    assert out.duplicates == 3
    later = Producer(last_sequence=producer.sequences[1], at_once=True)
    following(later, [*both, None], clock)
    assert later.sequences == producer.sequences[2:3]


def test_a_batch_that_is_not_durable_ends_it_unconfirmed() -> None:
    producer = Producer()
    send = producer.send_batch

    def failing(table: Any, *, through: int | None = None) -> Sent:
        sent = send(table, through=through)
        sent.future.set_exception(UnknownOutcome("who knows", operation="append"))
        return sent

    producer.send_batch = failing  # type: ignore[method-assign]
    clock = Clock()
    with pytest.raises(UnknownOutcome):
        following(producer, [*transaction(800, 880, [1]), None, None], clock)


def heard(
    said: list[XLogData | Keepalive | None], whole_from: int | None, *, last: int = -1, beats: bool = False
) -> list[tuple[int, int | None]]:
    """The number of events of each batch that was sent, and the place that it goes through."""
    producer = Producer(last, at_once=True)
    envelopes = EnvelopeEncoder(
        EventOrigin("db", "slot"), TypeConversions(lambda oid: None), keys=lambda one: (), reread=lambda *a: None, now_ms=lambda: 0
    )
    out = EventSender(producer, whole_from=lambda: whole_from, heartbeat=envelopes.heartbeat if beats else None)  # type: ignore[arg-type]
    following(producer, said, Clock(), out)
    ends = [None if one is None else positions.split(one)[0] for one in producer.through]
    return list(zip((len(one.sequences) for one in producer.batches), ends, strict=True))


def test_a_batch_of_whole_transactions_goes_through_the_end_of_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = transaction(800, 880, [1, 2]), transaction(960, 1000, [3]), transaction(1040, 1080, range(7))
    assert heard([*one, *two, None], 0) == [(3, 1000)]
    assert heard([*one, None, *two[:-1], None, two[-1], None], 0) == [(2, 880), (1, None)]
    monkeypatch.setattr(event_sender, "BATCH_EVENTS_MAX", 3)
    assert heard([*one, *two, *three, None], 0) == [(2, 880), (3, None), (3, None), (2, 1080)]
    assert heard([*transaction(800, 880, [1, 2, 3]), None], 0) == [(3, 880)]  # and not the three before the end is told


@pytest.mark.parametrize(("whole_from", "through"), [(None, None), (881, None), (880, 880), (0, 880)])
def test_no_batch_goes_through_a_place_before_what_was_read_from_tables(whole_from: int | None, through: int | None) -> None:
    assert heard([*transaction(800, 880, [1, 2]), None], whole_from) == [(2, through)]


def test_events_behind_a_place_that_was_told_are_numbered_above_it() -> None:
    producer, clock = Producer(at_once=True), Clock()
    out = EventSender(producer, whole_from=lambda: 0)  # type: ignore[arg-type]
    one, two = transaction(800, 880, [1]), transaction(880, 960, [2])
    following(producer, [*one, None, *two, None], clock, out)
    assert producer.through == [positions.base_of(880), positions.base_of(960)]
    assert producer.sequences[1] == positions.base_of(880) + 1
    later = Producer(positions.base_of(880), at_once=True)
    following(later, [*one, *two, None], clock)
    assert later.sequences == producer.sequences[1:]


def test_a_heartbeat_tells_a_place_only_where_no_other_event_did() -> None:
    quiet: list[XLogData | Keepalive | None] = [Keepalive(880, False), None, Keepalive(960, False), None, None]
    assert heard(list(quiet), 0, last=7, beats=True) == [(1, 880)]
    assert heard(list(quiet), 900, last=7, beats=True) == [(1, 960)]
    assert heard(list(quiet), 0, last=7) == []
    assert heard([*transaction(800, 880, [1]), None, *quiet], 0, beats=True) == [(1, 880)]
    assert heard([*transaction(800, 880, [1])[:-1], None, Keepalive(880, False), None], 0, beats=True) == [(1, None)]


def test_large_batches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_sender, "BATCH_EVENTS_MAX", 3)
    producer = Producer(at_once=True)
    confirmed, _ = following(producer, [*transaction(800, 880, range(8)), None], Clock())
    assert [len(batch.sequences) for batch in producer.batches] == [3, 3, 2]
    assert confirmed[-1] == 880
    assert follower_module._CONFIRM_S > 0


@pytest.mark.parametrize("until", [None, 880])
def test_it_ends_where_it_was_told_to_and_asks_the_server_only_then(until: int | None) -> None:
    clock, reached = Clock(), list[str]()
    stream = Stream(
        clock, [Keepalive(100, False), None, *transaction(800, 840, [1]), None, None, Keepalive(880, False), *[None] * 9]
    )
    out = EventSender(Producer(at_once=True))  # type: ignore[arg-type]
    follower(out, clock, reached).run(stream, lambda: not stream.said, until)  # type: ignore[arg-type]
    assert stream.confirmed[-1] == out.confirmed_lsn == 880
    assert any(stream.asked[1:]) == (until is not None)
    assert (len(stream.said) > 0) == (until is not None)


@pytest.mark.parametrize("pauses", [0, 1, 9])
def test_where_it_was_told_to_end_nothing_of_the_transaction_behind_is_sent(pauses: int) -> None:
    """Rows that are read then, and words that tables stop, come between what was sent and the place: there has to be room."""
    clock, behind = Clock(), transaction(900, 980, [2, 3])
    stream = Stream(clock, [*transaction(800, 880, [1]), *[None] * pauses, *behind[:3], *[None] * 9, *behind[3:], *[None] * 9])
    producer = Producer(at_once=True)
    out = EventSender(producer)  # type: ignore[arg-type]
    follower(out, clock).run(stream, lambda: not stream.said, 880)  # type: ignore[arg-type]
    assert out.confirmed_lsn >= 880
    assert producer.sequences[-1] < positions.base_of(out.confirmed_lsn)


def test_what_is_durable_is_told_once() -> None:
    clock, reached = Clock(), list[str]()
    stream = Stream(clock, [*transaction(800, 880, [1]), *[None] * 20])
    follower(EventSender(Producer(at_once=True)), clock, reached).run(stream, lambda: not stream.said, None)  # type: ignore[arg-type]
    assert reached == ["batch sent", "batch durable", "confirmed"]
    assert clock.now_s > 2 * follower_module._ALIVE_S
    assert len(stream.confirmed) > 3  # the server is told all the same that somebody is there


def test_batches_are_cut_by_their_bytes_and_only_so_many_are_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = Producer(at_once=True), Producer(at_once=True)
    following(whole, [*transaction(800, 880, [1, 2]), None], Clock())
    assert [len(batch.sequences) for batch in whole.batches] == [2]
    monkeypatch.setattr(event_sender, "BATCH_BYTES_MAX", len(whole.bodies[0]))
    following(cut, [*transaction(800, 880, [1, 2]), None], Clock())
    assert [len(batch.sequences) for batch in cut.batches] == [1, 1]
    monkeypatch.setattr(batches, "PENDING_BATCHES_MAX", 2)
    waiting = Producer()
    with pytest.raises(TimeoutError):  # it waits for the first
        following(waiting, [*transaction(800, 880, range(5)), None], Clock())
    assert len(waiting.batches) == 2


def test_a_batch_amid_a_transaction_that_is_not_durable_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_sender, "BATCH_EVENTS_MAX", 1)
    producer, send = Producer(at_once=True), Producer.send_batch

    def first_fails(table: Any, *, through: int | None = None) -> Sent:
        sent = send(producer, table, through=through) if producer.batches else Sent([])
        if not producer.batches:
            sent.future.set_exception(UnknownOutcome("who knows", operation="append"))
            producer.batches.append(sent)
        return sent

    producer.send_batch = first_fails  # type: ignore[method-assign]
    with pytest.raises(UnknownOutcome):
        following(producer, [*transaction(800, 880, [1, 2]), None, None], Clock())
