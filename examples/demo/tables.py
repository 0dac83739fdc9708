"""The target tables' form: a small declaration, written out for the shop and derived from the events for other captures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.cdc.events.debezium import ChangeEvent
from penstock.cdc.events.table_types import TableTypes
from penstock.cdc.events.target_types import parse_target_type


@dataclass(frozen=True, slots=True)
class Target:
    """One target table."""

    table: str
    key: tuple[str, ...]
    columns: Mapping[str, str]
    """Spark SQL type by column, in order."""


SHOP = (
    Target(
        "customers",
        ("customer_id",),
        {
            "customer_id": "int",
            "name": "string",
            "email": "string",
            "tier": "string",
            "balance": "decimal(12,2)",
            "notes": "string",
            "updated_at": "timestamp",
        },
    ),
    Target(
        "orders",
        ("order_id",),
        {
            "order_id": "bigint",
            "customer_id": "int",
            "status": "string",
            "amount": "decimal(12,2)",
            "created_at": "timestamp",
            "updated_at": "timestamp",
        },
    ),
    Target(
        "order_items",
        ("order_id", "line"),
        {"order_id": "bigint", "line": "int", "sku": "string", "quantity": "int", "price": "decimal(12,2)"},
    ),
)


SHOP_TYPES = tuple(
    TableTypes("public", target.table, {name: parse_target_type(kind) for name, kind in target.columns.items()}) for target in SHOP
)
"""The types of the shop's columns, as `penstock capture postgres` would keep them."""


def infer_targets(changes: Iterable[ChangeEvent]) -> tuple[Target, ...]:
    """The declaration that fits every value of a capture.

    Numbers and booleans get their JSON types. Text that always looks like a number with the same count of decimals is a decimal; text that
    always looks like a time with a zone is a timestamp. A column that is always null is text.
    """
    keys: dict[str, tuple[str, ...]] = {}
    types: dict[str, dict[str, str]] = {}
    for change in changes:
        keys.setdefault(change.table, tuple(change.key))
        columns = types.setdefault(change.table, {})
        for name, value in change.row.items():
            columns[name] = _joined(columns.get(name, _UNKNOWN), _type_of(value))
    return tuple(
        Target(table, key, {name: "string" if kind == _UNKNOWN else kind for name, kind in types[table].items()})
        for table, key in keys.items()
    )


_UNKNOWN = ""
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d(:?\d\d)?)")
_DECIMAL = re.compile(r"-?\d{1,28}\.(\d{1,10})")


def _type_of(value: object) -> str:
    match value:
        case None:
            return _UNKNOWN
        case bool():
            return "boolean"
        case int():
            return "bigint"
        case float():
            return "double"
        case str() if _TIMESTAMP.fullmatch(value):
            return "timestamp"
        case str() if found := _DECIMAL.fullmatch(value):
            return f"decimal(38,{len(found[1])})"
        case _:
            return "string"


def _joined(one: str, other: str) -> str:
    """The narrowest type that holds both."""
    if other in {one, _UNKNOWN}:
        return one
    if one == _UNKNOWN:
        return other
    return "double" if {one, other} == {"bigint", "double"} else "string"
