"""Real processes that are killed amid transactions: an order is paid in the shop's own database if, and only if, its messages are visible, once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import penstock
import penstock.aio
from penstock.coordinator.transactions.checking.check_back_role import CheckBackRole
from penstock.coordinator.transactions.checking.checker import RegisteredChecker
from tests.processes.transactions.worker import GROUP, TOPICS, Books
from tests.thorough import thoroughly
from tests.tree import ROOT

SEED = 7
SHOPS = 2
LIVES = thoroughly(5, 3)
PATIENCE_S = 400


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_paid_if_and_only_if_visible_once(tmp_path: Path) -> None:
    url, books_path = str(tmp_path / "lake"), str(tmp_path / "books.sqlite")
    books = Books(books_path)
    with penstock.connect(url) as lake:
        for topic in TOPICS:
            lake.create_topic(topic, message_type="TRANSACTION", queues=2)
    shops = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.processes.transactions.worker", url, books_path, f"{SEED + shop}", f"{LIVES}"], cwd=ROOT
        )
        for shop in range(SHOPS)
    ]
    try:
        assert [shop.wait(PATIENCE_S) for shop in shops] == [0] * SHOPS
    finally:
        for shop in shops:
            shop.kill()
            shop.wait()
    asyncio.run(_decide_what_is_open(url, books))
    paid = Counter(books.paid())
    assert len(paid) >= LIVES, "some orders were paid"
    with penstock.connect(url, read_only=True) as lake:
        for topic in TOPICS:
            visible = Counter(message.body.decode() for message in lake.reader(topic).messages())
            assert visible == paid


async def _decide_what_is_open(url: str, books: Books) -> None:
    """As another member of the producer group, and whoever maintains the lake, do: without waiting for the dead ones' leases."""
    async with penstock.aio.connect(url, maintenance=False) as lake, asyncio.timeout(PATIENCE_S):
        transactions = lake.transactions
        checks = CheckBackRole(
            transactions.groups, transactions.cells, transactions, lake.runtime.clock, RegisteredChecker(books.check, group=GROUP)
        )
        while True:
            await checks.look(GROUP)
            await checks.settle()
            rows = [row for row in await transactions.rows(GROUP) if not row.is_finished]
            for row in rows:
                if not row.is_open:
                    await transactions.finish(row.id)
            if not rows:
                return
