"""The gateway's certificate, read again when its files change."""

from __future__ import annotations

import logging
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ...log.errors import InvalidArgument
from .options import TlsOptions

log = logging.getLogger("penstock.gateway")


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A certificate with its chain, and its key: PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


class ReloadedCertificate:
    """The certificate for handshakes, from whatever thread makes them."""

    def __init__(self, options: TlsOptions) -> None:
        """Raises `InvalidArgument` unless the files are a certificate and its key."""
        self._options = options
        self._seen = self._stamp()
        self.first = self._load()

    def changed(self) -> CertificatePair | None:
        """The changed certificate; None: as before, also while the files are no pair amid a change."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return None
            found = self._load()
        except InvalidArgument as error:
            log.error("the changed certificate is not taken, and the former one stays: %s", error)  # noqa: TRY400
            return None
        self._seen = stamp
        log.info("the changed certificate %s is taken", self._options.certificate)
        return found

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        """The identity of the files, changed also by a replaced link, as Kubernetes does it."""
        try:
            stats = [path.stat() for path in (self._options.certificate, self._options.key)]
        except OSError as error:
            raise _unreadable(error.filename, error) from error
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in stats)

    def _load(self) -> CertificatePair:
        certificate, key = self._options.certificate, self._options.key
        try:
            # Servers such as gRPC's take anything, and fail at each handshake then.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
            return CertificatePair(certificate.read_bytes(), key.read_bytes())
        except (OSError, ValueError) as error:
            raise _unreadable(certificate, error) from error


def server_context(options: TlsOptions) -> ssl.SSLContext:
    """TLS without clients' certificates, for servers of asyncio. Each handshake has the certificate as it is then. Raises `InvalidArgument`."""
    certificate = ReloadedCertificate(options)

    def loaded() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.key, password=_no_password)
        return context

    first = current = loaded()

    def choose(handshake: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        nonlocal current
        if certificate.changed() is not None:
            with suppress(OSError, ValueError):  # it changed once more, and the next handshake sees that
                current = loaded()
        handshake.context = current

    first.sni_callback = choose
    return first


def _no_password() -> str:
    raise ValueError("the key has a password")


def _unreadable(path: Path | str, error: Exception) -> InvalidArgument:
    return InvalidArgument(
        "this is no certificate with its key",
        operation="serve TLS",
        object=str(path),
        expected="two PEM files: the certificate with its chain, and its private key without a password",
        observed=str(error),
    )
