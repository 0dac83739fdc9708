"""Accounts in Spark: the movements of each account are applied in the order they were stored, two ways.

The message group is the account, and a message group lies in one queue. A task of the source reads whole queues and hands their rows out by
offset, so whatever goes through a task's rows in turn, without a shuffle before it, meets each account's movements in order (`balances`).
After a shuffle, as ``groupBy`` makes one, order is restored by the offset (`statement`).

    python examples/spark_in_order.py [LAKE]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import penstock
from penstock import Message
from penstock.spark import session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

ACCOUNTS = [f"account-{number}" for number in range(20)]
MOVEMENTS = 30
"""Of each account: it is opened, money comes in, and all of it goes out again, in turn."""


def send(lake: penstock.Lake) -> None:
    """Withdrawals take exactly what was there, so that one that is early overdraws its account."""
    with lake.producer("movements") as producer:
        for number in range(MOVEMENTS):
            for account in ACCOUNTS:
                amount = 100 + number // 2
                movement = {"number": number, "amount": amount if number % 2 == 0 else -amount}
                producer.send(Message.json(movement, message_group=account))


def balances(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: one task's rows as they come. A balance that is below zero on the way is an error."""
    standing: dict[str, tuple[int, int]] = {}
    for rows in batches:
        for account, body in zip(rows.column("message_group").to_pylist(), rows.column("body").to_pylist(), strict=True):
            movement = json.loads(body)
            number, balance = standing.get(account, (-1, 0))
            assert movement["number"] == number + 1, f"{account}: movement {movement['number']} came after {number}"
            assert balance + movement["amount"] >= 0, f"{account} is overdrawn"
            standing[account] = (number + 1, balance + movement["amount"])
    yield pa.RecordBatch.from_pydict(
        {
            "account": pa.array(list(standing), pa.string()),
            "movements": pa.array([number + 1 for number, _ in standing.values()], pa.int64()),
            "balance": pa.array([balance for _, balance in standing.values()], pa.int64()),
        }
    )


def statement(rows: pd.DataFrame) -> pd.DataFrame:
    """For ``applyInPandas``: all rows of one account, which the shuffle may have mixed."""
    movements = [json.loads(body) for body in rows.sort_values("offset")["body"]]
    assert [movement["number"] for movement in movements] == list(range(MOVEMENTS))
    lowest = rows.head(1)[["message_group"]].rename(columns={"message_group": "account"})
    balance, low = 0, 0
    for movement in movements:
        balance += movement["amount"]
        low = min(low, balance)
    return lowest.assign(lowest=low)


def main(place: str) -> None:
    """Send the movements, and go through them as a stream and as a batch."""
    spark = session("accounts", master="local[2]")
    with penstock.connect(place) as lake, tempfile.TemporaryDirectory() as checkpoint:
        lake.create_topic("movements", message_type="FIFO", queues=8)
        send(lake)
        seen: dict[str, tuple[int, int]] = {}

        def take(batch: DataFrame, _number: int) -> None:
            for row in batch.mapInArrow(balances, "account string, movements bigint, balance bigint").collect():
                seen[row["account"]] = (row["movements"], row["balance"])

        movements = spark.readStream.format("penstock").options(lake=place, startingOffsets="earliest").load("movements")
        query = movements.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        assert seen == dict.fromkeys(ACCOUNTS, (MOVEMENTS, 0)), seen

        table = spark.read.format("penstock").options(lake=place, columns="message_group, offset, body").load("movements")
        statements = table.groupBy("message_group").applyInPandas(statement, "account string, lowest bigint").collect()
        assert {row["account"]: row["lowest"] for row in statements} == dict.fromkeys(ACCOUNTS, 0)
    print(f"{len(ACCOUNTS)} accounts, {MOVEMENTS} movements each: every one in order, none overdrawn on the way")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(tempfile.mkdtemp()) / "lake"))
