"""Reads of typed topics by tasks: rows of any version by the schema that the read was planned with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.consumers.ranges.task import ReadTask, read
from penstock.consumers.ranges.topic_view import TopicView
from penstock.coordinator.lakes import LakePlace, lakes
from penstock.log.errors import InvalidArgument, ReopenError
from penstock.log.filter.tags import TagFilter

SCHEMA = "id int not null, f float, d decimal(5,2), s struct<x: int not null, y: string>, tags array<string>"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[penstock.Lake]:
    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic("orders", queues=1, schema=SCHEMA)
        yield lake
    lakes.close()


def send(lake: penstock.Lake, *rows: dict[str, Any] | None, tag: str | None = None) -> None:
    with lake.producer("orders") as producer:
        for row in rows:
            producer.send(penstock.Message(None) if row is None else penstock.Message.of(row, tag=tag))


def planned(lake: penstock.Lake, *columns: str, rows: int = 0) -> ReadTask:
    """A task for the first rows, planned now."""
    view = TopicView(LakePlace.of(lake.url, read_only=True), "orders")
    life = view.refresh().life
    return ReadTask(
        place=LakePlace.of(lake.url, read_only=True),
        topic="orders",
        life=life,
        ranges={0: (0, rows)},
        columns=columns,
        planned=view.planned_schema(),
    )


def values(task: ReadTask) -> list[Any]:
    return pa.Table.from_batches(read(task))["value"].to_pylist()


def test_rows_have_the_planned_schema_and_no_field_must_be_there(lake: penstock.Lake) -> None:
    row = {"id": 1, "f": 0.5, "d": None, "s": {"x": 1, "y": "a"}, "tags": ["a"]}
    send(lake, row, None)
    task = planned(lake, "offset", "value", rows=2)
    (batch,) = read(task)
    assert batch.to_pylist() == [{"offset": 0, "value": row}, {"offset": 1, "value": None}]
    assert all(field.nullable for field in batch.schema.field("value").type)
    assert all(field.nullable for field in batch.schema.field("value").type.field("s").type)


def test_a_task_gives_the_fields_that_were_asked_for(lake: penstock.Lake) -> None:
    send(lake, {"id": 1, "s": {"x": 1}}, tag="a")
    send(lake, {"id": 2}, tag="b")
    task = replace(planned(lake, "value.s", "value.id", rows=2), keep=TagFilter.parse("b"))
    (batch,) = read(task)
    assert batch.to_pylist() == [{"value": {"id": 2, "s": None}}]
    with pytest.raises(InvalidArgument, match=r"there are no columns value\.idd"):
        next(read(planned(lake, "value.idd", rows=1)))


def test_rows_of_a_later_version_have_the_planned_names_and_types(lake: penstock.Lake) -> None:
    send(lake, {"id": 1, "f": 0.5, "d": 1, "tags": ["a"]})
    task = planned(lake, "value", rows=2)
    later = "id bigint, g double, d decimal(9,2), s struct<x: bigint, y: string, z: int>, new string"
    lake.evolve_topic("orders", later, rename={"f": "g"}, retire=["tags"])
    send(lake, {"id": 2, "g": 0.25, "d": 2, "s": {"x": 1, "z": 3}, "new": "b"})
    first, second = values(task)
    assert first == {"id": 1, "f": 0.5, "d": 1, "s": None, "tags": ["a"]}
    assert second == {"id": 2, "f": 0.25, "d": 2, "s": {"x": 1, "y": None}, "tags": None}
    (again,) = {len(one) for one in values(planned(lake, "value", rows=2))}
    assert again == 5, "a read that is planned now has the new schema"


@pytest.mark.parametrize("row", [{"id": 2**40}, {"id": 2, "f": 0.1}, {"id": 2, "f": 1e300}, {"id": 2, "d": 100_000}])
def test_a_value_that_the_planned_type_cannot_hold_is_told(lake: penstock.Lake, row: dict[str, Any]) -> None:
    task = planned(lake, "value", rows=1)
    lake.evolve_topic("orders", "id bigint, f double, d decimal(9,2), s struct<x: int not null, y: string>, tags array<string>")
    send(lake, row)
    with pytest.raises(ReopenError, match="a value does not fit the earlier type") as told:
        values(task)
    assert "load the DataFrame again; a stream is started again" in str(told.value)
    assert values(planned(lake, "value.tags", rows=1)) == [{"tags": None}]


def test_another_topic_of_the_name_is_not_read_by_the_schema_of_the_first(lake: penstock.Lake) -> None:
    before = planned(lake, "value", rows=1)
    lake.delete_topic("orders")
    lake.create_topic("orders", queues=1, schema="id string")
    send(lake, {"id": "1"})
    of_now = planned(lake, "value", rows=1)
    with pytest.raises(ReopenError, match="deleted and created again"):
        values(replace(of_now, planned=before.planned))
    assert values(of_now) == [{"id": "1"}]
