"""Every table keeps the contract."""

from __future__ import annotations

import pytest

from penstock.coordinator.tables import CellTable
from penstock.log.errors import ClosedError
from tests.coordinator.tables.contract import CHECKS, Check
from tests.coordinator.tables.places import InMemory, InMemoryStore, Place


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(place: Place, check: Check) -> None:
    table = place.open()
    assert isinstance(table, CellTable)
    try:
        await check(table)
    finally:
        await table.close()


async def test_cells_outlive_the_table_that_wrote_them(place: Place) -> None:
    first = place.open()
    version = await first.put("k", b"one", expected=None)
    await first.close()
    second = place.open()
    try:
        found = await second.get("k")
        assert found is not None
        assert (found.data, found.version) == (b"one", version)
        await second.put("k", b"two", expected=version)
    finally:
        await second.close()


async def test_a_closed_table_says_so(place: Place) -> None:
    table = place.open()
    await table.put("k", b"one", expected=None)
    await table.close()
    await table.close()
    if isinstance(place, InMemory | InMemoryStore):
        assert await table.get("k") is not None, "who shares it goes on"
    else:
        with pytest.raises(ClosedError, match="is closed"):
            await table.get("k")
