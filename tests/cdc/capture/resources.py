"""Resources of captures under test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.cdc.capture.resources import CaptureResources


def resources_of(producer: Any, states: Any, clock: Any = None, reached: Callable[[str], None] = lambda point: None) -> Any:
    """With one producer for changes and rows."""
    return CaptureResources(
        producer=producer,
        rows_producer=producer,
        states=states,
        life="1",
        clock=clock,
        pause=lambda seconds: None,
        reached=reached,
    )


def observed(capture: Callable[..., Any], reached: Callable[[str], None]) -> Any:
    """The capture, which calls ``reached`` between its steps. Its resources are the last argument."""
    return lambda *given: capture(*given[:-1], replace(given[-1], reached=reached))
