"""The progress of one named member of a broadcasting group: a cell for each topic."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from ...log.errors import FencedError
from ...log.format.stored_json import Number, StoredForm, parse_stored
from ...log.limits import QUEUES_MAX
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from ..cells.document import LONG_WRITE_S, Codec, Document
from ..cells.keys import member_key
from .groups import check_life

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class BroadcastProgress:
    """A member's stored progress on one topic."""

    session: str
    """The session that last opened the name."""
    life: int
    """The entry that created the topic."""
    offsets: tuple[int, ...]
    """The next offset by queue, of the queues that the member has seen."""

    def of(self, queue: int) -> int:
        return self.offsets[queue] if queue < len(self.offsets) else 0


class MemberProgress:
    """A member's progress on one topic, held by the process that last opened the name."""

    def __init__(self, document: Document[BroadcastProgress]) -> None:
        self._document = document
        self.progress = document.value

    async def save(self, offsets: tuple[int, ...]) -> None:
        """Raises `FencedError` after another opening of the name, and what the table raises."""
        if offsets == self.progress.offsets:
            return

        def saved(found: BroadcastProgress) -> BroadcastProgress:
            if found.session != self.progress.session:
                raise FencedError(
                    "another process goes by this member's name",
                    operation="broadcast",
                    object=self._document.key,
                    hint="give every process of a broadcasting group a name of its own",
                )
            return replace(self.progress, offsets=offsets)

        self.progress = await self._document.change_known(saved)


async def open_progress(
    cells: Cells, runtime: Runtime, *, group: str, topic: str, member: str, life: int, start: tuple[int, ...]
) -> MemberProgress:
    """Take over a member's name on a topic, and fence its former process. A new member begins at ``start``. Raises `TopicDeleted` when the member has
    begun on a later topic.
    """
    key = member_key(group, topic, member)
    document = Document(cells, runtime.clock, key, _PROGRESS, absent=_NOBODY, write_s=LONG_WRITE_S)

    def opened(before: BroadcastProgress) -> BroadcastProgress:
        check_life(topic, known=before.life, life=life)
        return BroadcastProgress(runtime.new_id(), life, before.offsets if before.life == life else start)

    await document.change(opened)
    return MemberProgress(document)


async def read_progress(cells: Cells, key: str) -> BroadcastProgress | None:
    """None for a missing member. Raises `DataDamaged`."""
    found = await cells.read(key)
    return None if found is None else _decode(found.data, where=key)


def _encode(progress: BroadcastProgress) -> bytes:
    document = {"format": _FORMAT, "session": progress.session, "life": progress.life, "offsets": progress.offsets}
    return json.dumps(document, separators=(",", ":")).encode()


class _Form(StoredForm, frozen=True):
    format: int
    session: str
    life: Number
    offsets: Annotated[tuple[Number, ...], Meta(max_length=QUEUES_MAX)]


def _decode(data: bytes, *, where: str) -> BroadcastProgress:
    form = parse_stored(data, _Form, what="a member's progress", where=where)
    return BroadcastProgress(form.session, form.life, form.offsets)


_PROGRESS = Codec(_encode, _decode)
_NOBODY = BroadcastProgress(session="", life=-1, offsets=())
