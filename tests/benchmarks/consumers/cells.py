"""How large a queue's cell is with a window of 10,000 messages, in the shapes that work leaves behind."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from tests.benchmarks.figures import Figure, Options

_WINDOW = 10_000
_FLOOR = 5_000_000_000
_NOW_MS = 1_750_000_000_000
_WINDOW_BYTES = 1_331.0
"""1.3 KiB: what the settled offsets of a window may take at most."""
_ORDINARY_BYTES = 4_096.0


def measure(options: Options) -> Iterator[Figure]:
    for name, shape, target in _SHAPES:
        sizes = []
        for seed in range(1, options.repeats + 1):
            data = encode_cell(shape(random.Random(seed)))
            assert encode_cell(decode_cell(data, where="benchmark")) == data, "it can be read back"
            sizes.append(len(data))
        yield Figure(name=f"cell, {name}", unit="bytes", values=sizes, target=target)


def _cell(settled: SettledOffsets, **more: object) -> QueueCell:
    """As its owner writes it: with all that a cell has besides."""
    owner = f"{uuid.UUID(int=1).hex}/12"
    cell = QueueCell(generation=3, epoch=120, owner=owner, step=90_000, commands=7, settled=settled)
    return replace(cell, **more)


def _settled(settled: Callable[[int], bool]) -> SettledOffsets:
    """Of a window whose first message is not settled."""
    offsets = [_FLOOR + at for at in range(1, _WINDOW) if settled(at)]
    return SettledOffsets(_FLOOR).with_all(OffsetSet.of_offsets(offsets))


def _idle(_: random.Random) -> QueueCell:
    return _cell(SettledOffsets(_FLOOR))


def _busy(_: random.Random) -> QueueCell:
    return _cell(SettledOffsets(_FLOOR), granted=OffsetSet.of([(_FLOOR, _FLOOR + 1_024)]))


def _head_stuck(_: random.Random) -> QueueCell:
    return _cell(_settled(lambda _: True), granted=OffsetSet.of([(_FLOOR, _FLOOR + 1)]))


def _holes(share: float) -> Callable[[random.Random], QueueCell]:
    """So many are in flight and all others settled."""

    def shape(chance: random.Random) -> QueueCell:
        held = {0} | {at for at in range(_WINDOW) if chance.random() < share}
        granted = OffsetSet.of_offsets([_FLOOR + at for at in sorted(held)])
        return _cell(_settled(lambda at: at not in held), granted=granted)

    return shape


def _blocked(groups: int) -> Callable[[random.Random], QueueCell]:
    """All else is settled: what is behind a marker counts as settled, so it leaves no hole."""

    def shape(chance: random.Random) -> QueueCell:
        markers = {}
        for _ in range(groups):
            head = _FLOOR - chance.randrange(_WINDOW)
            tries = Tries(MessageState.WAITING, 3, 3, _NOW_MS + chance.randrange(60_000))
            markers[chance.getrandbits(64)] = Marker(head, head + 1, tries)
        return _cell(SettledOffsets(_FLOOR), granted=OffsetSet.of([(_FLOOR, _FLOOR + 1_024)]), markers=markers)

    return shape


def _waiting(count: int) -> Callable[[random.Random], QueueCell]:
    """CONCURRENT: failed messages that are due at times of their own."""

    def shape(chance: random.Random) -> QueueCell:
        offsets = chance.sample(range(_FLOOR - _WINDOW, _FLOOR), count)
        tries = {offset: Tries(MessageState.WAITING, 2, 2, _NOW_MS + chance.randrange(60_000)) for offset in offsets}
        return _cell(SettledOffsets(_FLOOR), tries=tries)

    return shape


def _suspects(count: int) -> Callable[[random.Random], QueueCell]:
    """Taken from a worker that died with so many in flight."""

    def shape(_: random.Random) -> QueueCell:
        return _cell(SettledOffsets(_FLOOR), granted=OffsetSet.of([(_FLOOR, _FLOOR + count)])).taken_by("w" * 34)

    return shape


_SHAPES: tuple[tuple[str, Callable[[random.Random], QueueCell], float | None], ...] = (
    ("nothing in flight", _idle, _ORDINARY_BYTES),
    ("1,024 in flight", _busy, _ORDINARY_BYTES),
    ("window 10,000, head stuck", _head_stuck, _WINDOW_BYTES),
    ("window 10,000, 5 % in flight", _holes(0.05), 2 * _WINDOW_BYTES),
    ("window 10,000, 50 % in flight", _holes(0.5), 2 * _WINDOW_BYTES),
    ("16 blocked groups, 1,024 in flight", _blocked(16), _ORDINARY_BYTES),
    ("100 blocked groups, 1,024 in flight", _blocked(100), _ORDINARY_BYTES),
    ("1,000 blocked groups, 1,024 in flight", _blocked(1_000), 65_536.0),
    ("100 waiting messages, each due by itself", _waiting(100), _ORDINARY_BYTES),
    ("1,000 waiting messages, each due by itself", _waiting(1_000), 65_536.0),
    ("1,500 suspects after a kill", _suspects(1_500), _ORDINARY_BYTES),
)
