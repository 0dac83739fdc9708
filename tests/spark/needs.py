"""What a test needs of Spark: one of a feature that the installed version lacks is skipped, and says so."""

from __future__ import annotations

import pytest

from penstock.spark.versions import Feature, has


def lacking(feature: Feature) -> str:
    """Why a test is skipped."""
    return f"refused by this Spark: {feature.what} (since {feature.since})"


def needs(feature: Feature) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not has(feature), reason=lacking(feature))
