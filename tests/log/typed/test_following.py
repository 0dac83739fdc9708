"""Readers that follow a topic whose schema evolves: what comes has the fields of the version that is known by then, wherever it lies."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pyarrow as pa
import pytest

from penstock.log.errors import ViewLost
from penstock.log.read.merged_rows import MergedRows
from tests.log.typed.lakes import typed_lake


def test_a_reader_that_slept_until_the_log_was_trimmed_reads_new_fields_from_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[bool] = []
    read = MergedRows.log

    async def log(self: MergedRows, *where: Any) -> AsyncGenerator[pa.RecordBatch, None]:
        async for batch in read(self, *where):
            yield batch
            if trimmed and trimmed.pop():
                raise ViewLost("the log was trimmed")

    monkeypatch.setattr(MergedRows, "log", log)
    with typed_lake("id int, name string") as lake:
        lake.send({"id": 0, "name": "a"})
        rows = iter(lake.lake.reader("orders").read(follow=True))
        assert next(rows)["value"].to_pylist() == [{"id": 0, "name": "a"}]
        lake.lake.evolve_topic("orders", "id bigint, called string, note string", rename={"name": "called"})
        lake.send({"id": 1, "called": "b", "note": "n"})
        lake.upkeep()
        trimmed.append(True)
        assert next(rows)["value"].to_pylist() == [{"id": 1, "called": "b", "note": "n"}]
        lake.send({"id": 2, "called": "c", "note": "m"})
        assert next(rows)["value"].to_pylist() == [{"id": 2, "called": "c", "note": "m"}]
