"""The stores that the contract is checked on."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import (
    CountingStore,
    FaultStore,
    Latency,
    LatencyProfile,
    LatencyStore,
    MemoryStore,
    ObjectStore,
    open_store,
    scripted_faults,
)
from tests.servers import VERSITYGW, S3Server
from tests.thorough import unless_built

QUICK = LatencyProfile(
    put=Latency(0.02, 0.05),
    get=Latency(0.02, 0.05),
    list=Latency(0.02, 0.05),
    delete=Latency(0.02, 0.05),
    throughput_bytes_per_s=1e10,
)


@dataclass(frozen=True)
class Place:
    """Somewhere to keep objects, empty at the start of a test; another process can open it by the same two values."""

    url: str
    options: dict[str, str]

    def open(self) -> ObjectStore:
        return open_store(self.url, options=self.options)


@dataclass(frozen=True)
class MemoryPlace(Place):
    """A store in memory, the same one for every thread that opens it."""

    store: ObjectStore = field(default_factory=MemoryStore)

    def open(self) -> ObjectStore:
        return self.store


_numbers = itertools.count()


def s3_place(server: S3Server) -> Place:
    return Place(server.url(f"tests/{next(_numbers)}"), server.credentials)


ON_VERSITYGW = pytest.param("versitygw", marks=[pytest.mark.s3, pytest.mark.versitygw])
S3_BACKENDS = [pytest.param("moto", marks=pytest.mark.s3), ON_VERSITYGW]


@pytest.fixture(params=["local", pytest.param("moto", marks=[pytest.mark.s3, *unless_built(VERSITYGW)]), ON_VERSITYGW])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place that several clients, threads and processes can use."""
    if request.param == "local":
        return Place(str(tmp_path / "lake"), {})
    return s3_place(request.getfixturevalue(request.param))


WRAPPERS: dict[str, Callable[[ObjectStore], ObjectStore]] = {
    "memory": lambda inner: inner,
    "latency": lambda inner: LatencyStore(inner, profile=QUICK, runtime=Runtime(random=random.Random(1))),
    "counting": CountingStore,
    "faults": lambda inner: FaultStore(inner, scripted_faults({})),
}


@pytest.fixture(params=[*WRAPPERS, "local", *S3_BACKENDS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of every kind."""
    if request.param in WRAPPERS:
        return WRAPPERS[request.param](MemoryStore())
    if request.param == "local":
        return open_store(tmp_path / "lake")
    return s3_place(request.getfixturevalue(request.param)).open()
