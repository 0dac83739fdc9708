"""What a consumer group takes of a topic: by its filter, and without what was sent back to another group alone."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ...coordinator.groups.record import GroupSettings
from ...log.filter.filters import Filter, parse_filter
from ...log.schema.topic_schema import TopicSchema
from .writer import REDRIVE, REDRIVE_GROUP

_PREFIX = f"{REDRIVE}/"
_FEW = 16


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """A filter for one group."""

    group: str
    stated: Filter

    @property
    def columns(self) -> frozenset[str]:
        return self.stated.columns | {"producer", "properties"}

    def apply(self, rows: pa.RecordBatch | pa.Table, schema: TopicSchema | None = None) -> pa.RecordBatch | pa.Table:
        """The rows that pass, in order."""
        return self.stated.apply(self._without_others(rows), schema)

    def _without_others(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        producers = rows.column("producer")
        if len(producers) <= _FEW:  # a call of Arrow takes longer than to look at them
            if not any(one.startswith(_PREFIX) for one in producers.to_pylist()):
                return rows
        elif not pc.any(pc.starts_with(producers, _PREFIX)).as_py():
            return rows
        pairs = zip(producers.to_pylist(), rows.column("properties").to_pylist(), strict=True)
        return rows.filter(pa.array([self._is_mine(producer, properties) for producer, properties in pairs], pa.bool_()))

    def _is_mine(self, producer: str, properties: list[tuple[str, str]] | None) -> bool:
        if not producer.startswith(_PREFIX):
            return True
        return dict(properties or ()).get(REDRIVE_GROUP, self.group) == self.group


def filter_of_group(group: str, settings: GroupSettings, topic: str) -> GroupFilter:
    """What a group with these settings takes of the topic. Raises as `parse_filter`."""
    return GroupFilter(group, parse_filter(settings.filter_of(topic)))
