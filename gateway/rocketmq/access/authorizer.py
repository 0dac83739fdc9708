"""The check of calls: signatures, and the rights that requests need."""

from __future__ import annotations

from google.protobuf.message import Message

from ....log.runtime.runtime import Clock
from ...access.authorizer import PrincipalAuthorizer
from ..server.calls import RpcCall
from .rights import rights_of
from .signature import check_time, signature_of

_FREE = frozenset({"Heartbeat", "NotifyClientTermination", "QueryAssignment", "QueryRoute", "Telemetry"})
"""Uncounted calls, which only keep a client alive: a refused client would come again."""


class SignatureAuthorizer:
    """Needs nothing of a call but its headers and its request."""

    def __init__(self, principals: PrincipalAuthorizer, clock: Clock, *, utc_only: bool = False) -> None:
        self.principals = principals
        self._clock = clock
        self._utc_only = utc_only

    async def admit(self, call: RpcCall) -> None:
        """Name the principal of a call. Raises `Unauthorized`, or `BackPressureError`."""
        signature = signature_of(call.metadata.authorization, call.metadata.date_time)
        proof = await self.principals.authenticate(signature.access_key, signature.is_by)
        check_time(signature.date_time, self._clock.wall_ms(), utc_only=self._utc_only)
        self.principals.limiter.add_connection(signature.access_key, call.peer)
        call.principal, call.proof = signature.access_key, proof

    async def allow(self, call: RpcCall, request: Message) -> None:
        """Return if the principal has the request's rights. Raises `Unauthorized`, `Forbidden`, or `BackPressureError`."""
        await self.principals.check(call.principal, rights_of(request))
        if call.rpc not in _FREE:
            self.principals.limiter.add_call(call.principal)

    async def check_again(self, call: RpcCall, request: Message) -> None:
        """The same later in a long call, which is not counted again."""
        await self.principals.check_again(call.principal, call.proof, rights_of(request))
