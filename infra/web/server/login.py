"""The caller of a request: logged in, named by a trusted proxy, or the user of this machine."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers

from ....log.errors import InvalidArgument, PermissionDenied, RetryError
from ....log.runtime.runtime import Runtime
from .forwarded import TrustedProxies, address_block
from .options import ConsoleOptions, ConsoleRole, TrustedHeader
from .passwords import NOBODY, ConsoleUser, PasswordFile
from .security import SESSION_S, SessionSigner, ViewerSession

log = logging.getLogger("penstock.console")

LOCAL_USER = "local"
NAME_CHARS_MAX = 200
FAILURES_MAX, FAILURES_S = 5, 60.0
"""The failures of a name or an address before a wait, and their time."""
_COUNTED_MAX, _ENDED_MAX = 10_000, 1000
_AT_ONCE = 2
"""Each check takes 32 MiB and a tenth of a second."""
UNDER_WAY_MAX, UNDER_WAY_KNOWN_MAX = 16, 32
"""The most log-ins under way, with waiting ones. Known browsers have places of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The caller, and the session for forms."""

    name: str
    role: ConsoleRole
    session: ViewerSession


class TooManyFailures(RetryError):
    """Passwords are being guessed."""

    kind = "too_many_failures"


class TooManyLogins(RetryError):
    """A log-in more would wait for long."""

    kind = "too_many_logins"


class LoginUnavailable(RetryError):
    """The password file is unreadable. Strangers do not learn why."""

    kind = "login_unavailable"


@dataclass(slots=True)
class LoginFailures:
    """Failed log-ins by name and by address. Pure but for its bounded memory."""

    _since: OrderedDict[str, tuple[float, int]] = field(default_factory=OrderedDict)

    def check(self, now_s: float, *sources: str) -> None:
        """Raises `TooManyFailures`."""
        for source in sources:
            first_s, count = self._since.get(source, (now_s, 0))
            if count >= FAILURES_MAX and now_s - first_s < FAILURES_S:
                raise TooManyFailures(
                    "too many failed log-ins", operation="log in", hint=f"try again in {FAILURES_S - (now_s - first_s):.0f} s"
                )

    def note(self, now_s: float, *sources: str) -> None:
        for source in sources:
            first_s, count = self._since.pop(source, (now_s, 0))
            self._since[source] = (now_s, 1) if now_s - first_s >= FAILURES_S else (first_s, count + 1)
        while len(self._since) > _COUNTED_MAX:
            self._since.popitem(last=False)

    def forget(self, source: str) -> None:
        self._since.pop(source, None)


class Login:
    """The log-in of one console."""

    def __init__(self, options: ConsoleOptions, signer: SessionSigner, runtime: Runtime) -> None:
        self.signer = signer
        self._options = options
        self._runtime = runtime
        self._file = None if options.password_file is None else PasswordFile(options.password_file)
        self._failures = LoginFailures()
        self._checking = asyncio.Semaphore(_AT_ONCE)
        self._under_way = 0
        self._ended: dict[str, OrderedDict[str, None]] = {}
        self._told = ""

    @property
    def by_password(self) -> bool:
        return self._file is not None

    def viewer(self, cookie: str | None, headers: Headers, peer: str) -> Viewer | None:
        """None: a log-in is needed. Raises `PermissionDenied` for a connection past the trusted proxies."""
        now_s = self._runtime.clock.wall_ms() / 1000
        session = None if cookie is None else self.signer.session(cookie, now_s=now_s)
        if session is not None and session.id in self._ended.get(session.name, ()):
            session = None
        if self._file is not None:
            user = None if session is None else self._users(self._file).get(session.name)
            if user is None or session is None or session.proof != user.proof:
                return None
            return Viewer(name=user.name, role=user.role, session=session)
        name, role = self._named(headers, peer)
        if session is None or session.name != name:
            session = self.session_of(name, proof="")
        return Viewer(name=name, role=role, session=session)

    def session_of(self, name: str, *, proof: str) -> ViewerSession:
        until_s = self._runtime.clock.wall_ms() // 1000 + SESSION_S
        return ViewerSession(id=self._runtime.new_id(), name=name, proof=proof, until_s=until_s)

    def _named(self, headers: Headers, peer: str) -> tuple[str, ConsoleRole]:
        trusted = self._options.trusted
        if trusted is None:
            return LOCAL_USER, ConsoleRole.OPERATOR
        check_proxy(self._options.trusted_proxies, peer)
        return named_by_proxy(trusted, headers)

    def _users(self, file: PasswordFile) -> Mapping[str, ConsoleUser]:
        try:
            users = file.users()
        except InvalidArgument as error:
            if str(error) != self._told:
                self._told = str(error)
                log.error("nobody gets in: %s", error)  # noqa: TRY400 - no traceback needed
            raise LoginUnavailable("nobody can log in now", operation="log in", hint="the console's log says why") from None
        self._told = ""
        return users

    async def log_in(self, name: str, password: str, address: str, mark: str = "") -> Viewer | None:
        """A new session; None: the name or the password is wrong. Raises `TooManyFailures` and `TooManyLogins`.

        A browser with the ``mark`` of an earlier log-in waits for its own failures alone.
        """
        assert self._file is not None, "the page of the log-in is there for a password file"
        known_here = self.signer.is_mark(name, mark)
        sources = (f"mark {mark}",) if known_here else (f"name {name[:NAME_CHARS_MAX]}", f"address {address_block(address)}")
        now_s = self._runtime.clock.monotonic_s()
        self._failures.check(now_s, *sources)
        if self._under_way >= (UNDER_WAY_KNOWN_MAX if known_here else UNDER_WAY_MAX):
            raise TooManyLogins("too many log in at this moment", operation="log in", hint="try again in a few seconds")
        self._failures.note(now_s, *sources)  # before the check, so that guesses side by side count too
        user = self._users(self._file).get(name)
        known = NOBODY if user is None else user.hash
        self._under_way += 1
        try:
            async with self._checking:
                matches = len(password) <= 1024 and await asyncio.to_thread(known.matches, password)
        finally:
            self._under_way -= 1
        if user is None or not matches:
            return None
        for source in sources:
            self._failures.forget(source)
        return Viewer(name=user.name, role=user.role, session=self.session_of(user.name, proof=user.proof))

    def log_out(self, session: ViewerSession) -> None:
        if not self.by_password:
            return
        ended = self._ended.setdefault(session.name, OrderedDict())  # by name: nobody pushes the sessions of others out
        ended[session.id] = None
        while len(ended) > _ENDED_MAX:
            ended.popitem(last=False)

    def mark(self, viewer: Viewer) -> str:
        return self.signer.mark(viewer.name, self._runtime.new_id())


def check_proxy(proxies: TrustedProxies, peer: str) -> None:
    """Raises `PermissionDenied` for a request past the proxies."""
    if peer not in proxies:
        raise PermissionDenied(
            "requests come through the proxy in front",
            operation="console",
            expected=f"from {proxies}",
            observed=peer,
            hint="name the proxy's address or network with --trusted-proxy",
        )


def named_by_proxy(trusted: TrustedHeader, headers: Headers) -> tuple[str, ConsoleRole]:
    """The name and role of a request by its proxy. Raises `PermissionDenied` where it gives no name."""
    given = headers.getlist(trusted.header)
    name = given[0].strip() if len(given) == 1 else ""
    if not name or len(name) > NAME_CHARS_MAX:
        raise PermissionDenied(
            "the proxy in front does not say who calls", operation="console", expected=f"the header {trusted.header}, once"
        )
    return name, ConsoleRole.OPERATOR if name in trusted.operators or "*" in trusted.operators else ConsoleRole.VIEWER


def check_header(name: str) -> str:
    """Raises `InvalidArgument`."""
    if not name.replace("-", "").isalnum() or not name.isascii():
        raise InvalidArgument("this is no header's name", operation="console", observed=name, expected="such as X-Forwarded-User")
    return name
