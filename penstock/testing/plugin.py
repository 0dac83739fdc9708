"""The pytest plugin: fixtures for lakes and a clock. pytest finds it by itself; it loads nothing until a test asks for a fixture."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.lake import Lake
    from penstock.testing import HandClock, S3Server

_BUCKETS = itertools.count(1)


@pytest.fixture
def penstock_clock() -> HandClock:
    """A clock that the test moves ahead; see `penstock.testing.HandClock`."""
    from penstock.testing import HandClock

    return HandClock()


@pytest.fixture
def penstock_memory_lake(penstock_clock: HandClock) -> Iterator[Lake]:
    """An empty lake in memory, whose time is ``penstock_clock``'s."""
    from penstock.testing import memory_lake

    with memory_lake(clock=penstock_clock) as lake:
        yield lake


@pytest.fixture
def penstock_local_lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake in a folder of its own, ``tmp_path / "lake"``, in real time."""
    from penstock.lake import connect

    with connect(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture(scope="session")
def penstock_s3_server() -> Iterator[S3Server]:
    """One moto server for the whole run; without moto the test is skipped."""
    from penstock.log.errors import MissingDependency
    from penstock.testing import s3_server

    try:
        running = s3_server()
        server = running.__enter__()
    except MissingDependency as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        running.__exit__(None, None, None)


@pytest.fixture
def penstock_s3_lake(penstock_s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """An empty lake in a fresh bucket. ``lake.url`` opens it again while the test runs, by the environment's server and credentials."""
    from penstock.lake import connect

    for name, value in penstock_s3_server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"penstock-test-{next(_BUCKETS)}"
    penstock_s3_server.make_bucket(bucket)
    with connect(penstock_s3_server.url(bucket)) as lake:
        yield lake
