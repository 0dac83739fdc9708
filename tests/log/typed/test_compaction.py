"""Compaction of typed topics."""

from __future__ import annotations

import random
import weakref
from typing import Any

import pytest

from penstock.log.limits import KIB
from penstock.log.table import compactor
from penstock.log.table.delta import segment_reader
from tests.log.typed.lakes import typed_lake

_FILE_BYTES, _FILES = 100 * KIB, 6


def test_files_that_are_merged_are_not_all_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    open_now: weakref.WeakSet[Spans] = weakref.WeakSet()
    most = 0

    class Spans(segment_reader._Spans):
        def add(self, start: int, data: bytes) -> None:
            nonlocal most
            super().add(start, data)
            open_now.add(self)
            most = max(most, sum(len(data) for one in open_now for data in one._spans.values()))

    chance = random.Random(7)
    with typed_lake("id int, raw binary") as lake:
        rows: list[Any] = [{"id": number, "raw": chance.randbytes(_FILE_BYTES)} for number in range(_FILES)]
        for row in rows[:-1]:
            lake.send(row)
            lake.publish()
        lake.send(rows[-1])
        monkeypatch.setattr(segment_reader, "_Spans", Spans)
        monkeypatch.setattr(compactor, "WHOLE_FILE_BYTES", 2 * _FILE_BYTES)
        lake.compact()
        monkeypatch.undo()
        assert lake.values() == rows
    # The guess at each footer brings 32 KiB of its file.
    assert most <= 2 * _FILE_BYTES + _FILES * 33 * KIB
