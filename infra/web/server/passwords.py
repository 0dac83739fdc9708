"""The password file: users and their roles. A line is ``NAME:ROLE:scrypt$n$r$p$salt$hash``. Pure but for reading the file."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ....log.errors import InvalidArgument
from .options import ConsoleRole

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
PASSWORD_CHARS_MIN, PASSWORD_BYTES_MAX = 12, 1024
_N, _R, _P = 2**15, 8, 1
_N_MAX, _R_MAX, _P_MAX = 2**20, 16, 4
SALT_BYTES, _HASH_BYTES = 16, 32


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """A password as scrypt keeps it."""

    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    @staticmethod
    def of(password: str, salt: bytes) -> PasswordHash:
        return PasswordHash(_N, _R, _P, salt, _scrypt(password, salt, _N, _R, _P))

    def matches(self, password: str) -> bool:
        """Whether this is the password; takes a tenth of a second in either case."""
        return hmac.compare_digest(self.digest, _scrypt(password, self.salt, self.n, self.r, self.p))

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(one).decode() for one in (self.salt, self.digest))
        return f"scrypt${self.n}${self.r}${self.p}${salt}${digest}"


NOBODY = PasswordHash(_N, _R, _P, b"\0" * SALT_BYTES, b"\0" * _HASH_BYTES)
"""No password's hash: an unknown name takes as long as a known one."""


@dataclass(frozen=True, slots=True)
class ConsoleUser:
    """A user with a log-in."""

    name: str
    role: ConsoleRole
    hash: PasswordHash

    @property
    def proof(self) -> str:
        """A word that changes with the password and the role."""
        return hashlib.sha256(f"{self.role}:{self.hash}".encode()).hexdigest()[:16]


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    memory = 128 * n * r + 128 * r * p + 2**20
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, dklen=_HASH_BYTES, maxmem=memory)


def line_of(name: str, role: ConsoleRole, password: str, salt: bytes) -> str:
    """Raises `InvalidArgument`."""
    if not NAME.fullmatch(name):
        raise InvalidArgument(
            "bad name of a user", operation="console password", observed=name, expected="letters, digits, '.', '_', '@', '+', '-'"
        )
    if len(password) < PASSWORD_CHARS_MIN or len(password.encode()) > PASSWORD_BYTES_MAX:
        raise InvalidArgument(
            "the password is too short or too long",
            operation="console password",
            expected=f"{PASSWORD_CHARS_MIN} characters to {PASSWORD_BYTES_MAX} bytes",
            observed=f"{len(password)} characters",
        )
    return f"{name}:{role}:{PasswordHash.of(password, salt)}"


def parsed(text: str, *, where: str) -> Mapping[str, ConsoleUser]:
    """The users by name. Raises `InvalidArgument` with the number of the line, without its content."""
    found: dict[str, ConsoleUser] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user = _user(line.strip())
        if user is None or user.name in found:
            raise InvalidArgument(
                "a line of the password file is none, or names somebody again",
                operation="console",
                object=f"{where}, line {number}",
                expected="NAME:viewer:scrypt$… or NAME:operator:scrypt$…",
                hint="make lines with `penstock console password NAME --role operator`",
            )
        found[user.name] = user
    if not found:
        raise InvalidArgument("the password file names nobody", operation="console", object=where)
    return found


def _user(line: str) -> ConsoleUser | None:
    match = re.fullmatch(r"([^:]+):(viewer|operator):scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([^$]+)\$([^$]+)", line)
    if match is None or not NAME.fullmatch(match[1]):
        return None
    n, r, p = int(match[3]), int(match[4]), int(match[5])
    if not (2 <= n <= _N_MAX and n & (n - 1) == 0 and 1 <= r <= _R_MAX and 1 <= p <= _P_MAX):
        return None
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in (match[6], match[7]))
    except ValueError:
        return None
    return ConsoleUser(match[1], ConsoleRole(match[2]), PasswordHash(n, r, p, salt, digest)) if len(digest) == _HASH_BYTES else None


class PasswordFile:
    """The file as it is now: a removed user is out at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, ...] | None = None
        self._users: Mapping[str, ConsoleUser] = {}
        self.users()

    def users(self) -> Mapping[str, ConsoleUser]:
        """Raises `InvalidArgument` for an unreadable file: then no log-in succeeds."""
        try:
            status = self._path.stat()
            stamp = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            if stamp != self._stamp:
                self._users = parsed(self._path.read_text(), where=str(self._path))
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(
                "the password file cannot be read", operation="console", object=str(self._path), observed=str(error)
            ) from error
        return self._users
