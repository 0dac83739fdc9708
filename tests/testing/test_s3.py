"""The server that tests get is one that a lake may trust."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from moto.s3.models import S3Backend

from penstock.log.stores import open_store
from penstock.log.stores.protocol import Conflict, ObjectStore, Put
from penstock.testing import S3Server, s3_server

pytestmark = pytest.mark.s3


@pytest.fixture
def open_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between moto's look and its write all other threads have their turns, so that requests which do not wait for each other all win."""
    put = S3Backend.put_object

    def late(*given: Any, **named: Any) -> Any:
        for _ in range(50):
            os.sched_yield()
        return put(*given, **named)

    monkeypatch.setattr(S3Backend, "put_object", late)


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        server.make_bucket("races")
        yield server


@pytest.mark.usefixtures("open_window")
def test_of_racing_creates_one_wins(server: S3Server) -> None:
    async def won(store: ObjectStore, key: str, body: bytes) -> bool:
        try:
            await store.put(key, body, mode=Put.CREATE)
        except Conflict:
            return False
        return True

    async def run() -> list[int]:
        store = open_store(server.url("races"), options={"access_key_id": "any", "secret_access_key": "any"})
        try:
            races = [await asyncio.gather(*(won(store, f"{race}", bytes([one])) for one in range(8))) for race in range(10)]
        finally:
            await store.close()
        return [sum(race) for race in races]

    assert asyncio.run(run()) == [1] * 10
