"""The members of a classic group in one cell, written when a rebalance ends. Whoever reads it next goes on without another.

What members tell one another is opaque, and much alike: the cell is compressed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

import msgspec

from ...log.errors import LimitExceeded
from ...log.format.stored_json import Number, StoredForm, damaged, parse_stored
from ...log.limits import FORMAT_BASIC, FORMAT_EXTENDED, MIB
from ..cells.cells import WRITE_ID_BYTES
from ..cells.document import Codec
from ..cells.inflation import inflated
from ..limits import CELL_STORED_BYTES_MAX

_WHAT: Final = "the members of a classic group"
_INFLATED_BYTES_MAX: Final = 8 * MIB


class ClassicProtocol(StoredForm, frozen=True):
    """A way of assigning that a member knows, and what it tells the leader."""

    name: str
    metadata: bytes


class ClassicMember(StoredForm, frozen=True, omit_defaults=True):
    """One member."""

    id: str
    instance_id: str | None
    """None: it is no static member."""
    client_id: str
    client_host: str
    session_ms: Number
    rebalance_ms: Number
    protocols: tuple[ClassicProtocol, ...]
    """The protocols that it knows, the preferred one first."""
    assignment: bytes
    principal: str = ""
    """The principal that alone acts by the id; empty where nobody proves who it is."""


def format_of(members: Iterable[ClassicMember]) -> int:
    """The format of a group with these members."""
    return FORMAT_EXTENDED if any(one.principal for one in members) else FORMAT_BASIC


class ClassicGroup(StoredForm, frozen=True):
    """The last finished generation of a group."""

    format: int = FORMAT_BASIC
    """`format_of` its members."""
    epoch: Number = 0
    """Rises with every coordinator."""
    coordinator: str = ""
    """The gateway that took the group last."""
    life: Number = 0
    """The group's, of all of its name. Members of an earlier life are none."""
    generation: Number = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: tuple[ClassicMember, ...] = ()
    """The members in the order of their first joining."""


def encode_members(group: ClassicGroup) -> bytes:
    """Raises `LimitExceeded` for what no cell holds."""
    data = zlib.compress(msgspec.json.encode(group))
    if len(data) > (most := CELL_STORED_BYTES_MAX - WRITE_ID_BYTES):
        raise LimitExceeded(
            "the members of the consumer group tell one another too much",
            expected=f"at most {most} bytes, compressed",
            observed=f"{len(data)} bytes of {len(group.members)} members",
            hint="use fewer members, or groups with fewer topics",
        )
    return data


def decode_members(data: bytes, *, where: str) -> ClassicGroup:
    """Raises `DataDamaged` or `NewerFormatError`."""
    try:
        content = inflated(data, bytes_max=_INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise damaged(_WHAT, error, where=where) from error
    if content is None:
        raise damaged(_WHAT, "cut off, too long, or followed by more", where=where)
    return parse_stored(content, ClassicGroup, what=_WHAT, where=where, formats=(FORMAT_BASIC, FORMAT_EXTENDED))


MEMBERS_CELL: Final = Codec(encode_members, decode_members)
