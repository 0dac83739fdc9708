"""A store that answers as slowly as a real one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from ..runtime.runtime import Runtime
from .protocol import ObjectStore
from .wrapper import StoreCall, StoreWrapper, received_bytes

T = TypeVar("T")

_P99 = 2.326347874


@dataclass(frozen=True, slots=True)
class Latency:
    """A lognormal distribution by two percentiles."""

    p50_ms: float
    p99_ms: float

    def sample_s(self, runtime: Runtime) -> float:
        sigma = math.log(self.p99_ms / self.p50_ms) / _P99
        return runtime.random.lognormvariate(math.log(self.p50_ms), sigma) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyProfile:
    """A service's latencies."""

    put: Latency
    get: Latency
    list: Latency
    delete: Latency
    throughput_bytes_per_s: float
    """The throughput of each connection."""


S3_STANDARD = LatencyProfile(
    put=Latency(28, 75),
    get=Latency(25, 85),
    list=Latency(25, 60),
    delete=Latency(28, 75),
    throughput_bytes_per_s=80e6,
)
"""Published measurements from within the region."""


class LatencyStore(StoreWrapper):
    """Adds ``profile`` to another store; a call takes effect in the middle of its time."""

    def __init__(self, inner: ObjectStore, *, profile: LatencyProfile = S3_STANDARD, runtime: Runtime | None = None) -> None:
        super().__init__(inner)
        self._profile = profile
        self._runtime = runtime or Runtime()

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        latency_s = self._latency(call).sample_s(self._runtime)
        received = 0
        await asyncio.sleep(latency_s / 2 + call.sent_bytes / self._profile.throughput_bytes_per_s)
        try:
            answer = await run()
            received = received_bytes(answer)
        finally:
            await asyncio.sleep(latency_s / 2 + received / self._profile.throughput_bytes_per_s)
        return answer

    def _latency(self, call: StoreCall) -> Latency:
        match call.verb:
            case "get":
                return self._profile.get
            case "list":
                return self._profile.list
            case "delete":
                return self._profile.delete
            case _:
                return self._profile.put
