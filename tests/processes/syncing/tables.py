"""A database of generated tables: every change it makes, in order, and its rows after each. All follows from a seed."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from penstock.cdc.choice.masks import sha256
from tests.cdc.reference import MARKER
from tests.cdc.sync.streams import Row, event

KEYS = 300
PER_COLUMN = 20_000
COLUMNS_MAX = 6
CONFIG = """
engine = "deltalake"
policy = "reject"
interval = "200ms"
into = "INTO"

[rename]
"sales.*" = "{schema}_{table}"

[table."*"]
columns = { amount = "decimal(12,2)" }

[table."crm.*"]
masks = { email = "sha256" }
without_columns = ["secret"]
"""
"""What the targets of the tables are to be."""


@dataclass
class Database:
    """The source. A few of its tables are hot, and many are cold."""

    seed: int
    tables: int
    rows: dict[tuple[str, str], dict[int, Row]] = field(default_factory=lambda: defaultdict(dict))
    """As they are now, by schema and table, then by key."""
    unfit: int = 0
    """Changes whose values fit no column. Their rows have no other change, and are not among ``rows``."""
    changes: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def __iter__(self) -> Iterator[Row]:
        while True:
            yield self.change()

    def change(self) -> Row:
        """The next change, as a connector writes it."""
        chance, at = self._chance, self.changes + 1
        self.changes = at
        number = int(self.tables * chance.random() ** 3)
        schema, table = ("sales", "crm")[number % 2], f"t{number}"
        rows = self.rows[schema, table]
        roll, key = chance.random(), chance.randrange(KEYS)
        if roll < 0.0005:
            rows.clear()
            return event("t", table, None, schema=schema, at=at)
        if roll < 0.01:
            self.unfit += 1
            return event("c", table, {"id": -at}, {"id": -at, "amount": "many"}, schema=schema, at=at)
        if roll < 0.15 and key in rows:
            del rows[key]
            return event("d", table, {"id": key}, before={"id": key}, schema=schema, at=at)
        row = {"id": key, "n": at, "large": f"{at} " * 5, "amount": f"{at % 10_000}.25", f"c{at // PER_COLUMN % COLUMNS_MAX}": at}
        if schema == "crm":
            row |= {"email": f"{key}@example.org", "secret": f"secret {at}"}
        old = chance.randrange(KEYS)
        if roll < 0.3 and old in rows and key not in rows:  # as keys are unique
            rows[key] = {**rows.pop(old), **row}
            return event("u", table, {"id": key}, row, before={"id": old}, schema=schema, at=at)
        if roll < 0.4 and key in rows:
            rows[key] |= {**row, "large": rows[key]["large"]}
            return event("u", table, {"id": key}, {**row, "large": MARKER}, schema=schema, at=at)
        rows[key] = {**rows.get(key, {}), **row}
        return event("u", table, {"id": key}, row, schema=schema, at=at)

    def targets(self) -> dict[str, list[Row]]:
        """The rows of every target by its name, as `CONFIG` asks for them."""
        found = {}
        for (schema, table), rows in self.rows.items():
            name = f"{schema}_{table}" if schema == "sales" else table
            found[name] = [_wanted(row) for row in rows.values()]
        return found


def _wanted(row: Row) -> Row:
    wanted = {name: value for name, value in row.items() if name != "secret"}
    wanted["amount"] = Decimal(wanted["amount"])
    if "email" in wanted:
        wanted["email"] = sha256(wanted["email"])
    return wanted
