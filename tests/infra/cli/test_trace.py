"""`penstock trace`: the life of one message, for people and for programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock import Lake, Message, MessageView, TransactionResolution, connect
from penstock.consumers.dead_letters.writer import Origin
from penstock.consumers.trace.status import DeliveryState
from penstock.consumers.trace.trace import DeadLetterTrace, GroupTrace, MemberTrace, StoredTrace, Trace
from penstock.coordinator.timers.tracing import DelayState, DelayTrace
from penstock.coordinator.transactions.tracing import TransactionTrace
from penstock.infra.cli.messages.life import life_tables
from penstock.infra.cli.messages.timeline import timeline
from penstock.infra.operating.life import life_of
from penstock.infra.terminal import output
from penstock.log.read.places import PublishedRow
from tests.consumers.heard import FAILURE, SUCCESS, Heard, consuming, until_settled
from tests.infra.cli.conftest import Penstock
from tests.lakes import TIMEOUT_S

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
VIEW = MessageView("orders", 3, 41, "m-1", "ann", "paid", ("k1", "k2"), {}, b"body", NOON, NOON, None, "p-1")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def lines(found: Trace, capsys: pytest.CaptureFixture[str]) -> list[str]:
    for part in life_tables(life_of(found, NOON)):
        output.draw(part)
    return capsys.readouterr().out.splitlines()


def picture(capsys: pytest.CaptureFixture[str], **facts: object) -> list[str]:
    place = StoredTrace(message=VIEW, **{"entry": None, "published": None, **facts})  # type: ignore[arg-type]
    return lines(Trace(message_id="m-1", places=(place,), topics=("orders",)), capsys)


def test_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert picture(capsys) == [
        "",
        "orders, queue 3, offset 41",
        "  message group  ann",
        "  tag            paid",
        "  keys           k1, k2",
        "  body           4 bytes",
        "  sent           2026-01-31T12:00:00.000Z",
        "  producer       p-1",
        "  stored         2026-01-31T12:00:00.000Z by an entry that is trimmed by now",
        "  published      not yet: it is in the log only",
        "  No consumer group has begun on this topic.",
    ]
    told = picture(capsys, entry=12_345, published=PublishedRow(7, "queue=3/a.parquet"), redriven_from=5)
    assert told[8:11] == [
        "  stored         2026-01-31T12:00:00.000Z by entry 12,345",
        "  published      in queue=3/a.parquet, of table version 7",
        "  redriven       from the dead letter at offset 5",
    ]


@pytest.mark.parametrize("fate", DeliveryState)
def test_every_fate_has_its_words(capsys: pytest.CaptureFixture[str], fate: DeliveryState) -> None:
    group = GroupTrace(
        group="g",
        fate=fate,
        owner="w/1",
        epoch=4,
        committed_offset=1,
        attempts=3,
        failed_attempts=2,
        behind=40,
        dead_letter=9,
        former_queue=7,
    )
    heading, _, row = picture(capsys, groups=(group,))[-3:]
    assert heading.split() == ["group", "stands", "when", "deliveries", "failed", "attempts", "owner", "epoch"]
    words, *rest = [cell.strip() for cell in row.split("   ") if cell.strip()][1:]
    assert rest == ["-", "3", "2", "w/1", "4"]
    expected = {
        DeliveryState.FRESH: "not handed out yet",
        DeliveryState.IN_FLIGHT: "in flight",
        DeliveryState.RECEIVED: "received, not acknowledged",
        DeliveryState.WAITING: "failed, waits to be run again",
        DeliveryState.SUSPECT: "in flight when its worker died, to be run again",
        DeliveryState.BEHIND: "held up by offset 40 of its message group",
        DeliveryState.FORMER_QUEUE: "waits for its message group's earlier messages in queue 7",
        DeliveryState.PARKED: "parked until an operator releases or skips it",
        DeliveryState.GIVEN_UP: "given up, its dead letter is being written",
        DeliveryState.DEAD_LETTER: "dead letter 9",
        DeliveryState.SETTLED: "settled",
        DeliveryState.LEFT_OUT: "left out by the group's filter",
        DeliveryState.UNCOMMITTED: "behind the committed offset",
        DeliveryState.PASSED_OVER: "before where the group began, or was reset to",
    }
    assert words == expected[fate]


def test_times_say_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    due = GroupTrace(group="g", fate=DeliveryState.WAITING, owner="", epoch=0, committed_offset=1, due=NOON)
    assert "due 2026-01-31T12:00:00.000Z" in picture(capsys, groups=(due,))[-1]
    hidden = GroupTrace(group="g", fate=DeliveryState.RECEIVED, owner="", epoch=0, committed_offset=1, due=NOON)
    assert "invisible until 2026-01-31T12:00:00.000Z" in picture(capsys, groups=(hidden,))[-1]


@pytest.mark.parametrize(
    ("delay", "words"),
    [
        (DelayState.WAITING, "it waits"),
        (DelayState.ON_ITS_WAY, "it is on its way into its topic"),
        (DelayState.RECALLED, "it was called back"),
        (DelayState.DELIVERED, "it was delivered"),
        (DelayState.OVER, "its time is over: it was called back before, or delivered, and its topic keeps it no more"),
    ],
)
def test_delays(capsys: pytest.CaptureFixture[str], delay: DelayState, words: str) -> None:
    told = picture(capsys, delay=DelayTrace(topic="orders", due=NOON, delay=delay))
    assert told[10:] == ["  due            2026-01-31T12:00:00.000Z in orders", f"  delay          {words}"], (
        "and nothing of groups"
    )


def test_transactions(capsys: pytest.CaptureFixture[str]) -> None:
    told = picture(capsys, transaction=TransactionTrace(id="t-1", decision="committed"))
    assert told[10] == "  transaction    t-1, committed"
    row = TransactionTrace(id="t-1", decision="committed", producer_group="g", by="checker", begun=NOON, checks=1, finished=NOON)
    assert picture(capsys, transaction=row)[10:12] == [
        "  transaction    t-1 of producer group g, committed by checker",
        "  begun          2026-01-31T12:00:00.000Z",
    ]
    half = TransactionTrace(id="t-1", decision="open", producer_group="g", begun=NOON, checks=2, next_check=NOON, half=VIEW)
    assert lines(Trace(message_id="m-1", places=(), transaction=half, topics=("orders",)), capsys) == [
        "",
        "In a transaction",
        "  transaction    t-1 of producer group g, open",
        "  begun          2026-01-31T12:00:00.000Z",
        "  half message   for orders, 4 bytes, visible to nobody",
        "  next check     2026-01-31T12:00:00.000Z, after 2 before",
    ]


def test_what_waits_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    waits = DelayTrace(topic="orders", due=NOON, delay=DelayState.WAITING)
    assert lines(Trace(message_id="m-1", places=(), gathered=waits, topics=("orders",)), capsys) == [
        "It waits for topic orders: due 2026-01-31T12:00:00.000Z."
    ]


def test_a_delayed_message_and_one_of_a_transaction(penstock: Penstock, lake: Path) -> None:
    with connect(lake) as opened:
        opened.create_topic("reminders", message_type="DELAY", queues=1)
        opened.create_topic("payments", message_type="TRANSACTION", queues=1)
        with opened.producer("reminders") as producer:
            delayed = producer.send(Message(b"x", delay=timedelta(hours=1))).result(TIMEOUT_S).message_id
        with opened.transaction(producer_group="cashiers", checker=lambda _: TransactionResolution.UNKNOWN) as transaction:
            (half,) = transaction.send("payments", Message(b"xyz"))
            (row,) = penstock("trace", half, "--json").rows
            assert (row["places"], row["transaction"]["state"]) == ([], "open")
            assert row["transaction"]["half"] == {"topic": "payments", "queue": 0, "body_bytes": 3}
            told = penstock("trace", half)
            assert "half message   for payments, 3 bytes" in told.out
            assert told.err == "", "it is there"
            penstock("tx", "rollback", transaction.id, "--yes")
            (row,), (described,) = penstock("trace", half, "--json").rows, penstock("tx", "describe", transaction.id, "--json").rows
            assert (described["state"], row["transaction"].pop("half")) == ("rolled_back", None)
            assert row["transaction"].items() <= described.items(), "one spelling"
            assert "cashiers, rolled back by operator" in penstock("trace", half).out
            transaction.rollback()
    (row,) = penstock("trace", delayed, "--json").rows
    assert row["places"][0]["delay"]["delay"] == "waiting"
    assert "  delay          it waits" in penstock("trace", delayed).out


def test_members(capsys: pytest.CaptureFixture[str]) -> None:
    members = tuple(
        MemberTrace(group="screens", member=name, next_offset=offset, delivered=offset > 41)
        for name, offset in (("a", 42), ("b", 2))
    )
    assert [row.split() for row in picture(capsys, members=members)[-2:]] == [
        ["screens", "a", "had", "it", "42"],
        ["screens", "b", "not", "yet", "2"],
    ]


def filled(path: Path) -> tuple[Lake, str]:
    lake = connect(path)
    lake.create_topic("orders", message_type="FIFO", queues=1)
    with lake.producer("orders") as producer:
        sent = producer.send(Message(b"\x00body", message_group="ann")).result(TIMEOUT_S)
    return lake, sent.message_id


def test_a_dead_letter_that_went_back(penstock: Penstock, lake: Path) -> None:
    opened, message_id = filled(lake)
    with opened, consuming(opened, Heard(lambda one: SUCCESS if one.offset else FAILURE), max_attempts=2):
        until_settled(opened)
        opened.redrive("billing")
        until_settled(opened)
    told = penstock("trace", message_id).out
    assert [line for line in told.splitlines() if line.startswith(("orders", "%DLQ%"))] == [
        "orders, queue 0, offset 0",
        "%DLQ%billing, queue 0, offset 0",
        "orders, queue 0, offset 1",
    ]
    assert "No consumer group has begun on this topic." not in told
    for line in (
        "  dead letter    of group billing, from orders, queue 0, offset 0",
        "  why            the listener answered FAILURE (redelivered once)",
        "  redrive        it was sent back",
        "  redriven       from the dead letter at offset 0",
    ):
        assert line in told.splitlines()
    (row,) = penstock("trace", message_id, "--topic", "orders", "--json").rows
    assert [place["topic"] for place in row["places"]] == ["orders", "%DLQ%billing", "orders"]
    first, letter, back = row["places"]
    assert (first["body"]["size_bytes"], first["published"], first["entry"]) == (5, None, 2)
    assert first["groups"] == [
        {
            "group": "billing",
            "fate": "dead letter",
            "owner": "",
            "epoch": 1,
            "committed_offset": 2,
            "attempts": None,
            "failed_attempts": None,
            "due": None,
            "behind": None,
            "former_queue": None,
            "dead_letter": 0,
            "failure": None,
            "what": "dead letter 0",
        }
    ]
    assert letter["dead_letter"] == {
        "group": "billing",
        "topic": "orders",
        "queue": 0,
        "offset": 0,
        "reconsume_times": 1,
        "reason": "the listener answered FAILURE",
        "redrive": "sent",
    }
    assert (back["redriven_from"], back["groups"][0]["fate"]) == (0, "settled")


def test_what_is_not_there(penstock: Penstock, lake: Path) -> None:
    opened, _ = filled(lake)
    opened.close()
    nothing = penstock("trace", "0" * 32)
    assert nothing.out == ""
    assert nothing.err == "No message of this id in 1 topic: it was never sent to this lake, or retention has taken it.\n"
    there = penstock("trace", "0" * 32, "--topic", "orders").err
    assert there == "No message of this id in topic orders: it was never sent to it, or retention has taken it.\n"
    assert penstock("trace", "0" * 32, "--json").rows == [
        {
            "message_id": "0" * 32,
            "events": [],
            "places": [],
            "transaction": None,
            "gathered": None,
            "topics": ["orders"],
            "unread": [],
        }
    ]
    assert "no such topic" in penstock("trace", "0" * 32, "--topic", "nowhere", code=2).err
    entry = next((lake / "topics" / "orders" / "log").glob("0*1*"))
    entry.write_bytes(b"damaged")
    assert "Could not be read: " in penstock("trace", "0" * 32).err


def test_times_are_those_of_the_message(penstock: Penstock, lake: Path) -> None:
    before = datetime.now(UTC)
    opened, message_id = filled(lake)
    opened.close()
    (row,) = penstock("trace", message_id, "--json").rows
    assert before <= datetime.fromisoformat(row["places"][0]["sent"]) < before + timedelta(seconds=TIMEOUT_S)


def test_the_life_of_a_message_is_drawn_in_time() -> None:
    retried = GroupTrace(
        group="billing", fate=DeliveryState.WAITING, owner="", epoch=0, committed_offset=1, due=NOON + timedelta(hours=2)
    )
    wait = VIEW._replace(topic="%TIMER%orders", queue=0, offset=7, store_timestamp=NOON + timedelta(milliseconds=250))
    there = VIEW._replace(store_timestamp=NOON + timedelta(minutes=30, milliseconds=3))
    due = DelayTrace(topic="orders", due=NOON + timedelta(minutes=30), delay=DelayState.DELIVERED)
    places = (
        StoredTrace(message=wait, entry=1, published=None, delay=due),
        StoredTrace(message=there, entry=2, published=None, groups=(retried,)),
    )
    found = Trace(message_id="m-1", places=places, topics=("orders",))
    assert list(timeline(life_of(found, NOON + timedelta(hours=1)))) == [
        "  2026-01-31T12:00:00.000Z  ● sent",
        "                     250ms  │",
        "  2026-01-31T12:00:00.250Z  ● stored: %TIMER%orders, queue 0, offset 7",
        "                   29m 59s  │",
        "  2026-01-31T12:30:00.000Z  ● due in orders",
        "                       3ms  │",
        "  2026-01-31T12:30:00.003Z  ● stored: orders, queue 3, offset 41",
        "                1h 29m 59s  ┆",
        "  2026-01-31T14:00:00.000Z  ○ comes back to billing",
    ]


def test_a_dead_letters_way_is_drawn() -> None:
    letter = DeadLetterTrace(group="billing", origin=Origin("orders", 3, 41, 16, "why"), redrive="sent")
    dead = VIEW._replace(topic="%DLQ%billing", queue=0, offset=9, store_timestamp=NOON + timedelta(minutes=2))
    again = VIEW._replace(offset=50, store_timestamp=NOON + timedelta(minutes=3))
    places = (
        StoredTrace(message=VIEW, entry=1, published=None),
        StoredTrace(message=dead, entry=1, published=None, dead_letter=letter),
        StoredTrace(message=again, entry=1, published=None, redriven_from=9),
    )
    drawn = list(timeline(life_of(Trace(message_id="m-1", places=places, topics=("orders",)), NOON + timedelta(hours=1))))
    assert [line.partition("● ")[2] for line in drawn if "●" in line] == [
        "sent",
        "stored: orders, queue 3, offset 41",
        "given up by billing: %DLQ%billing, queue 0, offset 9",
        "sent back: orders, queue 3, offset 50",
    ]


def test_one_moment_is_no_line() -> None:
    waits = DelayTrace(topic="orders", due=NOON, delay=DelayState.WAITING)
    assert not list(timeline(life_of(Trace(message_id="m-1", places=(), gathered=waits, topics=("orders",)), NOON)))
