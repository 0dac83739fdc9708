"""The fold as a state machine: whatever entries bring, in whatever order, it agrees with a plain model that keeps what happened as a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.log.format.checkpoint import decode_checkpoint, encode_checkpoint
from penstock.log.format.fold import VoidReason, fold
from penstock.log.format.header import (
    Action,
    Batch,
    CloseJob,
    Created,
    Deleted,
    Epoch,
    Evolved,
    ForgetJob,
    Grown,
    Header,
    Opening,
    Part,
)
from penstock.log.format.schema_form import SchemaForm, schema_form
from penstock.log.format.state import TopicState, row_sum
from penstock.log.limits import (
    IDEMPOTENT_ROW_MS,
    IDEMPOTENT_STEP_MAX_MS,
    NAMED_ROW_MS,
    STORE_TIME_STEP_MAX_MS,
    UNNAMED_ROW_ENTRIES,
    VALIDITY_ENTRIES,
)
from penstock.log.schema.evolution import evolve
from penstock.log.schema.sources import fields_of
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from tests.log.test_fold import DAY_MS, START_MS, header_on
from tests.thorough import examples

NAMES = ("n", "m")
UNNAMED = ("a", "b")
NUMBERED = st.tuples(st.sampled_from(["a", "i"]), st.integers(0, 1))
"""Idempotent producers and queues; one has an unnamed producer's id."""
EPOCH = 1 << 40
JOBS = ("j", "k")
SCHEMAS = [first_schema(fields_of("a int"))]
SCHEMAS.append(evolve(SCHEMAS[0], fields_of("a bigint")))
SCHEMAS.append(evolve(SCHEMAS[1], fields_of("a bigint, b string")))
RIVAL = evolve(SCHEMAS[0], fields_of("a int, c string"))
"""Another second version."""
SENDERS = st.sampled_from(NAMES + UNNAMED)
ROWS = st.dictionaries(st.integers(0, 2), st.integers(1, 3), min_size=1, max_size=2)


@dataclass(slots=True)
class Name:
    """An open name, as the model knows it."""

    epoch: Epoch
    last: int
    used_ms: int


@dataclass(slots=True)
class Counted:
    """What an idempotent producer has in a queue, as the model knows it."""

    numbers: set[int]
    """Of its records of the present epoch."""
    next: int
    age_ms: int = 0


def counted_key(batch: Batch) -> tuple[str, int]:
    (queue,) = batch.rows
    return batch.producer, queue


@dataclass(slots=True)
class Model:
    """What the protocol's note says, over lists of what happened: no sums, no order of use, nothing dropped but names."""

    entry: int = 0
    time_ms: int = 0
    lives: list[str] = field(default_factory=list)
    generation: int = 0
    marks: list[list[int]] = field(default_factory=list)
    """Where the queues stood at every growth of this life."""
    alive: bool = False
    next: list[int] = field(default_factory=list)
    names: dict[str, Name] = field(default_factory=dict)
    accepted: list[tuple[int, int, Batch]] = field(default_factory=list)
    """Life, entry and batch."""
    opened: list[tuple[int, str]] = field(default_factory=list)
    """Entry and write id."""
    jobs: dict[str, int] = field(default_factory=dict)
    schemas: list[SchemaForm] = field(default_factory=list)
    """The versions of the schema of this life, none if it has no schema."""

    counted: dict[tuple[str, int], Counted] = field(default_factory=dict)

    def take(self, header: Header) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """(what becomes of every opening, what becomes of every batch)"""
        self.entry += 1
        now_ms, before_ms = header.append_time_ms, self.time_ms
        self.time_ms = now_ms if self.time_ms == 0 else max(self.time_ms, min(now_ms, self.time_ms + STORE_TIME_STEP_MAX_MS))
        self.names = {name: one for name, one in self.names.items() if self.time_ms - one.used_ms <= NAMED_ROW_MS}
        for one in self.counted.values():
            one.age_ms += min(self.time_ms - before_ms, IDEMPOTENT_STEP_MAX_MS)
        self.counted = {key: one for key, one in self.counted.items() if one.age_ms <= IDEMPOTENT_ROW_MS}
        for action in header.actions:
            self.act(action)
        return tuple(self.open(one, at) for at, one in enumerate(header.openings)), tuple(self.accept(b) for b in header.batches)

    def act(self, action: Action) -> None:
        if isinstance(action, Created):
            if not self.alive and action.replaces == (self.lives[-1] if self.lives else ""):
                self.lives.append(action.incarnation)
                self.generation, self.marks = self.generation + 1, []
                self.alive, self.next, self.names = True, [0] * action.queues, {}
                self.counted = {}
                self.schemas = [] if action.schema is None else [action.schema]
        elif isinstance(action, Evolved):
            # Of what is drawn here, a rival's third version would take c away.
            follows = self.alive and action.generation == self.generation and action.schema.version == len(self.schemas) + 1 > 1
            if follows and not (action.schema.version == 3 and self.schemas[1] == schema_form(RIVAL)):
                self.schemas.append(action.schema)
        elif isinstance(action, Deleted):
            self.alive = self.alive and action.incarnation != self.lives[-1]
        elif isinstance(action, Grown):
            count = len(self.next)
            if self.alive and action.generation == self.generation and action.queues > count and action.queues % count == 0:
                self.generation += 1
                self.marks.append(list(self.next))
                self.next += [0] * (action.queues - count)
        elif isinstance(action, CloseJob):
            self.jobs.setdefault(action.job, self.entry)
        elif isinstance(action, ForgetJob) and self.entry - self.jobs.get(action.job, self.entry) > VALIDITY_ENTRIES:
            del self.jobs[action.job]

    def open(self, one: Opening, position: int) -> Epoch | VoidReason:
        if (why := self.untimely(one.generation, one.valid_until)) is not None:
            return why
        if any(write_id == one.write_id and self.entry - entry <= UNNAMED_ROW_ENTRIES for entry, write_id in self.opened):
            return VoidReason.REPEATED
        self.opened.append((self.entry, one.write_id))
        known = self.names.get(one.producer)
        epoch = Epoch(self.entry, position)
        self.names[one.producer] = Name(epoch, known.last if known else one.last_sequence, self.time_ms)
        return epoch

    def accept(self, one: Batch) -> Mapping[int, int] | VoidReason:
        if (why := self.untimely(one.generation, one.valid_until)) is not None:
            return why
        if max(one.rows) >= len(self.next):
            return VoidReason.NO_QUEUE
        in_one_epoch = one.previous // EPOCH == one.last // EPOCH
        dense = one.begins is None or (len(one.rows) == 1 and one.last - one.previous == one.row_count and in_one_epoch)
        if one.last - one.previous < one.row_count or not dense:
            return VoidReason.MALFORMED
        if one.schema_version not in (range(1, len(self.schemas) + 1) if self.schemas else [0]):
            return VoidReason.SCHEMA
        if one.job in self.jobs:
            return VoidReason.JOB_CLOSED
        if (why := self.out_of_line(one)) is not None:
            return why
        if one.begins is not None:
            key = counted_key(one)
            before = self.counted.get(key)
            goes_on = before is not None and before.next == one.previous
            numbers = before.numbers if before is not None and goes_on else set()
            self.counted[key] = Counted(numbers | set(range(one.previous, one.last)), one.last)
        elif one.named:
            self.names[one.producer] = Name(self.names[one.producer].epoch, one.last, self.time_ms)
        if one.job is not None:
            self.jobs[one.job] = self.entry
        self.accepted.append((len(self.lives), self.entry, one))
        first = {queue: self.next[queue] for queue in one.rows}
        for queue, count in one.rows.items():
            self.next[queue] += count
        return first

    def untimely(self, generation: int, valid_until: int) -> VoidReason | None:
        if not self.alive:
            return VoidReason.NO_TOPIC
        if generation != self.generation:
            return VoidReason.GENERATION
        return VoidReason.EXPIRED if self.entry > valid_until else None

    def out_of_line(self, one: Batch) -> VoidReason | None:
        if one.begins is not None:
            counted = self.counted.get(counted_key(one))
            if counted is None:
                return None if one.begins else VoidReason.PREVIOUS
            if one.previous // EPOCH < counted.next // EPOCH:
                return VoidReason.FENCED
            begins = one.previous // EPOCH > counted.next // EPOCH and one.previous % EPOCH == 0
            return None if begins or one.previous == counted.next else VoidReason.PREVIOUS
        if one.named:
            known = self.names.get(one.producer)
            if known is None:
                return VoidReason.UNKNOWN_NAME
            if known.epoch != one.epoch:
                return VoidReason.FENCED
            return None if known.last == one.previous else VoidReason.PREVIOUS
        last = self.last_unnamed(one.producer)
        return None if last is None or last == one.previous else VoidReason.PREVIOUS

    def last_unnamed(self, producer: str) -> int | None:
        mine = [
            (entry, batch)
            for life, entry, batch in self.accepted
            if life == len(self.lives) and batch.producer == producer and not batch.named and batch.begins is None
        ]
        if not mine or self.entry - mine[-1][0] > UNNAMED_ROW_ENTRIES:
            return None
        return mine[-1][1].last


class FoldMachine(RuleBasedStateMachine):
    """Gathers parts of an entry, appends it, and compares; parts may be right or wrong in every way a batch can be."""

    def __init__(self) -> None:
        super().__init__()
        self.state = TopicState()
        self.model = Model()
        self.headers: list[Header] = []
        self.clock_ms = START_MS
        self.writes = 0
        self.ends: dict[tuple[int, int], int] = {}
        """Of every queue of every life, where the offsets given out end."""
        self.sequences: dict[tuple[int, str, Epoch | None], int] = {}
        """The last accepted one of everybody who sends, while the state knows him."""
        self.openings: list[Opening] = []
        self.batches: list[Batch] = []
        self.actions: list[Action] = []

    @initialize(queues=st.integers(1, 3), typed=st.booleans())
    def create(self, queues: int, typed: bool) -> None:
        self.actions.append(Created("life-1", queues, schema=schema_form(SCHEMAS[0]) if typed else None))
        self.append(0)

    # --- what an entry may bring

    @rule(name=st.sampled_from(NAMES), late=st.booleans(), old=st.booleans(), last=st.integers(-1, 9))
    def open(self, name: str, late: bool, old: bool, last: int) -> None:
        self.writes += 1
        valid_until = self.state.entry + (0 if late else VALIDITY_ENTRIES)
        self.openings.append(Opening(name, f"w{self.writes}", self.model.generation - old, valid_until, last))

    @precondition(lambda self: self.model.opened)
    @rule(data=st.data())
    def open_again(self, data: st.DataObject) -> None:
        """A late link brings an opening that was there before."""
        _, write_id = data.draw(st.sampled_from(self.model.opened))
        self.openings.append(Opening("n", write_id, self.model.generation, 10**6))

    @rule(producer=SENDERS, rows=ROWS)
    def send(self, producer: str, rows: dict[int, int]) -> None:
        """As a producer does that knows all."""
        self.batches.append(self.next_batch(producer, rows))

    @rule(
        producer=SENDERS,
        rows=ROWS,
        wrong=st.sampled_from(["previous", "previous", "epoch", "epoch", "generation", "late", "queue", "last", "job", "schema"]),
        by=st.sampled_from([-2, -1, 1, 2]),
        job=st.sampled_from(JOBS),
    )
    def send_wrongly(self, producer: str, rows: dict[int, int], wrong: str, by: int, job: str) -> None:
        """One thing about it is wrong, or new."""
        one = self.next_batch(producer, rows)
        match wrong:
            case "previous":
                one = replace(one, previous=max(-1, one.previous + by), last=one.last + abs(by))
            case "epoch" if one.epoch is not None:
                one = replace(one, epoch=replace(one.epoch, entry=one.epoch.entry + by))
            case "generation":
                one = replace(one, generation=one.generation + by)
            case "late":
                one = replace(one, valid_until=self.state.entry)
            case "queue":
                one = replace(one, rows={3: one.row_count})
            case "schema":
                one = replace(one, schema_version=max(0, one.schema_version + by))
            case "last":
                one = replace(one, last=one.last + by)
            case "job":
                one = replace(one, parts=(Part(f"staged/jobs/{job}/x.parquet", 0, rows, 1, "d"),), job=job)
        self.batches.append(one)

    def next_batch(self, producer: str, rows: dict[int, int]) -> Batch:
        """The right one; batches that wait for the same entry go on from one another, as those of one process do."""
        named, name = producer in NAMES, self.model.names.get(producer)
        known = (name.last if name is not None else None) if named else self.model.last_unnamed(producer)
        waiting = [one.last for one in self.batches if one.producer == producer]
        previous = waiting[-1] if waiting else -1 if known is None else known
        return Batch(
            producer,
            named,
            (name.epoch if name is not None else Epoch(1, 7)) if named else None,
            previous,
            previous + sum(rows.values()),
            self.model.generation,
            rows,
            self.state.entry + VALIDITY_ENTRIES,
            schema_version=len(self.model.schemas),
        )

    @rule(
        key=NUMBERED,
        count=st.integers(1, 3),
        by=st.sampled_from([0, 0, 0, 1, -1, -4]),
        epoch=st.sampled_from([0, 0, 0, 1, -1]),
        begins=st.booleans(),
    )
    def send_numbered(self, key: tuple[str, int], count: int, by: int, epoch: int, begins: bool) -> None:
        """The next of an idempotent producer, one that comes too early or again, or the first of another epoch."""
        producer, queue = key
        counted = self.model.counted.get(key)
        waiting = [one.last for one in self.batches if one.begins is not None and counted_key(one) == key]
        last = waiting[-1] if waiting else EPOCH if counted is None else counted.next
        previous = max(0, last // EPOCH + epoch) * EPOCH if epoch else max(0, last + by)
        send = Batch(
            producer,
            False,
            None,
            previous,
            previous + count,
            self.model.generation,
            {queue: count},
            self.state.entry + VALIDITY_ENTRIES,
            schema_version=len(self.model.schemas),
            begins=begins,
        )
        self.batches.append(send)

    @precondition(lambda self: self.batches)
    @rule()
    def again(self) -> None:
        """The same batch twice in an entry, as when a hand-over and its sender both bring it."""
        self.batches.append(self.batches[-1])

    @precondition(lambda self: self.model.accepted)
    @rule(data=st.data())
    def brought_again(self, data: st.DataObject) -> None:
        """One that was accepted before comes once more."""
        _, _, batch = data.draw(st.sampled_from(self.model.accepted[-8:]))
        self.batches.append(replace(batch, valid_until=self.state.entry + VALIDITY_ENTRIES))

    @rule(schema=st.sampled_from([*SCHEMAS, RIVAL]), old=st.booleans())
    def evolve(self, schema: TopicSchema, old: bool) -> None:
        """The next version, one that came before, one that comes too early, or one meant for the life before."""
        self.actions.append(Evolved(self.model.generation - old, schema_form(schema), ("changed",)))

    @rule(times=st.sampled_from([1, 2, 2, 3]), by=st.sampled_from([0, 0, 0, 1]), old=st.booleans())
    def grow(self, times: int, by: int, old: bool) -> None:
        """More queues; or as many, one too many, or meant for the generation before."""
        count = len(self.state.next_offsets)
        if count * times <= 12:
            self.actions.append(Grown(self.model.generation - old, count * times + by))

    @rule(job=st.sampled_from(JOBS), forget=st.booleans())
    def job(self, job: str, forget: bool) -> None:
        self.actions.append(ForgetJob(job) if forget else CloseJob(job))

    @rule(queues=st.integers(1, 3), how=st.sampled_from(["deleted", "again", "again", "another's", "stale"]), typed=st.booleans())
    def end(self, queues: int, how: str, typed: bool) -> None:
        """The topic is deleted, and created again at once or later; or somebody who is behind asks for either."""
        mine = self.model.lives[-1]
        if how != "stale" and self.model.alive:
            self.actions.append(Deleted("life-0" if how == "another's" else mine))
        if how != "deleted":
            schema = schema_form(SCHEMAS[0]) if typed else None
            self.actions.append(Created(f"life-{len(self.model.lives) + 1}", queues, "" if how == "stale" else mine, schema))

    # --- appending it

    @rule(step_ms=st.sampled_from([0, 1000, 1000, 60_000, -DAY_MS, DAY_MS, 3 * DAY_MS, 40 * DAY_MS]))
    def append(self, step_ms: int) -> None:
        self.clock_ms += step_ms
        header = header_on(self.state, time_ms=self.clock_ms, actions=self.actions, openings=self.openings, batches=self.batches)
        self.actions, self.openings, self.batches = [], [], []
        before = self.state
        folded = fold(before, header)
        self.headers.append(header)
        self.state = folded.state
        assert (folded.epochs, folded.verdicts) == self.model.take(header)
        assert before.store_time_ms <= self.state.store_time_ms
        for batch, verdict in zip(header.batches, folded.verdicts, strict=True):
            if not isinstance(verdict, VoidReason):
                self.note(batch, verdict)

    @rule(entries=st.sampled_from([1, 7, VALIDITY_ENTRIES - 1, VALIDITY_ENTRIES, VALIDITY_ENTRIES + 1]), hours=st.integers(0, 24))
    def idle(self, entries: int, hours: int) -> None:
        for _ in range(entries):
            self.append(hours * 3_600_000)

    def note(self, batch: Batch, offsets: Mapping[int, int]) -> None:
        """Offsets are dense; who sends gets on, and never over the same sequences again while he is known."""
        life = len(self.model.lives)
        for queue, first in offsets.items():
            assert first == self.ends.get((life, queue), 0), "a gap, or an offset twice"
            self.ends[life, queue] = first + batch.rows[queue]
        who = (life, batch.producer, batch.epoch)
        if batch.begins is not None:
            return
        if batch.named:
            assert batch.previous >= self.sequences.get(who, -1), "a sequence was accepted again"
            self.sequences[who] = batch.last

    # --- what always holds

    @invariant()
    def the_running_sum_is_the_sum_from_scratch(self) -> None:
        assert self.state.sum == row_sum(self.state)
        assert self.state.digest == replace(self.state, sum=row_sum(self.state)).digest

    @invariant()
    def the_state_is_the_model_s(self) -> None:
        state, model = self.state, self.model
        assert (state.entry, state.alive, list(state.next_offsets)) == (model.entry, model.alive, model.next)
        assert (state.generation, state.store_time_ms) == (model.generation, model.time_ms)
        assert [list(growth.marks) for growth in state.growths] == model.marks
        assert {name: (row.epoch, row.last) for name, row in state.named.items()} == {
            name: (one.epoch, one.last) for name, one in model.names.items()
        }
        unnamed = {producer: last for producer in UNNAMED if (last := model.last_unnamed(producer)) is not None}
        assert {producer: row.last for producer, row in state.unnamed.items()} == unnamed
        assert {key: (row.last, row.last - row.first) for key, row in state.idempotent.items()} == {
            key: (one.next, len(one.numbers)) for key, one in model.counted.items()
        }
        assert dict(state.closed_jobs) == model.jobs
        assert (None if state.schema is None else schema_form(state.schema)) == (model.schemas[-1] if model.schemas else None)
        assert [one.version for one in state.versions] == list(range(1, len(model.schemas) + 1))

    def teardown(self) -> None:
        """Whoever folds from the start, or from any checkpoint, comes to the same state."""
        state = TopicState()
        for number, header in enumerate(self.headers):
            state = fold(state, header).state
            if number % 16 == 0:
                state = decode_checkpoint(encode_checkpoint(state), where="checkpoint")
        assert state == self.state
        assert state.digest == self.state.digest


TestFoldMachine = FoldMachine.TestCase
TestFoldMachine.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)
