"""The sync without Spark: whole streams end as the judge says, a driver ends at every step, and targets are read by both engines."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import SyncOptions, SyncRun, sync
from penstock.cdc.choice.tables import Truncates
from penstock.cdc.delta import deltalake_targets
from penstock.cdc.events.conversion import exact_json
from penstock.cdc.sync.backends.local import LocalBackend
from penstock.cdc.sync.engine import SyncEngine
from penstock.cdc.sync.options import NO_STEPS, BatchReport, SyncSteps
from penstock.cdc.sync.plan import SyncPlan
from penstock.coordinator.lakes import LakePlace
from penstock.log.errors import NotSupported
from tests.cdc import nasty
from tests.cdc.reference import Reference
from tests.cdc.streams import Stream, streams
from tests.cdc.sync.crashes import BATCH, POINTS, Crash, CrashAt, stream
from tests.cdc.sync.driving import drive_to_the_end
from tests.cdc.sync.judging import Check, stored
from tests.cdc.sync.streams import TOPIC, event, rows, send
from tests.cdc.test_fold import moves_to_a_key_that_was_free
from tests.thorough import examples


def drive(
    lake: str,
    into: Path,
    *,
    steps: SyncSteps = NO_STEPS,
    batch: int = BATCH,
    declared: Mapping[str, Mapping[str, str]] | None = None,
    truncates: Truncates = "ordered",
    **more: Any,
) -> SyncRun:
    place = LakePlace.of(lake)
    options = SyncOptions(into=into, name="s", max_events=batch, columns=declared or {}, truncates=truncates, **more)
    return drive_to_the_end(None, SyncPlan.of(place, TOPIC, options, steps=steps))


def known(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what is NULL and what is the sync's own, arrays as JSON text: text may look like an array."""
    return {
        name: exact_json(value) if isinstance(value, list | dict) else value
        for name, value in row.items()
        if value is not None and not name.startswith("__")
    }


def test_the_nasty_stream(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for batch in nasty.batches():
        send(lake, [message.body for message in batch], groups=["g"] * len(batch), queues=1)
        drive(lake, into, batch=100_000, declared=nasty.DECLARED)
    for table, wanted in nasty.expected().items():
        found = [known(row) for row in rows(into / table)]
        assert sorted(found, key=repr) == sorted(map(known, wanted.values()), key=repr), table


@pytest.mark.timeout(300)
def test_a_driver_that_ends_at_any_step_leaves_targets_as_far_as_they_say_and_another_goes_on(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, stream(24))
    check = Check(into, stored(lake))
    for number, (step, moment) in enumerate(POINTS):
        point = CrashAt(step, moment, nth=1 + number % 2 if step == "merge" else 1)
        with pytest.raises(Crash, match=f"{moment} {step}"):
            drive(lake, into, steps=point)
        assert point.reached_it
        check()
    drive(lake, into)
    check(complete=True)


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(streams(splits=True, max_steps=15), st.integers(1, 12), st.integers(1, 3), st.booleans())
def test_drawn_streams_end_as_the_judge_says(told: Stream, batch: int, at_once: int, compacts: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        lake, into = f"{folder}/lake", Path(folder, "targets")
        patched.setattr(deltalake_targets, "FILES_MIN", 2)
        send(lake, [one.body for one in told.told], groups=[one.table for one in told.told])
        ways: dict[str, Any] = {"merges_at_once": at_once, "compact_every": int(compacts)}
        assert not drive(lake, into, batch=batch, declared=told.declared, truncates="queue", **ways).stopped
        check_rows(lake, into, told)


def check_rows(lake: str, into: Path, told: Stream) -> None:
    """The targets of a drawn stream are as the judge says."""
    reference = Reference(told.declared)
    for message in stored(lake):
        reference.apply([message])
    for (_, table), wanted in reference.rows().items():
        found = [known(row) for row in rows(into / table)] if DeltaTable.is_deltatable(str(into / table)) else []
        assert sorted(found, key=repr) == sorted(map(known, wanted.values()), key=repr), table


def test_a_row_that_takes_a_key_has_nothing_of_the_row_that_was_there(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for batch in moves_to_a_key_that_was_free({}):
        send(lake, batch, queues=1)
        drive(lake, into)
    assert rows(into / "t") == [{"id": 1, "a": 3, "more": None}]


def test_columns_are_called_anything(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    first = {"Id": 1, "select": "a", "with space": "b", "dot.ted": "c", 'quo"te': "d", "Größe": 1}
    send(lake, [event("c", "t", {"Id": 1}, first, at=1)])
    drive(lake, into)
    second = {**first, "select": "A", "dot.ted": "__debezium_unavailable_value", 'quo"te': "D", "Größe": 2}
    send(lake, [event("u", "t", {"Id": 1}, second, at=2)])
    drive(lake, into)
    assert rows(into / "t") == [{**second, "dot.ted": "c"}]


def test_a_run_by_name_ends_with_what_is_there_and_targets_may_be_compacted_meanwhile(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for number in range(3):
        send(lake, [event("u", "t", {"id": 1}, {"id": 1, "n": number}, at=number)])
        run = sync(lake, TOPIC, SyncOptions(into=into, trigger="available_now"))
        assert run.await_termination()
        assert (run.status.events, run.stopped) == (1, {})
        DeltaTable(str(into / "t")).optimize.compact()
        DeltaTable(str(into / "t")).create_checkpoint()
    assert rows(into / "t") == [{"id": 1, "n": 2}]
    running = sync(lake, TOPIC, SyncOptions(into=into, trigger=timedelta(seconds=0.1)))
    running.stop()
    assert rows(into / "t") == [{"id": 1, "n": 2}]


def test_a_listener_may_stop_the_run(tmp_path: Path) -> None:
    lake, told = str(tmp_path / "lake"), queue.SimpleQueue[SyncRun]()
    send(lake, [event("c", "bills", {"id": n}, {"id": n}, at=n) for n in range(4)], queues=1)

    def enough(_batch: BatchReport) -> None:
        told.get(timeout=60).stop()

    run = sync(lake, TOPIC, SyncOptions(into=tmp_path / "targets", max_events=3, trigger=timedelta(minutes=5)), listener=enough)
    told.put(run)
    assert run.await_termination(timedelta(minutes=2))
    assert run.status.events == 3


def test_a_table_of_somebody_else_stops_that_table(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    write_deltalake(str(into / "t"), pa.table({"id": [1], "n": [1]}))
    send(lake, [event("c", "t", {"id": 2}, {"id": 2, "n": 2}, at=1), event("c", "u", {"id": 2}, {"id": 2}, at=1)])
    run = drive(lake, into)
    assert "written by someone else" in run.stopped["public.t"][0].reason
    assert rows(into / "t") == [{"id": 1, "n": 1}]
    assert rows(into / "u") == [{"id": 2}]


def test_history_needs_spark(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    send(lake, [event("c", "t", {"id": 2}, {"id": 2, "n": 2}, at=1)])
    with pytest.raises(NotSupported, match="keeps no history"):
        sync(lake, TOPIC, SyncOptions(into=tmp_path / "targets", history=True))
    assert not (tmp_path / "targets").exists()


@pytest.mark.parametrize("batch", [7, 100_000])
@pytest.mark.parametrize("guard", ["position", "offset"])
def test_the_topic_grows_between_changes_of_the_same_rows(tmp_path: Path, batch: int, guard: str) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for step, queues in enumerate((2, 4, 12)):
        if step:
            with penstock.connect(lake) as opened:
                opened.alter_topic(TOPIC, queues=queues)
        for turn in range(3):
            at = 3 * step + turn
            send(lake, [event("c" if at == 0 else "u", "t", {"id": key}, {"id": key, "seen": at}, at=at + 1) for key in range(24)])
    drive(lake, into, batch=batch, guard=guard)
    assert [(row["id"], row["seen"]) for row in sorted(rows(into / "t"), key=lambda row: row["id"])] == [
        (key, 8) for key in range(24)
    ]


def test_the_topic_grows_under_a_sync_that_goes_on(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": key}, {"id": key, "seen": 0}, at=1) for key in range(24)])
    options = SyncOptions(into=into, name="s", max_events=20)
    engine = SyncEngine(plan := SyncPlan.of(LakePlace.of(lake), TOPIC, options), LocalBackend(plan))
    engine.open()
    for step, queues in enumerate((2, 4, 12)):
        with penstock.connect(lake) as opened:
            opened.alter_topic(TOPIC, queues=queues)
        changes = [event("u", "t", {"id": key}, {"id": key, "seen": step}, at=step + 1) for key in range(24)]
        send(lake, changes[:3] if step == 1 else changes)  # most of the new queues have nothing yet
        assert engine.look()
        while engine.step() is not None:
            engine.look()
    engine.close()
    assert {row["id"]: row["seen"] for row in rows(into / "t")} == dict.fromkeys(range(24), 2)
