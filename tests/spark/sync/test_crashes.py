"""Drivers, executors and workers of a sync by Spark that end on the way. Its loop without Spark ends at every point in `test_without_spark`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import SyncOptions, sync
from penstock.cdc.sync.options import NO_STEPS, Moment, SyncSteps
from penstock.cdc.sync.plan import SyncPlan
from penstock.coordinator.lakes import LakePlace
from tests.cdc.sync.crashes import BATCH, VERSIONED, Crash, CrashAt, grouped, stream
from tests.cdc.sync.driving import drive_to_the_end
from tests.cdc.sync.judging import Check, stored
from tests.cdc.sync.streams import TOPIC, envelope, event, group_for, rows, send
from tests.spark.sync.driver import CLUSTER, Life, end_of
from tests.spark.sync.engines import BY_SPARK, BY_TASKS, IN_DRIVER, Way
from tests.thorough import thoroughly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


class Place:
    """A topic that has the stream, and targets of which one keeps history."""

    def __init__(self, folder: Path, blocks: int) -> None:
        self.lake, self.into, self.marks = str(folder / "lake"), folder / "targets", folder / "marks"
        events = list(stream(blocks))
        send(self.lake, events, groups=[grouped(one) for one in events])
        self.check = Check(self.into, stored(self.lake), history={VERSIONED})

    def drive(self, spark: SparkSession, steps: SyncSteps = NO_STEPS, *, batch: int = BATCH, way: Way = IN_DRIVER) -> None:
        """To the end of the topic, in this process."""
        options = SyncOptions(into=self.into, name="s", history=[VERSIONED], max_events=batch, **way)
        drive_to_the_end(spark, SyncPlan.of(LakePlace.of(self.lake), TOPIC, options, tasks=2, steps=steps))


ENDS: list[tuple[str, Moment, str, Way]] = [
    ("fold", "in", "", BY_TASKS),
    ("merge", "in", "a", BY_TASKS),
    ("merge", "in", VERSIONED, BY_TASKS),
    ("merge", "in", "a", BY_SPARK),
    ("add columns", "after", "a", IN_DRIVER),
    ("merge", "after", "a", BY_SPARK),
    ("merge", "in", "a", IN_DRIVER),
    ("merge", "after", "a", IN_DRIVER),
    ("merge", "after", VERSIONED, IN_DRIVER),
]
"""Steps that this engine carries out otherwise than the one without Spark, of which target, and in which way; in the order in which the
stream needs them.
"""
FEW_ENDS = [ENDS[0], ENDS[2], ENDS[5], ENDS[7]]


def test_a_driver_that_ends_at_a_step_of_spark_leaves_targets_as_far_as_they_say_and_another_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, blocks=thoroughly(12, 6))
    for step, moment, target, way in thoroughly(ENDS, FEW_ENDS):
        point = CrashAt(step, moment, target=target)
        with pytest.raises((Crash, Exception), match=f"{moment} {step}"):
            place.drive(spark, point, way=way)
        place.check()
    place.drive(spark, batch=1_000)
    assert place.check(complete=True) > 15


def test_versions_before_a_truncate_are_kept_when_it_comes_with_the_first_of_them(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    events = [one for one in stream(15) if envelope(one)["source"]["table"] == VERSIONED]
    send(lake, events, groups=[grouped(one) for one in events])
    assert sync(lake, TOPIC, SyncOptions(into=into, history=[VERSIONED]), spark=spark).await_termination()
    assert Check(into, stored(lake), history={VERSIONED})(complete=True) == 30


@pytest.mark.thorough
def test_a_batch_without_rows_is_remembered_by_the_target(spark: SparkSession, tmp_path: Path) -> None:
    """A truncate of empty tables: an older event, which another queue brings to a later driver, is of a row that is gone."""
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    first, second = (group_for(queue, 2) for queue in (0, 1))
    for steps, group in (([("c", 1), ("d", 2)], first), ([("t", 20)], first), ([("c", 10)], second)):
        row = {"id": 1}
        events = [
            event(op, table, None if op == "t" else row, row if op == "c" else None, before=row if op == "d" else None, at=at)
            for op, at in steps
            for table in ("t", VERSIONED)
        ]
        send(lake, events, groups=[group] * len(events))
        assert sync(lake, TOPIC, SyncOptions(into=into, history=[VERSIONED]), spark=spark).await_termination()
    assert rows(into / "t") == []
    assert [(row["__op"], row["__current"]) for row in rows(into / VERSIONED, own=True)] == [("c", False)]


@pytest.mark.thorough
@pytest.mark.processes
def test_executors_and_workers_are_killed_then_the_driver_and_another_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path, blocks=6)
    place.marks.mkdir()
    life = Life(
        lake=place.lake,
        into=str(place.into),
        master=CLUSTER,
        history=(VERSIONED,),
        batch=24,
        events_in_driver=0,
        # What the fold gave goes with the executor that is killed amid the merge: the next one has to fold anew.
        losses=(("fold", "in", "workers"), ("merge", "in", "executors")),
        marks=str(place.marks),
        dies=("merge", "after", 5),
    )
    assert end_of(life) == -signal.SIGKILL
    assert {"workers: in fold", "executors: in merge"} < {path.name for path in place.marks.iterdir()}
    assert place.check() > 5
    place.drive(spark, batch=1_000)
    assert place.check(complete=True) > 15
