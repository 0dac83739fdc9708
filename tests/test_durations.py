"""Durations: every public call takes a `timedelta` or a number of seconds, and refuses anything else in the same words."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest

import penstock
from penstock.cdc.postgres.capture import PostgresOptions
from penstock.consumers import PushOptions
from penstock.coordinator.timers.options import TimerOptions
from penstock.log import ProducerOptions, TopicSettings
from penstock.log.limits import Seconds, checked_duration, duration_text, optional_duration
from penstock.log.table.maintenance import MaintenanceOptions
from penstock.testing import HandClock
from tests.test_wrong_arguments import listen, unknown

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
DOORS = (
    "penstock",
    "penstock.aio",
    "penstock.log",
    "penstock.coordinator",
    "penstock.consumers",
    "penstock.cdc",
    "penstock.spark",
    "penstock.testing",
    "penstock.log.table.maintenance",
    "penstock.cdc.sync.run",
    "penstock.cdc.postgres.capture",
    "penstock.spark.produce.write",
    "penstock.change_data",
)
NOT_CALLED_BY_USERS = ("Transaction.__init__", "BroadcastConsumer.__init__", "Maintenance.__init__", "QueueProgress.__init__")
"""Constructors that the lake calls."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions, and the public methods of public classes, by name."""
    for door in DOORS:
        module = import_module(door)
        names = getattr(module, "__all__", None) or [name for name, one in vars(module).items() if _is_own(one, module)]
        for name in names:
            one = getattr(module, name)
            if not inspect.isclass(one):
                if callable(one):
                    yield f"{door}.{name}", one
                continue
            yield f"{door}.{name}.__init__", one.__init__
            yield from (
                (f"{door}.{name}.{method}", made)
                for method, made in inspect.getmembers(one, inspect.isfunction)
                if method[0] != "_"
            )


def _is_own(one: object, module: Any) -> bool:
    return getattr(one, "__module__", None) == module.__name__ and not getattr(one, "__name__", "_").startswith("_")


def test_no_public_argument_is_a_timedelta_only() -> None:
    found = {
        f"{name}({argument})"
        for name, function in functions()
        for argument, parameter in inspect.signature(function).parameters.items()
        if "timedelta" in str(parameter.annotation).replace("datetime.timedelta | float", "")
        and not name.endswith(NOT_CALLED_BY_USERS)
    }
    assert found == set()


def test_the_walk_finds_arguments() -> None:
    kinds = ("Duration", "DurationField", "OptionalDurationField", "datetime.timedelta | float")
    found = {
        name.removeprefix("penstock.")
        for name, function in functions()
        for parameter in inspect.signature(function).parameters.values()
        if any(re.search(rf"(?<![A-Za-z]){re.escape(kind)}", str(parameter.annotation)) for kind in kinds)
    }
    assert {
        "Lake.create_topic",
        "Lake.producer",
        "Lake.push_consumer",
        "Lake.broadcast_consumer",
        "Lake.transaction",
        "Lake.workers",
        "PullConsumer.poll",
        "PushConsumer.wait",
        "PushConsumer.close",
        "SimpleConsumer.receive",
        "SimpleConsumer.change_invisible_duration",
        "Receipt.result",
        "Receipt.exception",
        "RetryPolicy.__init__",
        "RetryAfter.__init__",
        "TopicLimits.__init__",
        "aio.PushConsumer.close",
        "log.ProducerOptions.__init__",
        "log.TopicSettings.__init__",
        "cdc.sync.run.SyncRun.await_termination",
        "spark.write_ordered",
        "SyncOptions.__init__",
        "testing.HandClock.advance",
    } <= found


@pytest.fixture(scope="module")
def lake() -> Iterator[penstock.Lake]:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", queues=1, retention=86_400)
        lake.create_topic("later", message_type="DELAY", queues=1, limits=penstock.TopicLimits(max_delay=60))
        yield lake


def test_calls_of_a_lake_take_seconds(lake: penstock.Lake) -> None:
    assert lake.topics()["orders"].settings.retention == DAY
    assert lake.alter_topic("orders", retention=2 * 86_400.0).settings.retention == 2 * DAY
    assert lake.workers(watch=0) == []
    with lake.producer("orders", linger=0, block_timeout=1, delivery_timeout=30.5) as producer:
        receipt = producer.send(penstock.Message(b"x"))
        assert receipt.result(timeout=SECOND * 30).offset == receipt.result(30).offset == 0
        assert receipt.exception(SECOND) is receipt.exception(1) is None
    with lake.producer("later") as producer:
        born = penstock.Message(b"x", delay=30)
        producer.send(born).result(30)
        producer.send(penstock.Message.json(1, delay=0.5)).result(30)
        with pytest.raises(penstock.LimitExceeded, match=r"too far ahead.*at most 60 s from now; observed: 61 s"):
            producer.send(penstock.Message(b"x", delay=61))
    waiting = lake.waiting("later")
    assert [one.delivery_timestamp - one.born_timestamp for one in waiting] == [SECOND / 2, 30 * SECOND]
    with lake.transaction(producer_group="cashiers", checker=unknown, first_check=30):
        pass


def test_consumers_take_seconds(lake: penstock.Lake) -> None:
    with lake.pull_consumer("orders", group="pull") as pull:
        assert [one.body for one in pull.poll(timeout=30)] == [b"x"]
        assert pull.poll_arrow(timeout=0.0) == []
    with lake.simple_consumer("orders", group="simple") as simple:
        (message,) = simple.receive(1, 30, 20.0)
        assert simple.change_invisible_duration(message, 0) is message
    push = lake.push_consumer("orders", group="push", listener=listen, consume_timeout=7.5)
    assert push.wait(0) is False
    push.close(30)
    assert push.wait(30.0) is True
    lake.broadcast_consumer("orders", group="all", member="one", listener=listen, consume_timeout=60).close(timeout=30)


@pytest.mark.parametrize(
    "made",
    [
        ProducerOptions(linger=1, max_linger=2.0, block_timeout=3, delivery_timeout=4),
        TopicSettings(retention=1),
        MaintenanceOptions(publish_interval=1, delta_log_kept=172_800),
        TimerOptions(tick=0.25),
        penstock.RetryPolicy(interval=1, interval_max=2.5),
        penstock.RetryAfter(1.5),
        penstock.TopicLimits(max_delay=1),
        PostgresOptions(patience=1),
    ],
    ids=lambda made: type(made).__name__,
)
def test_settings_read_as_timedelta_and_show_what_was_given(made: Any) -> None:
    seconds = {one.name: value for one in fields(made) if isinstance(value := getattr(made, one.name), Seconds)}
    assert seconds
    for name, value in seconds.items():
        assert f"{name}={value.given!r}" in repr(made)
    same = dataclasses.replace(made, **{name: timedelta(seconds=value.given) for name, value in seconds.items()})
    assert same == made == pickle.loads(pickle.dumps(made)) == copy.deepcopy(made)
    assert repr(same) != repr(made) == repr(pickle.loads(pickle.dumps(made)))


def test_a_handler_may_run_for_seconds() -> None:
    options = PushOptions(consume_timeout=7.5)
    assert options.consume_timeout == 7.5 * SECOND
    assert "consume_timeout=7.5," in repr(options)


def test_a_clock_takes_seconds() -> None:
    clock = HandClock()
    before = clock.now()
    clock.advance(3600)
    assert timedelta(hours=1) <= clock.now() - before < timedelta(hours=2)


TAKEN = {
    "no text": ("5", "no duration", "observed: '5'"),
    "no truth value": (True, "no duration", "observed: True"),
    "not NaN": (math.nan, "no duration", "observed: nan"),
    "not infinity": (math.inf, "no duration", "observed: inf"),
    "nor the other": (-math.inf, "no duration", "observed: -inf"),
    "not None": (None, "no duration", "observed: None"),
    "not less than nothing": (-0.5, "too short", "expected: above 0; observed: -0.5"),
    "nothing": (0, "too short", "expected: above 0; observed: 0"),
    "less than a microsecond": (1e-9, "too short", "observed: 1e-09"),
    "a timedelta below": (timedelta(seconds=-5), "too short", "observed: -5 s"),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_is_no_duration_is_refused_by_name(case: str) -> None:
    value, said, observed = TAKEN[case]
    with pytest.raises(penstock.InvalidArgument) as refused:
        checked_duration("linger", value, operation="producer", most=DAY, above_zero=True)
    assert str(refused.value).startswith(f"linger is {said} (operation: producer; expected: ")
    assert observed in str(refused.value)


@pytest.mark.parametrize("value", [86_400.5, 2**70, 10**400, 1e300, timedelta(days=1, seconds=0.5), timedelta.max])
def test_what_is_too_long_is_refused_with_the_bound(value: Any) -> None:
    with pytest.raises(
        penstock.LimitExceeded, match=r"linger is too long \(operation: producer; expected: at most 24 h"
    ) as refused:
        checked_duration("linger", value, operation="producer", most=DAY)
    assert (refused.value.hint == "a number is one of seconds") == (not isinstance(value, timedelta))


def test_none_is_taken_where_it_means_something() -> None:
    assert optional_duration("timeout", None, operation="wait", most=DAY) is None
    with pytest.raises(penstock.InvalidArgument, match="a number of seconds, 0 or more, or None; observed: 'x'"):
        optional_duration("timeout", "x", operation="wait", most=DAY)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (timedelta(0), "0 s"),
        (timedelta(hours=12), "12 h"),
        (timedelta(days=36_500), "36,500 days"),
        (timedelta(seconds=90), "90 s"),
        (timedelta(minutes=90), "90 min"),
        (timedelta(milliseconds=1500), "1.5 s"),
        (timedelta(days=-2), "-2 days"),
        (DAY, "24 h"),
    ],
)
def test_the_text_of_a_duration(value: timedelta, said: str) -> None:
    assert duration_text(value) == said
