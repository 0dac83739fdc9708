"""Answered calls, in no protocol's types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct


@dataclass(frozen=True, slots=True)
class ActedOn:
    """The objects of a request."""

    names: list[str]
    """Topics and groups."""
    ids: list[str]
    """Messages, deliveries and transactions."""


class AnsweredCall(Struct, frozen=True, kw_only=True):
    """A call with its answer. ``facts`` and ``acted_on`` are computed for the few who ask."""

    rpc: str
    code: int
    code_name: str
    is_failure: bool
    """Whether its span is marked as an error."""
    is_audited: bool
    """Whether it is in every audit log: refused calls, and rare commands."""
    took_s: float
    size_bytes: int
    """The request's size."""
    client_id: str
    principal: str
    """Empty without proof of identity."""
    peer: str
    traceparent: str = ""
    tracestate: str = ""
    facts: Callable[[], dict[str, object]]
    """The caller's fields for log records, without credentials."""
    acted_on: Callable[[], ActedOn]


class AnswerObserver(Protocol):
    """An observer of answers. A cancelled call has none, and a two-way call one for each request."""

    def on_answer(self, call: AnsweredCall) -> None: ...
