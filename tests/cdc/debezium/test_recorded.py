"""What Debezium's engine told of a real MySQL, recorded (`tests.cdc.debezium.recording`): each change once, however often a life ends."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock import aio
from penstock.cdc.capture.records import ConnectSchemas
from penstock.cdc.debezium.configuration import MYSQL
from penstock.cdc.debezium.engine import RecordBatch
from penstock.cdc.debezium.follower import EngineFollower
from penstock.cdc.debezium.history import SchemaHistory
from penstock.cdc.debezium.positions import between, file_number
from penstock.cdc.debezium.state import EngineState, EngineStateStore
from penstock.log import InternalError, MessageType, TopicSettings
from penstock.log.produce.producer import Producer
from penstock.log.runtime.portal import Portal
from tests.cdc.debezium.judge import check_stream, comparable, events_of, folded
from tests.cdc.debezium.silence import effects_of, following
from tests.thorough import thoroughly

RECORDED = Path(__file__).parent / "recorded" / "mysql-9.7.jsonl.gz"
Place = tuple[int, int]


class Killed(BaseException):
    """The end of a process."""


def place_of(said: Mapping[str, Any]) -> Place:
    return file_number(said["file"]), said["pos"]


class RecordedEngine:
    """As the engine, from the beginning of the transaction at a place in the log on."""

    failure, said, ended = None, None, False

    def __init__(self, lines: list[dict[str, Any]], start: Place) -> None:
        self.schemas: dict[str, ConnectSchemas] = {}
        for line in lines:
            for name, (key, value) in line["schemas"].items():
                self.schemas[name] = ConnectSchemas(key.encode(), value.encode())
        self._batches = self._from(lines, start)
        self.told = False

    @staticmethod
    def _from(lines: list[dict[str, Any]], start: Place) -> Iterator[RecordBatch]:
        for line in lines:
            those = zip(line["keys"], line["values"], line["of"], strict=True)
            kept = [one for one in those if "source" not in (said := json.loads(one[1])) or place_of(said["source"]) >= start]
            if kept and place_of(line["offset"]) >= start:
                keys, values, names = zip(*kept, strict=True)
                yield RecordBatch([key.encode() for key in keys], [value.encode() for value in values], [*names], line["offset"])

    def next(self, timeout_s: float) -> RecordBatch | None:
        batch = next(self._batches, None)
        self.told = batch is None
        return batch

    def give_back(self) -> None:
        """It has no memory of its own."""

    def metric(self, domain: str, context: str, name: str) -> bool:
        return True


class Recorded:
    """The recording, and a topic that it goes into, life after life."""

    def __init__(self, folder: Path, portal: Portal) -> None:
        with gzip.open(RECORDED, "rt") as file:
            first, *self.lines = map(json.loads, file)
        self.rows: dict[str, list[Any]] = first["rows"]
        self._portal, self.lake = portal, str(folder / "lake")
        self._history = folder / "history"
        self._history.write_bytes(b"{}\n")
        self.duplicates = 0

    def life(self, dies_at: int | None) -> bool:
        """Follow what is recorded, and die when so many points were reached. Returns whether all of it was told."""
        lake = self._portal.run(self._opened)
        try:
            states = EngineStateStore(lake.store, self._portal.run, topic="changes", name="shop")
            state = states.load() or EngineState(
                "life", "mysql", "7 uid", json.dumps({"file": "binlog.000001", "pos": 4}), history=1
            )
            states.save(state)
            engine = RecordedEngine(self.lines, place_of(json.loads(state.offset or "")))
            left = iter(range(dies_at)) if dies_at is not None else iter(int, 1)

            def reached(point: str) -> None:
                if next(left, None) is None:
                    raise Killed

            producer = self._portal.run(lambda: lake.producer("changes", name="debezium/shop"))
            follower = self._follower(engine, producer, states, lake, reached)
            try:
                follower.run(state, lambda: engine.told, until=None, ended=lambda: InternalError("it ended"))
            except Killed:
                return False
            return True
        finally:
            self._portal.run(lake.close)

    def forget_place(self) -> None:
        """Have the next life begin where the first one did."""
        (state,) = Path(self.lake).glob("captures/*/debezium/shop/state")
        state.unlink()

    async def _opened(self) -> aio.Lake:
        lake = aio.connect(self.lake)
        if "changes" not in await lake.topics():
            await lake.create_topic("changes", TopicSettings(message_type=MessageType.FIFO), table=False)
        return lake

    def _follower(
        self, engine: RecordedEngine, producer: Producer, states: EngineStateStore, lake: aio.Lake, reached: Any
    ) -> EngineFollower:
        def count(*, events: int, duplicates: int, position: str | None) -> None:
            self.duplicates += duplicates

        return EngineFollower(
            engine,  # type: ignore[arg-type]
            effects_of(),
            MYSQL,
            SchemaHistory(self._history, states, 1),
            whole_from=between("binlog.000001", 4, 0),
            where="recorded",
            **{**following(producer, states, lake.runtime.clock, reached), "on_progress": count},
        )


@pytest.fixture
def recorded(tmp_path: Path, portal: Portal, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr("penstock.cdc.capture.follower.SAVE_S", 0.0)
    return Recorded(tmp_path, portal)


@pytest.mark.parametrize("seed", thoroughly(range(20), range(2)))
def test_a_recorded_mysql_is_there_once_and_in_order_whenever_a_life_ends(recorded: Recorded, seed: int) -> None:
    chance = random.Random(seed)
    lives = 1
    while not recorded.life(chance.randrange(1, 30)):
        lives += 1
    events = events_of(recorded.lake, "changes")
    check_stream(events)
    found = json.loads(
        json.dumps(
            {
                table: [[[*key], row] for key, row in sorted(rows.items())]
                for table, rows in comparable(folded(events, batches=3)).items()
            },
            default=str,
        )
    )
    assert found == recorded.rows
    assert lives > 2


def test_what_is_told_again_from_the_beginning_adds_nothing(recorded: Recorded) -> None:
    assert recorded.life(None)
    events = events_of(recorded.lake, "changes")
    recorded.forget_place()
    assert recorded.life(None)
    assert events_of(recorded.lake, "changes") == events
    assert recorded.duplicates == len(events)
