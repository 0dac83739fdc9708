"""`penstock cuts`, `sync --cuts`, and what they say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.cdc.cuts.cut import Cut
from penstock.cdc.cuts.log import FOLDER, CutLog
from penstock.log.stores import open_store
from tests.cdc.cuts.topics import TOPIC, shop, synced
from tests.cdc.mapped import map_columns
from tests.runner import printed


@pytest.fixture
def into(tmp_path: Path) -> str:
    with shop(tmp_path) as source:
        for number in range(3):
            source.send(("a", 1, number), ("b", number, number))
            synced(tmp_path)
    return str(tmp_path / "into")


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_list_and_show(into: str) -> None:
    said = printed("cuts", "list", into, "--limit", "2")
    assert "0/360" not in said
    assert "0/3E0" in said
    assert "3 cuts are kept, from 1 on" in said
    assert [one["number"] for one in documents(printed("cuts", "list", into, "--json"))] == [1, 2, 3]
    assert "Cut 3 of sync shop" in printed("cuts", "show", into)
    (one,) = documents(printed("cuts", "show", into, "1", "--json"))
    assert one["places"] == {"postgres/penstock": "0/360"}
    assert one["committed"] == "1970-01-01T00:00:00.800Z"
    assert one["tables"] == {"a": 1, "b": 1}
    assert "Cut 2 of" in printed("cuts", "show", into, "1970-01-01T00:00:00.900Z", "--name", TOPIC)
    assert "no cut: a number, latest, or a time" in printed("cuts", "show", into, "yesterday-ish", code=2)
    assert "expected:  1 to 3" in printed("cuts", "show", into, "7", code=2)


def test_the_time_that_is_shown_of_a_cut_names_it(tmp_path: Path) -> None:
    """PostgreSQL tells microseconds."""
    store = open_store(f"{tmp_path}/{FOLDER}")

    async def recorded() -> None:
        cuts = CutLog(store, topic="t", sync="s", keep_ms=10**9, name="n")
        for number in (1, 2):
            await cuts.add(
                Cut(0, 1, number, number, {0: number}, {"postgres/p": number << 20}, {}, {}, 1_795_000_000_123_455 + number)
            )

    asyncio.run(recorded())
    for one in documents(printed("cuts", "list", str(tmp_path), "--json")):
        assert f"Cut {one['number']} of" in printed("cuts", "show", str(tmp_path), one["committed"])


def test_an_export_that_would_replace_a_file_writes_none(into: str, tmp_path: Path) -> None:
    folder = tmp_path / "day"
    folder.mkdir()
    (folder / "b.parquet").write_text("mine")
    assert "there is such a file" in printed("cuts", "export", into, str(folder), code=2)
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [("b.parquet", "mine")]


def test_export(into: str, tmp_path: Path) -> None:
    folder = tmp_path / "day"
    said = printed("cuts", "export", into, str(folder), "--cut", "2")
    assert "b: 2 rows" in said
    assert "Cut 2, 0/3A0 (postgres/penstock), is in" in said
    assert sorted(pq.read_table(folder / "b.parquet")["id"].to_pylist()) == [0, 1]
    assert "there is such a file" in printed("cuts", "export", into, str(folder), code=2)
    assert "the table is not in this cut" in printed("cuts", "export", into, str(tmp_path / "other"), "--table", "c", code=2)
    assert not (tmp_path / "other").exists()
    printed("cuts", "export", into, str(tmp_path / "one"), "--table", "a", "--json")
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["a.parquet"]


def test_export_of_a_table_with_column_mapping(into: str, tmp_path: Path) -> None:
    map_columns(Path(into, "b"))
    printed("cuts", "export", into, str(tmp_path / "day"), "--table", "b")
    found = pq.read_table(tmp_path / "day" / "b.parquet").select(["id", "v"])
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
def test_sync_says_the_newest_cut_or_why_there_is_none(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), str(tmp_path / "into")
    options = ("--into", into, "--engine", "deltalake", "--once", "--cuts", "--keep-cuts", "1d", "--lake", lake)
    with shop(tmp_path) as source:
        source.send(("a", 1, 1), more=True)
        assert "No cut yet" in printed("sync", TOPIC, *options)
        source.send(("a", 2, 1))
        said = printed("sync", TOPIC, *options)
    assert "0 to come; cut 1" in said
    assert "The newest cut is 1: postgres/penstock at 0/360." in said
