"""Whatever stands in a stored object: it is read, or it is damage that is named. No raw error, and no hang.

``PENSTOCK_FUZZ=100000`` makes a campaign of it.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import DataDamaged, NewerFormatError
from penstock.log.format.checkpoint import decode_checkpoint, encode_checkpoint
from penstock.log.format.digest import digest
from penstock.log.format.entry import encode_entry, read_header
from penstock.log.format.floor import _digest as floor_digest
from penstock.log.format.floor import decode_floor, encode_floor
from penstock.log.format.fold import fold
from penstock.log.format.handover import prepare, read_handed
from penstock.log.format.header import Created, Header, Opening, Repair, decode_header, encode_header
from penstock.log.format.sealed import write_file
from penstock.log.format.state import state_form
from penstock.log.message.message import LOG_SCHEMA
from penstock.log.paths import TopicPaths
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import ObjectInfo, Put
from penstock.log.tail.entry_rows import read_messages
from penstock.log.topic.settings import TopicRecord, TopicSettings, decode_record, encode_record
from penstock.log.topic.settings import _digest as record_digest
from tests.log.strategies import headers, rows_of
from tests.log.test_fold import batch, header_on, opened, step, topic
from tests.thorough import examples

EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ", examples(60)))
PATHS = TopicPaths.of("orders")
STATE = step(opened(topic()).state, batches=[batch(rows={0: 2, 1: 1})]).state
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**63 - 1, 2**63, 2**31, -1, 4096, 4097]),
    st.floats(),
    st.text(max_size=8),
    st.just("x" * 5000),
    st.lists(st.integers(0, 3), max_size=4),
    st.just({}),
)


def mutated(draw: st.DrawFn, document: Any) -> Any:
    """The document with up to three places of it changed, left out, or doubled."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        at: Any = document
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], dict | list) and at[key] and draw(st.booleans()):
                at = at[key]
                continue
            match draw(st.sampled_from(["change", "leave out", "double"])):
                case "change":
                    at[key] = draw(ODD)
                case "leave out":
                    del at[key]
                case _ if isinstance(at, list):
                    at.append(at[key])
                case _:
                    at[str(key) + "?"] = at[key]
            break
    return document


@st.composite
def footers(draw: st.DrawFn) -> str:
    """Of an entry that is nearly one."""
    first = header_on(
        STATE, batches=[batch("q", rows={0: 1})], openings=[Opening("n", "w", 1, 99)], actions=[Created("life-2", 2, "life-1")]
    )
    second = header_on(STATE, actions=[Repair(state_form(STATE), 1, 2)])
    header = draw(st.one_of(st.just(first), st.just(second), headers))
    return json.dumps(mutated(draw, json.loads(encode_header(header))))


@settings(max_examples=5 * EXAMPLES, deadline=None)
@given(footers())
def test_an_entry_is_folded_or_it_is_damage(text: str) -> None:
    try:
        header = decode_header(text, where="here")
        state = fold(STATE, header, where="here").state
    except (DataDamaged, NewerFormatError) as error:
        assert error.object == "here"  # noqa: PT017 - most are damage, and the others go on
        return
    assert decode_header(encode_header(header), where="here") == header
    assert decode_checkpoint(encode_checkpoint(state), where="here") == state


def checkpoint(document: Any) -> bytes:
    body = json.dumps(document).encode()
    return body + b"\n" + digest(body).encode() + b"\n"


def floor(document: Any) -> bytes:
    if isinstance(document.get("floor"), int) and isinstance(document.get("write_id"), str):
        document["digest"] = floor_digest(document["floor"], document["write_id"])
    return json.dumps(document).encode()


def record(document: Any) -> bytes:
    document.pop("digest", None)
    return json.dumps({**document, "digest": record_digest(document)}).encode()


RECORD = TopicRecord(settings=TopicSettings(queues=3), incarnation="life-1")
SEALED: dict[str, tuple[bytes, Callable[[Any], bytes], Callable[[bytes], object]]] = {
    "checkpoint": (
        encode_checkpoint(STATE).partition(b"\n")[0],
        checkpoint,
        lambda data: encode_checkpoint(decode_checkpoint(data, where="here")),
    ),
    "floor": (encode_floor(7, write_id="w"), floor, lambda data: encode_floor(decode_floor(data, where="here"), write_id="w")),
    "record": (encode_record(RECORD), record, lambda data: encode_record(decode_record(data, where="here"))),
}


@pytest.mark.parametrize("kind", SEALED)
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(data=st.data())
def test_what_is_sealed_anew_is_read_or_it_is_damage(kind: str, data: st.DataObject) -> None:
    text, sealed, read = SEALED[kind]
    made = sealed(data.draw(st.composite(mutated)(json.loads(text))))
    try:
        read(made)
    except (DataDamaged, NewerFormatError) as error:
        assert error.object == "here"  # noqa: PT017 - as above


ENTRY = encode_entry(header_on(STATE, batches=[batch("q", rows={0: 3})]), {0: rows_of({0: 3})})
OVER = prepare(
    PATHS,
    tail=4,
    write_id="ab" * 16,
    openings=[Opening("n", "cd" * 16, 1, 68)],
    batches=[(batch("q", rows={0: 1}, valid_until=68), rows_of({0: 1}))],
)


@st.composite
def broken(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with a few of them changed, cut off, or put in the place of others."""
    made = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(made) - 1)))
        match draw(st.sampled_from(["flip", "cut", "splice", "insert"])):
            case "flip" if made:
                made[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del made[at:]
            case "splice":
                other = draw(st.integers(0, len(data)))
                made[at : at + 20] = data[other : other + 20]
            case _:
                made[at:at] = draw(st.binary(max_size=8))
    return bytes(made)


READERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "entry": (ENTRY, lambda data: read_header(data, where="here")),
    "rows": (ENTRY, lambda data: read_messages(data, where="here")),
    "checkpoint": (encode_checkpoint(STATE), lambda data: decode_checkpoint(data, where="here")),
    "floor": (encode_floor(7, write_id="w"), lambda data: decode_floor(data, where="here")),
    "record": (encode_record(RECORD), lambda data: decode_record(data, where="here")),
}


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(data=st.data())
def test_broken_bytes_are_damage(kind: str, data: st.DataObject) -> None:
    whole, read = READERS[kind]
    try:
        read(data.draw(broken(whole)))
    except (DataDamaged, NewerFormatError) as error:
        assert error.object == "here"  # noqa: PT017 - as above


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(st.one_of(st.text(max_size=60), st.builds(lambda name: name, st.text("-_abcXYZ019", max_size=80))), st.data())
def test_a_name_hands_over_what_an_entry_can_bring_or_nothing(text: str, data: st.DataObject) -> None:
    good = OVER.handed.key.rpartition("/")[2]
    name = data.draw(st.one_of(st.just(text), broken(good.encode()).map(lambda made: made.decode("latin-1"))))
    key = f"{PATHS.handed_under(4)}{name}"
    handed = asyncio.run(read_handed(MemoryStore(), PATHS, ObjectInfo(key, 100, 0)))
    if handed is not None:
        header = Header(1, "w", 0, "d", {}, (), handed.openings, handed.batches)
        assert decode_header(encode_header(header), where="here") == header


@settings(max_examples=EXAMPLES, deadline=None)
@given(footers())
def test_an_object_that_says_it_was_handed_over_hands_over_what_an_entry_can_bring_or_nothing(text: str) -> None:
    document = json.loads(text)
    said = {name: document.get(name, []) for name in ("openings", "batches")}

    async def test() -> None:
        store = MemoryStore()
        key = f"{PATHS.handed_under(4)}long-{'ab' * 16}"
        await store.put(key, write_file(LOG_SCHEMA.empty_table(), {"penstock.handed": json.dumps(said)}), mode=Put.CREATE)
        (info,) = await store.list(PATHS.handed)
        handed = await read_handed(store, PATHS, info)
        if handed is not None:
            assert all(one.valid_until <= 68 for one in handed.openings)
            assert all(one.valid_until <= 68 for one in handed.batches)
            header = Header(1, "w", 0, "d", {}, (), handed.openings, handed.batches)
            assert decode_header(encode_header(header), where="here") == header

    asyncio.run(test())
