"""Why a caller is refused, in no protocol's words. What is too much for one principal is a `BackPressureError`."""

from __future__ import annotations

from ...log.errors import CallError


class Unauthorized(CallError):
    """A call does not prove whose it is. The text is for its caller."""

    kind = "unauthorized"


class Forbidden(CallError):
    """The principal may not do what it asks for."""

    kind = "forbidden"
