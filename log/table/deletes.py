"""Deleting many objects, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ..stores.protocol import ObjectStore

_DELETES_AT_ONCE = 16


async def delete_all(store: ObjectStore, keys: Iterable[str]) -> int:
    """Delete these objects, in this order but for 16 side by side; returns how many. What fails is raised, what follows it stays."""
    waiting = list(keys)
    for start in range(0, len(waiting), _DELETES_AT_ONCE):
        await asyncio.gather(*(store.delete(key) for key in waiting[start : start + _DELETES_AT_ONCE]))
    return len(waiting)
