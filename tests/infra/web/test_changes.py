"""Change data: syncs that stand still come first, with the event that stops them, and captures say what the lake knows of them."""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path

import pytest

from penstock import aio
from penstock.cdc.events.sources import TableId
from penstock.cdc.sync.record import SyncRecord, TableStop, encode_record, record_key, size_key, sync_group
from penstock.cdc.target import TargetProgress
from penstock.log.stores.protocol import Put
from tests.infra.web.conftest import Open
from tests.infra.web.shop import HOSTILE


async def write_record(lake: aio.Lake, name: str, record: SyncRecord, *, topic: str = "orders") -> None:
    cells, key = lake.coordination.cells, record_key(topic, name)
    await cells.write(key, encode_record(record), on=await cells.read(key), deadline_s=9e18)


@pytest.fixture
def syncing(folder: Path) -> Path:
    """Two syncs of orders, one of which stands still, and a capture into it."""

    async def run() -> None:
        async with aio.connect(folder) as lake:
            life = (await lake.topic("orders")).life
            tables = {"sales.orders": TableId("sales", "orders"), "sales.items": TableId("sales", "items")}
            stopped = {"sales.items": (TableStop(0, 1, f"{HOSTILE} is no number"),)}
            going = SyncRecord(life, "/targets", {0: 4, 1: 1}, tables, progress={"sales.orders": TargetProgress({0: 4}, commits=3)})
            await write_record(lake, "a", going)
            await write_record(lake, "b", SyncRecord(life, "/others", {0: 4}, tables, stopped, {"sales.items": {0: 1, 1: 0}}))
            await lake.coordination.cells.write(size_key("orders", "b"), b"2", on=None, deadline_s=9e18)
            await lake.create_group(sync_group("b"))
            await lake.reset_offsets(sync_group("b"), "orders", "earliest")
            state = {"format": 1, "life": "x", "system": "1", "database": "shop", "publication": "penstock", "done": ["a.b", "a.c"]}
            await lake.store.put("captures/orders/slot1.json", json.dumps(state).encode(), mode=Put.CREATE)
            offset = json.dumps({"file": "binlog.000007", "pos": 1234, "ts_sec": 5})
            engine = {"format": 1, "life": "x", "connector": "mariadb", "server": "7 uid", "offset": offset, "history": 1}
            reading = {**engine, "offset": None, "pending": ["shop.a", "shop.b", "shop.c"]}
            for name, one in (("shop", engine), ("other", reading)):
                await lake.store.put(f"captures/orders/debezium/{name}/state", json.dumps(one).encode(), mode=Put.CREATE)
            await lake.store.put("captures/orders/debezium/shop/history/00000000", b"{}", mode=Put.CREATE)
            await lake.store.put("captures/mails/slot2.json", b"{", mode=Put.CREATE)

    asyncio.run(run())
    return folder


def test_syncs_that_stand_still_come_first_with_the_event_that_stops_them(console: Open, syncing: Path) -> None:
    browser = console()
    syncs = browser.api("/changes")["syncs"]["value"]
    assert (syncs["standing_still"], [row["name"] for row in syncs["rows"]]) == (1, ["b", "a"])
    still, going = (row["sync"]["value"] for row in syncs["rows"])
    (stop,) = still["stopped"]
    assert (stop["table"], stop["queue"], stop["offset"]) == ("sales.items", 0, 1)
    assert stop["since"] is not None
    assert (still["state"], still["lag"], still["into"]) == ("does not run", 5, "/others")
    assert (going["lag"], going["stopped"], going["tables_total"]) == (None, [], 2)
    assert {one["folder"]: one["commits"] for one in going["tables"]} == {"sales.items": 0, "sales.orders": 3}
    page = browser.page("/changes")
    assert HOSTILE not in page
    (link,) = re.findall(r'<a href="/l/lake(/topics/orders/messages[^"]*)">The event</a>', html.unescape(page))
    assert browser.api(link)["found"]["value"]["rows"][0]["offset"] == stop["offset"]
    assert "penstock read orders --queue=0 --end=2" in html.unescape(browser.page(link))
    assert "start the sync again: it begins with these events" in page
    assert [row["name"] for row in browser.api("/changes?filter=none")["syncs"]["value"]["rows"]] == []


def test_captures_tell_what_the_lake_knows(console: Open, syncing: Path) -> None:
    browser = console()
    captures = {row["name"]: row for row in browser.api("/changes")["captures"]["value"]["rows"]}
    assert [captures[name]["topic"] for name in ("slot1", "shop", "other", "slot2")] == ["orders", "orders", "orders", "mails"]
    found = captures["slot1"]["capture"]["value"]
    assert (found["connector"], found["source"], found["follows"]) == ("postgresql", "shop", "penstock")
    assert (found["tables"], found["snapshot"]) == (2, None)
    assert found["last_stored"] is not None
    shop, other = (captures[name]["capture"]["value"] for name in ("shop", "other"))
    assert (shop["connector"], shop["source"], shop["follows"]) == ("mariadb", "server 7 uid", "binlog.000007:1234")
    assert (shop["snapshot"], other["follows"], other["snapshot"], other["waiting"]) == (None, None, "shop.a", 2)
    assert captures["slot2"]["capture"]["fault"]["kind"] == "data_damaged"
    assert "reads shop.a, then 2 more" in browser.page("/changes")


def test_a_record_that_cannot_be_read_is_told_and_the_rest_works(console: Open, syncing: Path) -> None:
    async def run() -> None:
        async with aio.connect(syncing) as lake:
            cells, key = lake.coordination.cells, record_key("orders", "a")
            await cells.write(key, b"{}", on=await cells.read(key), deadline_s=9e18)

    asyncio.run(run())
    rows = {row["name"]: row["sync"] for row in console().api("/changes")["syncs"]["value"]["rows"]}
    assert rows["a"]["fault"]["kind"] == "data_damaged"
    assert rows["b"]["value"]["stopped_total"] == 1


def test_a_topic_that_was_made_anew_or_is_gone_is_told(console: Open, syncing: Path) -> None:
    async def run() -> None:
        async with aio.connect(syncing) as lake:
            await lake.delete_topic("orders")

    asyncio.run(run())
    rows = console().api("/changes")["syncs"]["value"]["rows"]
    assert {row["sync"]["value"]["state"] for row in rows} == {"its topic is gone"}


def test_a_lake_without_change_data_says_so(console: Open) -> None:
    page = console().page("/changes")
    assert "knows of no sync" in page
    assert "knows of no capture" in page
