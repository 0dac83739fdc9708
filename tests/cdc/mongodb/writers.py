"""Writers of a MongoDB that never rest: single changes, transactions over two collections, collections that go and get other names."""

from __future__ import annotations

import random
from typing import Any

from tests.cdc.writers import Writers
from tests.mongodb_server import MongoDBServer

DATABASE = "shop"
ACCOUNTS, BALANCE = 20, 1000
IMAGED = ("orders", "accounts", "ledger")
"""The collections whose changes tell the document as it is behind them. Those of ``notes`` do not."""


def load(server: MongoDBServer) -> None:
    """What is there before the writers come."""
    with server.client() as client:
        db = client[DATABASE]
        for name in IMAGED:
            db.create_collection(name, changeStreamPreAndPostImages={"enabled": True})
        db.orders.insert_many([{"_id": number, "version": 0} for number in range(250)])
        db.notes.insert_many([{"_id": {"of": number}, "text": "ä" * (number % 7)} for number in range(150)])
        db.accounts.insert_many([{"_id": number, "balance": BALANCE} for number in range(ACCOUNTS)])


class MongoWriters(Writers):
    """Writers of these collections. A server that is away is waited for."""

    def __init__(self, server: MongoDBServer, *, count: int, seed: int, imaged: bool = False) -> None:
        """``imaged``: change only documents whose changes tell them as they are then."""
        super().__init__(count=count, seed=seed)
        self._server, self._imaged = server, imaged

    def _write(self, number: int, chance: random.Random) -> None:
        from pymongo.errors import PyMongoError

        count = 0
        while not self._stopped.is_set():
            try:
                with self._server.client() as client:
                    while not self._stopped.is_set():
                        count += 1
                        self._once(client, number, count, chance)
                        self._stopped.wait(chance.random() * 0.02)
            except PyMongoError:  # the server crashes, or two transactions meet
                self._stopped.wait(0.05)

    def _once(self, client: Any, writer: int, count: int, chance: random.Random) -> None:
        db = client[DATABASE]
        match chance.choice((0, 3, 4, 5, 11)) if self._imaged else chance.randrange(12):
            case 0 | 1 | 2:
                db.orders.update_one({"_id": chance.randrange(250)}, {"$inc": {"version": 1}})
            case 3:
                db.orders.insert_many([{"version": 0, "many": number} for number in range(chance.randint(1, 5))])
            case 4:
                db.orders.delete_one({"many": {"$exists": True}})
            case 5:
                db.orders.replace_one({"_id": chance.randrange(250)}, {"version": -count})
            case 6 | 7:
                db.notes.update_one({"_id": {"of": chance.randrange(150)}}, {"$set": {"text": f"{writer}.{count}"}}, upsert=True)
            case 8:
                db.notes.delete_one({"_id": {"of": chance.randrange(150)}})
            case 9 if count % 5 == 0:
                name = f"temporary_{writer}"
                db[name].insert_many([{"_id": number, "of": count} for number in range(3)])
                db[name].rename(f"kept_{writer}", dropTarget=True)
            case 9 if count % 7 == 0:
                db[f"kept_{writer}"].drop()
            case _:
                transfer(client, f"{writer}.{count}", chance)


def transfer(client: Any, name: str, chance: random.Random) -> None:
    """Move money between accounts, and write it down, in one transaction."""
    db = client[DATABASE]
    amount, parts = chance.randint(1, 9), chance.randint(1, 4)
    giver, taker = chance.sample(range(ACCOUNTS), 2)
    with client.start_session() as session, session.start_transaction():
        for _ in range(parts):
            db.accounts.update_one({"_id": giver}, {"$inc": {"balance": -amount}}, session=session)
            db.accounts.update_one({"_id": taker}, {"$inc": {"balance": amount}}, session=session)
        db.ledger.insert_one({"_id": name, "amount": amount * parts, "from": giver, "to": taker}, session=session)
