"""What a store or a table refuses now, and allowed before: credentials expire and policies change, mostly for a moment.

Such a refusal is a passing fault (`AccessRefused`) for a while, which is tried again like an outage. Then it is `AccessLost`. What was
never allowed is refused at once, with `PermissionDenied`: the configuration is wrong, and nothing has begun.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from ..errors import AccessLost, AccessRefused, PenstockError, PermissionDenied
from ..limits import REFUSAL_TIMEOUT
from ..runtime.runtime import Clock
from .protocol import Buffer, Conflict, ObjectMissing, ObjectStore, Put, PutMode, Version
from .wrapper import Call, StoreWrapper

log = logging.getLogger("penstock.log")

T = TypeVar("T")

_FOLDERS = 3
"""The depth of the folders that a policy may name: a topic's log, say, or a kind of cells."""


class Refusals:
    """What one store or table allowed and refuses, by the right that it takes: a verb, and the folder that it is about."""

    def __init__(self, place: str, clock: Clock, timeout: timedelta = REFUSAL_TIMEOUT) -> None:
        self._place = place
        self._clock = clock
        self._timeout = timeout
        self._allowed: set[tuple[str, str]] = set()
        self._refused_since: dict[tuple[str, str], float] = {}

    @property
    def refusing_s(self) -> float:
        """How long the place has refused something that it allowed before; 0 when it refuses nothing."""
        return max((self._clock.monotonic_s() - since for since in self._refused_since.values()), default=0.0)

    async def around(self, verb: str, key: str, run: Callable[[], Awaitable[T]]) -> T:
        """Carry out a call. Raises `AccessRefused` or `AccessLost` in place of the refusal of what was allowed before."""
        right = verb, "/".join(key.split("/")[:-1][:_FOLDERS])
        try:
            answer = await run()
        except AccessLost:
            raise
        except PermissionDenied as error:
            raise self._meaning(right, error) from error
        except (Conflict, ObjectMissing):
            self._allow(right)
            raise
        self._allow(right)
        return answer

    def _allow(self, right: tuple[str, str]) -> None:
        self._allowed.add(right)
        if self._refused_since.pop(right, None) is not None and not self._refused_since:
            log.warning("%s allows again what it refused", self._place)

    def _meaning(self, right: tuple[str, str], error: PermissionDenied) -> PenstockError:
        now_s, verb = self._clock.monotonic_s(), right[0]
        if right in self._allowed:
            if not self._refused_since:
                again = "%s refuses what it allowed before, which is tried again for %s: %s"
                log.warning(again, self._place, self._timeout, error)
            since_s = self._refused_since.setdefault(right, now_s)
        else:  # never allowed: it may well be the same refusal
            since = [since for (refused, _), since in self._refused_since.items() if refused == verb]
            if not since:
                return error
            since_s = min(since)
        kind = AccessRefused if now_s - since_s < self._timeout.total_seconds() else AccessLost
        return kind(
            error.message,
            operation=error.operation,
            object=error.object,
            expected="what was allowed before",
            observed=f"refused for {now_s - since_s:.0f} s: {error.observed}",
            hint=error.hint,
        )


class ForgivingStore(StoreWrapper):
    """A store whose refusals of what it allowed before are passing faults for a while."""

    def __init__(self, inner: ObjectStore, refusals: Refusals) -> None:
        super().__init__(inner)
        self.refusals = refusals

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        return await self._around(Call("put", key, mode=mode), lambda: self._inner.put(key, data, mode=mode))

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        await self._around(Call("put", key, mode=Put.REPLACE), lambda: self._inner.put_large(key, data))

    async def _around(self, call: Call, run: Callable[[], Awaitable[T]]) -> T:
        return await self.refusals.around(call.verb, call.key, run)
