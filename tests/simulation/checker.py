"""The judge of a run: from what applications were told and readers saw, and from every object that ever was, whether the log kept its word.

The invariants:

I1  An acknowledged message is in the log exactly once, at the queue and offset that were acknowledged.
I2  A message whose send failed is not in the log, nor will be.
I3  A message whose outcome is unknown is in the log at most once.
I4  Order: in every queue, and so in every message group, the messages of one producer lie in the order of their sends; those of a
    producer's name in the order of its sequences, through all its lives. A source that is copied by name is there whole, exactly once.
I5  Nothing overtakes: what one open producer has in the log is a beginning of what it sent.
I6  Offsets are dense from 0 and stable: every (queue, offset) is one message for ever, for every reader at any time.
I7  The state in any checkpoint that was ever written equals the state folded from the log's start.
I8  A key above the floor is used once, and every entry was built on the state of the one before.
I9  What is still needed is there: the floor's checkpoint, every entry above the floor, every staged object that these link.
I10 The table equals the log: the same rows at the same offsets, none twice, none missing below what is published.
I11 A name's batches are of the opening that stands before them, and no opening counts twice; sequences rise; store times never go back.
I12 Progress: once faults have ended, every actor reaches its goal.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.log.checkpoints import decode_checkpoint
from penstock.log.entries import read_header
from penstock.log.errors import DataDamaged
from penstock.log.fold import Folded, Void, fold
from penstock.log.header import Epoch
from penstock.log.paths import TopicPaths
from penstock.log.rows import entry_rows
from penstock.log.state import State, row_sum
from tests.simulation.history import Past, Place, Send, Session
from tests.simulation.world import World


@dataclass(slots=True)
class Truth:
    """The log from its start, as the fold makes it out of every entry that ever was."""

    states: dict[int, State] = field(default_factory=lambda: {0: State()})
    rows: dict[Place, bytes] = field(default_factory=dict)
    places: dict[tuple[int, bytes], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Generation and body to (queue, offset)."""
    folded: list[Folded] = field(default_factory=list)
    end: int = 0


def check(world: World) -> list[str]:
    """Everything that is wrong with a run that has settled, in words; each begins with the invariant's number."""
    wrong = list(world.history.wrong)
    truth = Truth()
    try:
        asyncio.run(_replay(world, truth))
    except DataDamaged as error:
        return [*wrong, f"I8 {error}"]
    wrong += _keys(world, truth)
    wrong += _checkpoints(world, truth)
    wrong += _needed(world, truth)
    wrong += _offsets(world, truth)
    wrong += _order_of_names(truth)
    for session in world.history.sessions:
        wrong += _session(session, truth)
    wrong += _bodies(world, truth)
    wrong += _sources(world, truth)
    _count(world, truth)
    return wrong


async def _replay(world: World, truth: Truth) -> None:
    past, paths = Past(world.archive), world.paths
    state = State()
    while (stored := world.archive.first.get(paths.entry(state.entry + 1))) is not None:
        where = paths.entry(state.entry + 1)
        folded = fold(state, read_header(stored.data, where=where), where=where)
        state = folded.state
        truth.states[state.entry] = state
        truth.folded.append(folded)
        rows = await entry_rows(past, paths, folded, stored.data)
        if rows.lost:
            raise DataDamaged("rows of an accepted batch never were on the store", object=where, observed=rows.lost[0])
        for queue, offset, body in _rows(rows.table):
            place = (state.generation, queue, offset)
            if place in truth.rows:
                raise DataDamaged("an offset is given twice", object=where, observed=place)
            truth.rows[place] = body
            truth.places[state.generation, body].append((queue, offset))
    truth.end = state.entry


def _rows(table: object) -> Iterator[tuple[int, int, bytes]]:
    columns = [table[name].to_pylist() for name in ("queue", "offset", "body")]  # type: ignore[index]
    return zip(*columns, strict=True)


def _keys(world: World, truth: Truth) -> Iterator[str]:
    """I8: an entry's key that is created again lies at or below the floor, where nobody believes it."""
    floor = _floor(world)
    times = Counter(number for key in world.archive.created if (number := world.paths.entry_number(key)) is not None)
    for number, count in times.items():
        if count > 1 and number > floor:
            yield f"I8 entry {number} was created {count} times, and the floor is {floor}"
        if count > 1:
            world.counts["entry created again below the floor"] += 1
        if number > truth.end:
            yield f"I8 entry {number} stands beyond a gap: the log ends at {truth.end}"


def _checkpoints(world: World, truth: Truth) -> Iterator[str]:
    """I7, of all that were ever written."""
    for key, stored in world.archive.first.items():
        number = world.paths.checkpoint_entry(key) if key.startswith(world.paths.checkpoints) else None
        if number is None:
            continue
        state = decode_checkpoint(stored.data, where=key)
        if state != truth.states.get(number):
            yield f"I7 checkpoint {number} is not the state folded from the start"
        if row_sum(state) != state.sum:
            yield f"I7 checkpoint {number}: the running sum has gone wrong"


def _floor(world: World) -> int:
    held = world.archive._objects.get(world.paths.floor)
    return int(json.loads(held.data)["floor"]) if held else 0


def _needed(world: World, truth: Truth) -> Iterator[str]:
    """I9, at the end of the run; followers watch it during the run."""
    floor, archive, paths = _floor(world), world.archive, world.paths
    if floor and not archive.holds(paths.checkpoint(floor)):
        yield f"I9 the floor is {floor}, and its checkpoint is gone"
    for folded in truth.folded[floor:]:
        if not archive.holds(paths.entry(folded.number)):
            yield f"I9 entry {folded.number} is gone, above the floor {floor}"
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
            for part in batch.parts if not isinstance(verdict, Void) else ():
                if not archive.holds(paths.root + part.key):
                    yield f"I9 {part.key}, linked by entry {folded.number} above the floor {floor}, is gone"


def _offsets(world: World, truth: Truth) -> Iterator[str]:
    """I6."""
    ends: dict[tuple[int, int], int] = {}
    for generation, queue, offset in sorted(truth.rows):
        expected = ends.get((generation, queue), 0)
        if offset != expected:
            yield f"I6 queue {queue} of generation {generation} goes from {expected - 1} to {offset}"
        ends[generation, queue] = offset + 1
    generation = truth.states[truth.end].generation
    alive = {place: body for place, body in truth.rows.items() if place[0] == generation}
    if world.history.audit != alive:
        differing = sorted(place for place, _ in alive.items() ^ world.history.audit.items())
        yield f"I10 a reader in the end sees other rows than the log had: {differing[:10]} of {len(differing)}"
    for place, body in world.history.seen.items():
        if truth.rows.get(place) != body:
            yield f"I6 {body[:40]!r} was read at {place}, where the log has {(truth.rows.get(place) or b'nothing')[:40]!r}"


def _order_of_names(truth: Truth) -> Iterator[str]:
    """I11, without the fold's help."""
    epochs: dict[tuple[int, str], Epoch] = {}
    sequences: dict[tuple[int, str], int] = {}
    opened: set[str] = set()
    time_ms = 0
    for folded in truth.folded:
        if folded.store_time_ms < time_ms:
            yield f"I11 the store time goes back at entry {folded.number}"
        time_ms = folded.store_time_ms
        for opening, epoch in zip(folded.header.openings, folded.epochs, strict=True):
            if isinstance(epoch, Epoch):
                if opening.write_id in opened:
                    yield f"I11 entry {folded.number}: an opening of {opening.producer} counts a second time"
                opened.add(opening.write_id)
                epochs[folded.state.generation, opening.producer] = epoch
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
            if isinstance(verdict, Void) or not batch.named:
                continue
            name = (folded.state.generation, batch.producer)
            if batch.epoch != epochs.get(name):
                yield f"I11 entry {folded.number}: {batch.producer} of epoch {batch.epoch}, where {epochs.get(name)} is open"
            if batch.last - batch.row_count < sequences.get(name, -1):
                yield f"I11 entry {folded.number}: {batch.producer} sequences to {batch.last} behind {sequences[name]}"
            sequences[name] = batch.last


def _session(session: Session, truth: Truth) -> Iterator[str]:
    """I1 to I5 of one open producer."""
    who = f"{session.process}, producer {session.producer}"
    missing: bytes | None = None
    last: dict[int, int] = {}
    for send in session.sends:
        outcome, places = send.outcome, truth.places.get((session.generation, send.body), [])
        label = f"{send.body[:40]!r} of {who}"
        if isinstance(outcome, tuple) and outcome.duplicate:
            continue  # another life of the name sent it, with a mark of its own: see `_sources`
        if len(places) > 1:
            yield f"I{3 if send.is_unknown else 1} {label} is in the log {len(places)} times: {places}"
        if isinstance(outcome, tuple):
            expected = (outcome.queue, outcome.offset)
            if not places:
                yield f"I1 {label} was acknowledged at {expected} and is not in the log"
            elif outcome.offset is not None and places[0] != expected:
                yield f"I1 {label} was acknowledged at {expected} and is at {places[0]}"
        if session.named:
            continue  # another life of the name may have sent what this one could not: see `_bodies` and `_sources`
        if not places:
            missing = missing or send.body
            continue
        if missing is not None:
            yield f"I5 {label} is in the log, {missing[:40]!r} before it is not"
        queue, offset = places[0]
        if offset <= last.get(queue, -1):
            yield f"I4 {label} is at {queue}/{offset}, behind {last[queue]}"
        last[queue] = offset


def _bodies(world: World, truth: Truth) -> Iterator[str]:
    """I2 and I3 over all lives: what is in the log is there once, and somebody was not told that it failed."""
    hopeful = {(s.generation, send.body) for s in world.history.sessions for send in s.sends if _may_be_there(send)}
    for (generation, body), places in truth.places.items():
        if len(places) > 1:
            yield f"I3 {body[:40]!r} is in the log of generation {generation} {len(places)} times: {places}"
        if (generation, body) not in hopeful:
            yield f"I2 {body[:40]!r} failed and is in the log of generation {generation} at {places[0]}"


def _may_be_there(send: Send) -> bool:
    return send.is_unknown or isinstance(send.outcome, tuple)


def _sources(world: World, truth: Truth) -> Iterator[str]:
    """I1, I4 and I5 of names: the log has a beginning of the source, each message once, each queue in its order."""
    for source in world.sources:
        found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for (generation, queue, offset), body in truth.rows.items():
            if (index := source.index_of(body)) is not None:
                found[generation].append((queue, offset, index))
        for generation, places in found.items():
            for queue in {queue for queue, _, _ in places}:
                indexes = [index for _, index in sorted((offset, index) for at, offset, index in places if at == queue)]
                if indexes != sorted(indexes):
                    yield f"I4 queue {queue} of generation {generation}: {source.name} is out of order: {indexes}"
            present = sorted(index for _, _, index in places)
            if present != list(range(len(present))):
                yield f"I5 {source.name} in generation {generation} has gaps, or something twice: {present}"
        for generation, copied in source.copied.items():
            if copied >= source.last and len(found[generation]) != source.count:
                yield f"I1 {source.name} was copied whole, and generation {generation} has {len(found[generation])} of {source.count}"
        for session in world.history.sessions:
            for send in session.sends if session.producer == source.name else ():
                duplicate = isinstance(send.outcome, tuple) and send.outcome.duplicate
                if duplicate and all(index != source.index_of(send.body) for _, _, index in found[session.generation]):
                    yield f"I1 {send.body!r} of {session.process} was called a duplicate, and the log has nothing of it"


def _count(world: World, truth: Truth) -> None:
    """What the run met, by name, for the sweep's table."""
    paths, trace = world.paths, world.store.trace.events
    writers = {event.key: event.process for event in trace if event.verb == "put" and " bytes " in event.outcome}
    world.counts.update(what for folded in truth.folded for what in _met(folded, paths, writers))
    world.counts.update("lost race" for event in trace if event.outcome == "conflict" and paths.entry_number(event.key) is not None)
    prefixes = {paths.handed: "collected hand-over", paths.jobs: "collected job object"}
    for key in world.archive.deleted:
        if paths.entry_number(key) is not None:
            world.counts["trimmed entry"] += 1
        world.counts.update(what for prefix, what in prefixes.items() if key.startswith(prefix))
    world.counts["trim"] += bool(_floor(world))
    for session in world.history.sessions:
        outcomes = (send.outcome for send in session.sends)
        world.counts.update("ack" if isinstance(one, tuple) else f"send: {getattr(one, 'kind', 'died')}" for one in outcomes)


def _met(folded: Folded, paths: TopicPaths, writers: Mapping[str, str]) -> Iterator[str]:
    yield "entry"
    for epoch in folded.epochs:
        yield "void opening" if isinstance(epoch, Void) else "opening"
    for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
        if isinstance(verdict, Void):
            yield "void batch"
            yield f"void: {verdict.name.lower()}"
            continue
        if batch.job is not None:
            yield "job linked"
        for key in (paths.root + part.key for part in batch.parts):
            if key.startswith(paths.handed):
                yield "step-in" if writers.get(key) == writers.get(paths.entry(folded.number)) else "hand-over"
