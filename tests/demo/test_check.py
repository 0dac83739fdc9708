"""`make demo ARGS=--check=…` on lakes into which another stream than the capture was produced: exit code 1, and what is wrong.

The tables are filled by plain Python here, so that only the checks of the demo itself are on trial; no Spark is needed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from deltalake import DeltaTable, write_deltalake

import penstock
from examples.demo.__main__ import main
from examples.demo.checks.capture import event_of
from examples.demo.place import Place
from examples.demo.tables import SHOP
from penstock import aio
from penstock.log.paths import TopicPaths
from penstock.log.table.publisher import Publisher
from tests.demo.shop import before, last_update, lines, write_capture, write_dumps
from tests.runner import cli_runner


def produce(lake_url: str, stream: Sequence[bytes]) -> None:
    """Send lines as they come, to the topic ``shop``, and publish it."""
    with penstock.connect(lake_url) as lake:
        lake.create_topic("shop", message_type="FIFO")
        with lake.producer("shop") as producer:
            for line in stream:
                producer.send(penstock.Message(line, message_group="-".join(event_of(line).row)))

    async def publish() -> None:
        async with aio.connect(lake_url) as lake:
            record = (await lake.topics())["shop"]
            await Publisher(lake.store, TopicPaths.of("shop"), record, lake.runtime).publish_once()

    asyncio.run(publish())


def apply(messages: Iterable[penstock.MessageView], targets: str) -> None:
    """The state after the last event of every row, in the order of the topic."""
    rows = {}
    for message in messages:
        rows[event_of(message.body).row] = json.loads(message.body)["value"]["after"]
    for target in SHOP:
        alive = [row for (table, _), row in rows.items() if table == target.table and row is not None]
        typed = [{name: _typed(kind, row[name]) for name, kind in target.columns.items()} for row in alive]
        write_deltalake(f"{targets}/{target.table}", pa.Table.from_pylist(typed))


def _typed(kind: str, value: Any) -> Any:
    if value is None or kind in {"string", "int", "bigint"}:
        return value
    return datetime.fromisoformat(value) if kind == "timestamp" else Decimal(value)


@pytest.fixture
def check(tmp_path: Path) -> Callable[[Sequence[bytes]], Result]:
    """Produce and apply a stream, then compare with the true capture and its dumps."""
    lake = str(tmp_path / "lake")
    events, expect = write_capture(tmp_path, lines()), write_dumps(tmp_path / "dumps", lines())

    def run(stream: Sequence[bytes]) -> Result:
        if not Path(lake).exists():
            produce(lake, stream)
            with penstock.connect(lake, read_only=True) as opened:
                apply(opened.reader("shop").messages(), Place.of(lake).targets("shop"))
        arguments = ["demo", "--check", "shop", "--lake", lake, "--events", str(events), "--expect", str(expect), "--json"]
        return cli_runner().invoke(main, arguments)

    return run


def test_a_faithful_lake_passes_until_a_row_of_a_table_is_changed(
    check: Callable[[Sequence[bytes]], Result], tmp_path: Path
) -> None:
    result = check(lines())
    assert (result.exit_code, json.loads(result.stdout)["equal"]) == (0, True)
    assert json.loads(result.stdout)["stream"]["found"] == len(lines())
    DeltaTable(str(tmp_path / "lake" / "tables" / "shop" / "orders")).update(
        updates={"status": "'lost'"}, predicate="status = 'paid'"
    )
    result = check(lines())
    assert result.exit_code == 1
    assert {t["table"] for t in json.loads(result.stdout)["tables"] if not t["equal"]} == {"orders"}


def test_a_dropped_event_ends_with_1(check: Callable[[Sequence[bytes]], Result]) -> None:
    at = last_update(lines())
    result = check([*lines()[:at], *lines()[at + 1 :]])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["stream"]["missing"]) == (1, 1)
    assert sum(table["different"] for table in found["tables"]) == 1


def test_a_doubled_event_ends_with_1_though_no_table_shows_it(check: Callable[[Sequence[bytes]], Result]) -> None:
    at = last_update(lines())
    result = check([*lines()[: at + 1], *lines()[at:]])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["stream"]["doubled"]) == (1, 1)
    assert all(table["equal"] for table in found["tables"])


def test_two_swapped_events_of_a_row_end_with_1(check: Callable[[Sequence[bytes]], Result]) -> None:
    stream, at = list(lines()), last_update(lines())
    earlier = before(stream, at)
    stream[earlier], stream[at] = stream[at], stream[earlier]
    result = check(stream)
    found = json.loads(result.stdout)
    assert (result.exit_code, found["stream"]["out_of_order"]) == (1, 1)
    assert sum(table["different"] for table in found["tables"]) == 1


def test_a_topic_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    result = cli_runner().invoke(main, ["demo", "--check", "shops", "--lake", str(tmp_path / "lake")])
    assert result.exit_code == 2
    assert "no such topic" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--events", __file__], "--events and --expect go together"),
        (["--lake", "memory://"], "local files and S3 only"),
        (["--producers", "0"], "1<=x<=64"),
    ],
)
def test_a_call_that_cannot_work_is_refused_before_anything_is_done(arguments: list[str], message: str) -> None:
    result = cli_runner().invoke(main, ["demo", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
