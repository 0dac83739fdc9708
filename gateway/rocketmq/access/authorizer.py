"""Decides who may call what, for the one place around every call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Self

from google.protobuf.message import Message

from ....coordinator.access.record import AccessRecord
from ....log.runtime.runtime import Clock
from ...access.principals import PrincipalCache
from ...server.options import AccessOptions
from ..protocol import rocketmq_pb2 as pb
from ..protocol.status import StatusError
from ..server.calls import RpcCall
from .limits import PrincipalLimiter, PrincipalLimits
from .rights import missing
from .signature import BadSignature, check_time, digest_of, signature_of

_WRONG: Final = "the access key is not known, or the signature is not by its secret"
"""One text for both, so that nobody can try out access keys."""


class Authorizer:
    """Verifies signatures, grants and limits. All that it needs of a call are its headers and its request."""

    def __init__(
        self, principals: PrincipalCache, clock: Clock, *, limits: PrincipalLimits | None = None, utc_only: bool = False
    ) -> None:
        self.principals = principals
        self._clock = clock
        self._usage = PrincipalLimiter(limits or PrincipalLimits(), clock)
        self._utc_only = utc_only

    @classmethod
    def of(cls, options: AccessOptions, read: Callable[[], Awaitable[AccessRecord]], clock: Clock) -> Self:
        """An authorizer by a gateway's options, over the record that ``read`` gives."""
        limits = PrincipalLimits(options.calls_per_s, options.connections)
        return cls(PrincipalCache(read, options.keys, clock), clock, limits=limits, utc_only=options.utc_only)

    async def close(self) -> None:
        await self.principals.close()

    async def admit(self, call: RpcCall) -> None:
        """Name the principal of a call. Raises `StatusError`: UNAUTHORIZED, or TOO_MANY_REQUESTS for one connection too many."""
        try:
            signature = signature_of(call.metadata.authorization, call.metadata.date_time)
            record = await self.principals.record()
            principal = record.principals.get(signature.access_key)
            if principal is None:
                digest_of("of nobody", signature.date_time)  # takes as long as one that is known
                raise BadSignature(_WRONG)
            found = [
                sealed for sealed, secret in self.principals.secrets(signature.access_key, principal) if signature.is_by(secret)
            ]
            if not found:
                raise BadSignature(_WRONG)
            check_time(signature.date_time, self._clock.wall_ms(), utc_only=self._utc_only)
        except BadSignature as error:
            raise StatusError(pb.UNAUTHORIZED, str(error)) from None
        self._usage.connected(signature.access_key, call.peer)
        call.principal, call.proof = signature.access_key, found[0].sealed

    async def allow(self, call: RpcCall, request: Message) -> None:
        """Return if the principal may do what it asks for now. Raises `StatusError`: FORBIDDEN, or TOO_MANY_REQUESTS."""
        self._check(await self.principals.record(), call, request)
        self._usage.called(call.principal, call.rpc)

    async def check_again(self, call: RpcCall, request: Message) -> None:
        """The same later in a long call, which is not counted again: what was revoked meanwhile ends it."""
        record = await self.principals.record()
        principal = record.principals.get(call.principal)
        now_ms = self._clock.wall_ms()
        if principal is None or not any(one.sealed == call.proof and one.valid_at(now_ms) for one in principal.secrets):
            raise StatusError(pb.UNAUTHORIZED, "the principal was removed, or has another secret by now")
        self._check(record, call, request)

    def _check(self, record: AccessRecord, call: RpcCall, request: Message) -> None:
        if call.principal not in record.principals:
            raise StatusError(pb.UNAUTHORIZED, _WRONG)
        lacks = missing(record.grants_of(call.principal), request)
        if lacks is not None:
            verbs, name = lacks
            verb = min(verbs)
            doing = " or ".join(sorted(verbs))
            raise StatusError(
                pb.FORBIDDEN,
                f"{call.principal} may not {doing} {verb.noun} {name}; an operator grants it by "
                f"`penstock access grant {call.principal} --{max(verbs)} {name}`",
            )
