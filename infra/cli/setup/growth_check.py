"""The doctor's look at consumer groups that more queues would help."""

from __future__ import annotations

from ....aio import Lake
from ...operating.growth_advice import described_groups, growth_advice
from .doctor import DoctorCheck, Found


async def check_growth(lake: Lake, found: Found) -> None:
    """Note the groups, by topic, that lag for want of queues."""
    groups = await described_groups(lake)
    if not groups:
        return
    consumed = {progress.topic for group in groups for progress in group.queues}
    settings = {name: record.settings for name, record in (await lake.topics(damaged="skip")).items() if name in consumed}
    advised = [(name, advice) for name in sorted(settings) for advice in growth_advice(name, settings[name].queues, groups)]
    for name, advice in advised:
        found(DoctorCheck(f"queues of {name}", "note", f"more would help {advice.group}: {advice.reason}", advice.way(name)))
    if not advised:
        found(DoctorCheck("queues", "ok", f"more would help none of {len(groups):,} consumer groups"))
