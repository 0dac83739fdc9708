"""A database whose tables are renamed, dropped, made again, moved and migrated, beneath kills: each cut and each row is as its history has it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from penstock.cdc.cuts.cut import Cut
from tests.cdc.ddl.campaign import ENOUGH_CUTS, Campaign, source
from tests.cdc.ddl.history import History, Table, difference
from tests.cdc.ddl.mariadb import MariaDB
from tests.cdc.ddl.mongodb import MongoDB
from tests.cdc.ddl.source import Source
from tests.mariadb_server import mariadb_server

pytestmark = [pytest.mark.slow]


def check(folder: Path, chance: random.Random, given: Source, transactions: int) -> None:
    campaign = Campaign(given, folder, chance)
    campaign.play(transactions)
    seen = campaign.judge()
    assert not campaign.wrong
    assert seen["cuts"] >= ENOUGH_CUTS
    assert seen["equal in the end"] > 5


@pytest.mark.thorough
@pytest.mark.postgres
@pytest.mark.processes
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "publication", "slow"), [(3, "tables", True), (4, "all", False)])
def test_every_cut_and_the_end_equal_the_source(tmp_path: Path, seed: int, publication: str, slow: bool) -> None:
    chance = random.Random(seed)
    with source("postgres", tmp_path, chance, publication=publication, slow=slow) as given:
        check(tmp_path, chance, given, 250)


@pytest.mark.thorough
@pytest.mark.mariadb
@pytest.mark.processes
@pytest.mark.timeout(1500)
def test_every_cut_and_the_end_equal_a_mariadb(tmp_path: Path) -> None:
    chance = random.Random(5)
    with source("mariadb", tmp_path, chance) as given:
        check(tmp_path, chance, given, 150)


@pytest.mark.thorough
@pytest.mark.mongodb
@pytest.mark.processes
@pytest.mark.timeout(900)
def test_every_cut_and_the_end_equal_a_mongodb(tmp_path: Path) -> None:
    chance = random.Random(1)
    with source("mongodb", tmp_path, chance) as given:
        check(tmp_path, chance, given, 150)


@pytest.mark.mongodb
@pytest.mark.processes
def test_a_full_collection_takes_a_document_before_it_loses_one(tmp_path: Path) -> None:
    with source("mongodb", tmp_path, random.Random(1)) as given:
        assert isinstance(given, MongoDB)
        campaign = Campaign(given, tmp_path, random.Random(1))
        given.prepare()
        for _ in range(3):
            given.one_more_than_full(campaign.note)
    history = campaign.history
    assert [len(tables["shop_capped"].rows) for tables in history.tables] == [6, 7, 6, 7, 6]
    assert history.places == sorted(set(history.places))


def test_a_table_may_have_no_target_where_it_has_no_row_now(tmp_path: Path) -> None:
    row = frozenset({(("id", 1),)})
    campaign = Campaign(cast(Source, None), tmp_path, random.Random(1))
    (tmp_path / "capture.log").touch()
    campaign.history.add(10, {"t": Table(row, ("id",))})
    for rows, wrong in ((frozenset(), 0), (row, 1)):
        campaign.without_target("t", Table(rows, ("id",)), Cut(1, 1, 1, 1, {}, {}, {}), Counter())
        assert len(campaign.wrong) == wrong


@pytest.mark.mariadb
def test_a_transaction_begins_behind_what_the_server_writes_by_itself() -> None:
    with mariadb_server() as server:
        given = MariaDB(server, random.Random(1))
        given.prepare()
        before = given.place()
        server.run("FLUSH BINARY LOGS")
        empty = given.place()
        server.run("INSERT INTO shop.swap VALUES (1, 'x', 1)")
        assert before < empty <= given.begins(before) == given.begins(empty) < given.place()
        assert given.begins(given.place()) == given.place()


def test_the_judge_sees_what_is_missing_too_much_double_or_another_value() -> None:
    import pyarrow as pa

    wanted = Table(frozenset({(("a", "x"), ("id", 1)), (("a", None), ("id", 2))}), ("id", "a"))
    assert difference(wanted, pa.table({"id": [1, 2], "a": ["x", None], "gone": [1, 1]})) is None
    for bad in (
        {"id": [1], "a": ["x"]},
        {"id": [1, 2, 3], "a": ["x", None, None]},
        {"id": [1, 2, 2], "a": ["x", None, None]},
        {"id": [1, 2], "a": ["y", None]},
        {"id": [1, 2]},
    ):
        assert difference(wanted, pa.table(bad)) is not None


def test_a_place_in_the_log_is_behind_the_commits_that_began_before_it() -> None:
    history = History()
    one, two = Table(frozenset({(("id", 1),)}), ("id",)), Table(frozenset({(("id", 2),)}), ("id",))
    history.add(10, {"t": one})
    history.add(20, {"t": two, "u": one})
    history.add(30, {"t": None})
    assert history.at(5) == (0, {})
    assert history.at(20) == (1, {"t": one})
    assert history.at(21) == (2, {"t": two, "u": one})
    assert history.at(99) == (3, {"u": one})
