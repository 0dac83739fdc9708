"""A client's proof of identity by SCRAM, which every gateway offers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from ...server.check_finding import CheckFailed
from ..access.scram import HASHES
from ..wire.apis import ApiKey
from .client import CheckClient

_HEADER: Final = "n,,"
_ROUNDS_MAX: Final = 1_000_000
_MECHANISM: Final = "SCRAM-SHA-512"
_HASH: Final = HASHES[_MECHANISM]


async def mechanisms(client: CheckClient) -> Sequence[str]:
    """The ways to prove a name; none where nobody is asked. Raises as `CheckClient.ask`."""
    if ApiKey.SASL_HANDSHAKE not in client.highest:
        return ()
    return tuple((await client.ask(ApiKey.SASL_HANDSHAKE, {"mechanism": _MECHANISM})).mechanisms)


async def prove(client: CheckClient, name: str, secret: str, nonce: str) -> str:
    """The mechanism by which the name was proved. Raises `CheckFailed`, and as `CheckClient.ask`."""
    offered = await mechanisms(client)
    if not offered:
        raise CheckFailed("it asks nobody who he is, so an access key is refused", "Start it with --access-key-file")
    if _MECHANISM not in offered:
        raise CheckFailed(f"it offers {', '.join(offered)}, and not {_MECHANISM}")
    first = f"n={name},r={nonce}"
    challenge = await _told(client, f"{_HEADER}{first}")
    last, expected = scram_proof(secret, first, challenge)
    if not hmac.compare_digest(await _told(client, last), expected):
        raise CheckFailed("the gateway does not know the secret", "Somebody else answers there")
    return _MECHANISM


async def _told(client: CheckClient, message: str) -> str:
    answer = await client.ask(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message.encode()})
    if answer.error_code:
        raise CheckFailed(answer.error_message or f"code {answer.error_code}")
    return bytes(answer.auth_bytes).decode()


def scram_proof(secret: str, first: str, challenge: str) -> tuple[str, str]:
    """The client's last message, and what the server answers if it knows the secret (RFC 5802). Raises `CheckFailed` for no challenge."""
    try:
        said = dict(part.split("=", 1) for part in challenge.split(","))
        salt, rounds, nonce = base64.b64decode(said["s"]), int(said["i"]), said["r"]
    except (KeyError, ValueError):
        raise CheckFailed("its challenge is none of SCRAM's") from None
    if not 0 < rounds <= _ROUNDS_MAX:
        raise CheckFailed(f"its challenge asks for {rounds} rounds")
    salted = hashlib.pbkdf2_hmac(_HASH, secret.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", _HASH)
    unproved = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
    signed = f"{first},{challenge},{unproved}".encode()
    signature = hmac.digest(hashlib.new(_HASH, client_key).digest(), signed, _HASH)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server = hmac.digest(hmac.digest(salted, b"Server Key", _HASH), signed, _HASH)
    return f"{unproved},p={base64.b64encode(proof).decode()}", f"v={base64.b64encode(server).decode()}"
