"""Repeated receives, and messages given up by their receivers, with one guard removed, from the tests' side."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from penstock.consumers.named_receives import NamedReceives
from penstock.consumers.queues import receive_processor
from penstock.consumers.queues.processor import QueueProcessor
from penstock.consumers.queues.receive_processor import ReceiveProcessor
from penstock.consumers.schedule.receive_request import ReceiveRequest
from penstock.coordinator.queues import invisibility
from penstock.coordinator.queues.cell import DeadLetters, Marker, QueueCell, Receive, Tries
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.coordinator.queues.receives import outstanding
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute, everywhere


def _unnamed(original: Callable[..., Tries]) -> Callable[..., Tries]:
    def out(self: ReceiveRequest, attempts: int, strikes: int = 0, *, end: int = 0) -> Tries:
        return replace(original(self, attempts, strikes, end=end), receive=None)

    return out


def _to_the_limit(original: Callable[..., Any]) -> Callable[..., Any]:
    def found(cell: QueueCell, is_meant: Callable[[Receive], bool], now_ms: int) -> Any:
        out = original(cell, is_meant, now_ms)
        return dataclasses.replace(out, lanes={lane: _whole(marker) for lane, marker in out.lanes.items()})

    def _whole(marker: Marker) -> Marker:
        assert marker.tries.receive is not None
        return replace(marker, tries=replace(marker.tries, receive=replace(marker.tries.receive, end=marker.limit)))

    return found


def _of_the_owner(original: Callable[..., Any]) -> Callable[..., Any]:
    async def cell(self: NamedReceives, queue: Any) -> QueueCell | None:
        processor = self._queues.get(queue)
        found: QueueCell | None = await original(self, queue) if processor is None else processor.keeper.cell
        return found

    return cell


def _due_or_not(original: Callable[..., Any]) -> Callable[..., Any]:
    def found(cell: QueueCell, is_meant: Callable[[Receive], bool], now_ms: int) -> Any:
        return original(cell, is_meant, -1)

    return found


def _all_at_once(_: Any) -> Any:
    @asynccontextmanager
    async def one_by_one(self: NamedReceives, receive: Receive | None) -> AsyncIterator[None]:
        yield

    return one_by_one


def _in_any_order(original: Callable[..., QueueCell]) -> Callable[..., QueueCell]:
    def given_up(cell: QueueCell, handle: ReceiptHandle, **rest: Any) -> QueueCell:
        marker: Any = cell.markers.get(handle.lane) if handle.lane is not None else None
        if marker is not None and marker.head < handle.offset < marker.limit and cell.generation == handle.generation:
            cell = cell.with_marker(handle.lane or 0, marker.from_head(handle.offset, marker.tries.state, marker.tries.due_ms))
        return original(cell, handle, **rest)

    return given_up


async def _nothing(self: ReceiveProcessor, attempt: int) -> None:
    return None


def _untold(original: Callable[..., DeadLetters]) -> Callable[..., DeadLetters]:
    def with_refused(self: DeadLetters, offset: int, attempts: int) -> DeadLetters:
        return replace(original(self, offset, attempts), refused=self.refused)

    return with_refused


MUTANTS: Mapping[str, Mutant] = {
    "named": Mutant(
        scenario="repeats",
        guard="the cell names the receive that messages are out to",
        patch=attribute(ReceiveRequest, "out", _unnamed),
        seeds=(0,),
    ),
    "end": Mutant(
        scenario="repeats",
        unmet=True,
        guard="of a lane a receive is given again what it was given, not all that was delivered as often",
        patch=everywhere(outstanding, _to_the_limit(outstanding)),
    ),
    "read": Mutant(
        scenario="repeats",
        unmet=True,
        guard="what is out is read from the table, as others may have settled it",
        patch=attribute(NamedReceives, "_cell", _of_the_owner),
    ),
    "due": Mutant(
        scenario="repeats",
        unmet=True,
        guard="what is due is not given again",
        patch=everywhere(outstanding, _due_or_not(outstanding)),
    ),
    "one-by-one": Mutant(
        scenario="repeats",
        unmet=True,
        guard="receives with one attempt id look and take one after the other",
        patch=attribute(NamedReceives, "one_by_one", _all_at_once),
    ),
    "unwound": Mutant(
        scenario="repeats",
        unmet=True,
        guard="what a cancelled receive was given is known before the next one looks",
        patch=attribute(ReceiveProcessor, "drain_attempt", lambda _: _nothing),
    ),
    "inherited": Mutant(
        scenario="repeats",
        unmet=True,
        guard="a new owner knows the receives that it found messages out to",
        patch=attribute(receive_processor, "attempts_out", lambda _: always(set())),
    ),
    "asked": Mutant(
        scenario="repeats",
        guard="a consumer knows the queues that it asked for a receive",
        patch=attribute(NamedReceives, "note", lambda _: always(None)),
        seeds=(0,),
    ),
    "refused-in-order": Mutant(
        scenario="repeats",
        guard="messages of a group that were received together are given up in order",
        patch=everywhere(invisibility.given_up, _in_any_order(invisibility.given_up)),
        seeds=(0,),
    ),
    "refused-attempts": Mutant(
        scenario="repeats",
        guard="the cell says how often a message was delivered that its receiver gave up",
        patch=attribute(DeadLetters, "with_refused", _untold),
        seeds=(0,),
    ),
    "letters-noticed": Mutant(
        scenario="repeats",
        guard="an owner looks for dead letters that others assigned",
        patch=attribute(QueueProcessor, "_notice_letters", lambda _: always(None)),
        seeds=(0,),
    ),
}
