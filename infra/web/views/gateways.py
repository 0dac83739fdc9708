"""The gateways of a lake and their clients, as the gateways tell."""

from __future__ import annotations

from dataclasses import dataclass

from ...operating.gateways import GatewayRow, gateways_of
from ..faults import PagePart
from .page import NUMBER, PageContext, PageDefinition, PageRequest, Pagination

ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayList:
    """One page of gateways."""

    span: Pagination
    clients: int
    """The clients of all gateways."""
    rows: tuple[GatewayRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaysPage:
    """The content of the page."""

    found: PagePart[GatewayList]


async def gather(context: PageContext, request: PageRequest) -> GatewaysPage:
    part = await context.part(gateways_of)
    if part.value is None:
        return GatewaysPage(found=PagePart(fault=part.fault, error=part.error))
    span = Pagination.of(len(part.value), request.number("page"), rows=ROWS)
    clients = sum(one.clients or 0 for one in part.value)
    return GatewaysPage(found=PagePart(value=GatewayList(span=span, clients=clients, rows=tuple(part.value[span.slice]))))


PAGE = PageDefinition(
    name="gateways",
    path="/gateways",
    title="Gateways",
    about="The gateways of RocketMQ's and Kafka's protocol, and what their clients say of themselves: language, version, group, topics.",
    shows=GatewaysPage,
    gather=gather,
    command=lambda request: ["gateway", "list"],
    parameters=(NUMBER,),
    menu="Gateways",
    answer=lambda shown: shown.found,
)
