"""A store that counts its requests, and what they would cost."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import TypeVar

from .protocol import PART_BYTES, ObjectStore
from .wrapper import StoreCall, StoreWrapper, received_bytes

T = TypeVar("T")

_LIST_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbStatistics:
    """Requests of one verb."""

    requests: int = 0
    """Requests as billed: one LIST per 1,000 keys, one per part of a multipart upload and two more."""
    failed: int = 0
    """Calls that raised, missing objects and refused conditions included."""
    bytes: int = 0
    """Bodies sent or received, without headers."""

    def __sub__(self, earlier: VerbStatistics) -> VerbStatistics:
        return VerbStatistics(**{f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatistics:
    """Requests to a store, by verb; one value can be subtracted from another."""

    put: VerbStatistics = field(default_factory=VerbStatistics)
    get: VerbStatistics = field(default_factory=VerbStatistics)
    list: VerbStatistics = field(default_factory=VerbStatistics)
    delete: VerbStatistics = field(default_factory=VerbStatistics)

    @property
    def requests(self) -> int:
        return self.put.requests + self.get.requests + self.list.requests + self.delete.requests

    @property
    def cost_usd(self) -> float:
        """S3 Standard's prices in us-east-1: PUT and LIST 0.005 USD a thousand, GET 0.0004, DELETE free."""
        return (self.put.requests + self.list.requests) * 0.005e-3 + self.get.requests * 0.0004e-3

    def __sub__(self, earlier: StoreStatistics) -> StoreStatistics:
        return StoreStatistics(**{f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)})


class CountingStore(StoreWrapper):
    """Counts another store's calls, without a backend's retries. Asking the clock counts as PUT, GET and DELETE."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self._counts = {f.name: [0, 0, 0] for f in fields(StoreStatistics)}
        """Requests, failed ones and bytes, by verb."""

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(
            **{
                verb: VerbStatistics(requests=requests, failed=failed, bytes=size)
                for verb, (requests, failed, size) in self._counts.items()
            }
        )

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await run()
        except BaseException:
            self._count(call, None, failed=1)
            raise
        self._count(call, answer, failed=0)
        return answer

    def _count(self, call: StoreCall, answer: object, *, failed: int) -> None:
        if call.verb == "clock":
            for verb in ("put", "get", "delete"):
                self._add(verb, 1, 0, failed)
            return
        requests = 1
        if call.verb == "put_large" and call.sent_bytes > PART_BYTES:
            requests = math.ceil(call.sent_bytes / PART_BYTES) + 2
        elif call.verb == "list" and isinstance(answer, list):
            requests = max(1, math.ceil(len(answer) / _LIST_PAGE))
        self._add("put" if call.verb == "put_large" else call.verb, requests, call.sent_bytes + received_bytes(answer), failed)

    def _add(self, verb: str, requests: int, size_bytes: int, failed: int) -> None:
        counts = self._counts[verb]
        counts[0] += requests
        counts[1] += failed
        counts[2] += size_bytes
