"""The check of a topic's stored data."""

from __future__ import annotations

from ...log import DataDamaged, ForeignObject, LogLake, NewerFormatError, PenstockError, TopicRecord
from ...log.paths import TopicPaths
from ...log.verify import Finding, VerifyReport, verify


async def verify_findings(lake: LogLake, name: str, record: TopicRecord) -> VerifyReport:
    """The findings. Damage that ends one topic's check is a finding, and the other topics are checked."""
    try:
        return await verify(lake.store, TopicPaths.of(name), record, lake.runtime)
    except (DataDamaged, NewerFormatError) as error:
        return VerifyReport(name, findings=(finding_of(error),))


def finding_of(error: PenstockError) -> Finding:
    kind = "foreign" if isinstance(error, ForeignObject) else "damaged"
    return Finding(kind, error.object or "-", f"{error.message}. {error.hint}" if error.hint else error.message)
