"""Messages that are out are read again from what retention left of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pyarrow as pa
import pytest
from msgspec.structs import replace

from penstock.consumers.feed.rows import GroupHashes
from penstock.consumers.queues.receive_replay import replayed_messages
from penstock.consumers.schedule.handles import ReceiptHandles
from penstock.coordinator.queues.cell import Marker, MessageState, Receive, Tries
from penstock.coordinator.queues.receives import OutstandingMessages
from penstock.log.errors import OffsetOutOfRange
from penstock.log.filter.filters import parse_filter
from tests.consumers.feeds import Opened, opened, topic_log

SECRET = "ab" * 16
HANDLES = ReceiptHandles("audit", "orders", 0, 0, SECRET)
OUT = Tries(MessageState.OUT, 2, 0, 50, receive=Receive(1))
EARLIEST = 3


def trimmed(it: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing below `EARLIEST` be readable."""
    pick, scan = it.feed.pick, it.feed.scan

    def check(first: int) -> None:
        if first < EARLIEST:
            raise OffsetOutOfRange("it is gone", observed=first)

    async def picked(queue: int, offsets: Sequence[int]) -> pa.RecordBatch:
        check(min(offsets, default=EARLIEST))
        return await pick(queue, offsets)

    async def scanned(queue: int, start: int, limit: int) -> AsyncIterator[pa.RecordBatch]:
        check(start)
        async for rows in scan(queue, start, limit):
            yield rows

    async def kept_from(queue: int, start: int) -> int:
        return max(start, EARLIEST)

    monkeypatch.setattr(it.feed, "pick", picked)
    monkeypatch.setattr(it.feed, "scan", scanned)
    monkeypatch.setattr(it.feed, "kept_from", kept_from)


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize(("offsets", "left"), [(range(1, 7), [3, 4, 5, 6]), (range(2), [])])
async def test_what_retention_removed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, orderly: bool, offsets: range, left: list[int]
) -> None:
    log = await topic_log()
    async with opened(log, 0) as it:
        await log.send({0: 4})
        await log.send({0: 4})
        await it.topic.tail.catch_up()
        groups = (await it.feed.pick(0, list(offsets))).column("message_group").to_pylist()
        marker = Marker(offsets.start, offsets.stop, replace(OUT, receive=Receive(1, end=offsets.stop)))
        lanes = {GroupHashes(SECRET).of(group): marker for group in groups}
        found = OutstandingMessages({}, lanes) if orderly else OutstandingMessages(dict.fromkeys(offsets, OUT), {})
        trimmed(it, monkeypatch)
        messages = await replayed_messages(it.feed, found, HANDLES, keep=parse_filter(None), epoch=3)
        assert [message.offset for message in messages] == left
        assert all((message.delivery_attempt, message.epoch) == (2, 3) for message in messages)
