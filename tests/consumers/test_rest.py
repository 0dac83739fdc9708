"""What keeps an owner's loop from turning without end while something cannot run yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from penstock.consumers.limits import QueueLimits, QueueMode
from penstock.consumers.schedule.lanes import Failure
from penstock.consumers.schedule.push import PushSchedule
from penstock.coordinator.groups.record import DeliveryOrder, GroupSettings
from penstock.coordinator.groups.retry import RetryPolicy
from penstock.coordinator.queues.cell import MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.log.message.message import MessageView

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def test_nobody_is_made_to_wait_for_a_suspect_that_is_not_in_memory() -> None:
    cell = QueueCell().with_tries(0, Tries(MessageState.SUSPECT, 1, 0, 0, 1))
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())

    assert not schedule.wants_solo(0), "there is nothing to run alone yet: the owner's loop would turn without end"
    assert schedule.missing(0) == [0]

    message = MessageView("orders", 0, 0, "m0", "g", None, (), {}, b"", EPOCH, EPOCH, None, "p")
    schedule.reread([message], 0, 0)
    assert schedule.wants_solo(0)
    step = schedule.plan(0, cell, QueueMode.SOLO)
    assert [[one.offset for one in run.messages] for run in step.runs] == [[0]]


def test_what_is_due_and_cannot_run_yet_wakes_nobody() -> None:
    """It is being read, or suspects run first: whoever woke its owner for it would do so without end."""
    cell = (
        QueueCell()
        .with_tries(0, Tries(MessageState.WAITING, 1, 1, 1_000))
        .with_tries(1, Tries(MessageState.WAITING, 1, 1, 500_000))
    )
    schedule = PushSchedule(GroupSettings(delivery_order=DeliveryOrder.CONCURRENT), cell, limits=QueueLimits())
    assert schedule.next_due_ms(cell) == 1_000

    assert schedule.plan(1_000, cell).is_empty
    assert schedule.next_due_ms(cell) == 500_000
    assert schedule.missing(1_000) == [0]

    message = MessageView("orders", 0, 0, "m0", "g", None, (), {}, b"", EPOCH, EPOCH, None, "p")
    schedule.reread([message], 0, 0)
    step = schedule.plan(1_001, cell)
    assert [[one.offset for one in run.messages] for run in step.runs] == [[0]]
    assert schedule.missing(1_001) == []


def test_what_is_due_soon_is_read_before_as_far_as_it_may_be_kept() -> None:
    """Read only when due, it would be late by that reading."""
    cell = QueueCell().with_all_tries({n: Tries(MessageState.WAITING, 1, 1, 1_000 + 10_000 * n) for n in range(9)})
    settings = GroupSettings(delivery_order=DeliveryOrder.CONCURRENT)
    assert PushSchedule(settings, cell, limits=QueueLimits()).missing(0) == [0, 1, 2, 3, 4, 5], "those of the next minute"
    assert PushSchedule(settings, cell, limits=QueueLimits(retained=3)).missing(0) == [0, 1, 2]
    assert PushSchedule(settings, cell, limits=QueueLimits(retained=3)).missing(40_000) == [0, 1, 2, 3], (
        "what is due is read in any case"
    )


def test_a_batch_that_is_run_again_is_started_when_that_is_durable() -> None:
    """Another batch that ends in the same step must not take it along."""
    messages = [MessageView("orders", 0, n, f"m{n}", None, None, (), {}, b"", EPOCH, EPOCH, None, "p") for n in range(4)]
    settings = GroupSettings(delivery_order=DeliveryOrder.CONCURRENT)
    cell = QueueCell()
    schedule = PushSchedule(settings, cell, limits=QueueLimits(batch_of="queue", run_messages=2))
    schedule.load(messages, OffsetSet(), 4)
    step = schedule.plan(0, cell)
    cell = step.apply(cell)
    failed, done = step.runs
    failed.failure, failed.ended = Failure("somewhere", blamed=False), True
    done.done, done.ended = 2, True
    schedule.report(failed)
    schedule.report(done)

    step = schedule.plan(1, cell)
    assert step.runs_now == []
    assert {offset: tries.attempts for offset, tries in step.tries.items()} == {0: 2, 1: 2}
    assert sorted(one.offset for run in step.runs for one in run.messages) == [0, 1]


def test_what_falls_due_between_a_step_and_the_look_for_what_is_to_be_read_is_told() -> None:
    schedule = PushSchedule(GroupSettings(retry=RetryPolicy(interval=timedelta(milliseconds=1))), QueueCell(), limits=QueueLimits())
    message = MessageView("orders", 0, 0, "m0", "g", None, (), {}, b"", EPOCH, EPOCH, None, "p")
    schedule.load([message], OffsetSet(), 1)
    step = schedule.plan(1_000, QueueCell())
    (run,) = step.runs
    run.failure, run.ended = Failure("no"), True
    schedule.report(run)
    schedule.plan(1_000, step.apply(QueueCell()))
    assert schedule.blocked.reread_from(1_000, 1) is None
    assert not schedule.blocked.fell_due
    assert schedule.next_due_ms(QueueCell()) is not None

    assert schedule.blocked.reread_from(1_005, 1) is None
    assert schedule.blocked.fell_due, "nothing wakes its owner any more"
