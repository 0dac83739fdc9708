"""Options of tables: each applies to one table, or to all tables that a pattern means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from ...log.errors import InvalidArgument
from ..events.placeholders import UnavailablePlaceholder
from ..events.sources import TableId, all_of_table
from .columns import ColumnRules, DisallowedEvent
from .masks import Mask, MaskLike
from .renames import check_template, target_folder_of

Truncates: TypeAlias = Literal["ordered", "queue", "ignore"]
"""The truncates that count. ``ordered``: those with a position; the others stop their table. ``queue``: also those without, after the
earlier events of their queue, for tables all of whose events come by one queue. ``ignore``: none.
"""
UnfitTimes: TypeAlias = Literal["stop", "null"]
"""The handling of times that no column of their type can hold: they stop their table, or are NULL. A column of type string holds all times."""

Policy: TypeAlias = Literal["stop", "null", "reject"]
"""What an event does that cannot be applied. ``stop``: its table stands still. ``null``: NULL takes the place of a value that does not fit its
column; what else cannot be applied stops the table. ``reject``: it is not applied. The last two are kept aside, with the reason.
"""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of a table, or of all tables that a pattern means. Where several names mean a table, each option is the one that the most exact
    name says; types and masks are joined column by column.
    """

    target: str | None = None
    """The name of the target. ``{table}``, ``{schema}``, ``{database}`` and ``{server}`` stand for the parts of the table's name."""
    key: Sequence[str] | None = None
    """The columns of the key, in place of the events' own."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Types by column, as Spark SQL names them."""
    only_columns: Sequence[str] | None = None
    """The columns that the target gets, by name or pattern, besides its key; None: all."""
    without_columns: Sequence[str] = ()
    """The columns that the target does not get, by name or pattern."""
    masks: Mapping[str, MaskLike] = field(default_factory=dict)
    """Masks by column, or by a pattern of columns: ``sha256``, ``last4``, ``null``, ``constant:TEXT``, a function, or a `Mask`."""
    history: bool | None = None
    """Whether every version of a row is kept."""
    truncates: Truncates | None = None
    """The truncates that count, as in `sync`."""
    unfit_times: UnfitTimes | None = None
    """The handling of times that fit no column of a time, as in `sync`."""

    policy: Policy | None = None
    """The handling of events that cannot be applied, as in `sync`."""

    def checked(self, table: str) -> TableOptions:
        """The same, its masks as `Mask`. Raises `InvalidArgument`, which names the option."""
        for name, check, expected in _CHECKS:
            value = getattr(self, name)
            if value is not None and not check(value):
                raise InvalidArgument(f"bad {name}", operation="sync", object=table, expected=expected, observed=repr(value))
        if self.target is not None:
            check_template(self.target)
        masks = {column: Mask.of(said) for column, said in self.masks.items()}
        rules = ColumnRules(None, self.without_columns, masks, self.key, UnavailablePlaceholder.of())
        for column in self.key or ():
            try:
                rules.check_key(column)
            except DisallowedEvent as error:
                raise InvalidArgument(str(error), operation="sync", object=table) from error
        return replace(self, masks=masks)


def _texts(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(isinstance(one, str) and one for one in value)


def _by_column(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) and name for name in value)


_COLUMNS = "a list of columns"
_CHECKS: Sequence[tuple[str, Any, str]] = (
    ("target", lambda value: isinstance(value, str), "text"),
    ("key", lambda value: _texts(value) and bool(value), _COLUMNS),
    ("columns", lambda value: _by_column(value) and _texts([*value.values()]), "types by column"),
    ("only_columns", _texts, _COLUMNS),
    ("without_columns", _texts, _COLUMNS),
    ("masks", _by_column, "masks by column"),
    ("history", lambda value: isinstance(value, bool), "true or false"),
    ("truncates", lambda value: value in get_args(Truncates), "'ordered', 'queue' or 'ignore'"),
    ("unfit_times", lambda value: value in get_args(UnfitTimes), "'stop' or 'null'"),
    ("policy", lambda value: value in get_args(Policy), "'stop', 'null' or 'reject'"),
)


@dataclass(frozen=True)
class Choices:
    """The options of all tables, by name or pattern, each `TableOptions.checked`."""

    by_name: Mapping[str, TableOptions] = field(default_factory=dict)

    def of(self, source: TableId) -> TableOptions:
        """The options of one table."""
        found: dict[str, Any] = {name: {} for name in _JOINED}
        for one in reversed(all_of_table(self.by_name, source)):
            for name in _OPTIONS:
                value = getattr(one, name)
                if name in _JOINED:
                    found[name] |= value
                elif value not in (None, ()):
                    found[name] = value
        return TableOptions(**found)

    @property
    def hides(self) -> bool:
        """Whether columns of any table are masked or left out."""
        return any(one.masks or one.without_columns or one.only_columns is not None for one in self.by_name.values())

    def declared(
        self, columns: Mapping[str, Mapping[str, str]] | None, keys: Mapping[str, Sequence[str]] | None
    ) -> tuple[dict[str, dict[str, str]], dict[str, Sequence[str]]]:
        """The types and keys of all tables, joined with others, which go before these."""
        types = {table: dict(one.columns) for table, one in self.by_name.items() if one.columns}
        for table, named in (columns or {}).items():
            types[table] = {**types.get(table, {}), **named}
        return types, {**{table: one.key for table, one in self.by_name.items() if one.key is not None}, **(keys or {})}

    def folder(self, source: TableId) -> str | None:
        """The folder that a table's target is to have; None: that of its name. Raises `TargetRefused`."""
        template = self.of(source).target
        return None if template is None else target_folder_of(template, source)

    def rules(self, source: TableId, key: Sequence[str] | None, unavailable: UnavailablePlaceholder) -> ColumnRules | None:
        """The rules for a table's columns; None where there are none. ``key``: the declared one."""
        options = self.of(source)
        if options.only_columns is None and not options.without_columns and not options.masks:
            return None
        masks = {column: Mask.of(said) for column, said in options.masks.items()}
        return ColumnRules(options.only_columns, options.without_columns, masks, key, unavailable)


def choices_of(options: Mapping[str, TableOptions] | None, rename: Mapping[str, str] | None) -> Choices:
    """The options of all tables, checked. Raises `InvalidArgument`."""
    for name, said in (("table_options", options), ("rename", rename)):
        if said is not None and not _by_column(said):
            raise InvalidArgument(f"bad {name}", operation="sync", expected="values by table", observed=repr(said))
    found = dict(options or {})
    for table, one in found.items():
        if not isinstance(one, TableOptions):
            raise InvalidArgument("bad table_options", operation="sync", object=table, expected="TableOptions", observed=repr(one))
    for table, target in (rename or {}).items():
        found[table] = replace(found.get(table, TableOptions()), target=target)
    return Choices({table: one.checked(table) for table, one in found.items()})


_OPTIONS = tuple(one.name for one in fields(TableOptions))
_JOINED = ("columns", "masks")
