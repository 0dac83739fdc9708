"""A batch of a few messages as Python's values: to build Arrow's columns of so few costs more than all else of their append."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from .batch_rows import BatchQueues, BatchRows, MessageIds, columns_of_messages
from .message import RARE, Message, labels_bytes
from .routing import Router

FEW_ROWS: Final = 32
FEW_BYTES: Final = 4 * 1024
"""The most bytes of bodies, groups and labels. Of more, rows are packed, for which Arrow is needed."""
_ROW_BYTES: Final = 64


@dataclass(frozen=True, eq=False)
class FewQueues:
    """`BatchQueues` of a few messages."""

    queues: Sequence[int]

    @cached_property
    def rows(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for queue in sorted(self.queues):
            counts[queue] = counts.get(queue, 0) + 1
        return counts

    @cached_property
    def order(self) -> Sequence[int]:
        return sorted(range(len(self.queues)), key=self.queues.__getitem__)

    @cached_property
    def ranks(self) -> Sequence[int]:
        return [self.queues[:index].count(queue) for index, queue in enumerate(self.queues)]


@dataclass(frozen=True, eq=False)
class FewRows:
    """What `BatchRows` is, for a few messages without delivery time."""

    bodies: Sequence[bytes | None]
    groups: Sequence[str | None]
    labelled: Mapping[int, Message]
    places: FewQueues
    born_us: Sequence[int]
    ids: MessageIds
    producer: str
    chosen: Sequence[int]
    """The messages whose queue the sender named."""

    @property
    def count(self) -> int:
        return len(self.bodies)

    @cached_property
    def size_bytes(self) -> int:
        fixed = self.count * (_ROW_BYTES + len(self.producer))
        groups = sum([len(group) for group in self.groups if group is not None])
        return fixed + groups + sum(map(len, filter(None, self.bodies))) + sum(map(labels_bytes, self.labelled.values()))

    @cached_property
    def rare(self) -> tuple[str, ...]:
        """The columns of `RARE` with a value in some row."""
        labelled = self.labelled.values()
        found = (any(one.key is not None for one in labelled), any(one.headers for one in labelled))
        return tuple(name for name, is_there in zip(RARE, found, strict=True) if is_there)

    @property
    def is_extended(self) -> bool:
        return bool(self.rare) or None in self.bodies

    @property
    def columns(self) -> Mapping[str, pa.Array]:
        return self.as_arrow.columns

    @cached_property
    def as_arrow(self) -> BatchRows:
        groups = pa.array(self.groups, pa.string())
        columns = columns_of_messages(self.bodies, groups, self.labelled, np.asarray(self.born_us, np.int64))
        chosen = np.isin(np.arange(self.count), self.chosen) if self.chosen else None
        queues = BatchQueues(np.asarray(self.places.queues, np.int32))
        return BatchRows(columns, queues, self.ids, self.producer, chosen)

    @property
    def table(self) -> pa.Table:
        return self.as_arrow.table

    @property
    def inline(self) -> InlineRows:
        return self

    def routed_anew(self, router: Router) -> BatchRows:
        return self.as_arrow.routed_anew(router)


def few_rows(
    bodies: Sequence[bytes | None],
    groups: Sequence[str | None],
    labelled: Mapping[int, Message],
    queues: Mapping[int, int],
    born_us: Sequence[int],
    router: Router,
    *,
    producer: str,
    ids: MessageIds,
) -> FewRows | None:
    """What `rows_of_messages` makes of these. None: some have a delivery time."""
    if any(one.delivery_timestamp is not None or one.delay is not None for one in labelled.values()):
        return None
    routed = router.route_few(groups)
    for index, queue in queues.items():
        routed[index] = queue
    return FewRows(bodies, groups, labelled, FewQueues(routed), born_us, ids, producer, tuple(queues))


InlineRows: TypeAlias = "pa.Table | FewRows"
"""The rows of a batch that are not staged, sorted by queue."""


def as_table(rows: InlineRows) -> pa.Table:
    return rows.table if isinstance(rows, FewRows) else rows
