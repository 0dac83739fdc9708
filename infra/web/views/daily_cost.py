"""A lake's requests in USD a day, estimated by the formulas of `penstock cost` from current rates. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ....coordinator.tables.open import InDynamoDB, InSqlite, Place
from ....coordinator.tables.postgres.place import InPostgres
from ....log.paths import is_timer_log
from ...cost import HOURS_A_MONTH, PRICES_OF, CellStorage, Prices, RequestRates, Workload, estimate, month_usd
from ..lakes.source import LakeSnapshot
from .rows import stored_per_second

DAY_S = 86_400
KINDS = {"put": "PUT", "get": "GET", "list": "LIST", "table_write": "writes of the coordination table", "table_read": "reads of it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCost:
    """The requests of one kind."""

    kind: str
    a_day: int
    usd_a_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyCost:
    """An estimate for the lake's requests to an S3 bucket."""

    usd_a_day: float
    kinds: tuple[RequestCost, ...]
    messages_per_second: float
    """The rate of the topics that groups read."""
    topics: int
    assumes: str


def money(looked: LakeSnapshot, cells: CellStorage) -> DailyCost | None:
    """None: no rates, or no former look."""
    rates = stored_per_second(looked)
    groups = [one for one in looked.seen.groups if one.topic in rates and not is_timer_log(one.topic)]
    if not groups:
        return None
    topics = len({one.topic for one in groups})
    queues = {one.topic: len(one.queues) for one in groups}
    workload = Workload(
        messages_per_s=sum(rates.values()),
        topics=topics,
        queues=max(1, round(sum(queues.values()) / topics)),
        groups=max(1, round(len(groups) / topics)),
        workers=max(1, round(sum(one.consumers for one in groups) / len(groups))),
        cells=cells,
    )
    total, prices = estimate(workload).total, Prices()
    kinds = tuple(
        RequestCost(
            kind=label,
            a_day=round(getattr(total, name) * DAY_S),
            usd_a_day=round(month_usd(RequestRates(**{name: getattr(total, name)}), workload, prices) * 24 / HOURS_A_MONTH, 4),
        )
        for name, label in KINDS.items()
    )
    return DailyCost(
        usd_a_day=round(sum(one.usd_a_day for one in kinds), 2),
        kinds=kinds,
        messages_per_second=round(workload.messages_per_s, 1),
        topics=topics,
        assumes=f"one sending process a topic, messages of {workload.message_bytes:,} bytes, and list prices of {PRICES_OF}",
    )


def cells_of(place: Place) -> CellStorage:
    match place:
        case InDynamoDB():
            return CellStorage.DYNAMODB
        case InSqlite():
            return CellStorage.SQLITE
        case InPostgres():
            return CellStorage.POSTGRESQL
    return CellStorage.STORE
