"""The column types of the source's catalogue, from the objects that events name."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ....coordinator.lakes import lakes
from ....log.errors import DataDamaged, NewerFormatError, PermissionDenied
from ....log.schema.fields import FieldType
from ....log.stores.protocol import ObjectMissing, ObjectStore
from ...events.sources import TableId
from ...events.table_types import TableTypes, decode_types, is_types_name, joined_types, types_key
from ...fold.fold_result import RefusedEvent
from ..plan import SyncPlan

log = logging.getLogger("penstock.cdc")


async def read_types(store: ObjectStore, topic: str, name: str) -> TableTypes:
    """The types of one object. Raises `ObjectMissing`, `DataDamaged`, `NewerFormatError`, and the store's errors."""
    key = types_key(topic, name)
    return decode_types((await store.get(key)).data, name, where=key)


class SourceTypes:
    """Reads each object once. Without a readable one, types are those of the values."""

    def __init__(self, plan: SyncPlan) -> None:
        self._plan = plan
        self._known: dict[str, TableTypes | None] = {}
        self._warned = False

    def joined(self, source: TableId, names: Iterable[str]) -> Mapping[str, FieldType]:
        """The column types for values of all these forms of a table, as far as known. Raises `StoreUnavailable`."""
        known = (self._of(name) for name in sorted(names) if is_types_name(name))
        return self._plan.types_of(source, joined_types(types for types in known if types is not None))

    def catalog_types(self, source: TableId, refused: RefusedEvent) -> Mapping[str, FieldType]:
        said = self._plan.types_of(source, refused.types)
        return {**said, **self.joined(source, [] if refused.types_name is None else [refused.types_name])}

    def _of(self, name: str) -> TableTypes | None:
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> TableTypes | None:
        topic, opened = self._plan.topic, lakes.open(self._plan.place.as_read_only)
        try:
            return opened.run(lambda: read_types(opened.lake.store, topic, name))
        except ObjectMissing:
            self._warn(f"{types_key(topic, name)} is not there: was the topic copied without it?")
        except (DataDamaged, NewerFormatError, PermissionDenied) as error:
            self._warn(str(error))
        return None

    def _warn(self, why: str) -> None:
        if not self._warned:
            log.warning("events name the types of their columns, which cannot be read, so new columns get those of JSON: %s", why)
        self._warned = True
