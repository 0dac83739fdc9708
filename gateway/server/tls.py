"""The gateway's certificate, read again when its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from ...log.errors import InvalidArgument
from ..bounds.log_throttle import LogThrottle
from .options import TlsOptions

log = logging.getLogger("penstock.gateway")


class ReloadedCertificate:
    """The certificate for handshakes, from whatever thread makes them."""

    def __init__(self, options: TlsOptions, protocols: Sequence[str] = ()) -> None:
        """Raises `InvalidArgument` unless the files are a certificate and its key."""
        self._options = options
        self._protocols = protocols
        self._seen = self._stamp()
        self.first = self._load()

    def changed(self) -> ssl.SSLContext | None:
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

    def _load(self) -> ssl.SSLContext:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._options.certificate, self._options.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise _unreadable(self._options.certificate, error) from error
        if self._protocols:
            context.set_alpn_protocols(list(self._protocols))
        return context


def server_context(options: TlsOptions, protocols: Sequence[str] = ()) -> ssl.SSLContext:
    """TLS without clients' certificates, for servers of asyncio. Each handshake has the certificate as it is then.

    ``protocols``: what clients may choose in the handshake (ALPN). Raises `InvalidArgument`.
    """
    certificate = ReloadedCertificate(options, protocols)
    first = current = certificate.first
    told = LogThrottle()

    class ToldHandshake(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                text = handshake_text(error.reason)
                if text is not None and told.is_due(text, asyncio.get_running_loop().time()):
                    log.warning(text)
                raise

    def choose(handshake: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        nonlocal current
        current = certificate.changed() or current
        handshake.context = current

    first.sni_callback = choose
    first.sslobject_class = ToldHandshake
    return first


def handshake_text(reason: str | None) -> str | None:
    """What is logged of a failed handshake; None: the client only went away. The library gives no address."""
    if not reason:
        return None
    if "ALERT" in reason:
        return f"a client broke off its TLS handshake ({reason}): it may not trust the certificate, or expect another name in it"
    return f"a client at the port with TLS does not speak TLS as this gateway does ({reason}): name it the port without TLS, or switch TLS on in it"


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
