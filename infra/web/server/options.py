"""The options of `penstock console`, checked. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ....log.errors import InvalidArgument
from ..lakes.lakes import LakeOptions
from .forwarded import TrustedProxies

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_LOOPBACK_PROXIES = ("127.0.0.1", "::1")


class ConsoleRole(StrEnum):
    """The rights of a viewer."""

    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedHeader:
    """A log-in by a proxy's header."""

    header: str
    operators: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """Raises `InvalidArgument`."""

    lakes: tuple[LakeOptions, ...]
    host: str = "127.0.0.1"
    port: int = 8085
    read_only: bool = False
    hosts: tuple[str, ...] = ()
    """More host names of a console on loopback."""
    password_file: Path | None = None
    trusted: TrustedHeader | None = None
    proxies: tuple[str, ...] = ()
    """The addresses and networks of proxies in front, whose word on the caller is believed."""
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        if not self.lakes:
            raise self._bad("no lake is given", hint="give --lake URL, or --config FILE")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise self._bad("--tls-cert and --tls-key go together")
        if self.password_file is not None and self.trusted is not None:
            raise self._bad("--password-file and --trust-header are two ways to log in", hint="give one of them")
        for one in self.proxies:
            try:
                TrustedProxies.of([one])
            except ValueError:
                raise self._bad("--trusted-proxy takes addresses and networks, such as 10.0.0.0/24", observed=one) from None
        if not self.asks_who and not is_loopback(self.host):
            raise self._bad(
                "a console that others can reach must know who they are",
                observed=f"--host {self.host}, and no log-in",
                hint="give --password-file (lines by `penstock console password NAME`) or --trust-header, or stay at --host 127.0.0.1",
            )

    @property
    def asks_who(self) -> bool:
        return self.password_file is not None or self.trusted is not None

    @property
    def trusted_proxies(self) -> TrustedProxies:
        """The named ones; with a trusted header and no names, those of this machine."""
        return TrustedProxies.of(self.proxies or (_LOOPBACK_PROXIES if self.trusted is not None else ()))

    @property
    def is_tls(self) -> bool:
        return self.tls_cert is not None

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """The host names of the console, without ports. None: any, as a log-in protects it."""
        return frozenset(map(str.lower, (*LOOPBACK_NAMES, *self.hosts))) if is_loopback(self.host) else None

    def _bad(self, message: str, *, observed: str | None = None, hint: str | None = None) -> InvalidArgument:
        return InvalidArgument(message, operation="console", observed=observed, hint=hint)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address. A name but ``localhost`` may mean anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
