"""The console's protection: headers, host names, signed tokens. Pure but for its ASGI shell."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # not no-referrer, by which browsers hide the origin of our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_HSTS = "max-age=31536000"
SESSION_S, MARK_S = 12 * 3600, 90 * 24 * 3600


def host_name(header: str) -> str:
    host, _, port = header.strip().lower().rpartition(":")
    if not host or not (port == "" or (port.isascii() and port.isdecimal())):
        return header.strip().lower()
    return host


def port_of(header: str) -> str:
    """The port in a ``Host`` header; empty: none."""
    port = header.strip().rpartition(":")[2]
    return port if port.isascii() and port.isdecimal() and len(port) <= 5 else ""


def is_known_host(header: str, known: frozenset[str] | None) -> bool:
    """Whether a request names this console, against foreign names for its address."""
    return known is None or host_name(header) in known


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a request is from a page of this console, as far as known."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def is_from_within_another_site(headers: Mapping[str, str]) -> bool:
    """Whether a browser embeds this in another site."""
    if headers.get("sec-fetch-site", "none") != "cross-site":
        return False
    return headers.get("sec-fetch-mode") != "navigate" or headers.get("sec-fetch-dest") not in (None, "document")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerSession:
    """The contents of a viewer's cookie."""

    id: str
    name: str
    proof: str
    """The proof of the log-in: a session ends when it changes."""
    until_s: int


@dataclass(frozen=True, slots=True)
class SessionSigner:
    """The signatures of sessions and forms' tokens, by a key of the process."""

    key: bytes = field(repr=False)

    def cookie(self, session: ViewerSession) -> str:
        fields = [session.id, session.name, session.proof, session.until_s]
        body = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()
        return f"{body}.{self._signature('session', body)}"

    def session(self, cookie: str, *, now_s: float) -> ViewerSession | None:
        """The session of a cookie; None: a foreign or ended one."""
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature("session", body).encode()):
            return None
        number, name, proof, until_s = json.loads(base64.urlsafe_b64decode(body))
        return ViewerSession(id=number, name=name, proof=proof, until_s=until_s) if now_s < until_s else None

    def form_token(self, session: ViewerSession) -> str:
        return self._signature("form", session.id)

    def is_form_token(self, session: ViewerSession, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.form_token(session).encode())

    def mark(self, name: str, number: str) -> str:
        return f"{number}.{self._signature('mark', f'{number}:{name}')}"

    def is_mark(self, name: str, mark: str) -> bool:
        number, _, signature = mark.partition(".")
        return hmac.compare_digest(signature.encode(), self._signature("mark", f"{number}:{name}").encode())

    def _signature(self, use: str, text: str) -> str:
        return hmac.new(self.key, f"{use}:{text}".encode(), hashlib.sha256).hexdigest()


class SecurityMiddleware:
    """The outermost layer: checks the host, and adds protecting headers."""

    def __init__(self, app: ASGIApp, *, known_hosts: frozenset[str] | None, is_tls: bool) -> None:
        self._app = app
        self._known_hosts = known_hosts
        self._headers = {**HEADERS, "strict-transport-security": _HSTS} if is_tls else HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        if len(hosts) != 1 or not is_known_host(hosts[0], self._known_hosts):
            body = b"421: this console is not reached by that name; start it with --allow-host to let it be.\n"
            head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
            await protected({"type": "http.response.start", "status": 421, "headers": head})
            await protected({"type": "http.response.body", "body": body})
            return
        await self._app(scope, receive, protected)
