"""Typed rows and keys from the events of one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from ...log.schema.fields import DecimalType, PrimitiveType
from ..changes import Key, Place, RowChange
from ..choice.tables import UnfitTimes
from ..events.connect import ColumnForm, ConnectRowSchema, either, reader, says_form, unfit_as_text
from ..events.conversion import KEEP, Convert, UnfitTime, UnfitValue, converter, key_converter, required_key_value
from ..events.debezium import ChangeEvent
from ..events.placeholders import NOTHING, UnavailablePlaceholder
from ..target import Target

_SCHEMAS = 64


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """The user's choices of how values of events are read."""

    unavailable: UnavailablePlaceholder = field(default_factory=UnavailablePlaceholder.of)
    """The placeholders for values that the source did not log."""
    unfit_times: UnfitTimes = "stop"
    forms: Mapping[str, Mapping[str, ColumnForm]] = field(default_factory=dict)
    """How events write a column when their schema leaves it open, by table and column."""
    unfit_nulls: bool = False
    """Whether NULL takes the place of every unfit value outside the key."""

    def of(self, change: ChangeEvent) -> UnavailablePlaceholder:
        """The placeholders in an event: none where it names the unsent columns."""
        return NOTHING if change.says_unsent else self.unavailable


class RowDecoder:
    """Makes typed rows and keys of one table from its events."""

    def __init__(self, target: Target, value_options: ValueOptions, forms: Mapping[str, ColumnForm] | None = None) -> None:
        """``forms``: of columns that events' schemas leave open."""
        self.target = target
        self.unavailable = value_options.unavailable
        self.columns = self._columns(value_options.unavailable)
        self.texts = frozenset(column.name for column in target.columns if column.type is PrimitiveType.STRING)
        self.types = {column.name: column.type for column in target.columns}
        self.forms = {name: form.reader() for name, form in (forms or {}).items()}
        self.undeclared = {name: read for name, kind in self.types.items() if (read := either(kind)) is not None} | self.forms
        self.nulls = value_options.unfit_times == "null"
        self.unfit_nulls = value_options.unfit_nulls
        self.nulled: list[tuple[str, str]] = []
        """The last row's columns with NULL for an unfit value, and why."""
        self.names = frozenset(self.types)
        self.key_places = target.key_places
        self._key_in = _taken(self.key_places)
        self._no_values = (None,) * len(target.columns)
        self.key_names = frozenset(target.key)
        self.schema: ConnectRowSchema | None = None
        self.modes, self.exact = False, False
        self.converters = self._typed(None, modes=False, exact=False)
        """The converters by column, in the target's order."""
        self._known: dict[tuple[ConnectRowSchema | None, bool, bool], dict[str, Convert]] = {}

    def row_change(self, change: ChangeEvent, position: int | None, place: Place, *, outdated: bool) -> RowChange:
        """The change of one row. ``outdated``: a truncate has removed the row since, whatever its values. Raises `UnfitValue`."""
        if change.op == "t":
            return RowChange("t", (), (), position, place)
        if outdated or change.op == "d":
            key = self._key_of(change)
            return RowChange("d", key, self._no_values, position, place, self._former_key(change, key))
        key, values, former = self.upsert(change)
        return RowChange(change.op, key, values, position, place, former)

    def upsert(self, change: ChangeEvent) -> tuple[Key, tuple[Any, ...], Key | None]:
        """The key, the values and, if it was another, the former key. Raises `UnfitValue`."""
        values = self.values(change.row, change.schema_of_row, modes=change.modes, exact=change.says_unsent)
        key = self._key_in(values)
        if None in key or KEEP in key:
            key = self._key_of(change)
            values = _with_key(values, self.key_places, key)
        return key, values, None if change.before is None else self._former_key(change, key)

    def _key_of(self, change: ChangeEvent) -> Key:
        if change.key and self.key_names <= change.key.keys():
            return self.key(change.key, change.schema_of_key, modes=change.modes, exact=change.says_unsent)
        return self.key(change.row, change.schema_of_row, modes=change.modes, exact=change.says_unsent)

    def _former_key(self, change: ChangeEvent, key: Key) -> Key | None:
        before, row = change.before, change.row
        if before is None or change.op != "u":
            return None
        for name in self.target.key:
            if name in before and before[name] != row.get(name):
                break
        else:
            return None
        old = {name: before.get(name) for name in self.target.key}
        former = self.key(old, change.schema_of_row, modes=change.modes, exact=change.says_unsent)
        return former if former != key else None

    def converters_for(self, schema: ConnectRowSchema | None, *, modes: bool, exact: bool) -> dict[str, Convert]:
        """``modes``: the connector writes types in several ways. ``exact``: events name unsent columns (`ChangeEvent.says_unsent`)."""
        if schema is not self.schema or modes is not self.modes or exact is not self.exact:
            if (known := self._known.get((schema, modes, exact))) is None:
                if len(self._known) == _SCHEMAS:
                    self._known.clear()
                known = self._known[schema, modes, exact] = self._typed(schema, modes=modes, exact=exact)
            self.schema, self.modes, self.exact, self.converters = schema, modes, exact, known
        return self.converters

    def values(
        self, row: Mapping[str, Any], schema: ConnectRowSchema | None, *, modes: bool = False, exact: bool = False
    ) -> tuple[Any, ...]:
        """Raises `UnfitValue`."""
        converters = self.converters_for(schema, modes=modes, exact=exact)
        values: list[Any] = []
        try:
            for name, convert in converters.items():
                value = row.get(name, KEEP)
                values.append(value if value is None or value is KEEP else convert(value))
        except (UnfitValue, ValueError, TypeError, KeyError, ArithmeticError):
            return self._values_but_unfit(row, converters)
        return tuple(values)

    def _values_but_unfit(self, row: Mapping[str, Any], converters: Mapping[str, Convert]) -> tuple[Any, ...]:
        found: list[Any] = []
        for name, convert in converters.items():
            value = row.get(name, KEEP)
            try:
                found.append(value if value is None or value is KEEP else convert(value))
            except (UnfitValue, ValueError, TypeError, KeyError, ArithmeticError) as error:
                quiet = self.nulls and isinstance(error, UnfitTime)
                if name in self.key_names or not (quiet or self.unfit_nulls):
                    raise UnfitValue(f"column {name}: {error}").of(name) from error
                found.append(None)
                if not quiet:
                    self.nulled.append((name, str(error)))
        return tuple(found)

    def key(self, row: Mapping[str, Any], schema: ConnectRowSchema | None, *, modes: bool = False, exact: bool = False) -> Key:
        """Raises `UnfitValue`."""
        typed, key, unavailable = self.converters_for(schema, modes=modes, exact=exact), [], NOTHING if exact else self.unavailable
        for name in self.target.key:
            value = required_key_value(name, row, unavailable)
            try:
                key.append(typed[name](value))
            except (UnfitValue, ValueError, TypeError, KeyError, ArithmeticError) as error:
                raise UnfitValue(f"key column {name}: {error}").of(name) from error
        return tuple(key)

    def _columns(self, unavailable: UnavailablePlaceholder) -> list[tuple[str, Convert]]:
        return [
            (column.name, (key_converter if column.name in self.target.key else converter)(column.type, unavailable))
            for column in self.target.columns
        ]

    def _typed(self, schema: ConnectRowSchema | None, *, modes: bool, exact: bool) -> dict[str, Convert]:
        unavailable = NOTHING if exact else self.unavailable
        fields = {} if schema is None else schema.fields
        undeclared = self.undeclared if modes else self.forms

        def typed(name: str, convert: Convert) -> Convert:
            field, kind = fields.get(name), self.types[name]
            read = None if field is None else reader(field, kind)
            if read is None and (field is None or not says_form(field, kind)):
                read = undeclared.get(name)
            if read is None:
                return convert
            digits = isinstance(kind, DecimalType) and read is undeclared.get(name) and name not in self.forms
            return _after(read, convert, unavailable, as_text=name in self.texts, digits=digits)

        return {name: typed(name, convert) for name, convert in (self._columns(NOTHING) if exact else self.columns)}


def _taken(places: tuple[int, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Takes a key from values."""
    return itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))


def _with_key(values: tuple[Any, ...], places: tuple[int, ...], key: Key) -> tuple[Any, ...]:
    whole = list(values)
    for column, value in zip(places, key, strict=True):
        whole[column] = value
    return tuple(whole)


def _after(read: Convert, convert: Convert, unavailable: UnavailablePlaceholder, *, as_text: bool, digits: bool) -> Convert:
    """``digits``: text with a decimal point is in one form only, which needs no reader."""
    texts, is_it = unavailable.texts, unavailable.is_it

    def typed(value: Any) -> Any:  # noqa: ANN401
        if digits and value.__class__ is str and "." in value:
            return convert(value)
        if value in texts if value.__class__ is str else value.__class__ is not int and is_it(value):
            return KEEP
        try:
            return convert(read(value))
        except UnfitTime as error:
            if as_text:
                return unfit_as_text(error)
            raise

    return typed
