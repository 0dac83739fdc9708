"""The shape of a request, checked before it is decoded: lengths, counts and nulls. Pure.

kafka-python's decoder is made for answers of one's own servers: it takes a varint of any length, cuts what is too short, and copies the rest of a
request for each struct with tagged fields. A request that has passed costs it no more than its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from .reading import WireReader, malformed

TAGGED_MAX: Final = 64
"""The most structs with tagged fields."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of fixed size, one behind the other."""

    size: int


@dataclass(frozen=True, slots=True)
class SizedText:
    """A string, or bytes where ``is_bytes``."""

    compact: bool
    nullable: bool
    is_bytes: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    """An array."""

    item: Shape
    compact: bool
    nullable: bool


@dataclass(frozen=True, slots=True)
class Maybe:
    """A struct that may be null."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Tags:
    """Tagged fields; others than the known are of any content."""

    known: Mapping[int, Shape]


Step: TypeAlias = Fixed | SizedText | Many | Maybe | Tags
Shape: TypeAlias = tuple[Step, ...]


@dataclass(slots=True)
class _Left:
    items: int
    tagged: int = TAGGED_MAX


def check_shape(shape: Shape, data: memoryview, *, items_max: int) -> None:
    """Return if the bytes begin with this shape, with so many elements over all arrays at most. Raises `KafkaRefusal`.

    What follows is passed over, as Kafka does: librdkafka 2 sends three bytes behind a Metadata request of all topics.
    """
    _walk(shape, WireReader(data), _Left(items_max))


def _walk(shape: Shape, reader: WireReader, left: _Left) -> None:
    for step in shape:
        match step:
            case Fixed(size):
                reader.skip(size)
            case SizedText(compact, nullable, is_bytes):
                read = reader.blob if is_bytes else reader.text
                read(compact=compact, nullable=nullable)
            case Many(item, compact, nullable):
                _walk_items(item, reader.count(compact=compact, nullable=nullable) or 0, reader, left)
            case Maybe(inner):
                if reader.byte() != 0xFF:
                    _walk(inner, reader, left)
            case Tags(known):
                _walk_tags(known, reader, left)


def _walk_items(item: Shape, count: int, reader: WireReader, left: _Left) -> None:
    left.items -= count
    if left.items < 0:
        raise malformed("it has more elements than a request of its kind may have")
    match item:
        case (Fixed(size),):
            reader.skip(size * count)
        case _:
            for _ in range(count):
                _walk(item, reader, left)


def _walk_tags(known: Mapping[int, Shape], reader: WireReader, left: _Left) -> None:
    count = reader.uvarint()
    if not count:
        return
    left.items -= count
    left.tagged -= 1
    if left.items < 0 or left.tagged < 0:
        raise malformed(
            f"it has more than {TAGGED_MAX} structs with tagged fields, or more elements than a request of its kind may have"
        )
    for _ in range(count):
        tag, size = reader.uvarint(), reader.uvarint()
        content = WireReader(reader.view(size))
        if (shape := known.get(tag)) is not None:
            _walk(shape, content, left)
            content.end()
