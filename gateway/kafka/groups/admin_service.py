"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ....coordinator import Coordination
from ....coordinator.access.grants import Verb
from ....coordinator.cells.keys import QUEUES, classic_key
from ....coordinator.classic.members import ClassicGroup, decode_members
from ....coordinator.groups.record import GroupProtocol, GroupRecord
from ....log.errors import PenstockError
from ..server.calls import KafkaCall
from ..wire.errors import ErrorCode, KafkaRefusal
from ..wire.messages import Fields, Request
from .answers import group_refusal
from .coordinator import GroupCoordinator
from .membership.group import Group, GroupState, Member

CLASSIC: Final = "classic"
_TELLS_UNKNOWN_FROM: Final = 6


class GroupAdministration:
    """Tells operators of groups, and deletes them."""

    def __init__(self, coordinator: GroupCoordinator, coordination: Coordination) -> None:
        self._coordinator = coordinator
        self._coordination = coordination

    async def describe_groups(self, request: Request, call: KafkaCall) -> Fields:
        return {"throttle_time_ms": 0, "groups": [await self._described(name, call) for name in dict.fromkeys(request.groups)]}

    async def _described(self, name: str, call: KafkaCall) -> Fields:
        try:
            call.rights.check(Verb.JOIN, name)
            group = await self._coordinator.group(name, tls=call.session.is_tls)
            if group is None and call.version >= _TELLS_UNKNOWN_FROM:
                raise KafkaRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {name}")
        except (KafkaRefusal, PenstockError) as error:
            refusal = group_refusal(error)
            call.code = refusal.code
            is_missing = refusal.code is ErrorCode.GROUP_ID_NOT_FOUND
            return _description(name, Group(state=GroupState.DEAD), GroupState.DEAD if is_missing else "", refusal)
        state = Group(state=GroupState.DEAD) if group is None else group.group
        return _description(name, state, state.state)

    async def list_groups(self, request: Request, call: KafkaCall) -> Fields:
        """Tell of the groups that this gateway coordinates: clients ask all gateways."""
        states = {one.lower() for one in request.states_filter or ()}
        types = {one.lower() for one in request.types_filter or ()}
        try:
            found = await self._listed(call) if not types or CLASSIC in types else []
        except PenstockError as error:
            raise group_refusal(error) from None
        told = [
            {"group_id": name, "protocol_type": kind, "group_state": state, "group_type": CLASSIC}
            for name, kind, state in found
            if not states or state.lower() in states
        ]
        return {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "groups": told}

    async def _listed(self, call: KafkaCall) -> list[tuple[str, str, str]]:
        records = {
            name: one for name, one in (await self._coordination.groups.all()).items() if one.protocol is GroupProtocol.KAFKA
        }
        allowed = [name for name in records if call.rights.has(Verb.JOIN, name)]
        own = [name for name in allowed if await self._coordinator.is_own(name, tls=call.session.is_tls)]
        known = {name: group.group for name, group in self._coordinator.groups.items() if not group.is_lost}
        stored = await self._stored([name for name in own if name not in known], records)
        found: list[tuple[str, str, str]] = []
        for name in own:
            if name in known:
                found.append((name, known[name].protocol_type, known[name].state))
            else:
                cell = stored.get(name, ClassicGroup())
                found.append((name, cell.protocol_type, GroupState.STABLE if cell.members else GroupState.EMPTY))
        return found

    async def _stored(self, names: Sequence[str], records: dict[str, GroupRecord]) -> dict[str, ClassicGroup]:
        keys = {classic_key(name): name for name in names}
        cells = await self._coordination.cells.read_these(list(keys), under=QUEUES)
        found = {keys[key]: decode_members(one.data, where=key) for key, one in cells.items()}
        return {name: one for name, one in found.items() if one.life == records[name].lives}

    async def delete_groups(self, request: Request, call: KafkaCall) -> Fields:
        names = list(dict.fromkeys(request.groups_names))
        codes = await asyncio.gather(*(self._deleted(name, call) for name in names))
        return {
            "throttle_time_ms": 0,
            "results": [{"group_id": name, "error_code": code} for name, code in zip(names, codes, strict=True)],
        }

    async def _deleted(self, name: str, call: KafkaCall) -> ErrorCode:
        try:
            call.rights.check(Verb.JOIN, name)
            code = await self._coordinator.delete(name, tls=call.session.is_tls)
        except (KafkaRefusal, PenstockError) as error:
            code = group_refusal(error).code
        call.code = code or call.code
        return code


def _description(name: str, group: Group, state: str, refusal: KafkaRefusal | None = None) -> Fields:
    is_stable = group.state is GroupState.STABLE
    return {
        "error_code": ErrorCode.NONE if refusal is None else refusal.code,
        "error_message": None if refusal is None else refusal.message,
        "group_id": name,
        "group_state": str(state),
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol if is_stable else "",
        "members": [_described_member(one, group.protocol if is_stable else None) for one in group.members.values()],
    }


def _described_member(member: Member, protocol: str | None) -> Fields:
    """The metadata and assignment of a stable group's member only."""
    return {
        "member_id": member.id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": b"" if protocol is None else member.metadata(protocol),
        "member_assignment": b"" if protocol is None else member.assignment,
    }
