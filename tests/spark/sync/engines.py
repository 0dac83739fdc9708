"""Ways by which the engine with Spark does a batch, and who made a target's commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import pytest
from deltalake import DeltaTable

Way: TypeAlias = dict[str, Any]

BY_TASKS: Way = {"events_in_driver": 0}
"""Tasks fold, Spark merges."""
BY_SPARK: Way = {"events_in_driver": 10_000, "target_bytes_in_driver": 0}
"""The driver folds, Spark merges."""
IN_DRIVER: Way = {"events_in_driver": 10_000}
"""The driver folds and merges."""
WAYS = {"by tasks": BY_TASKS, "merged by Spark": BY_SPARK, "in the driver": IN_DRIVER}

in_each_way = pytest.mark.parametrize(
    "way", [pytest.param(way, id=name, marks=[] if way is BY_TASKS else pytest.mark.thorough) for name, way in WAYS.items()]
)
"""By tasks always. What the driver folds and merges goes through the engine without Spark, and `test_driver_targets` has both of a driver's ways."""


def made_by(path: Path, operation: str) -> list[str]:
    """Who made the commits of an operation to a target, in order: ``spark`` or ``deltalake``."""
    history = sorted(DeltaTable(str(path)).history(), key=lambda commit: commit["version"])
    who = [one.get("engineInfo", "") for one in history if one["operation"].startswith(operation)]
    return ["spark" if "Spark" in one else "deltalake" for one in who]


def merged_by(path: Path) -> list[str]:
    """Who made the merges into a target, in order."""
    return made_by(path, "MERGE")
