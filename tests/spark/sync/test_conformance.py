"""What Debezium's connectors write, in each of their modes, applied by Spark: the targets are those that the engine without Spark makes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import SyncOptions, sync
from tests.cdc.modes import MODES
from tests.cdc.sync.streams import TOPIC, Row, rows, send
from tests.cdc.test_conformance import COMMON
from tests.cdc.test_conformance import CONNECTORS as ALL_CONNECTORS
from tests.thorough import thoroughly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTORS = thoroughly(ALL_CONNECTORS, {name: ALL_CONNECTORS[name] for name in ("postgresql", "mysql", "oracle")})
"""A few in `make test`, where `tests.cdc.test_conformance` folds what all of them write."""
FORMS = {
    "price": "decimal(12,2) from base64",
    "at": "timestamp from milliseconds",
    "precisely": "timestamp from nanoseconds",
    "photo": "binary from hex",
}


def lives() -> list[Row]:
    """Of a row that stays and one that goes, by each connector, in a table of its own."""
    told = []
    for connector, (said, _, _) in CONNECTORS.items():
        source = COMMON | {"connector": connector} | said | {"table": connector}
        one, later, other = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}, {"id": 2, "v": None}
        for op, before, after in (("r", None, one), ("c", None, other), ("u", one, later), ("d", other, None)):
            key = {"id": (after or before or {})["id"]}
            told.append({"key": key, "value": {"op": op, "before": before, "after": after, "source": source}})
    return told


def modes() -> tuple[Row, Row]:
    """One row with a column for each mode, and what it has to hold."""
    fields: list[Row] = [{"field": "id", "type": "int64"}]
    after: Row = {"id": 1}
    held: Row = {"id": 1}
    for number, (field, said, _, wanted) in enumerate(MODES.values()):
        fields.append({**field, "field": f"c{number}"})
        after[f"c{number}"], held[f"c{number}"] = said, wanted
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    payload = {"op": "c", "before": None, "after": after, "source": {"table": "modes"}}
    return {"key": {"id": 1}, "value": {"schema": schema, "payload": payload}}, held


def without_a_schema() -> tuple[Row, Row]:
    said = {"price": "1234", "at": 1_700_000_000_123, "precisely": 1_700_000_000_123_456_000, "photo": "00ff"}
    held = {
        "price": Decimal("-26588.24"),
        "at": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        "precisely": datetime(2023, 11, 14, 22, 13, 20, 123456, UTC),
        "photo": b"\x00\xff",
    }
    event = {"op": "c", "before": None, "after": {"id": 1, **said}, "source": {"table": "forms"}}
    return {"key": {"id": 1}, "value": event}, {"id": 1, **held}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, list[Row]]]:
    """A lake with one topic, and what its targets have to hold."""
    lake = str(tmp_path_factory.mktemp("told") / "lake")
    (mode, held), (form, read) = modes(), without_a_schema()
    send(lake, [*lives(), mode, form], queues=1)
    return lake, {**{connector: [{"id": 1, "v": "b"}] for connector in CONNECTORS}, "modes": [held], "forms": [read]}


def applied(spark: SparkSession | None, lake: str, into: Path) -> dict[str, list[Row]]:
    run = sync(lake, TOPIC, SyncOptions(into=into, name="spark" if spark else "plain", columns={"forms": FORMS}), spark=spark)
    assert run.await_termination()
    assert run.stopped == {}
    return {folder.name: rows(folder) for folder in into.iterdir()}


def test_without_spark(told: Any, tmp_path: Path) -> None:
    lake, wanted = told
    assert applied(None, lake, tmp_path / "targets") == wanted


@pytest.mark.spark
@pytest.mark.slow
def test_by_spark(spark: SparkSession, told: Any, tmp_path: Path) -> None:
    lake, wanted = told
    assert applied(spark, lake, tmp_path / "targets") == wanted
