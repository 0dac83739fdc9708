"""Refusals of what a store or a table allowed before, as when credentials expire.

Such a refusal is `AccessRefused` for a while, tried again like an outage, then `AccessLost`. What was never allowed raises `PermissionDenied` at
once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

from ..errors import AccessLost, AccessRefused, PenstockError, PermissionDenied
from ..limits import REFUSAL_TIMEOUT
from ..runtime.runtime import Clock
from .protocol import Buffer, Conflict, ObjectMissing, ObjectStore, Put, PutMode, Version
from .wrapper import StoreCall, StoreWrapper

log = logging.getLogger("penstock.log")

T = TypeVar("T")

Right: TypeAlias = tuple[str, str]
_GIVEN: Final = re.compile(r"(?<![^/])\d+(?![^/.])|[0-9a-f]{8}[0-9a-f-]*")
"""Parts of a key that no policy names: numbers and drawn ids."""
_RIGHTS_MAX: Final = 10_000
"""Beyond it the least recently used right goes."""

RENEWED_EVERY_S: Final = 5.0
"""The time between two readings of refused credentials."""


@dataclass(slots=True)
class _Refused:
    since_s: float
    last_s: float


class Refusals:
    """The rights that a store or table allowed and refuses."""

    def __init__(self, place: str, clock: Clock, timeout: timedelta = REFUSAL_TIMEOUT) -> None:
        self._place = place
        self._clock = clock
        self._timeout_s = timeout.total_seconds()
        self._allowed: dict[Right, None] = {}
        self._refused: dict[Right, _Refused] = {}

    @property
    def refusing_s(self) -> float:
        """The seconds for which an allowed right has been refused, or 0. Thread-safe."""
        now_s = self._clock.monotonic_s()
        return max((now_s - one.since_s for one in list(self._refused.values()) if not self._is_over(one, now_s)), default=0.0)

    async def around(self, verb: str, key: str, run: Callable[[], Awaitable[T]]) -> T:
        """Raises `AccessRefused` or `AccessLost` for refusals of what was allowed before."""
        try:
            answer = await run()
        except PenstockError as error:
            meaning = self.heard(verb, key, error)
            if meaning is error:
                raise
            raise meaning from error
        self._allow(right_of(verb, key))
        return answer

    def heard(self, verb: str, key: str, answer: T | PenstockError) -> T | PenstockError:
        """What `around` returns or raises for this answer or error."""
        right = right_of(verb, key)
        if isinstance(answer, PenstockError):
            if isinstance(answer, PermissionDenied):
                return self._meaning(right, answer)
            if not isinstance(answer, Conflict | ObjectMissing):
                return answer
        if self._refused or right not in self._allowed:
            self._allow(right)
        return answer

    def _allow(self, right: Right) -> None:
        if right not in self._allowed:
            self._allowed[right] = None
            if len(self._allowed) > _RIGHTS_MAX:
                del self._allowed[next(iter(self._allowed))]
        if self._refused and self._refused.pop(right, None) is not None and not self._refused:
            log.warning("%s allows again what it refused", self._place)

    def _meaning(self, right: Right, error: PermissionDenied) -> PenstockError:
        now_s = self._clock.monotonic_s()
        self._refused = {one: refused for one, refused in self._refused.items() if not self._is_over(refused, now_s)}
        if right in self._allowed:
            if not self._refused:
                again = "%s refuses what it allowed before, which is tried again for %g s: %s"
                log.warning(again, self._place, self._timeout_s, error)
            refused = self._refused.setdefault(right, _Refused(now_s, now_s))
            refused.last_s, since_s = now_s, refused.since_s
        else:  # never allowed: it may well be the same refusal
            since = [refused.since_s for (verb, _), refused in self._refused.items() if verb == right[0]]
            if not since:
                return error
            since_s = min(since)
        kind = AccessRefused if now_s - since_s < self._timeout_s else AccessLost
        return kind(
            error.message,
            operation=error.operation,
            object=error.object,
            expected="what was allowed before",
            observed=f"refused for {now_s - since_s:.0f} s: {error.observed}",
            hint=likely_cause(error),
        )

    def _is_over(self, refused: _Refused, now_s: float) -> bool:
        """Another refusal is of another occasion: this one is too old."""
        return now_s - refused.last_s > self._timeout_s


def likely_cause(error: PermissionDenied) -> str:
    """What to look at when an allowed right is refused: what the store says of an expiry, or else both."""
    told = f"{error.message} {error.observed}".lower()
    cause = (
        "The credentials have expired: renew them"
        if "expired" in told
        else "A policy, role or mode was changed, or credentials expired: put it back, or renew them"
    )
    return cause if error.hint is None else f"{cause}. {error.hint}"


def right_of(verb: str, key: str) -> Right:
    folder, slash, name = key.rpartition("/")
    return verb, _without_given(folder) + slash + _GIVEN.sub("*", name)


@lru_cache(maxsize=1_024)  # a log's entries have one folder
def _without_given(folder: str) -> str:
    return _GIVEN.sub("*", folder)


class TolerantStore(StoreWrapper):
    """A store whose refusals of allowed rights are passing faults for a while."""

    def __init__(self, inner: ObjectStore, refusals: Refusals) -> None:
        super().__init__(inner)
        self.refusals = refusals

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        return await self._around(StoreCall("put", key, mode=mode), lambda: self._inner.put(key, data, mode=mode))

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        await self._around(StoreCall("put", key, mode=Put.REPLACE), lambda: self._inner.put_large(key, data))

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        return await self.refusals.around(call.verb, call.key, run)
