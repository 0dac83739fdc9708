"""Lakes that earlier versions wrote are read, continued and maintained by this one."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.data.write_format_1 import maintain, message, names, rows

FORMATS = sorted(Path(__file__).parent.glob("format-*.zip"))

KINDS = [
    "topics/orders/topic.json",
    "topics/orders/log/00000000000000000070.parquet",
    "topics/orders/log/checkpoints/00000000000000000064",
    "topics/orders/log/floor",
    "topics/orders/staged/handed/",
    "topics/orders/staged/jobs/",
    "topics/orders/table/_delta_log/00000000000000000001.json",
    "topics/orders/table/_delta_log/_last_checkpoint",
    "topics/orders/table/queue=2/",
    "topics/dlq.orders/topic.json",
    "topics/again/log/00000000000000000003.parquet",
]
"""What a lake is made of."""


def test_there_is_a_fixture_of_the_format() -> None:
    assert [path.name for path in FORMATS] == ["format-1.zip"]


@pytest.fixture(params=FORMATS, ids=lambda path: path.stem)
def lake_of_old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "lake", json.loads((tmp_path / "expected.json").read_text())


def test_the_fixture_has_every_kind_of_object(lake_of_old: tuple[Path, dict[str, Any]]) -> None:
    place, expected = lake_of_old
    found = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert not [kind for kind in KINDS if not any(one.startswith(kind) for one in found)]
    assert len(expected["orders"]["rows"]) == 590


def test_every_row_is_read_as_it_was_written(lake_of_old: tuple[Path, dict[str, Any]]) -> None:
    place, expected = lake_of_old
    with penstock.connect(place, read_only=True) as lake:
        assert {topic: {"rows": rows(lake, topic), "names": names(lake, topic)} for topic in lake.topics()} == expected
        orders = lake.topics()["orders"].settings
        assert (orders.message_type, orders.queues, orders.retention, orders.limits.max_properties) == ("FIFO", 3, None, 5)
        some = expected["orders"]["rows"][100]
        (found,) = lake.reader("orders").lookup(message_id=some[3])
        assert (found.queue, found.offset) == (some[1], some[2])


def test_it_goes_on_where_it_was(lake_of_old: tuple[Path, dict[str, Any]]) -> None:
    place, expected = lake_of_old
    with penstock.connect(place) as lake:
        with lake.producer("orders", name="lader-ü") as producer:
            assert producer.last_sequence == 690
            assert producer.send(message(0), sequence=690).result().duplicate
            new = producer.send(message(0), sequence=691).result()
        before = expected["orders"]["rows"]
        assert new.offset == sum(row[1] == new.queue for row in before)
        lake._portal.run(lambda: maintain(lake))
        after = rows(lake, "orders")
        assert [row for row in after if row[3] != new.message_id] == before
        assert len(after) == len(before) + 1
