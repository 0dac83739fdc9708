"""The audit log: a line for each call with its caller, objects and outcome."""

from __future__ import annotations

import logging

from .calls import AnsweredCall

log = logging.getLogger("penstock.gateway.audit")


class AuditLog:
    """Lines of calls that are always audited, with ``every`` of all."""

    def __init__(self, *, every: bool = False) -> None:
        self._every = every

    def on_answer(self, call: AnsweredCall) -> None:
        if not (self._every or call.is_audited):
            return
        objects = call.acted_on()
        fields = {"names": objects.names, "ids": objects.ids, "code": call.code, "took_ms": round(call.took_s * 1000, 3)}
        log.info(
            "%s %s %s: %s",
            call.principal or call.client_id or "?",
            call.rpc,
            " ".join([*objects.names, *objects.ids]) or "-",
            call.code_name,
            extra={"fields": {**call.facts(), **fields}},
        )
