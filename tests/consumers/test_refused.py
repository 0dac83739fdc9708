"""Consumers and producers of a store, or of a table, that refuses for a while what it allowed before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest

import penstock
from penstock import Message
from penstock.coordinator import coordination
from penstock.log.errors import AccessLost, PermissionDenied
from penstock.log.stores import MemoryStore
from tests.consumers.heard import Heard, fill, send
from tests.lakes import Refusing, bodies
from tests.waiting import wait_until

REFUSED = "refuses what it allowed before"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are over in a second and a half."""
    for name in ("LEASE_S", "LEASE_ON_STORE_S"):
        monkeypatch.setattr(coordination, name, 1.5)


@contextmanager
def refusing(store: Refusing, caplog: pytest.LogCaptureFixture, *said: str) -> Iterator[None]:
    """The store refuses everything until all of these are told by the log."""
    caplog.clear()
    store.refuses = lambda _: True
    yield
    wait_until(lambda: all(one in caplog.text for one in (REFUSED, *said)), "the refusal told")
    store.refuses = lambda _: False


@pytest.mark.usefixtures("soon")
def test_push_and_broadcast_consumers_ride_it_out(caplog: pytest.LogCaptureFixture) -> None:
    store, pushed, shown = Refusing(MemoryStore()), Heard(), Heard()
    with penstock.connect(store=store, maintenance=False) as lake:
        fill(lake, "a")
        with (
            lake.push_consumer("orders", group="billing", listener=pushed),
            lake.broadcast_consumer("orders", group="screens", member="one", listener=shown),
        ):
            pushed.until_done(1)
            with refusing(store, caplog, "group billing: the lease was lost"):
                pass
            send(lake, "b")
            pushed.until_done(2)
            shown.until(lambda heard: b"b0" in [one.body for one in heard.done], "what came afterwards")


@pytest.mark.usefixtures("soon")
def test_consumers_that_receive_and_pull_ride_it_out(caplog: pytest.LogCaptureFixture) -> None:
    store = Refusing(MemoryStore())
    with penstock.connect(store=store, maintenance=False) as lake:
        fill(lake, "a")
        with (
            lake.simple_consumer("orders", group="billing") as simple,
            lake.pull_consumer("orders", group="audit") as pull,
        ):
            (first,) = simple.receive(await_duration=30)
            assert [one.body for one in pull.poll(30)] == [b"a0"]
            with refusing(store, caplog, "group billing: the lease was lost", "group audit: the lease was lost"):
                pass
            send(lake, "b")
            (second,) = simple.receive(await_duration=30)
            assert (first.body, second.body) == (b"a0", b"b0")
            assert b"b0" in [one.body for one in [*pull.poll(30), *pull.poll(1)]]


def test_a_producer_rides_it_out(caplog: pytest.LogCaptureFixture) -> None:
    store = Refusing(MemoryStore())
    with penstock.connect(store=store, maintenance=False) as lake:
        fill(lake, "a")
        with lake.producer("orders", linger=0) as producer:
            with refusing(store, caplog):
                receipt = producer.send(Message(b"b0", message_group="b"))
            assert receipt.result(timeout=30).offset == 1
        assert bodies(lake) == [b"a0", b"b0"]


def test_after_the_time_a_consumer_ends_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    store, heard = Refusing(MemoryStore()), Heard()
    with penstock.connect(store=store, maintenance=False, refusal_timeout=timedelta(seconds=1)) as lake:
        fill(lake, "a")
        consumer = lake.push_consumer("orders", group="billing", listener=heard)
        heard.until_done(1)
        store.refuses = lambda _: True
        with pytest.raises(AccessLost, match="expected: what was allowed before; observed: refused for"):
            consumer.wait()
        store.refuses = lambda _: False
        with suppress(AccessLost):
            consumer.close()


def test_maintenance_goes_on_after_a_refusal_that_took_long(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for it, so nobody would start it again."""
    store = Refusing(MemoryStore())
    with penstock.connect(store=store, refusal_timeout=timedelta(0)) as lake:
        lake.create_topic("later", message_type="DELAY", queues=1)
        with lake.producer("later", linger=0) as producer:
            producer.send(Message(b"0", delay=timedelta(0))).result(timeout=30)
            wait_until(lambda: bodies(lake, "later") == [b"0"], "its timers are played")
            with refusing(store, caplog, "maintenance of topic later", "refused for 0 s"):
                pass
            producer.send(Message(b"1", delay=timedelta(0))).result(timeout=30)
        wait_until(lambda: bodies(lake, "later") == [b"0", b"1"], "they are played again")


def test_a_sender_that_may_not_begin_the_timers_of_one_topic_begins_those_of_others(caplog: pytest.LogCaptureFixture) -> None:
    store = Refusing(MemoryStore())
    store.refuses = lambda call: call.is_write and "roles/first" in call.key
    with penstock.connect(store=store, maintenance=False) as lake, caplog.at_level("INFO"):
        for topic in ("first", "second"):
            lake.create_topic(topic, message_type="DELAY", queues=1)
        with lake.producer("first") as first, lake.producer("second") as second:
            first.send(Message(b"1", delay=timedelta(0))).result(timeout=30)
            wait_until(lambda: "may not maintain topic first, and leaves it to others" in caplog.text, "the refusal told")
            second.send(Message(b"2", delay=timedelta(0))).result(timeout=30)
            wait_until(lambda: bodies(lake, "second") == [b"2"], "its timers are played")


def test_what_was_refused_from_the_first_ends_it_at_once() -> None:
    store = Refusing(MemoryStore())
    with penstock.connect(store=store, maintenance=False) as lake:
        fill(lake, "a")
    store.refuses = lambda call: call.is_write
    with penstock.connect(store=store, maintenance=False) as lake:
        with pytest.raises(PermissionDenied) as raised, lake.push_consumer("orders", group="billing", listener=Heard()):
            pass
        assert type(raised.value) is PermissionDenied
