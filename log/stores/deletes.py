"""Deletes many objects, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from .protocol import ObjectStore

_DELETES_AT_ONCE = 16


async def delete_all(store: ObjectStore, keys: Iterable[str]) -> int:
    """Delete these objects in order, 16 side by side. Returns how many. An error is raised, and the objects after it stay."""
    waiting = list(keys)
    for start in range(0, len(waiting), _DELETES_AT_ONCE):
        await asyncio.gather(*(store.delete(key) for key in waiting[start : start + _DELETES_AT_ONCE]))
    return len(waiting)
