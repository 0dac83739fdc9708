"""The limits of a principal at one gateway process: calls a second, and connections."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from ...log.errors import BackPressureError
from ...log.runtime.runtime import Clock

QUIET_S: Final = 30.0
"""A connection without calls for this time is not counted: SDKs send a heartbeat each 10 s."""

THROTTLE_S_MAX: Final = 30.0
"""The longest wait before a call, whatever came before it."""


@dataclass(frozen=True, slots=True)
class PrincipalLimits:
    """The limits of each principal; None: none."""

    calls_per_s: float | None = None
    connections: int | None = None


@dataclass(slots=True)
class _Counted:
    tokens: float
    at_s: float
    peers: OrderedDict[str, float] = field(default_factory=OrderedDict)
    """Connections by their last call, the quietest first."""


class PrincipalLimiter:
    """Counts principals' calls, and refuses those beyond the limits."""

    def __init__(self, limits: PrincipalLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._counted: dict[str, _Counted] = {}

    def add_connection(self, principal: str, peer: str) -> None:
        """Count the connection of a call. Raises `BackPressureError` for one too many."""
        most = self._limits.connections
        if most is None:
            return
        now_s, peers = self._clock.monotonic_s(), self._of(principal).peers
        while peers and next(iter(peers.values())) < now_s - QUIET_S:
            peers.popitem(last=False)
        if peer not in peers and len(peers) >= most:
            raise BackPressureError(f"{principal} has {len(peers)} connections to this gateway, and may have {most}")
        peers[peer] = now_s
        peers.move_to_end(peer)

    def add_call(self, principal: str) -> None:
        """Raises `BackPressureError` when the principal calls too often."""
        rate = self._limits.calls_per_s
        if rate is None:
            return
        counted = self._refilled(principal, rate)
        if counted.tokens < 1:
            raise BackPressureError(f"{principal} may call this gateway {rate:g} times a second")
        counted.tokens -= 1

    def throttle_s(self, principal: str) -> float:
        """Count a call that is answered in any case. Returns the seconds for which the caller is to wait before its next one."""
        rate = self._limits.calls_per_s
        if rate is None:
            return 0.0
        counted = self._refilled(principal, rate)
        counted.tokens = max(counted.tokens - 1, -THROTTLE_S_MAX * rate)
        return max(0.0, -counted.tokens / rate)

    def _refilled(self, principal: str, rate: float) -> _Counted:
        now_s, counted = self._clock.monotonic_s(), self._of(principal)
        counted.tokens = min(max(rate, 1.0), counted.tokens + (now_s - counted.at_s) * rate)
        counted.at_s = now_s
        return counted

    def _of(self, principal: str) -> _Counted:
        known = self._counted.get(principal)
        if known is None:
            known = self._counted[principal] = _Counted(max(self._limits.calls_per_s or 0, 1.0), self._clock.monotonic_s())
        return known
