"""The values an entry's footer carries: who wrote it, on what state, and which batches it brings.

JSON on the outside, frozen values on the inside. Decoding checks form and refuses what a newer version wrote; whether a batch counts
is decided only by the fold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .errors import DataDamaged, NewerFormatError
from .limits import FORMAT_VERSION


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """One opening of a producer's name: where it stands in the log. Later ones are larger, and no two are equal."""

    entry: int
    position: int

    def __str__(self) -> str:
        return f"opened by entry {self.entry}" + (f", position {self.position}" if self.position else "")


@dataclass(frozen=True, slots=True)
class Part:
    """A staged object, or a run of its rows, sorted by queue, that belongs to one batch."""

    key: str
    """Relative to the topic's root."""
    first_row: int
    rows: Mapping[int, int]
    """Rows of every queue, in queue order from ``first_row`` on."""
    size_bytes: int
    digest: str
    """Of the whole object, as `files.digest` gives it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one producer, accepted or voided as one."""

    producer: str
    named: bool
    epoch: Epoch | None
    """None for unnamed producers."""
    previous: int
    """The sequence of the producer's last accepted message before this batch; -1 for none."""
    last: int
    """The sequence of this batch's last message."""
    generation: int
    """The routing generation its queues were computed with."""
    rows: Mapping[int, int]
    """Rows of every touched queue."""
    valid_until: int
    """The last entry number that may bring it."""
    parts: tuple[Part, ...] = ()
    """Where its rows are, in order; none: inline in the entry."""
    job: str | None = None
    """The staged upload its parts belong to, closed by the entry that brings it."""

    @property
    def row_count(self) -> int:
        return sum(self.rows.values())


@dataclass(frozen=True, slots=True)
class Opening:
    """A named producer's opening: fences its former self, and its place in the log is the new epoch."""

    producer: str
    write_id: str
    """By which the opener recognises it."""
    generation: int
    valid_until: int
    last_sequence: int = -1
    """Where a name that the state does not know goes on."""


@dataclass(frozen=True, slots=True)
class Created:
    """The topic begins, with fresh queues; ignored while one lives, and when its last life was not the one it was made to replace."""

    incarnation: str
    queues: int
    replaces: str = ""
    """The life before it, which has ended; empty: there was none."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The topic ends; ignored unless this incarnation lives."""

    incarnation: str


@dataclass(frozen=True, slots=True)
class CloseJob:
    """No later entry may link this staged upload."""

    job: str


@dataclass(frozen=True, slots=True)
class ForgetJob:
    """The objects of this closed upload are gone, so its id need not be remembered."""

    job: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The state after this entry, whole, as entries ``lost_first`` to ``lost_last`` cannot be read any more."""

    state: Mapping[str, Any]
    lost_first: int
    lost_last: int


Action: TypeAlias = Created | Deleted | CloseJob | ForgetJob | Repair
_ACTIONS: dict[str, type[Action]] = {cls.__name__: cls for cls in (Created, Deleted, CloseJob, ForgetJob, Repair)}


@dataclass(frozen=True, slots=True)
class Header:
    """An entry but for its inline rows. The fold takes actions, then openings, then batches, each in list order."""

    entry: int
    write_id: str
    append_time_ms: int
    """By the appender's clock, corrected by the store's answers."""
    state_digest: str
    """Of the state it was built on."""
    bases: Mapping[int, int]
    """The next offset of every touched queue in that state."""
    actions: tuple[Action, ...] = ()
    openings: tuple[Opening, ...] = ()
    batches: tuple[Batch, ...] = ()
    combines: bool = False
    """Whether its writer goes on looking for what is handed over for a while; advice, which no verdict depends on."""

    @property
    def inline(self) -> list[int]:
        """The positions of the batches whose rows are in the entry itself, in list order."""
        return [position for position, batch in enumerate(self.batches) if not batch.parts and batch.rows]


def encode_header(header: Header) -> str:
    document = {
        "format": FORMAT_VERSION,
        "entry": header.entry,
        "write_id": header.write_id,
        "time_ms": header.append_time_ms,
        "state": header.state_digest,
        "bases": _counts(header.bases),
        "actions": [
            {"type": type(a).__name__, **{name: getattr(a, name) for name in a.__dataclass_fields__}} for a in header.actions
        ],
        "openings": [[o.producer, o.write_id, o.generation, o.valid_until, o.last_sequence] for o in header.openings],
        "batches": [batch_document(batch) for batch in header.batches],
        **({"combines": True} if header.combines else {}),
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=True, default=dict)


def decode_header(text: str, *, where: str) -> Header:
    """The inverse of `encode_header`. Raises `DataDamaged` or `NewerFormatError`, naming ``where``."""
    try:
        document = json.loads(text)
        version = document["format"]
        if version != FORMAT_VERSION:
            raise NewerFormatError(
                "written by another version of Penstock",
                object=where,
                expected=f"format {FORMAT_VERSION}",
                observed=f"format {version}",
                hint="upgrade this process",
            )
        return Header(
            entry=document["entry"],
            write_id=document["write_id"],
            append_time_ms=document["time_ms"],
            state_digest=document["state"],
            bases=parse_counts(document["bases"]),
            actions=tuple(_action(dict(action)) for action in document["actions"]),
            openings=tuple(Opening(*opening) for opening in document["openings"]),
            batches=tuple(parse_batch(batch) for batch in document["batches"]),
            combines=document.get("combines", False),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataDamaged("the footer is not an entry's", object=where, observed=repr(error)) from error


def batch_document(batch: Batch) -> dict[str, Any]:
    """A batch as JSON; what is empty is left out."""
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
    return document


def parse_batch(document: Mapping[str, Any]) -> Batch:
    epoch = document.get("e")
    return Batch(
        producer=document["p"],
        named="e" in document,
        epoch=Epoch(*epoch) if epoch else None,
        previous=document["s"][0],
        last=document["s"][1],
        generation=document["g"],
        rows=parse_counts(document["r"]),
        valid_until=document["v"],
        parts=tuple(map(parse_part, document.get("l", ()))),
        job=document.get("j"),
    )


def part_document(part: Part) -> list[Any]:
    """A part as JSON."""
    return [part.key, part.first_row, _counts(part.rows), part.size_bytes, part.digest]


def parse_part(document: Sequence[Any]) -> Part:
    key, first_row, rows, size_bytes, digest = document
    return Part(key, first_row, parse_counts(rows), size_bytes, digest)


def _action(document: dict[str, Any]) -> Action:
    return _ACTIONS[document.pop("type")](**document)


def _counts(counts: Mapping[int, int]) -> list[int]:
    """{queue: n} as a flat list, by queue."""
    return [number for pair in sorted(counts.items()) for number in pair]


def parse_counts(flat: list[int]) -> dict[int, int]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
