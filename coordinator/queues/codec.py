"""Cells as bytes."""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import chain

from msgspec.structs import replace

from ...log.errors import DataDamaged, NewerFormatError
from ...log.limits import NUMBER_MAX
from ..cells.document import Codec
from ..cells.varints import VarintReader, append_bytes, append_varint, append_varints, offset_varint, varint
from .cell import ACKS_KEPT, DeadLetters, LogWitness, Marker, MessageState, QueueCell, Receive, Spill, Tries
from .offsets import OffsetSet, SettledOffsets

_FORMAT = 1
_WITH_SECTIONS = 2
"""The format with sections: their number, then each one's number and bytes. Cells without sections keep the earlier format; earlier versions refuse
sections.
"""
_TRANSACTIONS, _SPILLS, _LETTERS, _ACKS, _SEEN, _RECEIVES, _REFUSED, _KEPT = 1, 2, 3, 4, 5, 6, 7, 8
_HASH_BYTES = 8
_NO_OFFSETS = OffsetSet().encode()
_ALL_ACKS = struct.Struct(f"<{ACKS_KEPT}Q")
_ID_BYTES = 16
_TRIES_BYTES_MIN, _MARKER_BYTES_MIN = 7, 15
_TRACKED_MAX = 1 << 17
"""The most tracked messages: damaged bytes must not cost their reader all memory."""


def encode_cell(cell: QueueCell) -> bytes:
    shared, receives = _by_tries(cell) if cell.tries else ({}, {})
    sections = _sections(cell, receives)
    data = bytearray(_beginning(_WITH_SECTIONS if sections else _FORMAT, cell.generation, cell.epoch, cell.owner))
    append_varints(data, (cell.step, cell.commands))
    data += cell.settled.encode()
    data += cell.granted.encode() if cell.granted.bits else _NO_OFFSETS
    counts = [len(shared), len(cell.markers)]  # numbers that follow one another are written together
    if shared:
        append_varints(data, (counts.pop(0),))
    for tries, offsets in shared.items():
        data += _tries(tries)
        data += (OffsetSet(offsets[0], 1) if len(offsets) == 1 else OffsetSet.of_offsets(offsets)).encode()
    if cell.markers:
        append_varints(data, counts)
        counts = []
        data += b"".join(map(_marker, cell.markers, cell.markers.values()))
    letters = cell.dead_letters
    counts += (letters.next_sequence, len(letters.assigned), *letters.assigned)
    if sections:
        counts.append(len(sections))
    append_varints(data, counts)
    for number, section in sections.items():
        data += varint(number) + varint(len(section)) + section
    return bytes(data)


@lru_cache(maxsize=1_024)  # an owner writes the same
def _beginning(version: int, generation: int, epoch: int, owner: str) -> bytes:
    data = bytearray([version])
    append_varints(data, (generation, epoch))
    append_bytes(data, owner.encode())
    return bytes(data)


def _by_tries(cell: QueueCell) -> tuple[dict[Tries, list[int]], dict[tuple[int, int], list[int]]]:
    """The offsets with the same tries, and those out to the same named receive."""
    shared: dict[Tries, list[int]] = {}
    receives: dict[tuple[int, int], list[int]] = {}
    last: Tries | None = None
    alike: list[int] = []
    named: list[int] | None = None
    for offset, tries in cell.tries.items():
        if tries is not last:  # those that were handed out together mostly have one object, which need not be hashed again
            last, receive = tries, tries.receive
            alike = shared.setdefault(tries if receive is None else replace(tries, receive=None), [])
            named = None if receive is None else receives.setdefault((receive.attempt, receive.holder), [])
        alike.append(offset)
        if named is not None:
            named.append(offset)
    return shared, receives


def _sections(cell: QueueCell, receives: dict[tuple[int, int], list[int]]) -> dict[int, bytes]:
    sections: dict[int, bytes] = {}
    if cell.transactions:
        sections[_TRANSACTIONS] = b"".join(bytes.fromhex(one) for one in sorted(cell.transactions))
    if cell.spills:
        sections[_SPILLS] = b"".join(map(_spill, cell.spills))
    dead = cell.dead_letters
    if dead.former or dead.lost:
        letters = bytearray()
        append_varint(letters, dead.former)
        append_varint(letters, dead.lost)
        sections[_LETTERS] = bytes(letters)
    if cell.ack_writes:
        data = bytearray()
        append_varints(data, (cell.ack_writes,))
        acks = cell.acks
        data += _ALL_ACKS.pack(*acks) if len(acks) == ACKS_KEPT else struct.pack(f"<{len(acks)}Q", *acks)
        sections[_ACKS] = bytes(data)
    if cell.seen is not None:
        sections[_SEEN] = _seen(cell.seen)
    if (receives or cell.markers) and (named := _receives(cell, receives)):
        sections[_RECEIVES] = named
    for number, pairs in ((_REFUSED, dead.refused), (_KEPT, dead.kept)):
        if pairs:
            section = bytearray()
            append_varints(section, chain.from_iterable(pairs))
            sections[number] = bytes(section)
    return sections


@lru_cache(maxsize=1_024)  # an owner writes the same, until the log goes on
def _seen(witness: LogWitness) -> bytes:
    data = bytearray()
    append_varint(data, witness.entry)
    return bytes(data) + struct.pack("<2Q", witness.digest, witness.group)


def _receives(cell: QueueCell, of_tries: dict[tuple[int, int], list[int]]) -> bytes:
    """Each receive once: hashes, offsets, and lanes' places among the markers with the receive's ends."""
    of_lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    last: Tries | None = None
    for place, marker in enumerate(cell.markers.values()):
        if (tries := marker.tries) is last:
            continue  # of a receive without a name
        if (receive := tries.receive) is None:
            last = tries
        else:
            of_lanes.setdefault((receive.attempt, receive.holder), []).append((place, receive.end - marker.head))
    if not of_tries and not of_lanes:
        return b""
    data = bytearray()
    for hashes in {**of_tries, **of_lanes}:
        lanes = of_lanes.get(hashes, [])
        data += struct.pack("<2Q", *hashes)
        data += OffsetSet.of_offsets(of_tries.get(hashes, [])).encode()
        append_varints(data, (len(lanes), *chain.from_iterable(lanes)))
    return bytes(data)


def _spill(spill: Spill) -> bytes:
    data = bytearray(bytes.fromhex(spill.id))
    for number in (spill.taken, spill.count, spill.next_due_ms, spill.first_offset):
        append_varint(data, number)
    return bytes(data)


def decode_cell(data: bytes, *, where: str) -> QueueCell:
    """Raises `DataDamaged`, or `NewerFormatError` for a cell of a later version."""
    reader = VarintReader(data, where=where)
    if (version := reader.byte()) not in (_FORMAT, _WITH_SECTIONS):
        raise _newer(where, f"format {_FORMAT} or {_WITH_SECTIONS}", version)
    cell = QueueCell(
        generation=reader.varint(),
        epoch=reader.varint(),
        owner=reader.text(),
        step=reader.varint(),
        commands=reader.varint(),
        settled=SettledOffsets.decode(reader),
        granted=_read_granted(reader),
        tries=_read_tries_by_offset(reader, where),
        markers=dict(_read_marker(reader, where) for _ in range(reader.count(_MARKER_BYTES_MIN))),
        dead_letters=_read_dead_letters(reader),
    )
    if version == _WITH_SECTIONS:
        cell = _with_sections(cell, reader, where)
    if not reader.done:
        raise DataDamaged("the cell has more to it than its parts", object=where, observed=f"{len(data)} bytes")
    return cell


QUEUE_CELL = Codec(encode_cell, decode_cell)


def _with_sections(cell: QueueCell, reader: VarintReader, where: str) -> QueueCell:
    for _ in range(reader.count(2)):
        number = reader.varint()
        if number == _TRANSACTIONS:
            cell = replace(cell, transactions=_read_transactions(reader.sized(), where))
        elif number == _SPILLS:
            cell = replace(cell, spills=_read_spills(VarintReader(reader.sized(), where=where)))
        elif number == _LETTERS:
            cell = replace(cell, dead_letters=_read_lives(cell.dead_letters, VarintReader(reader.sized(), where=where), where))
        elif number == _ACKS:
            cell = _with_acks(cell, VarintReader(reader.sized(), where=where), where)
        elif number == _SEEN:
            cell = replace(cell, seen=_read_seen(VarintReader(reader.sized(), where=where)))
        elif number == _RECEIVES:
            cell = _with_receives(cell, VarintReader(reader.sized(), where=where))
        elif number == _REFUSED:
            refused = _read_refused(cell.dead_letters, VarintReader(reader.sized(), where=where))
            cell = replace(cell, dead_letters=replace(cell.dead_letters, refused=refused))
        elif number == _KEPT:
            kept = _read_kept(cell.dead_letters, VarintReader(reader.sized(), where=where))
            cell = replace(cell, dead_letters=replace(cell.dead_letters, kept=kept))
        else:
            raise _newer(where, f"section {_TRANSACTIONS} to {_KEPT}", number)
    return cell


def _with_receives(cell: QueueCell, reader: VarintReader) -> QueueCell:
    tries, markers = dict(cell.tries), dict(cell.markers)
    lanes = list(markers)
    while not reader.done:
        attempt, holder = (int.from_bytes(reader.take(_HASH_BYTES), "little") for _ in range(2))
        named = Receive(attempt, holder)
        offsets = OffsetSet.decode(reader)
        if len(offsets) > len(tries):
            raise reader.damaged("the cell names receives of messages that are not out", observed=len(offsets))
        for first, limit in offsets.ranges():
            for offset in range(first, limit):
                tries[offset] = _received(tries.get(offset), named, reader)
        for _ in range(reader.count(2)):
            place, length = reader.varint(), reader.varint()
            marker = markers[lanes[place]] if place < len(lanes) else None
            if marker is None or not 0 < length <= marker.limit - marker.head:
                raise reader.damaged("the cell names a receive that ends beyond what is out of its lane", observed=length)
            out = _received(marker.tries, replace(named, end=marker.head + length), reader)
            markers[lanes[place]] = replace(marker, tries=out)
    return replace(cell, tries=tries, markers=markers)


def _received(tries: Tries | None, receive: Receive, reader: VarintReader) -> Tries:
    if tries is None or tries.state is not MessageState.OUT or tries.receive is not None:
        raise reader.damaged("the cell names a receive of what is not out, or two of one message", observed=tries)
    return replace(tries, receive=receive)


def _with_acks(cell: QueueCell, reader: VarintReader, where: str) -> QueueCell:
    count, acks = reader.varint(), []
    while not reader.done:
        acks.append(int.from_bytes(reader.take(_HASH_BYTES), "little"))
    if len(acks) > min(count, ACKS_KEPT):
        raise DataDamaged("the cell names more acknowledging writes than there were", object=where, observed=len(acks))
    return replace(cell, acks=tuple(acks), ack_writes=count)


def _read_seen(reader: VarintReader) -> LogWitness:
    entry = reader.varint()
    digest, group = (int.from_bytes(reader.take(_HASH_BYTES), "little") for _ in range(2))
    if not reader.done:
        raise reader.damaged("what the cell says of the log goes on behind its end")
    return LogWitness(entry, digest, group)


def _read_spills(reader: VarintReader) -> tuple[Spill, ...]:
    found = []
    while not reader.done:
        name, taken, count = reader.take(_ID_BYTES).hex(), reader.varint(), reader.varint()
        spill = Spill(name, taken, count, reader.time_ms(), reader.varint())
        if not 0 < spill.count <= NUMBER_MAX - spill.taken:
            raise reader.damaged("the cell names an object without rows", observed=spill)
        found.append(spill)
    return tuple(found)


def _read_lives(letters: DeadLetters, reader: VarintReader, where: str) -> DeadLetters:
    former, lost = reader.varint(), reader.varint()
    if former > len(letters.assigned) or not reader.done:
        raise DataDamaged(
            "the cell has more dead letters of a former life than it has dead letters",
            object=where,
            expected=f"at most {len(letters.assigned)}",
            observed=former,
        )
    return replace(letters, former=former, lost=lost)


def _read_refused(letters: DeadLetters, reader: VarintReader) -> tuple[tuple[int, int], ...]:
    refused = []
    while not reader.done:
        refused.append((reader.varint(), reader.varint()))
    offsets = {offset for offset, _ in refused}
    if not offsets <= set(letters.own) or len(offsets) < len(refused):
        raise reader.damaged("the cell tells of dead letters that it did not assign, or twice of one", observed=refused[:5])
    if not all(attempts for _, attempts in refused):
        raise reader.damaged("the cell tells of a dead letter that was given up before any attempt", observed=refused[:5])
    return tuple(refused)


def _read_kept(letters: DeadLetters, reader: VarintReader) -> tuple[tuple[int, int], ...]:
    kept = []
    while not reader.done:
        kept.append((reader.varint(), reader.varint()))
    following = letters.next_sequence - len(letters.assigned)
    sequences = [sequence for _, sequence in kept]
    if sequences != sorted({*sequences}) or any(sequence >= following for sequence in sequences):
        raise reader.damaged("the cell keeps dead letters under sequences that it did not give", observed=kept[:5])
    if len({*letters.assigned, *(offset for offset, _ in kept)}) < len(letters.assigned) + len(kept):
        raise reader.damaged("the cell keeps a dead letter twice", observed=kept[:5])
    return tuple(kept)


def _read_transactions(data: bytes, where: str) -> frozenset[str]:
    if len(data) % _ID_BYTES:
        raise DataDamaged("the cell's transactions are cut off", object=where, observed=f"{len(data)} bytes")
    return frozenset(data[at : at + _ID_BYTES].hex() for at in range(0, len(data), _ID_BYTES))


def _newer(where: str, expected: str, observed: int) -> NewerFormatError:
    return NewerFormatError(
        "the cell was written by a later version of Penstock", object=where, expected=expected, observed=observed
    )


@lru_cache(maxsize=1 << 14)  # from write to write most markers stay as they are
def _marker(group: int, marker: Marker) -> bytes:
    spans = offset_varint(marker.head) + varint(marker.limit - marker.head)
    return group.to_bytes(_HASH_BYTES, "little") + spans + _tries(marker.tries)


@lru_cache(maxsize=256)  # what is handed out together has the same
def _tries(tries: Tries) -> bytes:
    data = bytearray()
    append_varints(data, (tries.state, tries.attempts, tries.strikes, tries.due_ms, tries.company))
    return bytes(data)


def _read_tries(reader: VarintReader, where: str) -> Tries:
    number = reader.varint()
    state = next((state for state in MessageState if state == number), None)
    if state is None:
        raise DataDamaged("the cell has a state nobody knows", object=where, observed=number)
    return Tries(state, reader.varint(), reader.varint(), reader.time_ms(), reader.varint())


def _read_tries_by_offset(reader: VarintReader, where: str) -> dict[int, Tries]:
    found: dict[int, Tries] = {}
    left = _TRACKED_MAX
    for _ in range(reader.count(_TRIES_BYTES_MIN)):
        tries, offsets = _read_tries(reader, where), OffsetSet.decode(reader)
        left -= len(offsets)
        if left < 0:
            raise reader.damaged("the cell tracks more messages than any has room for", expected=f"at most {_TRACKED_MAX}")
        for first, limit in offsets.ranges():
            found.update(dict.fromkeys(range(first, limit), tries))
    return found


def _read_granted(reader: VarintReader) -> OffsetSet:
    granted = OffsetSet.decode(reader)
    if len(granted) > _TRACKED_MAX:
        raise reader.damaged(
            "the cell has more in flight than any has room for", expected=f"at most {_TRACKED_MAX}", observed=len(granted)
        )
    return granted


def _read_dead_letters(reader: VarintReader) -> DeadLetters:
    following = reader.varint()
    found = DeadLetters(following, tuple(reader.varint() for _ in range(reader.count())))
    if len(found.assigned) > found.next_sequence:
        raise reader.damaged("the cell has more dead letters than sequences", expected=following, observed=len(found.assigned))
    return found


def _read_marker(reader: VarintReader, where: str) -> tuple[int, Marker]:
    group = int.from_bytes(bytes(reader.byte() for _ in range(_HASH_BYTES)), "little")
    head = reader.varint()
    return group, Marker(head, head + reader.varint(NUMBER_MAX - head), _read_tries(reader, where))
