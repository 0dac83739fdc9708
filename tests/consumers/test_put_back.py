"""A log or a group's record that was put back without the cells of the group's queues: consumers say so, and go on after a reset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock import aio
from penstock.coordinator.cells.keys import group_key, queue_key
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.restores import InconsistentRestore
from penstock.log.stores import MemoryStore
from tests.consumers.heard import Heard, consuming, fill, letters, send, until_settled
from tests.waiting import wait_until

_CELLS = "coordination/"


def backup(store: MemoryStore) -> dict[str, Any]:
    return dict(store._objects)


def put_back(store: MemoryStore, backup: dict[str, Any], *, only: Callable[[str], bool]) -> None:
    """Let be what is not ``only``, and all else as it was."""
    kept = {key: found for key, found in store._objects.items() if not only(key)}
    store._objects = kept | {key: found for key, found in backup.items() if only(key)}
    store._keys = sorted(store._objects)


def of_the_log(key: str) -> bool:
    return not key.startswith(_CELLS)


def of_the_record(key: str) -> bool:
    return key == _CELLS + group_key("billing")


def connected(store: MemoryStore) -> Any:
    return penstock.connect(store=store, maintenance=False)


def consumed(store: MemoryStore, count: int) -> None:
    with connected(store) as lake:
        heard = Heard()
        with consuming(lake, heard):
            heard.until_done(count)
            until_settled(lake)


def refusal(lake: penstock.Lake) -> str:
    """Of a consumer that begins now."""
    heard = Heard()
    with pytest.raises(InconsistentRestore) as caught, consuming(lake, heard) as consumer:
        wait_until(lambda: consumer.error is not None, "the consumer ends")
    assert heard.begun == []
    assert "penstock group reset billing orders --to earliest" in str(caught.value)
    return str(caught.value.observed)


def reset_and_consumed(lake: penstock.Lake, count: int) -> list[str]:
    lake.reset_offsets("billing", "orders", "earliest")
    heard = Heard()
    with consuming(lake, heard):
        heard.until_done(count)
        until_settled(lake)
    return heard.bodies()


@pytest.fixture
def put_back_log() -> MemoryStore:
    """A topic with one message; its group has settled three."""
    store = MemoryStore()
    with connected(store) as lake:
        fill(lake, "a")
    consumed(store, 1)
    old = backup(store)
    with connected(store) as lake:
        send(lake, "bb")
    consumed(store, 2)
    put_back(store, old, only=of_the_log)
    return store


def filled_and_consumed() -> MemoryStore:
    """Two messages, which the group has done."""
    store = MemoryStore()
    with connected(store) as lake:
        fill(lake, "ab")
    consumed(store, 2)
    return store


def test_a_log_that_ends_before_what_the_group_has_settled_ends_its_consumers(put_back_log: MemoryStore) -> None:
    with connected(put_back_log) as lake:
        assert refusal(lake) == "the cell knows of offset 2, and the next one to be written is 1"
        assert reset_and_consumed(lake, 1) == ["a0"]


def test_so_does_one_whose_offsets_were_used_again(put_back_log: MemoryStore) -> None:
    with connected(put_back_log) as lake:
        send(lake, "xyz")
        assert "than the log has" in refusal(lake)
        assert sorted(reset_and_consumed(lake, 4)) == ["a0", "x0", "y0", "z0"]


def test_so_do_consumers_that_pull_and_members_that_get_all(put_back_log: MemoryStore) -> None:
    with (
        connected(put_back_log) as lake,
        pytest.raises(InconsistentRestore),
        lake.pull_consumer("orders", group="billing") as consumer,
    ):
        wait_until(lambda: consumer.error is not None, "the consumer ends")


def test_a_member_that_gets_all_does_not_wait_at_an_offset_behind_the_end() -> None:
    store = MemoryStore()
    with connected(store) as lake:
        fill(lake, "a")
        old = backup(store)
        send(lake, "b")
        heard = Heard()
        with lake.broadcast_consumer("orders", group="news", member="one", listener=heard):
            heard.until_done(2)
    put_back(store, old, only=of_the_log)
    with connected(store) as lake, pytest.raises(InconsistentRestore, match="another name"):
        lake.broadcast_consumer("orders", group="news", member="one", listener=Heard()).close()


def test_cells_that_are_older_than_the_log_are_gone_on_with() -> None:
    store = MemoryStore()
    with connected(store) as lake:
        fill(lake, "a")
    consumed(store, 1)
    old = backup(store)
    with connected(store) as lake:
        send(lake, "bc")
    consumed(store, 2)
    put_back(store, old, only=lambda key: key.startswith(_CELLS))
    consumed(store, 2)


def test_a_record_that_was_lost_and_made_again_is_not_taken_for_the_one_of_the_cells() -> None:
    store = filled_and_consumed()
    put_back(store, {}, only=of_the_record)
    with connected(store) as lake:
        assert refusal(lake) == "the cell was written for another record of the group"
        assert sorted(reset_and_consumed(lake, 2)) == ["a0", "b0"]


def test_a_record_that_is_older_than_a_reset_is_noticed_and_the_next_reset_counts() -> None:
    store = filled_and_consumed()
    old = backup(store)
    for _ in range(2):
        with connected(store) as lake:
            lake.reset_offsets("billing", "orders", "earliest")
        consumed(store, 2)
    put_back(store, old, only=of_the_record)
    with connected(store) as lake:
        assert refusal(lake) == "the group's record is older than the cell"
        assert sorted(reset_and_consumed(lake, 2)) == ["a0", "b0"]


def test_a_reset_after_an_older_record_was_put_back_gives_no_generation_again() -> None:
    store = filled_and_consumed()
    old = backup(store)
    with connected(store) as lake:
        lake.reset_offsets("billing", "orders", "earliest")
    consumed(store, 2)
    put_back(store, old, only=of_the_record)
    with connected(store) as lake:
        assert sorted(reset_and_consumed(lake, 2)) == ["a0", "b0"]


def test_what_was_given_up_in_a_log_that_is_no_more_is_told_as_lost(put_back_log: MemoryStore) -> None:
    async def give_up() -> None:
        async with aio.connect(store=put_back_log, maintenance=False) as lake:
            key = queue_key("billing", "orders", 0)
            stored = await lake.coordination.cells.read(key)
            assert stored is not None
            cell: QueueCell = decode_cell(stored.data, where=key).with_dead_letters([2])
            await lake.coordination.cells.write(key, encode_cell(cell), on=stored, deadline_s=float("inf"))

    asyncio.run(give_up())
    with connected(put_back_log) as lake:
        send(lake, "xyz")
        assert len(reset_and_consumed(lake, 4)) == 4
        assert lake.describe_group("billing").lost_letters == 1
        assert letters(lake) == []
