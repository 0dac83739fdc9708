"""SaslHandshake and SaslAuthenticate: a connection proves its principal, and proves it again before its session is over."""

from __future__ import annotations

import asyncio
import hmac
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from ....coordinator.access.record import check_name
from ....log import BackPressureError
from ....log.errors import InvalidArgument
from ....log.runtime.runtime import Runtime
from ...access.refusals import Unauthorized
from ..server.calls import KafkaCall
from ..server.session import KafkaSession
from ..wire.errors import ErrorCode, KafkaRefusal
from ..wire.messages import Fields, Request
from .authorizer import SaslAuthorizer
from .plain import PLAIN, PlainMalformed, name_and_secret
from .scram import HASHES, ScramChallenge, ScramMalformed, challenge, client_name, is_proved, proof_of, server_proof
from .scram_keys import ScramKeyCache

MESSAGE_BYTES_MAX: Final = 1_024
"""The largest message of a mechanism."""
_REFUSED_S: Final = 0.1
"""A refusal comes this late at the earliest, so that its time does not tell which name is a principal's."""
_NONCE_BYTES: Final = 18
_WRONG: Final = "the access key is not known, or the secret is not its own"
"""One text for both, so that access keys cannot be tried out."""


@dataclass(frozen=True, slots=True)
class _Exchange:
    mechanism: str
    asked: ScramChallenge | None = None


class SaslService:
    """Serves the mechanisms PLAIN, over TLS only, SCRAM-SHA-256 and SCRAM-SHA-512."""

    def __init__(self, authorizer: SaslAuthorizer, keys: ScramKeyCache, runtime: Runtime, *, lifetime: timedelta) -> None:
        self._authorizer = authorizer
        self._principals = authorizer.principals
        self._keys = keys
        self._clock, self._random = runtime.clock, runtime.random
        self._lifetime = lifetime

    async def handshake(self, request: Request, call: KafkaCall) -> Fields:
        session, offered = call.session, [*HASHES, *([PLAIN] if call.session.is_tls else [])]
        if request.mechanism not in offered:
            session.exchange, session.is_ending = None, True
            return {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": offered}
        session.exchange = _Exchange(request.mechanism)
        return {"error_code": ErrorCode.NONE, "mechanisms": offered}

    async def authenticate(self, request: Request, call: KafkaCall) -> Fields:
        """Whatever fails ends the connection behind its answer."""
        session, started_s = call.session, self._clock.monotonic_s()
        exchange, session.exchange = session.exchange, None
        try:
            if not isinstance(exchange, _Exchange):
                raise KafkaRefusal(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes before SaslAuthenticate")
            data = bytes(request.auth_bytes)
            if len(data) > MESSAGE_BYTES_MAX:
                raise _failed(f"a message of {exchange.mechanism} has at most {MESSAGE_BYTES_MAX} bytes")
            if exchange.mechanism == PLAIN:
                return await self._by_plain(session, data)
            if exchange.asked is None:
                return self._challenged(session, exchange.mechanism, data)
            return await self._by_scram(session, exchange.mechanism, exchange.asked, data)
        except Exception as error:
            session.is_ending = True
            await asyncio.sleep(max(0.0, started_s + _REFUSED_S - self._clock.monotonic_s()))
            if isinstance(error, Unauthorized):
                raise _failed(_WRONG) from None
            if isinstance(error, PlainMalformed | ScramMalformed):
                raise _failed(f"the message is not understood: {error}") from None
            if isinstance(error, BackPressureError):
                raise KafkaRefusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, str(error)) from None
            raise

    async def _by_plain(self, session: KafkaSession, data: bytes) -> Fields:
        name, given = name_and_secret(data)
        session.claimed = _claimed(name)
        proof = await self._principals.authenticate(name, lambda secret: hmac.compare_digest(secret.encode(), given.encode()))
        return self._proved(session, name, proof, b"")

    def _challenged(self, session: KafkaSession, mechanism: str, data: bytes) -> Fields:
        name, nonce = client_name(data), b64encode(self._random.randbytes(_NONCE_BYTES)).decode()
        session.claimed = _claimed(name)
        asked = challenge(mechanism, data, nonce=nonce, salt=self._keys.salt(mechanism, name))
        session.exchange = _Exchange(mechanism, asked)
        return {"error_code": ErrorCode.NONE, "auth_bytes": asked.text.encode()}

    async def _by_scram(self, session: KafkaSession, mechanism: str, asked: ScramChallenge, data: bytes) -> Fields:
        given = proof_of(asked, data)
        for sealed, secret in await self._principals.secrets(asked.name):
            keys = await self._keys.keys(mechanism, asked.name, sealed, secret, address=session.address)
            if is_proved(keys, given):
                return self._proved(session, asked.name, sealed, server_proof(keys, given))
        raise Unauthorized(_WRONG)

    def _proved(self, session: KafkaSession, name: str, proof: str, answer: bytes) -> Fields:
        """Raises `Unauthorized` for another principal than before, and `BackPressureError` for one connection too many."""
        if session.principal not in ("", name):
            raise Unauthorized("a connection keeps its principal")
        self._authorizer.enter(session, name, proof, until_s=self._clock.monotonic_s() + self._lifetime.total_seconds())
        return {
            "error_code": ErrorCode.NONE,
            "auth_bytes": answer,
            "session_lifetime_ms": self._lifetime // timedelta(milliseconds=1),
        }


async def no_sasl(request: Request, call: KafkaCall) -> Fields:
    """The answer of a gateway that asks nobody who he is, to a client that would prove it."""
    call.session.is_ending = True
    raise KafkaRefusal(ErrorCode.ILLEGAL_SASL_STATE, "this gateway asks for no proof: connect without SASL")


def _failed(text: str) -> KafkaRefusal:
    return KafkaRefusal(ErrorCode.SASL_AUTHENTICATION_FAILED, text)


def _claimed(name: str) -> str:
    with suppress(InvalidArgument):
        check_name(name, "principal")
        return name
    return ""
