"""Ways around an entry that cannot be folded, the same in every process.

First, an older checkpoint may fold well: the own state was wrong. Second, a later checkpoint may be confirmed by the entry after it, or end the log.
Third, a later entry may be a repair. Otherwise the fold stops.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from ..errors import DataDamaged
from ..format.checkpoint import decode_checkpoint
from ..format.entry import read_header
from ..format.fold import fold
from ..format.header import Header, Repair
from ..format.state import TopicState
from ..limits import ENTRY_GAP_MAX
from ..paths import TopicPaths
from ..stores.protocol import ObjectMissing, ObjectStore

_OLDER_CHECKPOINTS_TRIED = 2


@dataclass(frozen=True, slots=True)
class Resumption:
    """The state where a fold goes on."""

    state: TopicState
    skipped: bool
    """Whether entries were passed over without known verdicts."""


async def find_resumption(store: ObjectStore, paths: TopicPaths, number: int, damage: DataDamaged) -> Resumption:
    """A state at or after entry ``number``, which could not be folded. Raises ``damage``."""
    for checkpoint in await _checkpoints(store, paths, below=number):
        state = await _fold_up_to(store, paths, checkpoint, number)
        if state is not None:
            return Resumption(state, skipped=False)
    async for checkpoint in _later_checkpoints(store, paths, number):
        if await _can_be_trusted(store, paths, checkpoint):
            return Resumption(checkpoint, skipped=True)
    for later in await entry_numbers(store, paths, after=number):
        header = await read_header_at(store, paths, later)
        if header is not None and any(isinstance(action, Repair) for action in header.actions):
            return Resumption(fold(TopicState(), header).state, skipped=False)
    if damage.hint is None:
        damage.hint = "`penstock repair` lets the log go on; what the object held is lost"
    raise damage


async def entry_numbers(store: ObjectStore, paths: TopicPaths, *, after: int) -> list[int]:
    listed = await store.list(paths.log, after=paths.entry(after))
    return of_the_log([number for info in listed if (number := paths.entry_number(info.key)) is not None], after=after)


def of_the_log(numbers: Iterable[int], *, after: int) -> list[int]:
    """The ascending numbers that can belong to a log known up to ``after``. An object far behind a gap is foreign."""
    found: list[int] = []
    last = after
    for number in numbers:
        if number - last > ENTRY_GAP_MAX:
            break
        found.append(number)
        last = number
    return found


async def read_header_at(store: ObjectStore, paths: TopicPaths, number: int) -> Header | None:
    key = paths.entry(number)
    try:
        return read_header((await store.get(key)).data, where=key, number=number)
    except (ObjectMissing, DataDamaged):
        return None


async def _fold_up_to(store: ObjectStore, paths: TopicPaths, state: TopicState, number: int) -> TopicState | None:
    while state.entry < number:
        header = await read_header_at(store, paths, state.entry + 1)
        if header is None:
            return None
        try:
            state = fold(state, header).state
        except DataDamaged:
            return None
    return state


async def _checkpoints(store: ObjectStore, paths: TopicPaths, *, below: int) -> list[TopicState]:
    """The newest good checkpoints below an entry, then the empty state of an untrimmed log."""
    states: list[TopicState] = []
    for number in reversed(await _checkpoint_numbers(store, paths)):
        if number >= below:
            continue
        state = await _read_checkpoint(store, paths, number)
        if state is not None:
            states.append(state)
        if len(states) == _OLDER_CHECKPOINTS_TRIED:
            return states
    return [*states, TopicState()]


async def _can_be_trusted(store: ObjectStore, paths: TopicPaths, checkpoint: TopicState) -> bool:
    """Whether the entry after a checkpoint confirms it, or is missing."""
    following = await read_header_at(store, paths, checkpoint.entry + 1)
    if following is not None:
        return following.state_digest == checkpoint.digest
    return not await entry_numbers(store, paths, after=checkpoint.entry)


async def _later_checkpoints(store: ObjectStore, paths: TopicPaths, number: int) -> AsyncIterator[TopicState]:
    for later in await _checkpoint_numbers(store, paths):
        if later >= number:
            state = await _read_checkpoint(store, paths, later)
            if state is not None:
                yield state


async def _checkpoint_numbers(store: ObjectStore, paths: TopicPaths) -> list[int]:
    listed = await store.list(paths.checkpoints)
    return [number for info in listed if (number := paths.checkpoint_entry(info.key)) is not None]


async def _read_checkpoint(store: ObjectStore, paths: TopicPaths, number: int) -> TopicState | None:
    key = paths.checkpoint(number)
    try:
        state = decode_checkpoint((await store.get(key)).data, where=key)
    except (ObjectMissing, DataDamaged):
        return None
    return state if state.entry == number else None
