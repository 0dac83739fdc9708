"""SCRAM (RFC 5802, 7677) as Kafka's clients speak it: its messages, and what proves a secret. Pure.

Channel binding is not offered. Secrets and names are ASCII, so nothing needs to be prepared as RFC 4013 has it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""
ITERATIONS: Final = 8_192
_NONCE_CHARS_MAX: Final = 128
_FIRST: Final = re.compile(
    r"(?P<header>[ny],(?:a=(?P<acting>[^,\s]*))?,)"
    r"(?P<bare>n=(?P<name>[^,\s]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]+=[^,]*)*)"
)
_FINAL: Final = re.compile(
    r"(?P<unproved>c=(?P<header>[A-Za-z0-9+/]+=*),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]+=[^,]*)*),p=(?P<proof>[A-Za-z0-9+/]+=*)"
)


class ScramMalformed(ValueError):
    """A message that is none of SCRAM's, or does not fit the one before."""


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """What a secret gives with a salt. Whoever has them can pretend to be the server, but not the client."""

    stored: bytes
    server: bytes


@dataclass(frozen=True, slots=True)
class ScramChallenge:
    """The server's first message, with what it answers."""

    hash: str
    name: str
    """The principal that the client claims to be; not proved."""
    header: bytes
    nonce: str
    first: str
    """The client's first message without its header."""
    text: str


@dataclass(frozen=True, slots=True)
class ScramProof:
    """The client's last message."""

    hash: str
    signed: bytes
    """All that was said."""
    proof: bytes


def client_name(message: bytes) -> str:
    """The name in a client's first message. Raises `ScramMalformed`."""
    return _first(message)["name"]


def challenge(mechanism: str, message: bytes, *, nonce: str, salt: bytes) -> ScramChallenge:
    """The answer to a client's first message. ``nonce`` must be random. Raises `ScramMalformed`."""
    found = _first(message)
    whole = found["nonce"] + nonce
    text = f"r={whole},s={base64.b64encode(salt).decode()},i={ITERATIONS}"
    return ScramChallenge(HASHES[mechanism], found["name"], found["header"].encode(), whole, found["bare"], text)


def proof_of(asked: ScramChallenge, message: bytes) -> ScramProof:
    """The proof in the client's last message. Raises `ScramMalformed`."""
    found = _FINAL.fullmatch(_text(message))
    if found is None:
        raise ScramMalformed("it is no last message of SCRAM")
    if _decoded(found["header"]) != asked.header or not hmac.compare_digest(found["nonce"], asked.nonce):
        raise ScramMalformed("it does not answer what was asked: another nonce, or another channel binding")
    signed = f"{asked.first},{asked.text},{found['unproved']}"
    return ScramProof(asked.hash, signed.encode(), _decoded(found["proof"]))


def keys_of(hash: str, secret: str, salt: bytes) -> ScramKeys:
    """Takes some milliseconds, by design."""
    salted = hashlib.pbkdf2_hmac(hash, secret.encode(), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", hash)
    return ScramKeys(hashlib.new(hash, client_key).digest(), hmac.digest(salted, b"Server Key", hash))


def is_proved(keys: ScramKeys, given: ScramProof) -> bool:
    """Whether who made the proof has the secret of the keys."""
    signature = hmac.digest(keys.stored, given.signed, given.hash)
    if len(given.proof) != len(signature):
        return False
    client_key = bytes(a ^ b for a, b in zip(given.proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(given.hash, client_key).digest(), keys.stored)


def server_proof(keys: ScramKeys, given: ScramProof) -> bytes:
    """The server's last message, by which it proves that it knows the secret, too."""
    return b"v=" + base64.b64encode(hmac.digest(keys.server, given.signed, given.hash))


def _first(message: bytes) -> re.Match[str]:
    found = _FIRST.fullmatch(_text(message))
    if found is None:
        raise ScramMalformed("it is no first message of SCRAM without channel binding")
    if len(found["nonce"]) > _NONCE_CHARS_MAX:
        raise ScramMalformed(f"a nonce has at most {_NONCE_CHARS_MAX} characters")
    if found["acting"] and found["acting"] != found["name"]:
        raise ScramMalformed("nobody acts for another principal here")
    return found


def _text(message: bytes) -> str:
    try:
        return message.decode("ascii")
    except UnicodeDecodeError:
        raise ScramMalformed("names and nonces are ASCII") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramMalformed("it is no base64") from None
