"""Every store keeps the contract."""

from __future__ import annotations

import pytest

from penstock.log.stores import ObjectStore
from tests.log.stores.contract import CHECKS, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(store: ObjectStore, check: Check) -> None:
    assert isinstance(store, ObjectStore)
    try:
        await check(store)
    finally:
        await store.close()
