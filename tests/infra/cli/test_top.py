"""`penstock top`: what two looks tell, and the command."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from penstock import Message, connect
from penstock.coordinator.operators.describe import QueueStanding
from penstock.coordinator.operators.lake_view import GroupSeen, QueueSeen
from penstock.infra.cli.lake.top_looks import Look, TopicSeen, documents, drawn
from penstock.infra.console import output
from tests.infra.cli.conftest import Penstock


def queue(number: int, following: int, lag: int, lag_ms: int | None = 0, parked: int = 0) -> QueueSeen:
    none = dict.fromkeys(
        ("epoch", "generation", "floor", "in_flight", "waiting", "blocked", "suspects", "dead_letters", "lost_letters"), 0
    )
    stood = QueueStanding(
        topic="orders", queue=number, owner="w/1", next_offset=following, lag=lag, lag_time=timedelta(), parked=parked, **none
    )
    return QueueSeen(stood, lag_ms)


def group(name: str, *queues: QueueSeen) -> GroupSeen:
    return GroupSeen(group=name, topic="orders", consumers=1, owned=1, dead_letters=0, queues=queues)


def look(at_s: float, stored: int, *groups: GroupSeen) -> Look:
    return Look(at_s=at_s, topics={"orders": TopicSeen(stored, stored)}, groups=groups, timers={})


BEFORE = look(100.0, 50, group("billing", queue(0, 25, 10), queue(1, 25, 20)), group("audit", queue(0, 50, 0)))
NOW = look(102.0, 70, group("audit", queue(0, 70, 0)), group("billing", queue(0, 35, 4, 90_500), queue(1, 35, 1, 250, parked=2)))


def test_rates_are_those_since_the_look_before() -> None:
    topic, first, second = documents(NOW, BEFORE)
    assert (topic["topic"], topic["messages"], topic["stored_per_s"]) == ("orders", 70, 10.0)
    assert (first["group"], first["lag"], first["lag_time_s"], first["parked"]) == ("billing", 5, 90.5, 2)
    assert first["settled_per_s"] == ((70 - 5) - (50 - 30)) / 2
    assert (second["group"], second["settled_per_s"]) == ("audit", 10.0)


def test_a_first_look_and_a_reset_have_no_rates() -> None:
    assert [one.get("stored_per_s", one.get("settled_per_s")) for one in documents(NOW, None)] == [None, None, None]
    assert [one.get("stored_per_s", one.get("settled_per_s")) for one in documents(BEFORE, NOW)] == [None, None, None]


def test_an_age_that_is_not_known_yet_is_none() -> None:
    _, one = documents(look(1.0, 3, group("billing", queue(0, 3, 3, None))), None)
    assert one["lag_time_s"] is None


def test_long_tables_are_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    many = Look(at_s=1.0, topics={f"t{n:03}": TopicSeen(n, n) for n in range(40)}, topics_left_out=2, timers={})
    for part in drawn(many, None):
        output.draw(part)
    told = capsys.readouterr().out
    assert "t029" in told
    assert "t030" not in told
    assert "… and 12 more topics" in told


def test_the_command_shows_a_lake(penstock: Penstock, lake: Path) -> None:
    with connect(lake, maintenance=False) as opened:
        opened.create_topic("orders", queues=2)
        opened.create_group("billing")
        with opened.producer("orders") as producer:
            producer.send_batch([Message(b"1"), Message(b"2"), Message(b"3")])
        opened.reset_offsets("billing", "orders", "earliest")
    first_topic, first_group, topic, billing = penstock("top", "--count", "2", "--interval", "100ms", "--json").rows
    assert (first_topic["messages"], first_topic["stored_per_s"], first_group["settled_per_s"]) == (3, None, None)
    assert (topic["stored_per_s"], billing["settled_per_s"]) == (0.0, 0.0)
    assert (billing["group"], billing["lag"], billing["queues"], billing["consumers"]) == ("billing", 3, 2, 0)
    told = penstock("top", "--count", "1").out
    assert "0 of 2" in told
    assert "--interval is at least 100ms." in penstock("top", "--interval", "1ms", code=2).err


def test_a_topic_that_cannot_be_read_is_named(penstock: Penstock, lake: Path) -> None:
    for name in ("orders", "broken"):
        penstock("topic", "create", name, "--queues", "1")
    for entry in (lake / "topics" / "broken" / "log").rglob("*"):
        if entry.is_file():
            entry.write_bytes(b"nonsense")
    assert "Could not be read: broken: " in penstock("top", "--count", "1").out
    assert [row.get("topic") for row in penstock("top", "--count", "1", "--json").rows] == ["orders", None]
