"""Seals secrets by a key that gateways and operators have, and the table has not.

HMAC needs the secret at the server, so a hash would not do. AES-256-GCM binds each to its principal's name and id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...log.errors import InvalidArgument, LimitExceeded, MissingDependency, install_hint
from .record import SealedSecret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12
SECRET_CHARS_MIN, SECRET_CHARS_MAX = 16, 256
_HINT = "`penstock access key FILE` makes a key file; every gateway and operator of the lake needs the same"


class SecretNotOpened(InvalidArgument):
    """No key of the file opens the secret."""

    kind = "secret_not_opened"


@dataclass(frozen=True, slots=True)
class SealingKeys:
    """The keys of a file: the first seals, all open."""

    keys: Sequence[bytes] = field(repr=False)
    where: str

    @classmethod
    def parse(cls, text: str, *, where: str) -> SealingKeys:
        """Keys as `new_key` writes them, one a line. Raises `InvalidArgument` without the text."""
        keys = []
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                key = base64.b64decode(line.strip(), validate=True)
            except binascii.Error:
                key = b""
            if len(key) != KEY_BYTES:
                raise InvalidArgument(
                    f"line {number} of the key file is no key",
                    object=where,
                    expected=f"{KEY_BYTES} bytes in base64 a line",
                    hint=_HINT,
                )
            keys.append(key)
        if not keys:
            raise InvalidArgument("the key file has no key", object=where, hint=_HINT)
        return cls(tuple(keys), where)

    @classmethod
    def load(cls, path: Path) -> SealingKeys:
        """Raises `InvalidArgument`."""
        try:
            return cls.parse(path.read_text(encoding="ascii"), where=str(path))
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise InvalidArgument("the key file cannot be read", object=str(path), observed=reason, hint=_HINT) from error

    @property
    def current(self) -> str:
        return key_id(self.keys[0])

    def derived(self, purpose: str) -> bytes:
        """A key for another purpose, which tells nothing of those of the file."""
        return hmac.digest(self.keys[0], f"penstock derived key\0{purpose}".encode(), "sha256")

    def seal(self, secret: str, *, name: str, id: str, nonce: bytes, since_ms: int) -> SealedSecret:
        """``nonce`` must be random. Raises `InvalidArgument` or `LimitExceeded` for an invalid secret."""
        check_secret(secret)
        sealed = _aead(self.keys[0]).encrypt(nonce, secret.encode(), _bound_to(name, id))
        return SealedSecret(base64.b64encode(nonce + sealed).decode(), self.current, since_ms)

    def open(self, secret: SealedSecret, *, name: str, id: str) -> str:
        """Raises `SecretNotOpened` for another principal's or key's secret."""
        key = next((one for one in self.keys if key_id(one) == secret.key), None)
        if key is None:
            raise SecretNotOpened(
                "the secret of the principal was sealed by a key that the key file has not",
                object=name,
                expected=f"key {secret.key}",
                observed=f"{', '.join(map(key_id, self.keys))} in {self.where}",
                hint="put that key into the file, or rotate the secret",
            )
        from cryptography.exceptions import InvalidTag

        data = base64.b64decode(secret.sealed)
        try:
            return _aead(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], _bound_to(name, id)).decode()
        except (InvalidTag, ValueError) as error:
            raise SecretNotOpened(
                "the secret of the principal does not open", object=name, observed="not what was sealed for it", hint="rotate it"
            ) from error


def new_key(random_bytes: bytes) -> str:
    """A new key file's content, from `KEY_BYTES` random bytes."""
    return base64.b64encode(random_bytes).decode() + "\n"


def key_id(key: bytes) -> str:
    return hashlib.sha256(b"penstock access key\0" + key).hexdigest()[:8]


def check_secret(secret: str) -> None:
    """Raise for a short secret, as one signed request lets it be guessed."""
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise InvalidArgument("a secret must be visible ASCII characters without spaces")
    if not SECRET_CHARS_MIN <= len(secret) <= SECRET_CHARS_MAX:
        raise LimitExceeded(
            "the secret is too short" if len(secret) < SECRET_CHARS_MIN else "the secret is too long",
            expected=f"{SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} characters",
            observed=f"{len(secret)}",
            hint="leave it out: a good one is made",
        )


def _bound_to(name: str, id: str) -> bytes:
    return f"{name}\0{id}".encode()


def _aead(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingDependency("cryptography is not installed", operation="seal a secret", hint=install_hint("gateway")) from error
    return AESGCM(key)
