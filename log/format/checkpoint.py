"""Checkpoints: folded states, from which a log is opened.

A checkpoint is a pure function of the entries up to its own: any process may write a missing one.
"""

from __future__ import annotations

import asyncio
import json

from ..errors import DataDamaged, PenstockError
from ..limits import CHECKPOINT_ENTRIES, FORMATS_OF_LOGS, MIB
from ..paths import TopicPaths
from ..stores.protocol import ObjectStore, Put
from .digest import digest
from .header import StateForm
from .state import TopicState, state_document, state_of
from .stored_json import damaged, parse_stored

_LARGE_BYTES = MIB


class _CheckpointForm(StateForm, frozen=True, kw_only=True):
    format: int
    digest: str


def is_due(entry: int, size_bytes: int) -> bool:
    """Whether this entry gets a checkpoint: each 64th, fewer where checkpoints are large."""
    return entry % (CHECKPOINT_ENTRIES * max(1, size_bytes // _LARGE_BYTES)) == 0


def encode_checkpoint(state: TopicState) -> bytes:
    body = json.dumps({"format": state.format, "digest": state.digest, **state_document(state)}, separators=(",", ":"))
    return f"{body}\n{digest(body.encode())}\n".encode()


def decode_checkpoint(data: bytes, *, where: str) -> TopicState:
    """Raises `DataDamaged`, also where the state is not what its digest names, or `NewerFormatError`."""
    body, _, check = data.partition(b"\n")
    if check != digest(body).encode() + b"\n":
        raise DataDamaged("the checkpoint is not what was written", object=where)
    form = parse_stored(body, _CheckpointForm, what="a checkpoint", where=where, formats=FORMATS_OF_LOGS)
    try:
        state = state_of(form)
    except ValueError as error:
        raise damaged("a checkpoint", error, where=where) from error
    if state.digest != form.digest:
        raise DataDamaged("the checkpoint's digest is wrong", object=where, expected=form.digest, observed=state.digest)
    return state


class CheckpointWriter:
    """Writes due checkpoints in the background. A failure does no harm."""

    def __init__(self, store: ObjectStore, paths: TopicPaths) -> None:
        self._store = store
        self._paths = paths
        self._tasks: set[asyncio.Task[None]] = set()

    def write_if_due(self, state: TopicState) -> None:
        if state.entry % CHECKPOINT_ENTRIES or not is_due(state.entry, len(encode_checkpoint(state))):
            return
        task = asyncio.ensure_future(self.write(state))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def write(self, state: TopicState) -> None:
        try:
            await self._store.put(self._paths.checkpoint(state.entry), encode_checkpoint(state), mode=Put.CREATE)
        except PenstockError:
            # The checkpoint exists, or the store is full, refuses or does not answer. Nothing depends on this one: the next process
            # that appends or opens tries again, and a lasting fault of the store ends the sends themselves.
            return

    async def finish(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
