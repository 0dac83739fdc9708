"""The shop's tables, what is true of them between any two transactions, and how two states are compared. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Mapping[str, Sequence[Row]]
"""The rows of each table, their columns in the order of `TABLES`."""
STOCK = 1000
"""How many of each article the shop had at first."""


@dataclass(frozen=True)
class Table:
    """A table of the shop."""

    columns: tuple[str, ...]
    keys: int
    """How many columns, from the first one on, are its primary key."""
    total: str
    """The column whose sum is shown."""


TABLES = {
    "articles": Table(("id", "name", "price", "stock"), 1, "stock"),
    "customers": Table(("id", "name", "spent"), 1, "spent"),
    "orders": Table(("id", "customer", "state", "amount"), 1, "amount"),
    "order_lines": Table(("order_id", "line", "article", "quantity", "price"), 2, "quantity"),
    "payments": Table(("id", "order_id", "amount"), 1, "amount"),
    "ledger": Table(("entry", "what", "amount"), 1, "amount"),
}


def broken(rows: Rows) -> list[str]:
    """What is wrong with the books. Nothing ever is between two transactions of the source."""
    articles, customers, orders = rows["articles"], rows["customers"], rows["orders"]
    lines, payments = rows["order_lines"], rows["payments"]
    customer_of = {order: customer for order, customer, _, _ in orders}
    of_lines, paid, spent = (defaultdict[int, Decimal](Decimal) for _ in range(3))
    sold = Counter[int]()
    for order, _, article, quantity, price in lines:
        of_lines[order] += quantity * price
        sold[article] += quantity
    for _, order, amount in payments:
        paid[order] += amount
        spent[customer_of.get(order, 0)] += amount
    known = {customer for customer, _, _ in customers}
    wrong = {
        "lines of no order": sum(order not in customer_of for order, *_ in lines),
        "payments of no order": sum(order not in customer_of for _, order, _ in payments),
        "orders of no customer": sum(customer not in known for _, customer, _, _ in orders),
        "orders that differ from their lines": sum(of_lines[order] != amount for order, _, _, amount in orders),
        "orders that differ from what was paid": sum(
            paid[order] != (amount if state == "paid" else 0) for order, _, state, amount in orders
        ),
        "customers who spent other than they paid": sum(spent[customer] != amount for customer, _, amount in customers),
        "articles whose stock is wrong": sum(stock + sold[article] != STOCK for article, _, _, stock in articles),
    }
    found = [f"{what}: {count:,}" for what, count in wrong.items() if count]
    if sum(amount for _, _, amount in rows["ledger"]) != sum(amount for *_, amount in payments):
        found.append("the ledger differs from what was paid")
    return found


@dataclass(frozen=True)
class Fingerprint:
    """A table in short: equal ones have equal rows."""

    rows: int
    total: Decimal
    checksum: str
    """SHA-256 over all rows, in the order of the key."""


def fingerprint(name: str, rows: Sequence[Row]) -> Fingerprint:
    """Of a table's rows."""
    table = TABLES[name]
    summed = table.columns.index(table.total)
    digest = hashlib.sha256()
    for row in sorted(rows, key=lambda row: row[: table.keys]):
        digest.update("\t".join(map(_text, row)).encode() + b"\n")
    return Fingerprint(len(rows), sum((Decimal(row[summed]) for row in rows), Decimal(0)), digest.hexdigest())


def fingerprints(rows: Rows) -> dict[str, Fingerprint]:
    """Of all tables."""
    return {name: fingerprint(name, rows[name]) for name in TABLES}


def differences(name: str, source: Iterable[Row], target: Iterable[Row]) -> list[str]:
    """Compare a table with its source, row by row: a line for each row that differs."""
    keys = TABLES[name].keys
    ours, theirs = ({row[:keys]: row for row in rows} for rows in (target, source))
    told = []
    for key in sorted(ours.keys() | theirs.keys()):
        mine, wanted = ours.get(key), theirs.get(key)
        if mine is None or wanted is None or [*map(_text, mine)] != [*map(_text, wanted)]:
            told.append(f"{name} {'/'.join(map(str, key))}: {_shown(wanted)} at the source, {_shown(mine)} in the table")
    return told


def _text(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, Decimal) else str(value)


def _shown(row: Row | None) -> str:
    return "no row" if row is None else f"({', '.join(map(_text, row))})"
