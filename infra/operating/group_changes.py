"""Changes of a consumer group's settings, as operators state them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...coordinator import GroupSettings, RetryPolicy, RetrySchedule
from ...log.errors import InvalidArgument

_RETRY = {"retry": "schedule", "retry_interval": "interval", "retry_interval_max": "interval_max", "retry_jitter": "jitter"}


def group_changes(before: GroupSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of these settings; None and () are no change. Raises `InvalidArgument`."""
    given = {name: value for name, value in given.items() if value not in (None, ())}
    changes: dict[str, Any] = {}
    if retry := {field: given[option] for option, field in _RETRY.items() if option in given}:
        policy = replace(before.retry, **retry)
        _check_intervals(policy, retry)
        changes["retry"] = policy
    if "max_attempts" in given:
        changes["max_attempts"] = None if given["max_attempts"] == "unlimited" else given["max_attempts"]
    if "dead_letter_policy" in given:
        changes["dead_letter_policy"] = given["dead_letter_policy"]
    if "filters" in given:
        filters = {**before.filters, **dict(given["filters"])}
        changes["filters"] = {topic: tags for topic, tags in filters.items() if tags.strip() != "*"}
    return changes


def _check_intervals(policy: RetryPolicy, given: Mapping[str, object]) -> None:
    if policy.schedule is RetrySchedule.ROCKETMQ and given.keys() & {"interval", "interval_max"}:
        raise InvalidArgument("RocketMQ's table has its own intervals", hint="give --retry fixed or exponential too")
    if policy.schedule is RetrySchedule.FIXED and "interval_max" in given:
        raise InvalidArgument("--retry-interval-max is of --retry exponential")
