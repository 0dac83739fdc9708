"""The audit log: a line for each call with its caller, objects and outcome."""

from __future__ import annotations

import logging
from typing import Final

from google.protobuf.message import Message

from ..access.rights import rights_of
from ..protocol import rocketmq_pb2 as pb
from ..protocol.handles import ids_of
from ..protocol.status import StatusError
from ..server.calls import RpcCall, facts_of
from .counters import code_name

log = logging.getLogger("penstock.gateway.audit")

_REFUSED: Final = frozenset({pb.UNAUTHORIZED, pb.FORBIDDEN, pb.TOO_MANY_REQUESTS, pb.INVALID_TRANSACTION_ID})
_ACTS: Final = frozenset(
    {"Telemetry", "NotifyClientTermination", "UpdateOffset", "RecallMessage", "ForwardMessageToDeadLetterQueue"}
)
"""Always logged: clients that came and went, and rare commands."""


class AuditLog:
    """Lines of refused calls and of `_ACTS`, with ``every`` of all."""

    def __init__(self, *, every: bool = False) -> None:
        self._every = every

    def on_answer(self, call: RpcCall, request: Message | None, code: int, took_s: float, size_bytes: int) -> None:
        if not (self._every or call.rpc in _ACTS or code in _REFUSED):
            return
        names, ids = _names(request), [] if request is None else ids_of(request)
        log.info(
            "%s %s %s: %s",
            call.principal or call.metadata.client_id or "?",
            call.rpc,
            " ".join([*names, *ids]) or "-",
            code_name(code),
            extra={"fields": {**facts_of(call), "names": names, "ids": ids, "code": code, "took_ms": round(took_s * 1000, 3)}},
        )


def _names(request: Message | None) -> list[str]:
    if request is None:
        return []
    try:
        return sorted({name for _, name in rights_of(request)})
    except StatusError:
        return []
