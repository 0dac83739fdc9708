"""Queries that wait for other sessions, perhaps forever: the log names those sessions, and a stop ends the query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import load_psycopg

if TYPE_CHECKING:
    from psycopg import Connection

log = logging.getLogger("penstock.cdc")

_LOG_WAITS_S = 10.0
_CANCEL_S = 5.0
T = TypeVar("T")


class StopRequested(Exception):
    """A query was ended by the capture's stop."""


class QueryWatch:
    """Watches long queries."""

    def __init__(self, now_s: Callable[[], float], blockers: Callable[[int], list[str]]) -> None:
        """``blockers``: the transactions that block a session, by its pid, for people."""
        self._now_s, self._blockers = now_s, blockers
        self._logged_s = 0.0
        self.stopped: Callable[[], bool] = lambda: False
        self.doing = "the database is asked"

    def begin(self) -> None:
        self._logged_s = self._now_s()

    def look(self, pid: int) -> None:
        if self.stopped():
            raise StopRequested
        if (now_s := self._now_s()) - self._logged_s < _LOG_WAITS_S:
            return
        self._logged_s = now_s
        if blockers := self._blockers(pid):
            log.warning("%s once these transactions have ended: %s", self.doing, "; ".join(blockers[:10]))


def watched(watch: QueryWatch) -> type[Connection[Any]]:
    psycopg = load_psycopg()

    class WatchedConnection(psycopg.Connection):  # type: ignore[misc, name-defined]
        def wait(self, gen: Generator[Any, Any, T], *args: Any, **settings: Any) -> T:  # noqa: ANN401 - psycopg's
            watch.begin()
            try:
                answer: T = super().wait(_looking(gen, lambda: watch.look(self.info.backend_pid)), *args, **settings)
            except StopRequested:
                self.cancel_safe(timeout=_CANCEL_S)
                self.close()
                raise
            return answer

    made: type[Connection[Any]] = WatchedConnection
    return made


def _looking(gen: Generator[Any, Any, T], look: Callable[[], None]) -> Generator[Any, Any, T]:
    """The same waits of psycopg's, with a look after each fruitless one."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready:
                look()
            wanted = gen.send(ready)
    except StopIteration as ended:
        found: T = ended.value
        return found
