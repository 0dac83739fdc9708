"""The clients that play a test, what they send, and what each of them can tell of it."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from tests.gateway.kafka.clients.families import FAMILIES, Family, client
from tests.gateway.programs import Program
from tests.thorough import THOROUGH

Record = dict[str, Any]
BORN_MS = 1_700_000_000_000


class Players:
    """The programs of families at some gateways, each started when it is first called."""

    def __init__(self, addresses: str, folder: Path) -> None:
        self._addresses, self._folder = addresses, folder
        self._running: dict[str, Program] = {}
        self._stack = ExitStack()

    def __getitem__(self, family: Family) -> Program:
        if family.name not in self._running:
            program = client(family, self._addresses, self._folder / family.name)
            self._running[family.name] = self._stack.enter_context(program)
        return self._running[family.name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


_FEW = ("java", "franz-go")


def in_turns(families: Iterable[Family] = FAMILIES.values(), *, few: bool = False) -> list[Any]:
    """Parameters of a test that each family plays by itself, most of them in `make test-all` only. ``few``: all but two."""
    return [pytest.param(one, id=one.name, marks=_marks(one, few=few)) for one in families]


def _marks(family: Family, *, few: bool) -> list[pytest.MarkDecorator]:
    marks = [getattr(pytest.mark, family.mark)] if family.mark else []
    is_played = family.name in _FEW if few else family.is_short
    return marks if is_played else [*marks, pytest.mark.thorough]


def together() -> list[Family]:
    """The families of a test in which all play that are there."""
    return [one for one in FAMILIES.values() if (THOROUGH or one.is_short) and one.program.exists()]


def record(key: bytes | None, value: bytes | None, *headers: tuple[str, bytes | None], time_ms: int = BORN_MS) -> Record:
    """A record of partition 0, as the programs are told it."""
    return {
        "partition": 0,
        "key": _text(key),
        "value": _text(value),
        "headers": [{"name": name, "value": _text(content)} for name, content in headers],
        "time_ms": time_ms,
    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def value_of(seen: Record) -> bytes:
    return base64.b64decode(seen["value"])


def told(records: Iterable[Record], *families: Family) -> list[Record]:
    """The records without their places, as all of the families can tell them: some have null for what is empty."""
    blurred = not all(one.tells_empty for one in families)
    return [_blurred(one) if blurred else _content(one) for one in records]


def _content(one: Record) -> Record:
    return {name: one[name] for name in ("key", "value", "headers", "time_ms")}


def _blurred(one: Record) -> Record:
    headers = [{"name": header["name"], "value": header["value"] or None} for header in one["headers"]]
    return {"key": one["key"] or None, "value": one["value"] or None, "headers": headers, "time_ms": one["time_ms"]}
