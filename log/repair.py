"""`penstock repair`: appends an entry that carries the whole state, so that a log with a damaged entry goes on.

No offset is given out twice. If only rows are damaged, footers give the exact state. After a wholly lost entry, offsets go on after the last known
base, or as far as the entry could have gone; batches of later entries count as accepted. A new routing generation voids what is under way, and every
name must be opened again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .errors import DataDamaged, PenstockError, StoreUnavailable
from .format.entry import encode_entry
from .format.fold import store_time
from .format.growth import Growth, may_grow
from .format.header import CloseJob, Created, Deleted, Epoch, Grown, Header, Repair, is_idempotent
from .format.idempotence import after as idempotent_after
from .format.idempotence import is_numbered, key_of
from .format.state import ProducerRow, TopicState, row_sum, state_form
from .limits import ENTRY_ROWS_MAX, NUMBER_MAX, QUEUES_MAX
from .paths import TopicPaths
from .runtime.recent_mapping import RecentMapping
from .runtime.runtime import Runtime
from .stores.protocol import Conflict, ObjectMissing, ObjectStore, Put
from .tail.damage import entry_numbers
from .tail.salvage import SalvagedEntry, exact_folds, lost_between, read_remains, salvage
from .tail.view import View, read_floor

_TRIES = 8


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The damage, and the repair done or planned."""

    needed: bool
    damage: str = ""
    entry: int = 0
    lost_entries: tuple[int, ...] = ()
    """Entries that cannot be read."""
    exact: bool = True
    """Whether the state is known exactly; else producers must be opened again."""
    lost: tuple[tuple[int, int, int], ...] = ()
    """(queue, first offset, exclusive limit) of rows that cannot be read any more."""
    written: bool = False


async def repair(store: ObjectStore, paths: TopicPaths, runtime: Runtime, *, dry_run: bool = False) -> RepairReport:
    """Let a log go on whose fold stops at a damaged entry; a sound log stays as it is. Raises `StoreUnavailable` when the outcome is unknown: run it
    again. Raises `DataDamaged` when no checkpoint is left.
    """
    for _ in range(_TRIES):
        view = await _opened_view(store, paths, runtime)
        try:
            await view.catch_up(expect_many=True)
        except DataDamaged as damage:
            done = await _repair_behind(store, paths, runtime, view.state, damage, dry_run=dry_run)
            if done is not None:
                return done
        else:
            return RepairReport(needed=False)
    raise StoreUnavailable("others kept appending while the log was repaired", operation="repair", object=paths.log)


async def _opened_view(store: ObjectStore, paths: TopicPaths, runtime: Runtime) -> View:
    """A view at the newest good checkpoint. Only checkpoints have named producers' sequences."""
    floor = await read_floor(store, paths)
    view = View(store, paths, runtime)
    try:
        await view.open()
    except DataDamaged as error:
        raise DataDamaged(
            "the log cannot be repaired: no checkpoint that it could go on from can be read",
            operation="repair",
            object=paths.checkpoint(floor),
            expected="this checkpoint, or a later one",
            observed=error.message,
            hint=(
                f"put that checkpoint back as it was, if there is a copy. Else the table has every row up to entry {floor} at least: read it "
                "with what reads Delta tables, and send the rows to a new topic"
            ),
        ) from error
    return view


async def _repair_behind(
    store: ObjectStore, paths: TopicPaths, runtime: Runtime, before: TopicState, damage: PenstockError, *, dry_run: bool
) -> RepairReport | None:
    there = {*await entry_numbers(store, paths, after=before.entry)}
    last = max(there, default=before.entry)
    found = {
        number: await read_remains(store, paths, number) if number in there else None
        for number in range(before.entry + 1, last + 1)
    }
    state, exact = repaired_state(before, found, now_ms=runtime.clock.wall_ms())
    lost_entries = tuple(number for number, remains in found.items() if remains is None or not remains.rows_readable)
    after = replace(state, entry=last)
    report = RepairReport(
        needed=True,
        damage=str(damage),
        entry=state.entry,
        lost_entries=lost_entries,
        exact=exact,
        lost=lost_between(before, after, [folded for folded, _ in await salvage(store, paths, before, after)]),
    )
    if dry_run:
        return report
    action = Repair(state_form(state), min(lost_entries, default=last), max(lost_entries, default=last))
    header = Header(state.entry, runtime.new_id(), state.store_time_ms, before.digest, {}, (action,))
    return replace(report, written=True) if await _put(store, paths, header) else None


def repaired_state(before: TopicState, found: Mapping[int, SalvagedEntry | None], *, now_ms: int) -> tuple[TopicState, bool]:
    """The state after the repairing entry, above all offsets, epochs and sequences that lost entries may have given out, and whether it is exact."""
    last = max(found, default=before.entry)
    state = before
    for folded in exact_folds(before, {number: remains for number, remains in found.items() if remains is not None}):
        state = folded.state
    exact = state.entry == last
    if not exact:
        state = _loosely(state, {number: remains for number, remains in found.items() if number > state.entry})
    state = replace(state, entry=last + 1, store_time_ms=store_time(state.store_time_ms, now_ms))
    if not exact:
        fenced = {name: replace(row, epoch=Epoch(last + 1, n)) for n, (name, row) in enumerate(state.named.items())}
        state = replace(state, named=fenced, generation=state.generation + 1)
    return replace(state, sum=row_sum(state)), exact


def _loosely(state: TopicState, found: Mapping[int, SalvagedEntry | None]) -> TopicState:
    """Other entries than the lost ones are taken at their word."""
    unknown_entries = 0
    known_entry = state.entry
    offsets = list(state.next_offsets)
    known = list(offsets)
    unsure = [0] * len(offsets)
    growths = list(state.growths)

    def jumped() -> tuple[int, ...]:
        return tuple(min(offset + count * ENTRY_ROWS_MAX, NUMBER_MAX) for offset, count in zip(offsets, unsure, strict=True))

    for number, remains in sorted(found.items()):
        if remains is None:
            unsure = [count + 1 for count in unsure]
            unknown_entries += 1
            continue
        header = remains.header
        for action in header.actions:
            if isinstance(action, Created) and 0 < action.queues <= QUEUES_MAX:
                offsets, unsure, known = [0] * action.queues, [0] * action.queues, [0] * action.queues
                growths = []
                state = replace(
                    _without_idempotent(state),
                    incarnation=action.incarnation,
                    alive=True,
                    created_entry=number,
                    generation=state.generation + 1,
                )
            elif isinstance(action, Deleted):
                state = replace(state, alive=False)
        queues = _queues_behind(header, len(offsets))
        if queues > len(offsets) > 0:  # by this entry, or by a lost one before it
            growths.append(Growth(number, state.generation, jumped()))
        offsets += [0] * (queues - len(offsets))
        unsure += [unknown_entries] * (queues - len(unsure))
        known += [0] * (queues - len(known))
        entries = number - known_entry
        for queue, base in header.bases.items():
            if queue >= len(offsets):
                continue
            rows = sum(batch.rows.get(queue, 0) for batch in header.batches)
            # The entry is taken at its word, but no further than all the entries since the last known state can have gone.
            behind = min(base + rows, known[queue] + entries * ENTRY_ROWS_MAX)
            offsets[queue], unsure[queue] = max(offsets[queue], behind), 0
        state = _with_producers(state, header)
    ends = jumped()
    # A mark that no message can reach would keep consumer groups from the new queues for ever.
    kept = tuple(replace(growth, marks=tuple(map(min, growth.marks, ends))) for growth in growths)
    return replace(state, next_offsets=ends, growths=kept)


def _queues_behind(header: Header, queues: int) -> int:
    """The queues of a topic of ``queues`` behind an entry that is taken at its word: it may tell of a growth, or touch queues of one that is lost."""
    grown = [action.queues for action in header.actions if isinstance(action, Grown)]
    touched = max((queue + 1 for queue in header.bases if queue < QUEUES_MAX), default=0)
    if not queues:
        return touched
    for wanted in grown:
        if may_grow(wanted, queues, QUEUES_MAX):
            queues = wanted
    while queues < touched and may_grow(2 * queues, queues, QUEUES_MAX):
        queues *= 2
    return queues


def _without_idempotent(state: TopicState) -> TopicState:
    """The state of another life: what a producer of its former one has sent is not there."""
    return replace(state, idempotent=RecentMapping(), idempotent_ms=0)


def _with_producers(state: TopicState, header: Header) -> TopicState:
    if any(batch.generation > state.generation for batch in header.batches):  # a lost entry began a life
        state = _without_idempotent(state)
    time_ms = store_time(state.store_time_ms, header.append_time_ms)
    rows = {True: dict(state.named), False: dict(state.unnamed)}
    idempotent = state.idempotent.copy()
    openings, jobs = dict(state.openings), dict(state.closed_jobs)
    generation = state.generation
    for opening in header.openings:
        known = rows[True].pop(opening.producer, None)
        last = opening.last_sequence if known is None else known.last
        rows[True][opening.producer] = ProducerRow(last, header.entry, time_ms, Epoch(header.entry, 0))
        openings[opening.write_id] = header.entry
    for batch in header.batches:
        if is_idempotent(batch):
            if is_numbered(batch) and ((row := idempotent.get(key_of(batch))) is None or row.last < batch.last):
                # What is missing before it may lie in a lost entry: a copy of that is no duplicate.
                idempotent.use(key_of(batch), idempotent_after(row, batch, header.entry, state.idempotent_ms))
        else:
            known = rows[batch.named].pop(batch.producer, None)
            last = max(batch.last, known.last if known is not None else -1)
            rows[batch.named][batch.producer] = ProducerRow(last, header.entry, time_ms, batch.epoch)
        generation = max(generation, batch.generation)
        if batch.job is not None:
            jobs.setdefault(batch.job, header.entry)
    for action in header.actions:
        if isinstance(action, CloseJob):
            jobs.setdefault(action.job, header.entry)
    return replace(
        state,
        generation=generation,
        named=rows[True],
        unnamed=rows[False],
        idempotent=idempotent,
        openings=openings,
        closed_jobs=jobs,
        store_time_ms=time_ms,
        entry=header.entry,
    )


async def _put(store: ObjectStore, paths: TopicPaths, header: Header) -> bool:
    key = paths.entry(header.entry)
    data = encode_entry(header, {})
    for _ in range(_TRIES):
        try:
            await store.put(key, data, mode=Put.CREATE)
            return True
        except (Conflict, StoreUnavailable):
            try:
                return (await store.get(key)).data == data
            except ObjectMissing:
                continue
    raise StoreUnavailable("the repair's outcome is unknown", operation="repair", object=key, hint="run it again")
