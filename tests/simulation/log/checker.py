"""The judge of a run: from what applications were told and readers saw, and from every object that ever was, whether the log kept its word.

What it finds wrong begins with the number of an invariant of ``docs/0001-the-log-protocol.md``. What is checked of each:

I1  Every entry's key above the floor was created once, and there is no gap.
I2  Every entry was built on the state of the one before; every checkpoint that was ever written is the state folded from the start.
I3  An acknowledged message is in the log exactly once, where it was acknowledged; one whose outcome is unknown, at most once.
I4  A message whose send failed is not in the log.
I5  In every queue the messages of one producer lie in the order of their sends, and what it has in the log is a beginning of what it
    sent; a source that is copied by name is there from its beginning, each message once, through all lives of its copiers.
I6  Offsets are dense from 0 and stable: every (queue, offset) is one message, for every reader at any time. Store times never go back.
I7  A name's batches are of the opening that stands before them, and no opening counts twice.
I8  What was sent to one life of the topic is in no other.
I9  The floor's checkpoint and every entry above the floor are there.
I10 A reader of table and log sees every row once; none is missing but what retention took, in its time, and what was named as lost. A
    data file is written once.
I11 Every staged object that an entry above the floor links is there.
I12 What was named as lost lay in damaged objects.
I14 Rows whose sender named no queue lie where the number of queues behind their entry routes their message group, and those of one
    producer and message group lie in the order of their sends, whatever queues the group had.
I13 Everything sent has an outcome; once faults have ended, every actor reaches its goal.

Of a topic whose schema evolves:

E1  Every row is shown to every reader as it was sent: each field by its number, in the words of the version that the reader goes by.
E3  The log's versions of the schema are dense; whoever was told of one finds it there, and states tell of each with its entry.
E4  The newest version holds what all files of the table have.

Of idempotent producers (that what they were told is in the log is there, once and in order, is what I3 to I5 say of each epoch):

P1  No number of a producer is accepted twice in a queue, and those of an epoch, and epochs, rise.
P4  What is first of all that a producer has no answer for is never called out of order, nor fenced by its own epochs.

Of ``docs/0008-ordered-writes.md``:

W1  The rows of a batch that was staged elsewhere are brought by one entry, all of them. That each batch is there once, in its order, is
    what I3 and I5 say of the source it is of.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import takewhile

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.log.errors import DataDamaged
from penstock.log.format.checkpoint import decode_checkpoint
from penstock.log.format.entry import read_header
from penstock.log.format.fold import FoldedEntry, VoidReason, fold
from penstock.log.format.header import Epoch, Repair
from penstock.log.format.state import TopicState, row_sum
from penstock.log.message.message import VALUE
from penstock.log.message.routing import queue_of
from penstock.log.schema.stored_columns import is_stored_by
from penstock.log.tail.entry_rows import runs_of
from tests.rows import entry_rows
from tests.simulation.log.actors import Source
from tests.simulation.log.counts import count
from tests.simulation.log.history import Past, Place, Send, Session
from tests.simulation.log.linking import Batches
from tests.simulation.log.typed_rows import Rows, wrong_rows
from tests.simulation.log.world import World


@dataclass(slots=True)
class Truth:
    """The log from its start, as the fold makes it out of every entry that ever was."""

    states: dict[int, TopicState] = field(default_factory=lambda: {0: TopicState()})
    rows: dict[Place, bytes] = field(default_factory=dict)
    times_ms: dict[Place, int] = field(default_factory=dict)
    """The store time of every row."""
    places: dict[tuple[int, bytes], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Life and body to (queue, offset)."""
    groups: dict[tuple[int, bytes], tuple[str, int, bool]] = field(default_factory=dict)
    """Life and body to message group, entry, and whether it lies in the queue that the group has."""
    lives: dict[int, int] = field(default_factory=dict)
    """Routing generation to the life it belongs to."""
    inside: dict[str, set[Place]] = field(default_factory=lambda: defaultdict(set))
    """The rows of each entry and of each object it links."""
    folded: list[FoldedEntry] = field(default_factory=list)
    end: int = 0

    def life(self, session: Session) -> int:
        """The life of the topic that a producer was opened for; -1: the log knows of none."""
        return self.lives.get(session.generation, -1)


def check(world: World) -> list[str]:
    """Everything that is wrong with a run that has settled, in words."""
    wrong = list(world.history.wrong)
    truth = Truth()
    try:
        wrong += asyncio.run(_replay(world, truth))
    except DataDamaged as error:
        return [*wrong, f"I2 {error}"]
    wrong += _keys(world, truth)
    wrong += _checkpoints(world, truth)
    wrong += _needed(world, truth)
    wrong += _offsets(world, truth)
    wrong += _table(world, truth)
    wrong += _lost(world, truth)
    wrong += _order_of_names(truth)
    wrong += _numbers(truth)
    for session in world.history.sessions:
        wrong += _session(session, truth)
    wrong += _bodies(world, truth)
    wrong += _sources(world, truth)
    wrong += _batches(world, truth)
    if world.rows is not None:
        wrong += _rows(world, world.rows, truth)
    count(world, truth.folded, _floor(world))
    return wrong


async def _replay(world: World, truth: Truth) -> list[str]:
    past, paths, wrong = Past(world.archive), world.paths, list[str]()
    state = TopicState()
    while (stored := world.archive.first.get(paths.entry(state.entry + 1))) is not None:
        where = paths.entry(state.entry + 1)
        folded = fold(state, read_header(stored.data, where=where), where=where)
        time_ms, state = state.store_time_ms, folded.state
        truth.states[state.entry] = state
        truth.folded.append(folded)
        truth.lives[state.generation] = life = state.created_entry
        if state.store_time_ms < time_ms:
            wrong.append(f"I6 the store time goes back at entry {state.entry}")
        rows = await entry_rows(past, paths, folded, stored.data)
        wrong += [f"I11 rows that entry {state.entry} links never were on the store: {lost}" for lost in rows.lost]
        columns = (rows.table["queue"].to_pylist(), rows.table["offset"].to_pylist(), rows.table["message_group"].to_pylist())
        for queue, offset, group, body in zip(*columns, world.contents("the log", rows.table, state.schema), strict=True):
            truth.groups[life, body] = group, state.entry, queue == queue_of(group, state.queues)
            place = (life, queue, offset)
            if place in truth.rows:
                wrong.append(f"I6 entry {state.entry} gives {place} out a second time")
            truth.rows[place], truth.times_ms[place] = body, state.store_time_ms
            truth.places[life, body].append((queue, offset))
        for run in runs_of(folded):
            offsets = range(run.first_offset, run.first_offset + run.count)
            for key in {where, paths.root + (run.key or "")}:
                truth.inside[key].update((life, run.queue, offset) for offset in offsets)
    truth.end = state.entry
    return wrong


def _rows(world: World, rows: Rows, truth: Truth) -> Iterator[str]:
    """E1 to E4."""
    versions = {state.schema.version: state.schema for state in truth.states.values() if state.schema is not None}
    yield from wrong_rows(rows, versions)
    told = [(one.version, one.entry) for one in truth.states[truth.end].versions]
    first = {number: min(n for n, state in truth.states.items() if state.schema == schema) for number, schema in versions.items()}
    if told != sorted(first.items())[-len(told) :]:
        yield f"E3 the state tells of versions {told}, where the log has {first}"
    stored = versions[max(versions)].stored_arrow
    for key, found in world.archive.first.items():
        if "/queue=" in key and not is_stored_by(pq.read_schema(pa.BufferReader(found.data)).field(VALUE).type, stored):
            yield f"E4 the last version of the schema cannot hold the rows of {key}"
    world.counts["schema version"] += len(versions)


def _keys(world: World, truth: Truth) -> Iterator[str]:
    """I1: an entry's key that is created again lies at or below the floor, where nobody believes it."""
    floor = _floor(world)
    replaced = {number for key in world.archive.replaced if (number := world.paths.entry_number(key)) is not None}
    yield from (f"I1 entry {number} was written over" for number in sorted(replaced))
    times = Counter(number for key in world.archive.created if (number := world.paths.entry_number(key)) is not None)
    for number, created in times.items():
        if created > 1 and number > floor:
            yield f"I1 entry {number} was created {created} times, and the floor is {floor}"
        if created > 1:
            world.counts["entry created again below the floor"] += 1
        if number > truth.end:
            yield f"I1 entry {number} stands beyond a gap: the log ends at {truth.end}"


def _checkpoints(world: World, truth: Truth) -> Iterator[str]:
    """I2, of all that were ever written."""
    for key, stored in world.archive.first.items():
        number = world.paths.checkpoint_entry(key) if key.startswith(world.paths.checkpoints) else None
        if number is None:
            continue
        try:
            state = decode_checkpoint(stored.data, where=key)
        except DataDamaged as error:
            yield f"I2 checkpoint {number} was never whole: {error}"
            continue
        if state != truth.states.get(number):
            yield f"I2 checkpoint {number} is not the state folded from the start"
        if row_sum(state) != state.sum:
            yield f"I2 checkpoint {number}: the running sum has gone wrong"


def _floor(world: World) -> int:
    held = world.archive._objects.get(world.paths.floor)
    return int(json.loads(held.data)["floor"]) if held else 0


def _needed(world: World, truth: Truth) -> Iterator[str]:
    """I9 and I11, at the end of the run; followers watch them during the run."""
    floor, archive, paths = _floor(world), world.archive, world.paths
    if floor and not archive.holds(paths.checkpoint(floor)):
        yield f"I9 the floor is {floor}, and its checkpoint is gone"
    for folded in truth.folded[floor:]:
        if not archive.holds(paths.entry(folded.number)):
            yield f"I9 entry {folded.number} is gone, above the floor {floor}"
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
            for part in batch.parts if not isinstance(verdict, VoidReason) else ():
                if not archive.holds(paths.root + part.key):
                    yield f"I11 {part.key}, linked by entry {folded.number} above the floor {floor}, is gone"


def _offsets(world: World, truth: Truth) -> Iterator[str]:
    """I6; behind a lost entry offsets may go on above all that it can have given out, and the repair names what is between."""
    ends: dict[tuple[int, int], int] = {}
    for life, queue, offset in sorted(truth.rows):
        expected = ends.get((life, queue), 0)
        if offset != expected and not world.history.is_lost(life, queue, expected, offset):
            yield f"I6 queue {queue} of life {life} goes from {expected - 1} to {offset}"
        ends[life, queue] = offset + 1
    for place, body in world.history.seen.items():
        if truth.rows.get(place) != body:
            yield f"I6 {body[:40]!r} was read at {place}, where the log has {(truth.rows.get(place) or b'nothing')[:40]!r}"


def _table(world: World, truth: Truth) -> Iterator[str]:
    """I10: what a reader of table and log sees in the end, and that retention takes nothing before its time."""
    history, retention = world.history, world.settings.retention
    alive = {place: body for place, body in truth.rows.items() if place[0] == truth.states[truth.end].created_entry}
    for place in sorted(place for place, _ in alive.items() ^ history.audit.items())[:10]:
        _, queue, offset = place
        expired = offset < history.starts[queue] and retention is not None
        if place in history.audit or not (expired or history.is_lost(*place, offset + 1)):
            seen, held = history.audit.get(place), alive.get(place)
            yield f"I10 a reader in the end sees {(seen or b'nothing')[:40]!r} at {place}, where the log had {(held or b'nothing')[:40]!r}"
    if retention is not None:
        kept_ms = world.now_ms() - retention // timedelta(milliseconds=1)
        early = [place for place in alive if place[2] < history.starts[place[1]] and truth.times_ms[place] >= kept_ms]
        yield from (f"I10 retention took {place} before its time" for place in early)
    written = Counter(call.key for call in world.store.calls if call.verb in {"put", "put_large"} and "/queue=" in call.key)
    yield from (f"I10 {key} was written {times} times" for key, times in written.items() if times > 1)


def _lost(world: World, truth: Truth) -> Iterator[str]:
    """I12: what a repair or the table named as lost lay in a damaged object, or behind one whose verdicts nobody can know."""
    explained: set[Place] = set()
    for key, damage in world.history.damaged.items():
        number = world.paths.entry_number(key)
        explained |= truth.inside[key]
        # Behind an entry that is lost altogether, verdicts are known again from the repair on.
        behind = truth.folded[number or truth.end :] if damage.footer else []
        for later in takewhile(lambda folded: not any(isinstance(one, Repair) for one in folded.header.actions), behind):
            explained |= truth.inside[world.paths.entry(later.number)]
    for place in truth.rows:
        if place not in explained and world.history.is_lost(*place, place[2] + 1):
            yield f"I12 {place} was named as lost, and nothing that held it is damaged"


def _order_of_names(truth: Truth) -> Iterator[str]:
    """I5 and I7 of names, without the fold's help."""
    epochs: dict[tuple[int, str], Epoch] = {}
    sequences: dict[tuple[int, str], int] = {}
    opened: set[str] = set()
    for folded in truth.folded:
        life = folded.state.created_entry
        for opening, epoch in zip(folded.header.openings, folded.epochs, strict=True):
            if isinstance(epoch, Epoch):
                if opening.write_id in opened:
                    yield f"I7 entry {folded.number}: an opening of {opening.producer} counts a second time"
                opened.add(opening.write_id)
                epochs[life, opening.producer] = epoch
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
            if isinstance(verdict, VoidReason) or not batch.named:
                continue
            if batch.epoch != (open_ := epochs.get((life, batch.producer))):
                yield f"I7 entry {folded.number}: {batch.producer} of epoch {batch.epoch}, where {open_} is open"
            name = (life, batch.producer)
            if batch.last - batch.row_count < sequences.get(name, -1):
                yield f"I5 entry {folded.number}: {batch.producer} sequences to {batch.last} behind {sequences[name]}"
            sequences[name] = batch.last


def _numbers(truth: Truth) -> Iterator[str]:
    """P1, without the fold's help."""
    behind: dict[tuple[int, str, int], int] = {}
    for folded in truth.folded:
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
            if isinstance(verdict, VoidReason) or batch.begins is None:
                continue
            (queue,) = batch.rows
            key = (folded.state.created_entry, batch.producer, queue)
            if batch.previous < behind.get(key, 0):
                yield f"P1 entry {folded.number}: {batch.producer} goes to {batch.last} in queue {queue}, behind {behind[key]}"
            behind[key] = batch.last


def _session(session: Session, truth: Truth) -> Iterator[str]:
    """I3 and I5 of one open producer."""
    who = f"{session.process}, producer {session.producer}"
    missing: bytes | None = None
    last: dict[int, int] = {}
    entries: dict[str, int] = {}
    for send in session.sends:
        outcome, places = send.outcome, truth.places.get((truth.life(session), send.body), [])
        label = f"{send.body[:40]!r} of {who}"
        if isinstance(outcome, tuple) and outcome.duplicate:
            continue  # another life of the name sent it, with a mark of its own: see `_sources`
        if len(places) > 1:
            yield f"I3 {label} is in the log {len(places)} times: {places}"
        if isinstance(outcome, tuple):
            expected = (outcome.queue, outcome.offset)
            if not places:
                yield f"I3 {label} was acknowledged at {expected} and is not in the log"
            elif outcome.offset is not None and places[0] != expected:
                yield f"I3 {label} was acknowledged at {expected} and is at {places[0]}"
        if places and not send.is_placed:
            group, entry, is_home = truth.groups[truth.life(session), send.body]
            if not is_home:
                yield f"I14 {label} of group {group} is in queue {places[0][0]}, which is not the group's behind entry {entry}"
            if not session.named and entry < entries.get(group, 0):
                yield f"I14 {label} of group {group} is in entry {entry}, before {entries[group]}"
            entries[group] = entry
        if session.named:
            continue  # another life of the name may have sent what this one could not: see `_bodies` and `_sources`
        if not places:
            missing = missing or send.body
            continue
        if missing is not None:
            yield f"I5 {label} is in the log, {missing[:40]!r} before it is not"
        queue, offset = places[0]
        if offset <= last.get(queue, -1):
            yield f"I5 {label} is at {queue}/{offset}, behind {last[queue]}"
        last[queue] = offset


def _bodies(world: World, truth: Truth) -> Iterator[str]:
    """I3, I4 and I8 over all producers: what is in the log is there once, and was sent to this life by one that was not told it failed."""
    sent = [(truth.life(session), send) for session in world.history.sessions for send in session.sends]
    hopeful = {(life, send.body) for life, send in sent if _may_be_there(send)}
    elsewhere = {send.body for _, send in sent if _may_be_there(send)}
    for (life, body), places in truth.places.items():
        if len(places) > 1:
            yield f"I3 {body[:40]!r} is in the log of life {life} {len(places)} times: {places}"
        if (life, body) not in hopeful:
            what = "I8 {} was sent to another life" if body in elsewhere else "I4 {} failed"
            yield f"{what.format(repr(body[:40]))}, and is in the log of life {life} at {places[0]}"


def _may_be_there(send: Send) -> bool:
    return send.is_unknown or isinstance(send.outcome, tuple)


def _sources(world: World, truth: Truth) -> Iterator[str]:
    """I3 and I5 of names: the log has a beginning of the source, each message once, each queue in its order."""
    for source in world.sources:
        found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for (life, queue, offset), body in truth.rows.items():
            if (index := source.index_of(body)) is not None:
                found[life].append((queue, offset, index))
        for life, places in found.items():
            yield from _across_queues(
                source, {index: truth.rows[life, queue, offset] for queue, offset, index in places}, life, truth
            )
            for queue in {queue for queue, _, _ in places}:
                indexes = [index for _, index in sorted((offset, index) for at, offset, index in places if at == queue)]
                if indexes != sorted(indexes):
                    yield f"I5 queue {queue} of life {life}: {source.name} is out of order: {indexes}"
            present = sorted(index for _, _, index in places)
            if present != list(range(len(present))):
                yield f"I5 {source.name} in life {life} has gaps, or something twice: {present}"
        for generation, copied in source.copied.items():
            life = truth.lives.get(generation, -1)
            if copied >= source.last and len(found[life]) != source.count:
                yield f"I3 {source.name} was copied whole, and life {life} has {len(found[life])} of {source.count}"
        for session in world.history.sessions:
            for send in session.sends if session.producer == source.name else ():
                duplicate = isinstance(send.outcome, tuple) and send.outcome.duplicate
                if duplicate and all(index != source.index_of(send.body) for _, _, index in found[truth.life(session)]):
                    yield f"I3 {send.body!r} of {session.process} was called a duplicate, and the log has nothing of it"


def _across_queues(source: Source, bodies: dict[int, bytes], life: int, truth: Truth) -> Iterator[str]:
    """I14 of a name."""
    entries: dict[str, int] = {}
    for index, body in sorted(bodies.items()):
        group, entry, is_home = truth.groups[life, body]
        if entry < entries.get(group, 0) or not is_home:
            yield f"I14 {source.name} in life {life}: {index} of group {group} is in entry {entry}, before {entries.get(group)} or misplaced"
        entries[group] = entry


def _batches(world: World, truth: Truth) -> Iterator[str]:
    """W1: what is linked as one batch is in the log as one, by one entry."""
    sources = [source for source in world.sources if isinstance(source, Batches)]
    if not sources:
        return
    entries = {place: folded.number for folded in truth.folded for place in truth.inside[world.paths.entry(folded.number)]}
    for source in sources:
        found: dict[tuple[int, int], int] = {
            (place[0], index): entries[place] for place, body in truth.rows.items() if (index := source.index_of(body)) is not None
        }
        for life in {life for life, _ in found}:
            for number, batch in enumerate(source.batches):
                brought = {found.get((life, index)) for index in batch}
                if len(brought) > 1:
                    yield f"W1 batch {number} of {source.name} in life {life} is in several entries, or in part: {brought}"
