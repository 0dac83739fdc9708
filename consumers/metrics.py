"""Counting, by the name that users import; `log/metrics.py` has it, as producers count too."""

from ..log.metrics import (
    Counter,
    Distribution,
    Histogram,
    Kind,
    MemoryMetrics,
    Metric,
    Metrics,
    Sample,
    Source,
    check_metrics,
    label_values,
    merge_samples,
)

__all__ = [
    "Counter",
    "Distribution",
    "Histogram",
    "Kind",
    "MemoryMetrics",
    "Metric",
    "Metrics",
    "Sample",
    "Source",
    "check_metrics",
    "label_values",
    "merge_samples",
]
