"""One connection to PostgreSQL, used by one task."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import asyncpg

from ....log.runtime.runtime import Runtime
from .errors import FAILURES, is_rolled_back, keeps_connection, takes_no_writes, translate
from .place import InPostgres
from .statements import CHECK

Row: TypeAlias = Mapping[str, Any]
_IDLE_S = 60.0
"""The time after which an unused connection is closed. Firewalls forget idle ones without a word, and servers count them."""
_CLOSE_S = 1.0
_RETRY_MIN_S, _RETRY_MAX_S = 0.002, 0.05
_DIGEST_BYTES = 12
log = logging.getLogger("penstock.coordinator")


class Prepared(Protocol):
    """The used part of asyncpg's statements."""

    async def fetch(self, *values: object, timeout: float) -> Sequence[Row]: ...


class Connection(Protocol):
    """The used part of asyncpg's connections."""

    async def prepare(self, query: str, *, name: str, timeout: float) -> Prepared: ...

    async def close(self, *, timeout: float) -> None: ...

    def is_closed(self) -> bool: ...


Connect: TypeAlias = Callable[[str, float], Awaitable[Connection]]
"""Opens a connection to a DSN within so many seconds."""


async def connect(dsn: str, timeout_s: float) -> Connection:
    """Connect without asyncpg's own statement cache: its names repeat in other processes, and a pool may mix them up."""
    made: Connection = await asyncpg.connect(dsn, timeout=timeout_s, command_timeout=timeout_s, statement_cache_size=0)
    return made


class PostgresConnection:
    """Opened when needed, and anew after a doubt, an idle minute, or a server that takes no writes: then at the next of the URL's hosts.

    A statement without an answer is cancelled, as far as the server can be told.
    """

    def __init__(self, place: InPostgres, *, connect: Connect, runtime: Runtime) -> None:
        self._place = place
        self._connect = connect
        self._runtime = runtime
        self._host = 0
        self._open: Connection | None = None
        self._prepared: dict[str, Prepared] = {}
        self._used_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._warned = False

    async def fetch(self, operation: str, object: str, statement: str, *values: object) -> Sequence[Row]:
        """The rows of a statement, which is tried again where others' transactions undid it. Raises what `translate` gives, of asyncpg's error."""
        deadline_s = self._runtime.clock.monotonic_s() + self._place.timeout_s
        while True:
            try:
                return await self._rows(await self._opened(), statement, values)
            except FAILURES as error:
                if not keeps_connection(error):
                    self._retire()
                if not is_rolled_back(error) or self._runtime.clock.monotonic_s() > deadline_s:
                    raise translate(error, operation=operation, object=object) from error
            await asyncio.sleep(self._runtime.random.uniform(_RETRY_MIN_S, _RETRY_MAX_S))

    async def close(self) -> None:
        self._retire()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*self._retiring)

    async def _rows(self, opened: Connection, statement: str, values: Sequence[object] = ()) -> Sequence[Row]:
        prepared = self._prepared.get(statement)
        if prepared is None:
            name = hashlib.blake2b(statement.encode(), digest_size=_DIGEST_BYTES).hexdigest()
            prepared = await opened.prepare(statement, name=f"penstock_{name}", timeout=self._place.timeout_s)
            self._prepared[statement] = prepared
        rows = await prepared.fetch(*values, timeout=self._place.timeout_s)
        self._used_s = self._runtime.clock.monotonic_s()
        if rows and rows[0]["standby"]:
            raise takes_no_writes()
        return rows

    async def _opened(self) -> Connection:
        if self._open is not None:
            if not self._open.is_closed() and self._runtime.clock.monotonic_s() < self._used_s + _IDLE_S:
                return self._open
            self._retire()
        for left in reversed(range(len(self._place.hosts))):
            try:
                return await self._connected()
            except FAILURES:
                self._retire()
                self._host = (self._host + 1) % len(self._place.hosts)
                if not left:
                    raise
        raise AssertionError("a URL has a host")

    async def _connected(self) -> Connection:
        opened = self._open = await self._connect(self._place.dsn(self._host), self._place.timeout_s)
        (state,) = await self._rows(opened, CHECK)
        if not (state["durable"] or self._warned):
            self._warned = True
            log.warning(
                "the PostgreSQL server of %s runs with fsync or full_page_writes off: a power failure may lose what was settled",
                self._place.url,
            )
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_IDLE_S, self._close_unused)
        return opened

    def _close_unused(self) -> None:
        self._timer = None
        if self._open is None:
            return
        left_s = self._used_s + _IDLE_S - self._runtime.clock.monotonic_s()
        if left_s <= 0:
            self._retire()
        else:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._close_unused)

    def _retire(self) -> None:
        retired, self._open = self._open, None
        self._prepared.clear()
        if retired is not None and not retired.is_closed():
            closing = asyncio.ensure_future(_close(retired))
            self._retiring.add(closing)
            closing.add_done_callback(self._retiring.discard)


async def _close(connection: Connection) -> None:
    """Cancel what runs, and say goodbye; or cut the connection."""
    with suppress(*FAILURES):
        await connection.close(timeout=_CLOSE_S)
