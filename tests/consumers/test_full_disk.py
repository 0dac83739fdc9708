"""A consumer whose coordination database, or whose group, has no room for a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.coordinator.registry import groups
from penstock.coordinator.tables.sqlite import SqliteTable
from penstock.log.errors import NO_ROOM, StorageFull
from tests.consumers.heard import Heard, consuming, fill, send
from tests.waiting import wait_until


def test_a_consumer_goes_on_when_there_is_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, refused, heard, put = False, 0, Heard(), SqliteTable.put

    async def refusing(self: SqliteTable, key: str, data: bytes, **options: Any) -> Any:
        nonlocal refused
        if full:
            refused += 1
            raise StorageFull(NO_ROOM, operation="put", object=key)
        return await put(self, key, data, **options)

    monkeypatch.setattr(SqliteTable, "put", refusing)
    with penstock.connect(tmp_path, maintenance=False) as lake:
        fill(lake, "a")
        with consuming(lake, heard):
            heard.until_done(1)
            full = True
            send(lake, "a")
            wait_until(lambda: refused > 3, "writes were refused")
            full = False
            heard.until_done(2)


def test_a_consumer_that_its_group_has_no_room_for_waits_and_takes_part_once_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    with penstock.connect(tmp_path, maintenance=False) as lake:
        fill(lake, "a")
        with consuming(lake, heard):
            heard.until_done(1)
        monkeypatch.setattr(groups, "CELL_STORED_BYTES_MAX", 100)
        with consuming(lake, heard):
            wait_until(lambda: caplog.text.count("too many members") > 1, "it found no room, and tried again")
            send(lake, "a")
            monkeypatch.undo()
            heard.until_done(2)
