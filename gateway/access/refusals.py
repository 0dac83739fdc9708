"""The refusals of callers, in no protocol's words. An exceeded limit is a `BackPressureError`."""

from __future__ import annotations

from ...log.errors import CallError


class Unauthorized(CallError):
    """A call without proof of its principal. The text is for its caller."""

    kind = "unauthorized"


class Forbidden(CallError):
    """The principal may not do what it asks for."""

    kind = "forbidden"


class GroupForbidden(Forbidden):
    """The same, about a consumer group of Kafka's clients."""

    kind = "group_forbidden"
