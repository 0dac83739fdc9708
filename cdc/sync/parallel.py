"""Work on several things at once, by threads that end before their caller goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def run_in_parallel(work: Callable[[T], R], items: Sequence[T], at_once: int) -> list[R]:
    """The results for all items, in their order; at most ``at_once`` are under way.

    After an error no item begins. Those under way are waited for, since no write may outlast the call. The first item's error
    is raised.
    """
    if min(at_once, len(items)) <= 1:
        return [work(item) for item in items]
    failed = Event()

    def guarded(item: T) -> list[R]:
        if failed.is_set():
            return []
        try:
            return [work(item)]
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(min(at_once, len(items)), thread_name_prefix="penstock-sync-merge") as threads:
        done = [threads.submit(guarded, item) for item in items]
    error = next((found for one in done if (found := one.exception()) is not None), None)
    if error is not None:
        raise error
    return [result for one in done for result in one.result()]
