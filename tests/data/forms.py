"""Every stored form that has a number of its own: how it is written and read, and a value of each number that today's code writes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.cdc.cuts import segment as cuts
from penstock.cdc.cuts.cut import Cut, TableVersion
from penstock.cdc.cuts.segment import Segment
from penstock.cdc.debezium.state import EngineState, EngineStateStore
from penstock.cdc.events.sources import TableId
from penstock.cdc.events.table_types import TableTypes, decode_types
from penstock.cdc.mongodb.state import MongoState, MongoStateStore
from penstock.cdc.postgres.state import CapturedTable, PostgresState, PostgresStateStore
from penstock.cdc.sync.record import SyncRecord, TableStop
from penstock.cdc.sync.record import decode_record as decode_sync
from penstock.cdc.sync.record import encode_record as encode_sync
from penstock.coordinator.access.codec import decode_access, encode_access
from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.record import AccessRecord, Principal, SealedSecret
from penstock.coordinator.cells.table_record import TableIdentity, TableRecord
from penstock.coordinator.cells.table_record import decode_record as decode_table_record
from penstock.coordinator.cells.table_record import encode_record as encode_table_record
from penstock.coordinator.classic.members import ClassicGroup, ClassicMember, ClassicProtocol, decode_members, encode_members
from penstock.coordinator.classic.positions import (
    CommittedPosition,
    CommittedPositions,
    caught_up,
    committed,
    decode_positions,
    encode_positions,
)
from penstock.coordinator.groups.codec import decode_group, encode_group
from penstock.coordinator.groups.record import GroupProtocol, GroupRecord, GroupSettings
from penstock.coordinator.queues.cell import DeadLetters, QueueCell
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.offsets import SettledOffsets
from penstock.coordinator.registry import broadcast_progress as broadcast
from penstock.coordinator.registry import failures
from penstock.coordinator.registry.broadcast_progress import BroadcastProgress
from penstock.coordinator.registry.failures import NotedFailure, QueueFailures
from penstock.coordinator.timers.cell.codec import decode_timers, encode_timers
from penstock.coordinator.timers.cell.state import Claim, DeliveredBounds, DuePosition, TimerRun, TimerState
from penstock.coordinator.transactions.members.codec import decode_member, encode_member
from penstock.coordinator.transactions.members.producer_groups import decode_names, encode_names
from penstock.coordinator.transactions.members.state import Decider, Decision, Destination, HalfPart, MemberCell, TransactionRow
from penstock.log.format.checkpoint import decode_checkpoint, encode_checkpoint
from penstock.log.format.digest import digest
from penstock.log.format.floor import decode_floor, encode_floor
from penstock.log.format.growth import Growth
from penstock.log.format.header import Batch, CloseJob, Created, Epoch, Grown, Header, Opening, Part, decode_header, encode_header
from penstock.log.format.idempotence import IdempotentRow
from penstock.log.format.state import ProducerRow, SchemaVersion, TopicState, row_sum
from penstock.log.limits import TopicLimits
from penstock.log.message.message_type import MessageType
from penstock.log.message.routing_type import Routing
from penstock.log.runtime.recent_mapping import RecentMapping
from penstock.log.schema.fields import PrimitiveType
from penstock.log.schema.topic_schema import TopicSchema
from penstock.log.topic.settings import TopicRecord, TopicSettings, decode_record, encode_record

ID: Final = "0123456789abcdef" * 2
AT_MS: Final = 1_764_500_000_000
WHERE: Final = "there"


@dataclass(frozen=True)
class Form:
    """One stored form."""

    name: str
    """As the page of versions has it."""
    reads: tuple[int, ...]
    """The numbers that today's code reads."""
    values: dict[int, Any]
    """A value of each number that it writes."""
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    newer: Callable[[bytes, int], bytes]
    """The same with another number."""


def in_json(data: bytes, number: int) -> bytes:
    document = {**json.loads(data), "format": number}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def in_checkpoint(data: bytes, number: int) -> bytes:
    body = in_json(data.partition(b"\n")[0], number)
    return body + f"\n{digest(body)}\n".encode()


def in_first_byte(data: bytes, number: int) -> bytes:
    return bytes([number]) + data[1:]


# --- The log ----------------------------------------------------------------------------------------------------------------------

SETTINGS = TopicSettings(message_type=MessageType.FIFO, queues=4, retention=timedelta(days=2), limits=TopicLimits(max_properties=5))
RECORD = TopicRecord(settings=SETTINGS, incarnation=ID, created_ms=AT_MS, write_id=ID)
OPENING = Opening("lader", ID, 1, 70, 12)
PART = Part("staged/jobs/j/1.parquet", 0, {0: 2, 3: 5}, 4_000, ID)
BATCH = Batch("lader", True, Epoch(3, 1), 12, 14, 1, {1: 2}, 70)
HEADER = Header(
    7,
    ID,
    AT_MS,
    ID,
    {0: 5, 1: 8, 3: 0},
    actions=(Created(ID, 4), CloseJob(ID)),
    openings=(OPENING,),
    batches=(BATCH, replace(BATCH, producer="p", named=False, epoch=None, rows={0: 2, 3: 5}, parts=(PART,), job="j")),
)
IDEMPOTENT = replace(BATCH, producer="1-0", named=False, epoch=None, previous=-1, last=1, begins=True)
STATE = TopicState(
    entry=7,
    incarnation=ID,
    alive=True,
    created_entry=1,
    generation=1,
    next_offsets=(7, 10, 0, 5),
    unnamed={"p": ProducerRow(14, 7, AT_MS)},
    named={"lader": ProducerRow(14, 7, AT_MS, Epoch(3, 1))},
    openings={ID: 3},
    closed_jobs={"j": 7},
    store_time_ms=AT_MS,
)


def summed(state: TopicState) -> TopicState:
    """As a fold makes it."""
    return replace(state, sum=row_sum(state))


SCHEMA = TopicSchema.of("id bigint not null, name string")

# --- Cells ------------------------------------------------------------------------------------------------------------------------

CELL_2 = bytes.fromhex(json.loads((Path(__file__).parent / "cells-2.json").read_text())["ORDERLY"]["cell"])
"""As consumers wrote it."""
CELL_1 = encode_cell(
    QueueCell(generation=2, epoch=3, owner="worker/1", settled=SettledOffsets(7), dead_letters=DeadLetters(4, (5,)))
)
GROUP = GroupRecord(settings=GroupSettings(filters={"orders": "paid"}), secret=ID).begun("orders", (0, 5), 1)
MEMBER = ClassicMember(
    id="a",
    instance_id=None,
    client_id="app",
    client_host="/10.0.0.1",
    session_ms=45_000,
    rebalance_ms=300_000,
    protocols=(ClassicProtocol("range", b"\x00\xff"),),
    assignment=b"\x00\x00",
)
CLASSIC = ClassicGroup(
    epoch=3, coordinator="g0", generation=7, protocol_type="consumer", protocol="range", leader="a", members=(MEMBER,)
)
GRANTS = frozenset({Grant(Verb.SEND, "orders")})
SHOP = Principal(id="1", secrets=(SealedSecret("c2hvcA==", "key", AT_MS),), grants=GRANTS)
ROW = TransactionRow(
    id=ID,
    created_ms=AT_MS,
    next_check_ms=AT_MS + 6_000,
    checks=1,
    decision=Decision.COMMITTED,
    by=Decider.OWNER,
    claimed=True,
    finished_ms=0,
    destinations=(Destination("orders", ID, (HalfPart(100, ID, 2),)),),
)
TIMERS = TimerState(
    settled=DeliveredBounds(9, DuePosition(AT_MS * 1_000, 8)),
    claim=Claim(DeliveredBounds(12, DuePosition(AT_MS * 1_000 + 5, 11)), 4, 2),
    next_sequence=6,
    gathered=3,
    runs=(TimerRun("run", 5, 20, DuePosition(AT_MS * 1_000, 3)),),
    recalled=frozenset({DuePosition(AT_MS * 1_000 + 1, 10)}),
)

# --- Change data ------------------------------------------------------------------------------------------------------------------

SYNC = SyncRecord(
    3, "/into", {0: 7, 1: 9}, {"orders": TableId("shop", "public", "orders")}, {"public.orders": (TableStop(0, 5, "why"),)}
)
CUTS = Segment("changes", "s", (Cut(1, 1, 9, AT_MS, {0: 7}, {"postgres/slot": 0x58 << 20}, {"orders": TableVersion(4, 2, ID)}),))
TYPES = TableTypes("public", "orders", {"id": PrimitiveType.BIGINT})
POSTGRES = PostgresState("life", "system", "db", "publication", (CapturedTable("public", "orders", oid=5, is_read=True),))


FORMS: Final = (
    Form(
        "settings of a topic (`topic.json`)",
        (1, 2, 3, 5),
        {
            1: RECORD,
            2: replace(RECORD, settings=replace(SETTINGS, iceberg=True)),
            3: replace(RECORD, settings=replace(SETTINGS, routing=Routing.MURMUR2)),
            5: replace(RECORD, settings=replace(SETTINGS, configs=(("cleanup.policy", "delete"),))),
        },
        encode_record,
        lambda data: decode_record(data, where=WHERE),
        in_json,
    ),
    Form(
        "entry of a log",
        (1, 2, 4, 6),
        {
            1: HEADER,
            2: replace(HEADER, batches=(replace(BATCH, extended=True),)),
            4: replace(HEADER, batches=(IDEMPOTENT,)),
            6: replace(HEADER, actions=(Grown(1, 8),)),
        },
        lambda header: encode_header(header).encode(),
        lambda data: decode_header(data.decode(), where=WHERE),
        in_json,
    ),
    Form(
        "checkpoint of a log",
        (1, 2, 4, 6),
        {
            1: summed(STATE),
            2: summed(replace(STATE, schema=SCHEMA, versions=(SchemaVersion(1, 5, AT_MS, ID),))),
            4: summed(replace(STATE, idempotent=RecentMapping([(("1-0", 1), IdempotentRow(0, 1, 7, AT_MS))]), idempotent_ms=AT_MS)),
            6: summed(replace(STATE, growths=(Growth(5, 2, (3, 9)),))),
        },
        encode_checkpoint,
        lambda data: decode_checkpoint(data, where=WHERE),
        in_checkpoint,
    ),
    Form(
        "floor of a log",
        (1,),
        {1: 64},
        lambda floor: encode_floor(floor, write_id=ID),
        lambda data: decode_floor(data, where=WHERE),
        in_json,
    ),
    Form(
        "record of a lake's coordination table",
        (1,),
        {1: TableRecord(table=TableIdentity(id=ID, url="dynamodb://cells", name="arn"), since_ms=AT_MS)},
        encode_table_record,
        lambda data: decode_table_record(data, where=WHERE),
        in_json,
    ),
    Form(
        "record of a consumer group",
        (1, 2),
        {1: GROUP, 2: replace(GROUP, protocol=GroupProtocol.KAFKA)},
        encode_group,
        lambda data: decode_group(data, where=WHERE),
        in_json,
    ),
    Form(
        "cell of a queue",
        (1, 2),
        {1: decode_cell(CELL_1, where=WHERE), 2: decode_cell(CELL_2, where=WHERE)},
        encode_cell,
        lambda data: decode_cell(data, where=WHERE),
        in_first_byte,
    ),
    Form(
        "members of a group of Kafka's clients",
        (1, 2),
        {1: CLASSIC, 2: msgspec.structs.replace(CLASSIC, format=2, members=(msgspec.structs.replace(MEMBER, principal="shop"),))},
        lambda group: zlib.decompress(encode_members(group)),  # other versions of zlib write other bytes
        lambda data: decode_members(zlib.compress(data), where=WHERE),
        in_json,
    ),
    Form(
        "positions of a group of Kafka's clients",
        (1,),
        {1: committed(caught_up(CommittedPositions(), GROUP.positions["orders"]), {1: CommittedPosition(5, 2, AT_MS, "a note")})},
        encode_positions,
        lambda data: decode_positions(data, where=WHERE),
        in_json,
    ),
    Form(
        "last failures of a queue",
        (1,),
        {1: QueueFailures(3, (NotedFailure(7, 2, "KeyError", "KeyError: 'ünïcode'", f"{ID}/1", "host/7", AT_MS),))},
        failures._encode,
        lambda data: failures._decode(data, where=WHERE),
        in_json,
    ),
    Form(
        "progress of a broadcasting member",
        (1,),
        {1: BroadcastProgress(ID, 1, (4, 5))},
        broadcast._encode,
        lambda data: broadcast._decode(data, where=WHERE),
        in_json,
    ),
    Form("timers of a topic", (1,), {1: TIMERS}, encode_timers, lambda data: decode_timers(data, where=WHERE), in_first_byte),
    Form(
        "transactions of a process",
        (1,),
        {1: MemberCell(group="shop", used_ms=AT_MS, left=False, rows={ID: ROW})},
        encode_member,
        lambda data: decode_member(data, where=WHERE),
        in_first_byte,
    ),
    Form(
        "names of producer groups",
        (1,),
        {1: frozenset({"shop", "ünïcode"})},
        lambda names: encode_names(names, where=WHERE),
        lambda data: decode_names(data, where=WHERE),
        in_first_byte,
    ),
    Form(
        "principals and roles",
        (1, 2),
        {
            1: AccessRecord(principals={"shop": SHOP}),
            2: AccessRecord(roles={"operators": frozenset({Grant(Verb.MANAGE, "orders*")})}),
        },
        encode_access,
        lambda data: decode_access(data, where=WHERE),
        in_json,
    ),
    Form("record of a sync", (1,), {1: SYNC}, encode_sync, lambda data: decode_sync(data, where=WHERE), in_json),
    Form("cuts of a sync", (1,), {1: CUTS}, cuts.encode, lambda data: cuts.decode(data, where=WHERE), in_json),
    Form(
        "types of a captured table",
        (1,),
        {1: TYPES},
        lambda types: types.data,
        lambda data: decode_types(data, TYPES.name, where=WHERE),
        in_json,
    ),
    Form(
        "state of a capture of PostgreSQL",
        (1, 2),
        {2: POSTGRES},
        PostgresStateStore.encode,
        lambda data: PostgresStateStore.parse(data, WHERE),
        in_json,
    ),
    Form(
        "state of a capture by Debezium",
        (1,),
        {1: EngineState("life", "mariadb", "shop", '{"file":"b.1","pos":4}')},
        EngineStateStore.encode,
        lambda data: EngineStateStore.parse(data, WHERE),
        in_json,
    ),
    Form(
        "state of a capture of MongoDB",
        (1,),
        {1: MongoState("life", "mongodb", "shop", '{"sec":1,"ord":2}')},
        MongoStateStore.encode,
        lambda data: MongoStateStore.parse(data, WHERE),
        in_json,
    ),
)
