"""The cells of transactions as bytes. A cell has room for some 500."""

from __future__ import annotations

from ....log.errors import DataDamaged, NewerFormatError
from ....log.limits import NUMBER_MAX
from ...cells.varints import HASH_MAX, VarintReader, append_bytes, append_varint
from .acks import AckedDelivery, Acks
from .state import Decider, Decision, Destination, HalfPart, LinkResult, MemberCell, TransactionRow

_FORMAT = 1
_CLAIMED, _CHECKED, _ACKS = 1, 2, 4
_FLAGS = _CLAIMED | _CHECKED | _ACKS
_ID_BYTES = 16
_ROW_BYTES_MIN = _ID_BYTES + 7
_UNLINKED, _GONE, _LINKED = 0, 1, 2


def encode_member(cell: MemberCell) -> bytes:
    """A topic's name is stored once."""
    data = bytearray([_FORMAT])
    append_bytes(data, cell.group.encode())
    append_varint(data, cell.used_ms)
    append_varint(data, int(cell.left))
    topics: dict[tuple[str, str], int] = {}
    for row in cell.rows.values():
        for one in row.destinations:
            topics.setdefault((one.topic, one.incarnation), len(topics))
    append_varint(data, len(topics))
    for topic, incarnation in topics:
        append_bytes(data, topic.encode())
        append_bytes(data, incarnation.encode())
    append_varint(data, len(cell.rows))
    for row in cell.rows.values():
        _append_row(data, row, topics)
    return bytes(data)


def decode_member(data: bytes, *, where: str) -> MemberCell:
    """Raises `DataDamaged`, or `NewerFormatError` for a cell of a later version."""
    reader = VarintReader(data, where=where)
    if (version := reader.byte()) != _FORMAT:
        raise _newer(where, f"format {_FORMAT}", version)
    try:
        group, used_ms, left = reader.text(), reader.time_ms(), bool(reader.varint(1))
        topics = [(reader.text(), reader.text()) for _ in range(reader.count(2))]
        rows = [_read_row(reader, topics, where) for _ in range(reader.count(_ROW_BYTES_MIN))]
    except (ValueError, IndexError) as error:  # no such decision, no such topic
        raise DataDamaged("the cell is none of a member's transactions", object=where, observed=repr(error)) from error
    if not reader.done:
        raise DataDamaged("the transactions have more to them than their parts", object=where, observed=f"{len(data)} bytes")
    return MemberCell(group=group, used_ms=used_ms, left=left, rows={row.id: row for row in rows})


def _append_row(data: bytearray, row: TransactionRow, topics: dict[tuple[str, str], int]) -> None:
    data += bytes.fromhex(row.id)
    append_varint(data, _CLAIMED * row.claimed | _CHECKED * (row.next_check_ms is not None) | _ACKS * (row.acks is not None))
    append_varint(data, row.created_ms)
    if row.next_check_ms is not None:
        append_varint(data, row.next_check_ms)
    append_varint(data, row.checks)
    append_varint(data, row.decision)
    append_varint(data, row.by)
    append_varint(data, row.finished_ms)
    append_varint(data, len(row.destinations))
    for one in row.destinations:
        append_varint(data, topics[one.topic, one.incarnation])
        append_varint(data, len(one.parts))
        for part in one.parts:
            append_varint(data, part.size_bytes)
            append_varint(data, part.messages)
            data += bytes.fromhex(part.digest)
        _append_linked(data, one.linked)
    if row.acks is not None:
        _append_acks(data, row.acks)


def _append_acks(data: bytearray, acks: Acks) -> None:
    append_bytes(data, acks.group.encode())
    append_bytes(data, acks.topic.encode())
    append_varint(data, acks.queue)
    append_varint(data, acks.generation)
    append_varint(data, len(acks.acked))
    before = 0
    for one in acks.acked:  # by offset, so the differences are small
        append_varint(data, one.offset - before)
        append_varint(data, one.attempt)
        append_varint(data, 0 if one.lane is None else one.lane + 1)
        before = one.offset


def _read_acks(reader: VarintReader) -> Acks:
    group, topic = reader.text(), reader.text()
    queue, generation = reader.varint(), reader.varint()
    acked: list[AckedDelivery] = []
    offset = 0
    for _ in range(reader.count(3)):
        offset += reader.varint(NUMBER_MAX - offset)
        attempt, lane = reader.varint(), reader.varint(HASH_MAX + 1)
        acked.append(AckedDelivery(offset, attempt, lane - 1 if lane else None))
    return Acks(group=group, topic=topic, queue=queue, generation=generation, acked=tuple(acked))


def _read_row(reader: VarintReader, topics: list[tuple[str, str]], where: str) -> TransactionRow:
    transaction, flags, created_ms = _id(reader), reader.varint(), reader.time_ms()
    if flags & ~_FLAGS:
        raise _newer(where, f"a transaction with what {_FLAGS} says", flags)
    return TransactionRow(
        id=transaction,
        created_ms=created_ms,
        next_check_ms=reader.time_ms() if flags & _CHECKED else None,
        checks=reader.varint(),
        decision=Decision(reader.varint()),
        by=Decider(reader.varint()),
        claimed=bool(flags & _CLAIMED),
        finished_ms=reader.time_ms(),
        destinations=tuple(_read_destination(reader, topics) for _ in range(reader.count(3))),
        acks=_read_acks(reader) if flags & _ACKS else None,
    )


def _read_destination(reader: VarintReader, topics: list[tuple[str, str]]) -> Destination:
    topic, incarnation = topics[reader.varint()]
    parts = tuple(_read_part(reader) for _ in range(reader.count(2 + _ID_BYTES)))
    return Destination(topic, incarnation, parts, _read_linked(reader))


def _read_part(reader: VarintReader) -> HalfPart:
    size_bytes, messages = reader.varint(), reader.varint()
    return HalfPart(size_bytes, _id(reader), messages)


def _append_linked(data: bytearray, linked: LinkResult | None) -> None:
    append_varint(data, _UNLINKED if linked is None else _GONE if linked.gone else _LINKED)
    if linked is None or linked.gone:
        return
    append_varint(data, 0 if linked.entry is None else 1 + linked.entry)
    append_varint(data, 0 if linked.offsets is None else 1 + len(linked.offsets))
    for queue, (start, end) in (linked.offsets or {}).items():
        append_varint(data, queue)
        append_varint(data, start)
        append_varint(data, end - start)


def _read_linked(reader: VarintReader) -> LinkResult | None:
    kind = reader.varint()
    if kind == _UNLINKED:
        return None
    if kind == _GONE:
        return LinkResult(gone=True)
    if kind != _LINKED:
        raise ValueError(f"no such kind of link: {kind}")
    entry, count = reader.varint(), reader.varint(1 + reader.left // 3)
    offsets = {}
    for _ in range(count - 1):
        queue, start = reader.varint(), reader.varint()
        offsets[queue] = (start, start + reader.varint(NUMBER_MAX - start))
    return LinkResult(entry - 1 if entry else None, offsets if count else None)


def _id(reader: VarintReader) -> str:
    return reader.take(_ID_BYTES).hex()


def _newer(where: str, expected: str, observed: int) -> NewerFormatError:
    return NewerFormatError(
        "the transactions were written by a later version of Penstock", object=where, expected=expected, observed=observed
    )
