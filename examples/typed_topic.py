"""Orders as rows: a topic whose schema comes from a dataclass, and evolves while producers of both versions run.

The first program sends `Order`. A newer one renames a field, widens another and adds a third, and both go on sending. Every reader sees one
schema: a worker, Polars, DuckDB (by Delta and by Iceberg) and Spark SQL (with ``--spark``) count the same rows and the same sum.

    python examples/typed_topic.py [LAKE] [--spark]
"""

import importlib
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import duckdb

import penstock
from penstock import ConsumeResult, InvalidArgument, MessageView

if TYPE_CHECKING:
    import polars as pl

COUNT = 200
"""The number of orders that each program sends."""


@dataclass
class Order:
    """An order, as the first program knows it."""

    id: int
    customer: str
    amount: Annotated[Decimal, "decimal(12,2)"]


@dataclass
class NewOrder:
    """An order, as the second program knows it: ``customer`` is ``buyer`` now."""

    id: int
    buyer: str
    amount: Annotated[Decimal, "decimal(20,2)"]
    note: str | None = None


class Books:
    """A worker: it adds the orders of each buyer up."""

    def __init__(self) -> None:
        self.orders: dict[int, NewOrder] = {}
        self.finished = threading.Event()
        self._lock = threading.Lock()

    def listen(self, message: MessageView) -> ConsumeResult:
        """Enter one order, whichever program sent it."""
        order = message.as_(NewOrder)
        assert order is not None
        with self._lock:
            self.orders[order.id] = order
            if len(self.orders) == 2 * COUNT:
                self.finished.set()
        return ConsumeResult.SUCCESS


def process(lake: penstock.Lake, books: Books) -> None:
    """Send from both programs, and work on what both sent. The worker is of the second program, so it begins after the evolution."""
    with lake.producer("orders") as old:
        for number in range(0, COUNT, 2):
            old.send_row(Order(number, f"c{number % 7}", Decimal(number)))
        old.flush()
        schema = lake.evolve_topic("orders", NewOrder, rename={"customer": "buyer"})
        print(f"version {schema.version}: {schema.ddl}")
        with lake.push_consumer("orders", group="books", listener=books.listen):
            with lake.producer("orders") as new:
                for number in range(COUNT, 2 * COUNT):
                    new.send_row(NewOrder(number, f"c{number % 7}", Decimal(number), note="by the new program"))
            for number in range(1, COUNT, 2):  # the old program knows nothing of it, and goes on
                old.send_row(Order(number, f"c{number % 7}", Decimal(number)))
            old.flush()
            books.finished.wait(30)
    try:
        with lake.producer("orders") as producer:
            producer.send_row({"id": "seven", "buyer": "c1", "amount": Decimal(7)}).result()
    except InvalidArgument as error:
        print(f"refused: {error.object}, expected {error.expected}, found {error.observed}")


def totals(amounts: Iterable[int | Decimal]) -> tuple[int, Decimal]:
    """The number and the sum of a column of amounts."""
    found = [Decimal(amount) for amount in amounts]
    return len(found), sum(found, Decimal())


def by_polars(frame: "pl.DataFrame") -> tuple[int, Decimal]:
    """Through `Reader.to_polars`: Polars reads no Delta table whose fields were renamed."""
    return totals(frame["value"].struct.field("amount").to_list())


def by_duckdb(source: str, *extensions: str, **tables: object) -> tuple[int, Decimal]:
    """By SQL, from a function of an extension or from one of ``tables``."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as database:
        for extension in extensions:
            load(database, extension)
        for name, table in tables.items():
            database.register(name, table)
        rows = database.sql(f"SELECT value.amount FROM {source} WHERE value.buyer IS NOT NULL").fetchall()
    return totals(amount for (amount,) in rows)


def load(database: duckdb.DuckDBPyConnection, extension: str) -> None:
    """Load an extension of DuckDB: that of the package duckdb-extension-NAME, or the one that DuckDB fetches itself."""
    try:
        package = importlib.import_module(f"duckdb_extension_{extension}")
    except ImportError:
        database.install_extension(extension)
        database.load_extension(extension)
    else:
        found = next(Path(str(package.__file__)).parent.rglob("*.duckdb_extension"))
        database.load_extension(str(found))


def by_spark(table: str) -> tuple[int, Decimal]:
    """From the Delta table, by Spark SQL: fields are columns, and nothing is parsed."""
    from penstock.spark import session

    spark = session()
    rows = spark.sql(f"SELECT value.amount FROM delta.`{table}` WHERE value.buyer IS NOT NULL").collect()
    return totals(row.amount for row in rows)


def main(lake_url: str, *, with_spark: bool = False) -> None:
    """Send, read with everything, and compare."""
    books = Books()
    with penstock.connect(lake_url) as lake:
        lake.create_topic("orders", queues=4, schema=Order, keys=["customer"], iceberg=True)
        process(lake, books)
        table = None
        if "://" not in lake_url:
            publish = [str(Path(sys.executable).with_name("penstock")), "maintain", "--once", "--lake", lake_url]
            subprocess.run(publish, check=True, stdout=subprocess.DEVNULL)
            table = str(Path(lake_url).resolve() / "topics" / "orders" / "table")
        found = {
            "the worker": totals(order.amount for order in books.orders.values()),
            "Polars": by_polars(lake.reader("orders").to_polars(columns=["value.amount"])),
        }
        if table is None:
            found["DuckDB"] = by_duckdb("messages", messages=lake.reader("orders").to_arrow())
        else:
            found["DuckDB by Delta"] = by_duckdb(f"delta_scan('{table}')", "delta")
            found["DuckDB by Iceberg"] = by_duckdb(f"iceberg_scan('{table}')", "avro", "iceberg")
        if with_spark:
            assert table is not None, "Spark reads no lake in memory"
            found["Spark SQL"] = by_spark(table)
        of_c1 = lake.reader("orders").lookup(key="c1")
    expected = totals(range(2 * COUNT))
    if wrong := {name: one for name, one in found.items() if one != expected}:
        raise SystemExit(f"expected {expected}, found {wrong}")
    if [one.value["id"] % 7 for one in of_c1] != [1] * len(of_c1) or not of_c1:
        raise SystemExit("a lookup by a field's key found others")
    print(f"{expected[0]} orders over {expected[1]}: the same for {', '.join(found)}")


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--spark"]
    main(given[0] if given else "memory://", with_spark="--spark" in sys.argv)
