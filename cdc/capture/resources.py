"""What captures that keep their place in the lake have of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...log.produce.producer import Producer
from ...log.runtime.runtime import Clock
from .positions import snapshot_of
from .state import SourceStateStore

States_co = TypeVar("States_co", bound=SourceStateStore[Any], covariant=True)


def _pass(point: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureResources(Generic[States_co]):
    """A capture's resources in the lake."""

    producer: Producer
    rows_producer: Producer
    states: States_co
    life: str
    clock: Clock
    pause: Callable[[float], None]
    reached: Callable[[str], None] = _pass
    """Called between steps, for tests."""

    @property
    def snapshot(self) -> int:
        """The number of the last snapshot, which is a reading of tables' rows."""
        return snapshot_of(self.rows_producer.last_sequence)
