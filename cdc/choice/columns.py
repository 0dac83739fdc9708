"""A target's choice of columns, and their masks, applied to events before values or errors are seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...log.limits import StringList
from ...log.schema.fields import FieldType
from ..events.connect import ConnectRowSchema
from ..events.conversion import UnfitValue
from ..events.debezium import ChangeEvent
from ..events.patterns import exactness, is_pattern, matches
from ..events.placeholders import NOTHING, UnavailablePlaceholder
from .masks import Mask


class DisallowedEvent(UnfitValue):
    """An event that the user's own choices do not allow. It stops its table under any policy."""


class ColumnRules:
    """The rules of one table."""

    def __init__(
        self,
        only: StringList | None,
        without: StringList,
        masks: Mapping[str, Mask],
        key: StringList | None,
        unavailable: UnavailablePlaceholder,
    ) -> None:
        self._only, self._without, self._masks, self._declared_key = only, without, masks, key
        self._unavailable = unavailable
        self._known: dict[str, Mask | None] = {}
        self._kept: dict[str, bool] = {}

    def applied(self, change: ChangeEvent) -> ChangeEvent:
        """The event with the target's columns, masked. Raises `DisallowedEvent`."""
        key = tuple(self._declared_key or change.key)
        for name in key:
            self.check_key(name)
        unavailable = NOTHING if change.says_unsent else self._unavailable
        before = change.before
        return replace(
            change,
            key=self._masked(change.key, unavailable),
            row=self._masked(self._chosen(change.row, key), unavailable),
            before=None if before is None else self._masked(self._chosen(before, key), unavailable),
            schema_of_key=self._schema(change.schema_of_key),
            schema_of_row=self._schema(change.schema_of_row),
            types=None if change.types is None else self.types(change.types),
        )

    def types(self, catalog_types: Mapping[str, FieldType]) -> dict[str, FieldType]:
        return {name: kind for name, kind in catalog_types.items() if self._typed(name)}

    @property
    def met(self) -> frozenset[str]:
        return frozenset(self._kept)

    def mask(self, column: str) -> Mask | None:
        if column not in self._known:
            named = [name for name in self._masks if names_column(name, column)]
            best = max(named, key=lambda name: (name == column, exactness(name)), default=None)
            self._known[column] = None if best is None else self._masks[best]
        return self._known[column]

    def keeps(self, column: str) -> bool:
        if column not in self._kept:
            chosen = self._only is None or _named(self._only, column)
            self._kept[column] = chosen and not _named(self._without, column)
        return self._kept[column]

    def check_key(self, name: str) -> None:
        """Raise `DisallowedEvent` for a key column that is left out, or whose mask may merge keys."""
        mask = self.mask(name)
        if mask is not None and not mask.keeps_apart:
            raise DisallowedEvent(
                f"column {name} is of the key, and the mask {mask.name} may make one row of two: mask it with sha256 (or a Mask that keeps_apart)"
            )
        if _named(self._without, name):
            raise DisallowedEvent(
                f"column {name} is of the key, and cannot be left out: mask it with sha256, or declare another key"
            )

    def _chosen(self, row: Mapping[str, Any], key: tuple[str, ...]) -> Mapping[str, Any]:
        return {name: value for name, value in row.items() if self.keeps(name) or name in key}

    def _masked(self, row: Mapping[str, Any], unavailable: UnavailablePlaceholder) -> Mapping[str, Any]:
        masked = dict(row)
        for name, value in row.items():
            mask = self.mask(name)
            if mask is not None and value is not None and not unavailable.is_it(value):
                try:
                    masked[name] = mask.function(value)
                except MemoryError:
                    raise
                except Exception as error:
                    raise DisallowedEvent(f"column {name}: its mask, {mask.name}, raised {type(error).__name__}") from error
        return masked

    def _typed(self, column: str) -> bool:
        """Whether a column keeps its events' type."""
        mask = self.mask(column)
        return mask is None or mask.keeps_type

    def _schema(self, schema: ConnectRowSchema | None) -> ConnectRowSchema | None:
        if schema is None or all(map(self._typed, schema.fields)):
            return schema
        return ConnectRowSchema({name: field for name, field in schema.fields.items() if self._typed(name)})


def names_column(name: str, column: str) -> bool:
    return name == column or (is_pattern(name) and matches(name, column))


def _named(names: StringList, column: str) -> bool:
    return any(names_column(name, column) for name in names)
