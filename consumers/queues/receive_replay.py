"""Reads messages that are out once more, and gives them with their handles and delivery attempts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...coordinator.queues.receives import OutstandingMessages
from ...log.errors import OffsetOutOfRange
from ...log.filter.filters import Filter
from ...log.message.message import MessageView, views
from ..feed.feed import Feed
from ..feed.rows import GroupHashes
from ..schedule.handles import ReceiptHandles


async def replayed_messages(
    feed: Feed, found: OutstandingMessages, handles: ReceiptHandles, *, keep: Filter, epoch: int
) -> list[MessageView]:
    """Messages that are out, by offset, with handles and attempts, without expired ones. The queue may be another process's. Raises what reading the
    log raises.
    """
    alone = [
        handles.alone(message._replace(delivery_attempt=found.alone[message.offset].attempts))
        for message in await _picked(feed, sorted(found.alone), handles, epoch)
    ]
    lanes = await _scanned(feed, found, handles, keep, epoch)
    of_lanes = [message for lane, messages in lanes.items() for message in handles.of_lane(lane, messages)]
    return sorted([*alone, *of_lanes], key=lambda message: message.offset)


async def _picked(feed: Feed, offsets: Sequence[int], handles: ReceiptHandles, epoch: int) -> list[MessageView]:
    if not offsets:
        return []
    try:
        rows = await feed.pick(handles.queue, offsets)
    except OffsetOutOfRange:
        earliest = await feed.kept_from(handles.queue, offsets[0])
        rows = await feed.pick(handles.queue, [offset for offset in offsets if offset >= earliest])
    return list(views(handles.topic, rows, epoch=epoch))


async def _scanned(
    feed: Feed, found: OutstandingMessages, handles: ReceiptHandles, keep: Filter, epoch: int
) -> dict[int, list[MessageView]]:
    """Messages of each lane's group, from the marker's head up to the receive's end."""
    ends = {lane: marker.tries.receive.end for lane, marker in found.lanes.items() if marker.tries.receive is not None}
    hashes = GroupHashes(handles.secret)
    lanes: defaultdict[int, list[MessageView]] = defaultdict(list)
    start, limit = min((marker.head for marker in found.lanes.values()), default=0), max(ends.values(), default=0)
    while start < limit:
        try:
            async for rows in feed.scan(handles.queue, start, limit):
                start += rows.num_rows
                for message in views(handles.topic, keep.apply(rows, feed.schema), epoch=epoch):
                    lane = hashes.of(message.message_group)
                    if lane in ends and found.lanes[lane].head <= message.offset < ends[lane]:
                        lanes[lane].append(message._replace(delivery_attempt=found.lanes[lane].tries.attempts))
        except OffsetOutOfRange:
            earliest = await feed.kept_from(handles.queue, start)
            if earliest <= start:
                raise
            start = earliest
    return lanes
