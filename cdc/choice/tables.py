"""Options by table or pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from ...log.errors import InvalidArgument
from ...log.limits import StringList
from ..events.placeholders import UnavailablePlaceholder
from ..events.sources import TableId, all_of_table
from .columns import ColumnRules, DisallowedEvent
from .masks import Mask, MaskLike
from .option_types import ByName, Flag, OneOf, Text, Texts, check_options, option
from .renames import check_template, target_folder_of

Truncates: TypeAlias = Literal["ordered", "queue", "ignore"]
"""The truncates that count. ``ordered``: those with a position; others stop their table. ``queue``: also others, after the
earlier events of their queue, for tables of one queue. ``ignore``: none.
"""
UnfitTimes: TypeAlias = Literal["stop", "null"]
"""Times that do not fit their column stop their table, or become NULL. A string column holds all times."""

Policy: TypeAlias = Literal["stop", "null", "reject"]
"""The handling of events that cannot be applied. ``stop``: the table stands still. ``null``: NULL replaces values that do not
fit their column; other events stop the table. ``reject``: they are skipped. The last two keep them aside, with the reason.
"""
_COLUMNS = "a list of columns"


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of a table, or of all tables of a pattern. The most exact name wins, option by option; types and masks are joined
    by column.
    """

    target: str | None = field(default=None, metadata=option(Text()))
    """The target's name, from ``{table}``, ``{schema}``, ``{database}`` and ``{server}`` of the table's name."""
    key: StringList | None = field(default=None, metadata=option(Texts(_COLUMNS, ordered=True, least=1)))
    """The key columns, in place of the events' own."""
    columns: Mapping[str, str] = field(default_factory=dict, metadata=option(ByName("types by column", Text())))
    """Spark SQL's types by column."""
    only_columns: StringList | None = field(default=None, metadata=option(Texts(_COLUMNS, ordered=True)))
    """The target's columns besides its key, by name or pattern; None: all."""
    without_columns: StringList = field(default=(), metadata=option(Texts(_COLUMNS, ordered=True)))
    """The columns left out, by name or pattern."""
    masks: Mapping[str, MaskLike] = field(default_factory=dict, metadata=option(ByName("masks by column")))
    """Masks by column or pattern: ``sha256``, ``last4``, ``null``, ``constant:TEXT``, a function, or a `Mask`."""
    history: bool | None = field(default=None, metadata=option(Flag()))
    """Whether every version of a row is kept."""
    truncates: Truncates | None = field(default=None, metadata=option(OneOf(Truncates)))
    """See `SyncOptions`."""
    unfit_times: UnfitTimes | None = field(default=None, metadata=option(OneOf(UnfitTimes)))
    """See `SyncOptions`."""
    policy: Policy | None = field(default=None, metadata=option(OneOf(Policy)))
    """See `SyncOptions`."""

    def checked(self, table: str) -> TableOptions:
        """The options with masks as `Mask`. Raises `InvalidArgument`, which names the option."""
        check_options(self, of=table)
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


@dataclass(frozen=True)
class Choices:
    """The checked options by name or pattern."""

    by_name: Mapping[str, TableOptions] = field(default_factory=dict)

    def of(self, source: TableId) -> TableOptions:
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
        return any(one.masks or one.without_columns or one.only_columns is not None for one in self.by_name.values())

    def declared(
        self, columns: Mapping[str, Mapping[str, str]] | None, keys: Mapping[str, StringList] | None
    ) -> tuple[dict[str, dict[str, str]], dict[str, Sequence[str]]]:
        """All tables' types and keys, joined with these, which go first."""
        types = {table: dict(one.columns) for table, one in self.by_name.items() if one.columns}
        for table, named in (columns or {}).items():
            types[table] = {**types.get(table, {}), **named}
        of_tables = {table: one.key for table, one in self.by_name.items() if one.key is not None}
        return types, {table: tuple(key) for table, key in {**of_tables, **(keys or {})}.items()}

    def folder(self, source: TableId) -> str | None:
        template = self.of(source).target
        return None if template is None else target_folder_of(template, source)

    def rules(self, source: TableId, key: Sequence[str] | None, unavailable: UnavailablePlaceholder) -> ColumnRules | None:
        """The rules for a table's columns, if it has any. ``key``: the declared one."""
        options = self.of(source)
        if options.only_columns is None and not options.without_columns and not options.masks:
            return None
        masks = {column: Mask.of(said) for column, said in options.masks.items()}
        return ColumnRules(options.only_columns, options.without_columns, masks, key, unavailable)


def choices_of(options: Mapping[str, TableOptions], rename: Mapping[str, str]) -> Choices:
    """The checked options of all tables. Raises `InvalidArgument`."""
    if not ByName("values by table").accepts(options):
        raise InvalidArgument("bad table_options", operation="sync", expected="values by table", observed=repr(options))
    found = dict(options)
    for table, one in found.items():
        if not isinstance(one, TableOptions):
            raise InvalidArgument("bad table_options", operation="sync", object=table, expected="TableOptions", observed=repr(one))
    for table, target in rename.items():
        found[table] = replace(found.get(table, TableOptions()), target=target)
    return Choices({table: one.checked(table) for table, one in found.items()})


_OPTIONS = tuple(one.name for one in fields(TableOptions))
_JOINED = ("columns", "masks")
