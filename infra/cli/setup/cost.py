"""`penstock cost`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import click

from ...terminal import output
from ...terminal.session import CommandSession, command_options
from ...terminal.values import DurationParam, SizeParam

if TYPE_CHECKING:
    from datetime import timedelta

    from ...cost import CostEstimate, Prices, RequestRates, Workload

_CELLS = ("dynamodb", "sqlite", "postgresql", "store")
_PARTS = ("producers", "consumers", "readers", "maintenance")


@click.command()
@click.option("--messages-per-second", "messages_per_s", type=float, required=True, help="Of all topics together; 0: all are idle.")
@click.option(
    "--message-bytes", type=SizeParam(), default="1KB", show_default=True, help="The mean size of a message as it is stored."
)
@click.option("--topics", type=int, default=1, show_default=True, help="Topics, which have equal shares.")
@click.option("--queues", type=int, default=16, show_default=True, help="Queues of each topic.")
@click.option("--producers", type=int, default=1, show_default=True, help="Processes that send to each topic.")
@click.option("--groups", type=int, default=1, show_default=True, help="Consumer groups of each topic.")
@click.option("--workers", type=int, default=1, show_default=True, help="Processes of each group.")
@click.option(
    "--readers", type=int, default=0, show_default=True, help="Other processes that follow each topic: readers, Spark, syncs."
)
@click.option("--linger", type=DurationParam(), default="25ms", show_default=True, help="The producers' linger, up to 1h.")
@click.option(
    "--publish-interval",
    type=DurationParam(),
    default="3.6s",
    show_default=True,
    help="The time between commits to a topic's Delta table.",
)
@click.option("--retention", type=DurationParam(), default="3d", show_default=True, help="How long messages are kept.")
@click.option(
    "--cells", type=click.Choice(_CELLS), default="dynamodb", show_default=True, help="The place of the coordination table."
)
@click.option("--iceberg", is_flag=True, help="The topics are listed for Iceberg too.")
@click.option("--no-maintenance", is_flag=True, help="Leave out the process that maintains the lake.")
@click.option("--put-usd", "put_thousand", type=float, default=0.005, show_default=True, help="A thousand PUTs or LISTs.")
@click.option("--get-usd", "get_thousand", type=float, default=0.0004, show_default=True, help="A thousand GETs.")
@click.option("--storage-usd", "storage_gib_month", type=float, default=0.023, show_default=True, help="A GiB stored for a month.")
@click.option(
    "--table-write-usd", "table_write_million", type=float, default=0.625, show_default=True, help="A million writes of DynamoDB."
)
@click.option(
    "--table-read-usd", "table_read_million", type=float, default=0.125, show_default=True, help="A million reads of DynamoDB."
)
@command_options
@click.pass_obj
def command(session: CommandSession, /, no_maintenance: bool, iceberg: bool, cells: str, **given: float | timedelta) -> None:
    """Estimate a workload's requests a second and a month, its storage, and what both cost.

    No lake is opened. The formulas are of a steady state, and were fitted to counted requests: expect them to be right within a quarter
    where one process sends to a topic, and within a half where several do. Data transfer, retries and backlogs are not in them.

    The default prices are the list prices of S3 Standard and of DynamoDB on demand in us-east-1, October 2026.
    """
    from ...cost import CellStorage, Prices, Workload, estimate

    prices = Prices(**{one.name: given.pop(one.name) for one in fields(Prices)})  # type: ignore[arg-type]
    workload = Workload(**given, cells=CellStorage(cells), iceberg=iceberg, maintained=not no_maintenance)  # type: ignore[arg-type]
    found = estimate(workload, prices)
    if session.as_json:
        output.emit(_document(found, workload, prices))
    else:
        _show(found, workload, prices)


def _parts(found: CostEstimate) -> dict[str, RequestRates]:
    return {name: getattr(found, name) for name in _PARTS} | {"all": found.total}


def _document(found: CostEstimate, workload: Workload, prices: Prices) -> dict[str, object]:
    from ...cost import SECONDS_A_MONTH, month_usd

    return {
        "workload": output.fields(workload),
        "prices_usd": output.fields(prices),
        "requests_per_second": {name: output.fields(part) for name, part in _parts(found).items()},
        "requests_per_month": {name: output.fields(part * SECONDS_A_MONTH) for name, part in _parts(found).items()},
        "requests_usd_per_month": {name: month_usd(part, workload, prices) for name, part in _parts(found).items()},
        "stored_bytes": found.stored_bytes,
        "storage_usd_per_month": found.storage_usd,
        "usd_per_month": month_usd(found.total, workload, prices) + found.storage_usd,
    }


def _show(found: CostEstimate, workload: Workload, prices: Prices) -> None:
    from ...cost import SECONDS_A_MONTH, month_usd

    kinds = {"put": "PUT", "get": "GET", "list": "LIST", "table_write": "table writes", "table_read": "table reads"}
    rows = [
        (name, *(f"{getattr(part, kind):,.2f}" for kind in kinds), f"{month_usd(part, workload, prices):,.2f}")
        for name, part in _parts(found).items()
    ]
    output.table(["requests a second", *kinds.values(), "USD a month"], rows)
    month = found.total * SECONDS_A_MONTH
    output.say("a month: " + ", ".join(f"{getattr(month, kind):,.0f} {name}" for kind, name in kinds.items()))
    output.say(f"storage: {output.size_text(found.stored_bytes)}, {found.storage_usd:,.2f} USD a month")
    output.say(f"together: {month_usd(found.total, workload, prices) + found.storage_usd:,.2f} USD a month")
