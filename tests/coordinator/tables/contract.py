"""What `CellTable` promises, as checks that run on any table. Each starts with an empty one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.coordinator.limits import CELL_KEY_BYTES_MAX, CELL_STORED_BYTES_MAX
from penstock.coordinator.tables import Cell, CellTable, CellVersion, Conflict
from penstock.log.errors import InvalidArgument, LimitExceeded

Check = Callable[[CellTable], Awaitable[None]]


async def an_absent_cell_is_none(table: CellTable) -> None:
    assert await table.get("groups/billing") is None
    assert await table.keys("") == []


async def a_written_cell_is_read_back(table: CellTable) -> None:
    contents = {"a/text": b"text", "a/empty": b"", "a/binary": bytes(range(256)), "plain": b"\0", "ü/ключ": b"x", "a b+c=d": b"y"}
    for key, data in contents.items():
        version = await table.put(key, data, expected=None)
        found = await table.get(key)
        assert found is not None
        assert (found.data, found.version) == (data, version)


async def a_second_create_is_refused_and_changes_nothing(table: CellTable) -> None:
    version = await table.put("k", b"one", expected=None)
    for data in (b"two", b"one"):
        with pytest.raises(Conflict):
            await table.put("k", data, expected=None)
    assert (await read(table, "k")) == (b"one", version)


async def a_write_replaces_only_the_version_it_names(table: CellTable) -> None:
    first = await table.put("k", b"one", expected=None)
    second = await table.put("k", b"two", expected=first)
    with pytest.raises(Conflict):
        await table.put("k", b"three", expected=first)
    assert (await read(table, "k")) == (b"two", second)
    third = await table.put("k", b"four", expected=(await read(table, "k"))[1])
    assert (await read(table, "k")) == (b"four", third)


async def a_version_of_an_absent_cell_is_refused(table: CellTable) -> None:
    version = await table.put("k", b"one", expected=None)
    for attempt in (table.put("other", b"two", expected=version), table.delete("other", expected=version)):
        with pytest.raises(Conflict):
            await attempt
    assert await table.keys("") == ["k"]


async def equal_bytes_are_another_write(table: CellTable) -> None:
    first = await table.put("k", b"same", expected=None)
    second = await table.put("k", b"same", expected=first)
    assert second != first
    with pytest.raises(Conflict):
        await table.put("k", b"same", expected=first)
    third = await table.put("k", b"same", expected=second)
    assert len({first, second, third}) == 3


async def a_deleted_cell_is_gone_and_its_key_is_free(table: CellTable) -> None:
    version = await table.put("k", b"one", expected=None)
    await table.delete("k", expected=version)
    assert await table.get("k") is None
    assert await table.keys("") == []
    with pytest.raises(Conflict):
        await table.delete("k", expected=version)
    again = await table.put("k", b"two", expected=None)
    assert (await read(table, "k")) == (b"two", again)
    with pytest.raises(Conflict):
        await table.put("k", b"three", expected=None)


async def a_stale_delete_is_refused(table: CellTable) -> None:
    first = await table.put("k", b"one", expected=None)
    second = await table.put("k", b"two", expected=first)
    with pytest.raises(Conflict):
        await table.delete("k", expected=first)
    assert (await read(table, "k")) == (b"two", second)


async def a_cell_that_is_made_again_has_a_new_version(table: CellTable) -> None:
    seen: set[CellVersion] = set()
    for _ in range(3):
        version = await table.put("k", b"same", expected=None)
        later = await table.put("k", b"same", expected=version)
        assert not {version, later} & seen
        for stale in seen:
            with pytest.raises(Conflict):
                await table.put("k", b"late", expected=stale)
            with pytest.raises(Conflict):
                await table.delete("k", expected=stale)
        seen |= {version, later}
        await table.delete("k", expected=later)
    for stale in seen:
        with pytest.raises(Conflict):
            await table.put("k", b"late", expected=stale)
    assert await table.get("k") is None


async def cells_do_not_touch_each_other(table: CellTable) -> None:
    one = await table.put("a/1", b"one", expected=None)
    two = await table.put("a/2", b"two", expected=None)
    await table.put("a/1", b"uno", expected=one)
    assert (await read(table, "a/2")) == (b"two", two)
    await table.delete("a/2", expected=two)
    assert (await read(table, "a/1"))[0] == b"uno"


async def keys_are_sorted_and_their_prefix_is_text(table: CellTable) -> None:
    keys = ["groups/a%b", "groups/a_b", "groups/b", "groups/b-2", "workers/1"]
    versions = {key: await table.put(key, b"x", expected=None) for key in reversed(keys)}
    assert await table.keys("") == keys
    assert await table.keys("groups/") == keys[:4]
    assert await table.keys("groups/a%") == ["groups/a%b"]
    assert await table.keys("groups/a_") == ["groups/a_b"]
    assert await table.keys("groups/b") == keys[2:4]
    assert await table.keys("w") == ["workers/1"]
    assert await table.keys("nothing/") == []
    await table.delete("groups/b", expected=versions["groups/b"])
    assert await table.keys("groups/b") == ["groups/b-2"]


async def keys_pass_a_page(table: CellTable) -> None:
    """DynamoDB answers a scan in pages of 1 MB."""
    keys = [f"many/{number:03}" for number in range(20)]
    for key in keys:
        await table.put(key, bytes(CELL_STORED_BYTES_MAX), expected=None)
    assert await table.keys("many/") == keys


async def all_cells_of_prefixes_are_read_at_once(table: CellTable) -> None:
    keys = ["groups/a%b", "groups/b", "members/b", "queues/b/orders/0", "workers/1"]
    versions = {key: await table.put(key, key.encode(), expected=None) for key in keys}
    await table.delete("groups/b", expected=versions["groups/b"])
    found = await table.read_all(["groups/", "queues/"], known={})
    assert found == {key: await table.get(key) for key in (keys[0], keys[3])}
    known = {key: cell.version for key, cell in found.items() if isinstance(cell, Cell)}
    version = await table.put(keys[3], b"again", expected=versions[keys[3]])
    again = await table.read_all(["groups/", "queues/"], known=known)
    assert again.keys() == found.keys()
    assert again[keys[0]] in (found[keys[0]], known[keys[0]])
    assert again[keys[3]] == Cell(b"again", version)
    assert len(await table.read_all([""], known={})) == 4


async def the_largest_cell_fits_and_a_larger_one_is_refused(table: CellTable) -> None:
    largest = bytes(range(256)) * (CELL_STORED_BYTES_MAX // 256)
    version = await table.put("k", largest, expected=None)
    assert (await read(table, "k")) == (largest, version)
    with pytest.raises(
        LimitExceeded,
        match=rf"the cell is too large.*object: k.*at most {CELL_STORED_BYTES_MAX} bytes.*{CELL_STORED_BYTES_MAX + 1}",
    ):
        await table.put("k", largest + b"x", expected=version)
    assert (await read(table, "k")) == (largest, version)


async def a_bad_key_is_refused(table: CellTable) -> None:
    longest = "/".join(["p" * 255, "q" * 255, "r" * (CELL_KEY_BYTES_MAX - 512)])
    assert (await table.put(longest, b"x", expected=None)) == (await read(table, longest))[1]
    for key in ("", "/a", "a/", "a//b", "a/../b", "a\nb", ".penstock/x"):
        for refused in (table.get(key), table.put(key, b"x", expected=None), table.delete(key, expected=CellVersion("1"))):
            with pytest.raises(InvalidArgument):
                await refused
    for key in (longest + "r", "p" * 256, "ü" * 128):
        with pytest.raises(LimitExceeded, match="key is too long"):
            await table.put(key, b"x", expected=None)


async def many_calls_run_side_by_side(table: CellTable) -> None:
    results = await asyncio.gather(
        *(table.put("k", str(number).encode(), expected=None) for number in range(32)), return_exceptions=True
    )
    winners = [number for number, result in enumerate(results) if isinstance(result, CellVersion)]
    assert len(winners) == 1
    assert all(isinstance(result, CellVersion | Conflict) for result in results)
    assert (await read(table, "k")) == (str(winners[0]).encode(), results[winners[0]])


async def a_conflict_names_the_cell(table: CellTable) -> None:
    version = await table.put("groups/billing", b"one", expected=None)
    with pytest.raises(Conflict, match="groups/billing"):
        await table.put("groups/billing", b"two", expected=None)
    await table.put("groups/billing", b"two", expected=version)
    with pytest.raises(Conflict, match="groups/billing"):
        await table.put("groups/billing", b"three", expected=version)


async def a_url_is_shown_without_secrets(table: CellTable) -> None:
    assert "://" in table.url
    assert "secret" not in table.url


async def read(table: CellTable, key: str) -> tuple[bytes, CellVersion]:
    found = await table.get(key)
    assert found is not None
    return found.data, found.version


CHECKS: list[Check] = [
    an_absent_cell_is_none,
    a_written_cell_is_read_back,
    a_second_create_is_refused_and_changes_nothing,
    a_write_replaces_only_the_version_it_names,
    a_version_of_an_absent_cell_is_refused,
    equal_bytes_are_another_write,
    a_deleted_cell_is_gone_and_its_key_is_free,
    a_stale_delete_is_refused,
    a_cell_that_is_made_again_has_a_new_version,
    cells_do_not_touch_each_other,
    keys_are_sorted_and_their_prefix_is_text,
    keys_pass_a_page,
    all_cells_of_prefixes_are_read_at_once,
    the_largest_cell_fits_and_a_larger_one_is_refused,
    a_bad_key_is_refused,
    many_calls_run_side_by_side,
    a_conflict_names_the_cell,
    a_url_is_shown_without_secrets,
]
