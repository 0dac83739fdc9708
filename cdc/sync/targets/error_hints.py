"""Remedies for a column whose type does not hold a value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from shlex import join
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from ....log.schema.fields import TIMES, FieldType, PrimitiveType
from ....log.schema.widening import holds, required_type, widest
from ...events.sources import TableId, merged_declarations
from ...fold.fold_result import RefusedEvent
from ...target import Target, TargetColumn
from ..plan import SyncPlan

_DECLARE = "declare"
"""The word by which a reason already names its remedy."""
_NULL = "; or start the sync with --unfit-times null, which makes such times NULL"


RefusedTypes: TypeAlias = Callable[[RefusedEvent], Mapping[str, FieldType]]
"""The types of the source's columns at an event, as far as they are known."""


def with_hints(
    plan: SyncPlan, target: Target | None, table: str, refused: Iterable[RefusedEvent], catalog_types: RefusedTypes
) -> list[RefusedEvent]:
    """The refused events by queue, with the remedy for a column's type. A remedy is given once."""
    found, said = list[RefusedEvent](), set[str]()
    for one in sorted(refused, key=lambda one: one.place):
        remedy = _remedy(plan, target, table, one, catalog_types(one))
        if remedy is not None:
            line = "" if remedy.line in said else f": {remedy.line}"
            one = replace(one, reason=f"{one.reason}. {remedy.why}{line}{remedy.instead}")
            said.add(remedy.line)
        found.append(one)
    return found


class _Remedy(NamedTuple):
    why: str
    line: str
    instead: str = ""


def _remedy(
    plan: SyncPlan, target: Target | None, table: str, refused: RefusedEvent, catalog_types: Mapping[str, FieldType]
) -> _Remedy | None:
    """The remedy for a value that does not fit. None: the type is not the cause, or the reason names a remedy."""
    column = refused.column
    if target is None or column is None or (has := target.type_of(column)) is None:
        return None
    calls_for = catalog_types.get(column)
    if calls_for is None and _DECLARE in refused.reason:
        return None
    same = " (with the same --config)" if plan.choices.by_name else ""
    if calls_for is not None and not holds(has, calls_for):
        # What the catalogue tells is kept. What only events say has to be in the line.
        said = refused.types.keys() if refused.types_name is None else ()
        declared = merged_declarations(plan.declared.columns, target.source)
        wider = {
            one.name: required_type(one.type, catalog_types[one.name])
            for one in target.columns
            if one.name in said and one.name in catalog_types and not holds(one.type, catalog_types[one.name])
            if one.name == column or one.name not in declared
        }
        line = join(_line(plan, target.source, table, column, wider))
        return _Remedy(f"The source's column calls for {calls_for}, the target's has {has}{same}", line)
    null = _NULL if has in TIMES else ""
    if calls_for is None:
        line = f"{join(_line(plan, target.source, table, column, {}))} --column {join([f'{table}.{column}'])}=TYPE"
        return _Remedy(f"Give the column a type that holds it{same}", line, null)
    line = join(_line(plan, target.source, table, column, {column: PrimitiveType.STRING}))
    return _Remedy(f"The source's type has values that {has} has not{same}", line, null)


def _line(plan: SyncPlan, source: TableId, table: str, column: str, types: Mapping[str, FieldType]) -> list[str]:
    chosen = [word for name, type_ in types.items() for word in ("--column", f"{table}.{name}={type_}")]
    declared = _declared(plan, source, table, column)
    return ["penstock", "sync", plan.topic, *_where(plan), "--retype", "--table", table, *declared, *chosen]


def _where(plan: SyncPlan) -> list[str]:
    place, into = plan.place, ["--into", plan.into]
    parts = urlsplit(place.url)
    lake = ["--lake", unquote(parts.path) if parts.scheme == "file" else place.url]
    table = [] if place.coordination is None else ["--coordination", place.coordination]
    return [*lake, *table, *into, *([] if plan.name == plan.topic.replace("%", "") else ["--name", plan.name])]


def _declared(plan: SyncPlan, source: TableId, table: str, column: str) -> list[str]:
    """The options for other declared types, which would otherwise become the source's. A file keeps its own."""
    types, of_file = merged_declarations(plan.declared.columns, source), plan.choices.of(source).columns
    return [
        part for name, type_ in types.items() if name not in (column, *of_file) for part in ("--column", f"{table}.{name}={type_}")
    ]


def kept_types_hint(path: str, target: Target, declared: Mapping[str, FieldType]) -> str | None:
    """The hint about columns that keep another type than ``declared``."""
    kept = [
        f"{column.name} is {column.type}, and {wanted} is declared"
        for column in target.columns
        if not holds(column.type, wanted := declared.get(column.name, column.type))
    ]
    return f"the target {path} keeps its types: {'; '.join(kept)}. The same line with --retype gives it these" if kept else None


def as_text(table: str, column: str | None) -> str:
    """The end of an error about a stored value that a new type does not hold: the remedy."""
    return "" if column is None else f". Text holds it: {join(['--column', f'{table}.{column}=string'])}"


def wider_columns(target: Target, refused: Iterable[RefusedEvent], catalog_types: RefusedTypes) -> list[TargetColumn]:
    """A target's columns that are narrower than their source by now, with types for the values of both."""
    wider: dict[str, FieldType] = {}
    for one in refused:
        has = None if one.column is None else target.type_of(one.column)
        if one.column is not None and has is not None:
            both = widest(wider.get(one.column, has), catalog_types(one).get(one.column, has))
            if both not in (PrimitiveType.STRING, has):
                wider[one.column] = both
    return [TargetColumn(name, type_) for name, type_ in wider.items()]
