"""A consumer whose coordination table is a SQLite file that another process keeps locked."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import penstock
from penstock.coordinator import coordination
from tests.consumers.heard import Heard, consuming, fill, send
from tests.coordinator.tables.sqlite_files import locked
from tests.waiting import wait_until


def test_a_consumer_that_meets_a_locked_file_names_it_and_goes_on_when_the_lock_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordination, "LEASE_S", 1.5)
    caplog.set_level(logging.WARNING)
    heard = Heard()
    with penstock.connect(tmp_path, maintenance=False) as lake:
        fill(lake, "a")
        with consuming(lake, heard):
            heard.until_done(1)
            (file,) = tmp_path.rglob("*.db")
            with locked(file):
                send(lake, "a")
                wait_until(lambda: "lock" in caplog.text, "the lock told")
            heard.until_done(2)
    told = next(record.getMessage() for record in caplog.records if "lock" in record.getMessage())
    assert f"{file.as_uri().removeprefix('file')}; does another process hold the file's lock" in told
    assert "its queues go to others; it goes on under a new id" in told
