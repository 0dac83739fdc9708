"""The server that tests get is one that a lake may trust."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pytest

from penstock.log.stores import open_store
from penstock.log.stores.protocol import Conflict, ObjectStore, Put
from penstock.testing import S3Server, s3_server

pytestmark = pytest.mark.s3


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns so often that whatever can be interrupted is."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        server.make_bucket("races")
        yield server


@pytest.mark.usefixtures("hasty")
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
            races = [await asyncio.gather(*(won(store, f"{race}", bytes([one])) for one in range(8))) for race in range(100)]
        finally:
            await store.close()
        return [sum(race) for race in races]

    assert asyncio.run(run()) == [1] * 100
