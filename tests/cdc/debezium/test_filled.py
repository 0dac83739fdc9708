"""Definitions that give rows values of a column, of which no event tells."""

from __future__ import annotations

import pytest

from tests.cdc.debezium.conftest import Capturing
from tests.cdc.debezium.judge import folded

pytestmark = [pytest.mark.mariadb, pytest.mark.slow]

ALTERED = (
    "ADD COLUMN d INT NOT NULL",
    "ADD d VARCHAR(9) DEFAULT 'x', ADD KEY (v)",
    "ADD COLUMN (d INT, e VARCHAR(9) DEFAULT 'y')",
    "RENAME COLUMN v TO w",
    "CHANGE v w VARCHAR(20), ADD d INT",
    "MODIFY n DECIMAL(6,1)",
    "ADD COLUMN d INT AS (id * 2) STORED",
    "ADD COLUMN d INT DEFAULT 5, RENAME TO renamed",
)


@pytest.mark.thorough
@pytest.mark.parametrize("running", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_values_that_a_definition_gave_rows_are_read(capture: Capturing, running: bool) -> None:
    tables = [f"t{number}" for number in range(len(ALTERED))]
    for table in tables:
        capture.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(8,3))")
        capture.run(f"INSERT INTO {table} VALUES (1, 'one', 1.234), (2, 'two', NULL)")
    capture()
    capture.run(*(f"ALTER TABLE {table} {altered}" for table, altered in zip(tables, ALTERED, strict=True)))
    if running:
        capture()
    tables[-1] = "renamed"
    capture.run(*(f"UPDATE {table} SET n = 7 WHERE id = 2" for table in tables))
    assert not [event for event in capture.events() if event.op == "t" and not event.table.endswith(("renamed", "t7"))], (
        "no row went"
    )
    output, found = capture(), folded(capture.events(), batches=3)
    for table in tables:
        columns = [row[0] for row in capture.server.ask(f"SHOW COLUMNS FROM {capture.database}.{table}")]
        selected = ", ".join(f"CAST({column} AS CHAR)" for column in columns)
        there = {*capture.server.ask(f"SELECT {selected} FROM {capture.database}.{table}")}
        told = found[f"{capture.database}.{table}"].values()
        assert {tuple(_text(row.get(column)) for column in columns) for row in told} == there, (table, output)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
