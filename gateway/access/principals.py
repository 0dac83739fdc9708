"""The principals of a lake as a gateway knows them: the record, read again within seconds while calls come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from typing import Final

from ...coordinator.access.record import AccessRecord, Principal, SealedSecret
from ...coordinator.access.sealing import SealingKeys, SecretNotOpened
from ...log.errors import PenstockError
from ...log.runtime.runtime import Clock

log = logging.getLogger("penstock.gateway.access")
audit_log = logging.getLogger("penstock.gateway.audit")

FRESH_S: Final = 3.0
"""A record of this age is read again beside a call."""
STALE_S: Final = 5.0
"""Calls wait for a younger record, so revocations are soon in force."""
KEEP_S: Final = 300.0
"""The use of an old record while the table does not answer."""


class PrincipalCache:
    """Reads the record for calls only."""

    def __init__(self, read: Callable[[], Awaitable[AccessRecord]], keys: SealingKeys, clock: Clock) -> None:
        self._read = read
        self._keys = keys
        self._clock = clock
        self._record = AccessRecord()
        self._read_s: float | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opened: dict[tuple[str, str], str] = {}
        self._unopened: set[tuple[str, str]] = set()
        self._failing = False

    async def record(self) -> AccessRecord:
        """The record, at most `STALE_S` old unless the table does not answer. Raises what the table raises."""
        age_s = self._age_s()
        if age_s > FRESH_S and self._reading is None:
            self._reading = asyncio.ensure_future(self._refresh())
            self._reading.add_done_callback(self._on_end)
        # While the table does not answer, calls do not wait for it until they must.
        if self._reading is not None and age_s > (KEEP_S if self._failing else STALE_S):
            await asyncio.shield(self._reading)
        return self._record

    def secrets(self, name: str, principal: Principal) -> Iterator[tuple[SealedSecret, str]]:
        """The valid secrets that the key file opens."""
        now_ms = self._clock.wall_ms()
        for sealed in principal.secrets:
            text = self._open(name, principal, sealed) if sealed.valid_at(now_ms) else None
            if text is not None:
                yield sealed, text

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _age_s(self) -> float:
        return float("inf") if self._read_s is None else self._clock.monotonic_s() - self._read_s

    def _on_end(self, reading: asyncio.Task[None]) -> None:
        self._reading = None
        if not reading.cancelled():
            reading.exception()  # whoever waits is told; the others go on by what is known

    async def _refresh(self) -> None:
        asked_s = self._clock.monotonic_s()
        try:
            record = await self._read()
        except PenstockError as error:
            if not self._failing:
                log.warning("the principals cannot be read; the gateway goes on by those that it knows: %s", error)
            self._failing = True
            if self._age_s() > KEEP_S:
                raise
            return
        if self._read_s is not None:
            _tell_changes(self._record, record)
        self._record, self._read_s, self._failing = record, asked_s, False
        kept = {(name, one.sealed) for name, principal in record.principals.items() for one in principal.secrets}
        self._opened = {key: text for key, text in self._opened.items() if key in kept}
        self._unopened &= kept

    def _open(self, name: str, principal: Principal, sealed: SealedSecret) -> str | None:
        key = (name, sealed.sealed)
        if key in self._unopened:
            return None
        if key not in self._opened:
            try:
                self._opened[key] = self._keys.open(sealed, name=name, id=principal.id)
            except SecretNotOpened as error:
                self._unopened.add(key)
                log.error("a principal's secret does not open, so its calls are refused: %s", error)  # noqa: TRY400
                return None
        return self._opened[key]


def _tell_changes(before: AccessRecord, after: AccessRecord) -> None:
    for change in after.history:
        if not before.has(change):
            audit_log.info("%s: access %s", change.by, change, extra={"fields": asdict(change)})
