"""The progress of one named member of a broadcasting group: a separate cell for each topic."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from ...log.errors import FencedError
from ...log.format.stored_json import Number, Stored, parse_stored
from ...log.limits import QUEUES_MAX
from ...log.runtime.runtime import Runtime
from ..cells.cells import CellChanged, Cells
from ..cells.cells import Stored as StoredCell
from ..cells.keys import member_key
from .groups import check_life

_FORMAT = 1
_WRITE_S = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The stored progress."""

    session: str
    """The session that goes by the name now: the one that last opened it."""
    life: int
    """The entry that created the topic: a topic that was deleted and made again has another."""
    offsets: tuple[int, ...]
    """The next offset that the member is to get, for every queue."""


class MemberProgress:
    """The progress of a member on one topic, held by the process that last opened the name."""

    def __init__(self, cells: Cells, runtime: Runtime, key: str, progress: Progress, stored: StoredCell) -> None:
        self._cells = cells
        self._runtime = runtime
        self._key = key
        self._stored = stored
        self.progress = progress

    async def save(self, offsets: tuple[int, ...]) -> None:
        """Save the progress. Raises `FencedError` when another process goes by the name now, and what the table raises."""
        if offsets == self.progress.offsets:
            return
        progress = replace(self.progress, offsets=offsets)
        deadline_s = self._runtime.clock.monotonic_s() + _WRITE_S
        while True:
            try:
                self._stored = await self._cells.write(self._key, _encode(progress), on=self._stored, deadline_s=deadline_s)
                break
            except CellChanged as error:
                found = error.stored
                if found is None or _decode(found.data, self._key).session != progress.session:
                    raise FencedError(
                        "another process goes by this member's name",
                        operation="broadcast",
                        object=self._key,
                        hint="give every process of a broadcasting group a name of its own",
                    ) from error
                self._stored = found  # an earlier save, which got no answer
        self.progress = progress


async def open_progress(
    cells: Cells, runtime: Runtime, *, group: str, topic: str, member: str, life: int, start: tuple[int, ...]
) -> MemberProgress:
    """Take over a member's name on a topic. ``start`` is where a new member begins. The process that had the name before is fenced.

    Raises `TopicDeleted` when the member has begun on a later topic of the name.
    """
    key = member_key(group, topic, member)
    while True:
        found = await cells.read(key)
        before = _decode(found.data, key) if found is not None else None
        if before is not None:
            check_life(topic, known=before.life, life=life)
        offsets = before.offsets if before is not None and before.life == life else start
        progress = Progress(runtime.new_id(), life, offsets)
        deadline_s = runtime.clock.monotonic_s() + _WRITE_S
        try:
            stored = await cells.write(key, _encode(progress), on=found, deadline_s=deadline_s)
        except CellChanged:
            continue  # the former one saved, or another opens it at the same time
        return MemberProgress(cells, runtime, key, progress, stored)


async def read_progress(cells: Cells, key: str) -> Progress | None:
    """The progress of a member. None for a member that is gone. Raises `DataDamaged`."""
    found = await cells.read(key)
    return None if found is None else _decode(found.data, key)


def _encode(progress: Progress) -> bytes:
    document = {"format": _FORMAT, "session": progress.session, "life": progress.life, "offsets": progress.offsets}
    return json.dumps(document, separators=(",", ":")).encode()


class _Form(Stored, frozen=True):
    format: int
    session: str
    life: Number
    offsets: Annotated[tuple[Number, ...], Meta(max_length=QUEUES_MAX)]


def _decode(data: bytes, where: str) -> Progress:
    form = parse_stored(data, _Form, what="a member's progress", where=where)
    return Progress(form.session, form.life, form.offsets)
