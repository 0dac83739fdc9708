"""The lakes that a process has open, each once, by its place.

    place = LakePlace.of("s3://bucket/lake")       # or a `penstock.Lake`; small, without secrets, travels to executors
    opened = lakes.open(place)                     # on the driver, and again inside a task
    topic = opened.run(lambda: opened.lake.topic("orders"))

Credentials come from each process's environment, or from its machine's role, and never travel with a job.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from ..log.errors import InvalidArgument
from ..log.lake import LogLake
from ..log.runtime.portal import Portal
from ..log.runtime.runtime import Runtime
from ..log.stores import open_store
from .coordination import Coordination, open_coordination
from .tables.open import table_place

T = TypeVar("T")


class HasUrl(Protocol):
    """An open lake, such as a `penstock.Lake`; only its place counts."""

    @property
    def url(self) -> str: ...


LakeLike: TypeAlias = str | os.PathLike[str] | HasUrl


@dataclass(frozen=True, slots=True)
class LakePlace:
    """The place of a lake, and whether it may be written to."""

    url: str
    coordination: str | None = None
    """The table of consumer groups, as in `penstock.connect`; None for the lake's default."""
    read_only: bool = False

    @classmethod
    def of(cls, lake: LakeLike, *, coordination: str | None = None, read_only: bool = False) -> LakePlace:
        """The place of a lake by URL or folder (made absolute), or of an open lake, whose coordination and read-only mode are the defaults. Raises
        `InvalidArgument`, also for a lake or coordination in memory.
        """
        if isinstance(lake, str | os.PathLike):
            url = os.fspath(lake)
        else:
            url = getattr(lake, "url", "")
            coordination = coordination or getattr(lake, "coordination_url", None)
            read_only = read_only or getattr(lake, "read_only", False)
        if not isinstance(url, str) or not url:
            raise InvalidArgument("not a lake", expected="a URL, a folder or a penstock.Lake", observed=repr(lake))
        for what, named in (("the lake", url), ("its coordination", coordination)):
            if named and urlsplit(named).scheme == "memory":
                raise InvalidArgument(
                    f"{what} is in the memory of one process, and Spark's executors are other processes",
                    object=named,
                    expected="a folder, file://, s3://, gs:// or az://"
                    if named == url
                    else "sqlite:///path, dynamodb://…, postgresql://… or store",
                )
        if "://" not in url:
            url = Path(url).expanduser().absolute().as_uri()
        table_place(coordination, url)  # raised now, not at the first use
        return cls(url, coordination, read_only)

    @property
    def as_read_only(self) -> LakePlace:
        return replace(self, read_only=True)


class OpenLake:
    """A lake open in this process, with an event loop in its own thread."""

    def __init__(self, place: LakePlace, runtime: Runtime | None = None) -> None:
        self.place = place
        self._portal = Portal()
        runtime = runtime or Runtime()
        store = open_store(place.url, runtime=runtime)
        self.lake = LogLake(store, runtime=runtime, read_only=place.read_only)
        self._coordination: Coordination | None = None

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work()`` on the lake's event loop and wait. Raises its error, and `ClosedError` after `close`."""
        return self._portal.run(work)

    async def coordination(self) -> Coordination:
        """The table of consumer groups, opened on first use; for use inside `run`. A read-only lake has it too."""
        if self._coordination is None:
            label = f"spark {socket.gethostname()}/{os.getpid()}"
            at, lake = self.place.coordination, self.lake
            self._coordination = open_coordination(
                at, store=lake.store, runtime=lake.runtime, label=label, read_only=self.place.read_only
            )
        return self._coordination

    @property
    def usable(self) -> bool:
        """Whether the lake is open, in the process that opened it."""
        return not self._portal.stopped and not self._portal.forked

    def close(self) -> None:
        """Release everything. Does nothing when closed, and in a forked child."""
        if not self.usable:
            return
        try:
            self.run(self._close)
        finally:
            self._portal.stop()

    async def _close(self) -> None:
        try:
            if self._coordination is not None:
                await self._coordination.close()
        finally:
            await self.lake.close()


class OpenLakes:
    """The open lakes, one for each place. Safe from any thread; a forked child begins with none.

    Spark's workers end without notice, so nothing here may wait for being closed: release leases after use.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[LakePlace, OpenLake] = {}
        os.register_at_fork(after_in_child=self._forget)

    def open(self, place: LakePlace) -> OpenLake:
        """The lake at ``place``, shared by all callers, who should not close it."""
        with self._lock:
            opened = self._open.get(place)
            if opened is None or not opened.usable:
                opened = self._open[place] = OpenLake(place)
            return opened

    def close(self) -> None:
        """Close all lakes, then raise the first error."""
        with self._lock:
            opened, self._open = list(self._open.values()), {}
        errors: list[Exception] = []
        for one in opened:
            try:
                one.close()
            except Exception as error:  # noqa: BLE001 - the others are closed all the same
                errors.append(error)
        if errors:
            raise errors[0]

    def _forget(self) -> None:
        self._lock = threading.Lock()  # the holder's thread does not exist here
        self._open = {}


lakes = OpenLakes()
