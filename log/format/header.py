"""The values in an entry's footer.

Decoding checks types, ranges and lengths, and refuses newer versions. Only the fold decides whether a batch counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, MsgspecError, UnsetType

from ..errors import InternalError
from ..limits import (
    ENTRY_LINKS_MAX,
    FORMAT_BASIC,
    FORMAT_EXTENDED,
    FORMAT_GROWN,
    FORMAT_IDEMPOTENT,
    FORMATS_OF_LOGS,
    GROWTHS_MAX,
    QUEUES_MAX,
    SCHEMA_CHANGES_TOLD,
    SCHEMA_VERSIONS_KEPT,
)
from .forms import decoded
from .schema_form import SchemaForm
from .stored_json import Digest, Id, Name, Number, SequenceNumber, StoredForm, TimeMs, damaged, parse_stored, plain


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """The place in the log of an opening of a producer's name. Later openings are larger, no two are equal."""

    entry: int
    position: int

    def __str__(self) -> str:
        return f"opened by entry {self.entry}" + (f", position {self.position}" if self.position else "")


@dataclass(frozen=True, slots=True)
class Part:
    """A staged object, or a run of its rows, sorted by queue, of one batch."""

    key: str
    """The key from the topic's root."""
    first_row: int
    rows: Mapping[int, int]
    """Rows by queue, in this order from ``first_row`` on."""
    size_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one producer, accepted or voided as one."""

    producer: str
    named: bool
    epoch: Epoch | None
    """None for unnamed producers."""
    previous: int
    """The sequence of the producer's accepted message before; -1 for none."""
    last: int
    generation: int
    """The routing generation its queues were computed with."""
    rows: Mapping[int, int]
    valid_until: int
    """The last entry number that may bring it."""
    parts: tuple[Part, ...] = ()
    """The places of its rows, in order; empty: inline in the entry."""
    job: str | None = None
    """The staged upload of its parts, closed by the entry that brings it."""
    schema_version: int = 0
    """The version of the schema of its rows; 0: they have no typed value."""
    extended: bool = False
    """Whether a row has a key, headers, or NULL instead of a body: the later format."""
    begins: bool | None = None
    """Whether it counts where the state does not know its idempotent producer. None: its producer is none."""

    @property
    def row_count(self) -> int:
        return sum(self.rows.values())


@dataclass(frozen=True, slots=True)
class Opening:
    """A named producer's opening, which fences the name's former instance; its place in the log is the new epoch."""

    producer: str
    write_id: str
    generation: int
    valid_until: int
    last_sequence: int = -1
    """The sequence from which a name unknown to the state goes on."""


class Created(StoredForm, frozen=True, tag=True, omit_defaults=True):
    """The topic begins, with fresh queues.

    Ignored where the topic lives, its last life is another, its queues are none or more than `QUEUES_MAX`, or its schema can be no
    first one.
    """

    incarnation: Name
    queues: Number
    replaces: Name = ""
    """The life before it; empty: there was none."""
    schema: SchemaForm | None = None


class Deleted(StoredForm, frozen=True, tag=True):
    """The topic ends. Ignored unless this incarnation lives."""

    incarnation: Name


class Evolved(StoredForm, frozen=True, tag=True):
    """The topic has another schema from here on. Ignored unless it may follow the one before, in this life."""

    generation: Number
    schema: SchemaForm
    changes: Annotated[tuple[Name, ...], Meta(max_length=SCHEMA_CHANGES_TOLD)] = ()
    """The changes, for people."""


class Grown(StoredForm, frozen=True, tag=True):
    """The topic has more queues from here on, and messages are routed anew: batches of the former generation are void. Ignored unless the number is a
    greater multiple, in this generation.
    """

    generation: Number
    queues: Number


class CloseJob(StoredForm, frozen=True, tag=True):
    """No later entry may link this staged upload."""

    job: Name


class ForgetJob(StoredForm, frozen=True, tag=True):
    """The objects of this closed upload are gone; its id may be forgotten."""

    job: Name


class ProducerRowForm(StoredForm, frozen=True, array_like=True):
    """The stored form of `ProducerRow`."""

    name: Name
    last: SequenceNumber
    entry: Number
    time_ms: TimeMs
    epoch: Number | None = None
    position: Number | None = None


class IdempotentRowForm(StoredForm, frozen=True, array_like=True):
    """The stored form of `IdempotentRow`."""

    producer: Name
    queue: Number
    first: Number
    last: Number
    entry: Number
    time_ms: TimeMs


class VersionForm(StoredForm, frozen=True, array_like=True):
    """The stored form of `SchemaVersion`."""

    version: Number
    entry: Number
    time_ms: TimeMs
    digest: Digest
    changes: Annotated[tuple[Name, ...], Meta(max_length=SCHEMA_CHANGES_TOLD)] = ()


class GrowthForm(StoredForm, frozen=True, array_like=True):
    """The stored form of `Growth`."""

    entry: Number
    generation: Number
    marks: Annotated[tuple[Number, ...], Meta(min_length=1, max_length=QUEUES_MAX)]


class StateForm(StoredForm, frozen=True, omit_defaults=True):
    """The stored form of `TopicState`. The order of its lists is part of it."""

    entry: Number
    incarnation: Name
    alive: bool
    created_entry: Number
    generation: Number
    next_offsets: Annotated[tuple[Number, ...], Meta(max_length=QUEUES_MAX)]
    unnamed: tuple[ProducerRowForm, ...]
    named: tuple[ProducerRowForm, ...]
    openings: tuple[tuple[Name, Number], ...]
    closed_jobs: tuple[tuple[Name, Number], ...]
    store_time_ms: TimeMs
    schema: SchemaForm | None = None
    versions: Annotated[tuple[VersionForm, ...], Meta(max_length=SCHEMA_VERSIONS_KEPT)] = ()
    idempotent: tuple[IdempotentRowForm, ...] = ()
    idempotent_ms: TimeMs = 0
    growths: Annotated[tuple[GrowthForm, ...], Meta(max_length=GROWTHS_MAX)] = ()


class Repair(StoredForm, frozen=True, tag=True):
    """The whole state after this entry: entries ``lost_first`` to ``lost_last`` cannot be read any more."""

    state: StateForm
    lost_first: Number
    lost_last: Number


BatchIdentity: TypeAlias = tuple[object, ...]
Action: TypeAlias = Created | Deleted | Evolved | Grown | CloseJob | ForgetJob | Repair

# --- The forms of the rest: short, as every entry carries them ---------------------------------------------------------------------

_Counts: TypeAlias = Annotated[tuple[Number, ...], Meta(max_length=2 * QUEUES_MAX)]
"""{queue: n} as a flat list, by queue."""
OpeningForm: TypeAlias = tuple[Name, Name, Number, Number, SequenceNumber]
PartForm: TypeAlias = tuple[Name, Number, _Counts, Number, Digest]


class BatchForm(StoredForm, frozen=True):
    """The stored form of a batch, without empty values."""

    p: Name
    s: tuple[SequenceNumber, SequenceNumber]
    g: Number
    r: _Counts
    v: Number
    e: tuple[Number, Number] | UnsetType | None = UNSET
    l: tuple[PartForm, ...] = ()  # noqa: E741 - the name is stored
    j: Id | None = None
    t: Number = 0
    x: bool = False
    i: bool | UnsetType = UNSET


class _EntryForm(StoredForm, frozen=True):
    format: int
    entry: Number
    write_id: Name
    time_ms: TimeMs
    state: Name
    bases: _Counts
    actions: tuple[Action, ...]
    openings: tuple[OpeningForm, ...]
    batches: Annotated[tuple[BatchForm, ...], Meta(max_length=ENTRY_LINKS_MAX)]
    combines: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """An entry without its inline rows. The fold takes actions, openings and batches in this order."""

    entry: int
    write_id: str
    append_time_ms: int
    """The time by the appender's clock, corrected by the store's answers."""
    state_digest: str
    bases: Mapping[int, int]
    """The next offset of every touched queue in the state before."""
    actions: tuple[Action, ...] = ()
    openings: tuple[Opening, ...] = ()
    batches: tuple[Batch, ...] = ()
    combines: bool = False
    """Whether its writer combines; no verdict depends on it."""

    @property
    def format(self) -> int:
        """The lowest format whose readers understand it."""
        if any(map(_grows, self.actions)):
            return FORMAT_GROWN
        if any(map(is_idempotent, self.batches)) or any(map(_has_idempotent, self.actions)):
            return FORMAT_IDEMPOTENT
        extended = any(map(is_extended, self.batches)) or any(map(_names_schema, self.actions))
        return FORMAT_EXTENDED if extended else FORMAT_BASIC

    @property
    def inline(self) -> list[int]:
        return [position for position, batch in enumerate(self.batches) if not batch.parts and batch.rows]


def is_extended(batch: Batch) -> bool:
    return batch.extended or batch.schema_version > 0


def is_idempotent(batch: Batch) -> bool:
    return batch.begins is not None


def identity_of(batch: Batch) -> BatchIdentity:
    """What a batch has in common with all its copies: an epoch's sequences are never used twice, in a queue of one life of the topic."""
    queue = tuple(batch.rows) if is_idempotent(batch) else None
    return batch.producer, batch.named, batch.epoch, batch.previous, batch.last, batch.generation, queue


def _has_idempotent(action: Action) -> bool:
    return isinstance(action, Repair) and bool(action.state.idempotent)


def _grows(action: Action) -> bool:
    return isinstance(action, Grown) or (isinstance(action, Repair) and bool(action.state.growths))


def _names_schema(action: Action) -> bool:
    match action:
        case Created(schema=schema):
            return schema is not None
        case Repair(state=state):
            return state.schema is not None
        case _:
            return isinstance(action, Evolved)


def encode_header(header: Header) -> str:
    """Raises `InternalError` for one that `decode_header` would refuse: its writer does not read it again."""
    document = {
        "format": header.format,
        "entry": header.entry,
        "write_id": header.write_id,
        "time_ms": header.append_time_ms,
        "state": header.state_digest,
        "bases": _counts(header.bases),
        "actions": list(header.actions),
        "openings": [opening_document(opening) for opening in header.openings],
        "batches": [batch_document(batch) for batch in header.batches],
        **({"combines": True} if header.combines else {}),
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, default=plain)
    try:
        decoded(text, _EntryForm)
    except MsgspecError as error:
        raise InternalError("nobody could read this entry", operation="append", expected=header.entry, observed=error) from error
    return text


def decode_header(text: str, *, where: str) -> Header:
    """Raises `DataDamaged` or `NewerFormatError`, naming ``where``."""
    what = "an entry's footer"
    form = parse_stored(text, _EntryForm, what=what, where=where, formats=FORMATS_OF_LOGS)
    try:
        return Header(
            entry=form.entry,
            write_id=form.write_id,
            append_time_ms=form.time_ms,
            state_digest=form.state,
            bases=_parse_counts(form.bases),
            actions=form.actions,
            openings=parse_openings(form.openings),
            batches=parse_batches(form.batches),
            combines=form.combines,
        )
    except ValueError as error:
        raise damaged(what, error, where=where) from error


def batch_document(batch: Batch) -> dict[str, Any]:
    document: dict[str, Any] = {
        "p": batch.producer,
        "s": [batch.previous, batch.last],
        "g": batch.generation,
        "r": _counts(batch.rows),
        "v": batch.valid_until,
    }
    if batch.named:
        document["e"] = [batch.epoch.entry, batch.epoch.position] if batch.epoch else None
    if batch.parts:
        document["l"] = [part_document(part) for part in batch.parts]
    if batch.job is not None:
        document["j"] = batch.job
    if batch.schema_version:
        document["t"] = batch.schema_version
    if batch.extended:
        document["x"] = True
    if batch.begins is not None:
        document["i"] = batch.begins
    return document


def parse_batches(forms: Iterable[BatchForm]) -> tuple[Batch, ...]:
    """Raises `ValueError` for counts that do not pair up."""
    return tuple(map(_parse_batch, forms))


def _parse_batch(form: BatchForm) -> Batch:
    return Batch(
        producer=form.p,
        named=form.e is not UNSET,
        epoch=Epoch(*form.e) if form.e else None,
        previous=form.s[0],
        last=form.s[1],
        generation=form.g,
        rows=_parse_counts(form.r),
        valid_until=form.v,
        parts=tuple(map(_parse_part, form.l)),
        job=form.j,
        schema_version=form.t,
        extended=form.x,
        begins=None if form.i is UNSET else form.i,
    )


def opening_document(opening: Opening) -> OpeningForm:
    return opening.producer, opening.write_id, opening.generation, opening.valid_until, opening.last_sequence


def parse_openings(forms: Iterable[OpeningForm]) -> tuple[Opening, ...]:
    return tuple(Opening(*form) for form in forms)


def part_document(part: Part) -> list[Any]:
    return [part.key, part.first_row, _counts(part.rows), part.size_bytes, part.digest]


def _parse_part(form: PartForm) -> Part:
    key, first_row, rows, size_bytes, digest = form
    return Part(key, first_row, _parse_counts(rows), size_bytes, digest)


def _counts(counts: Mapping[int, int]) -> list[int]:
    return [number for pair in sorted(counts.items()) for number in pair]


def _parse_counts(flat: Sequence[int]) -> dict[int, int]:
    """Raises `ValueError` unless each queue occurs once and in order."""
    queues = flat[::2]
    if len(flat) % 2 or any(behind <= before for before, behind in pairwise(queues)):
        raise ValueError(f"counts that do not pair, or not in the queues' order: {list(flat[:16])}")
    return dict(zip(queues, flat[1::2], strict=True))
