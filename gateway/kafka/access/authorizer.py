"""The check of calls: a connection proves its principal first, and goes on while its proof counts."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ....log import BackPressureError
from ....log.runtime.runtime import Clock
from ...access.authorizer import PrincipalAuthorizer
from ...access.refusals import Unauthorized
from ..server.calls import KafkaCall
from ..server.session import KafkaSession
from ..wire.apis import ApiKey

_BEFORE_PROOF: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_FREE: Final = _BEFORE_PROOF | {ApiKey.FIND_COORDINATOR, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.METADATA}
"""Uncounted calls, which only keep a client alive."""


class SaslAuthorizer:
    """Admits calls of connections with a proved principal; of others only those by which they prove one."""

    asks_proof = True

    def __init__(self, principals: PrincipalAuthorizer, clock: Clock, *, connections: int | None = None) -> None:
        """``connections``: the most of one principal; None: any number."""
        self.principals = principals
        self._clock = clock
        self._connections_max = connections
        self._connections: Counter[str] = Counter()

    async def admit(self, call: KafkaCall) -> None:
        """Raises `Unauthorized`."""
        await self.check_again(call)
        if call.api.key not in _FREE:
            call.throttle_ms = round(1000 * self.principals.limiter.throttle_s(call.principal))

    async def check_again(self, call: KafkaCall) -> None:
        """Raises `Unauthorized` without a proof, or when its time is over, or its credential revoked."""
        if call.api.key in _BEFORE_PROOF:
            return
        session = call.session
        if not session.principal:
            raise Unauthorized(
                "the client proves who it is first: give it security.protocol, sasl.mechanism, an access key and a secret"
            )
        if self._clock.monotonic_s() >= session.until_s:
            raise Unauthorized("the session is over, and the client did not prove again who it is")
        call.rights.grants = await self.principals.rights(session.principal, session.proof)
        call.rights.principal = session.principal

    def enter(self, session: KafkaSession, principal: str, proof: str, *, until_s: float) -> None:
        """Note what a connection proved. Raises `BackPressureError` for one more than the principal may have."""
        if not session.principal:
            most = self._connections_max
            if most is not None and self._connections[principal] >= most:
                raise BackPressureError(f"{principal} has {most} connections to this gateway, and may have no more")
            self._connections[principal] += 1
        session.principal, session.proof, session.until_s = principal, proof, until_s

    def leave(self, session: KafkaSession) -> None:
        if session.principal:
            self._connections[session.principal] -= 1
            if not self._connections[session.principal]:
                del self._connections[session.principal]
