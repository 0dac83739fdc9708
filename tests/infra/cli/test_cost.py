"""`penstock cost`."""

from __future__ import annotations

from datetime import timedelta

import click
import pytest

from penstock.infra.cli.setup.cost import command
from penstock.infra.cost import CellStorage, Prices, Workload, estimate, month_usd
from tests.infra.cli.conftest import Penstock


def test_an_estimate_is_shown_by_part_and_in_all(penstock: Penstock) -> None:
    shown = penstock("cost", "--messages-per-second", "20", "--message-bytes", "2KB", "--retention", "7d").out
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line}
    assert {"producers", "consumers", "readers", "maintenance", "all", "storage:", "together:"} <= rows.keys()
    workload = Workload(messages_per_s=20, message_bytes=2000, retention=timedelta(days=7))
    found = estimate(workload)
    assert rows["all"][1] == f"{found.total.put:.2f}"
    assert rows["all"][-1] == f"{month_usd(found.total, workload, Prices()):,.2f}"
    assert rows["together:"][1] == f"{month_usd(found.total, workload, Prices()) + found.storage_usd:,.2f}"


def test_every_option_counts_in_json(penstock: Penstock) -> None:
    words = "--topics 2 --queues 8 --producers 3 --groups 2 --workers 4 --readers 1 --linger 1s --publish-interval 60s --cells store --iceberg"
    prices = "--put-usd 1 --get-usd 2 --storage-usd 3 --table-write-usd 4 --table-read-usd 5"
    (row,) = penstock("cost", "--messages-per-second", "5", *words.split(), *prices.split(), "--no-maintenance", "--json").rows
    workload = Workload(
        messages_per_s=5,
        topics=2,
        queues=8,
        producers=3,
        groups=2,
        workers=4,
        readers=1,
        linger=timedelta(seconds=1),
        publish_interval=timedelta(seconds=60),
        cells=CellStorage.STORE,
        maintained=False,
        iceberg=True,
    )
    found = estimate(workload)
    told = Prices(put_thousand=1, get_thousand=2, storage_gib_month=3, table_write_million=4, table_read_million=5)
    assert row["requests_per_second"]["consumers"]["get"] == found.consumers.get
    assert row["requests_per_second"]["maintenance"]["put"] == 0
    assert row["requests_usd_per_month"]["all"] == month_usd(found.total, workload, told)
    assert row["stored_bytes"] == found.stored_bytes
    assert row["prices_usd"]["table_read_million"] == 5
    assert row["workload"]["iceberg"] is True


def test_defaults_are_those_of_the_formulas() -> None:
    context = click.Context(command)
    options = [one for one in command.params if isinstance(one, click.Option) and not one.required]
    given = {one.name: one.type_cast_value(context, one.get_default(context)) for one in options}
    workload, prices = Workload(messages_per_s=1), Prices()
    for name in ("message_bytes", "topics", "queues", "producers", "groups", "workers", "readers", "linger", "publish_interval"):
        assert given[name] == getattr(workload, name), name
    assert (given["retention"], given["cells"]) == (workload.retention, workload.cells.value)
    assert all(given[name] == getattr(prices, name) for name in Prices.__dataclass_fields__)
    (cells,) = (option.type for option in command.params if option.name == "cells")
    assert isinstance(cells, click.Choice)
    assert list(cells.choices) == [one.value for one in CellStorage]


def test_defaults_are_shown_as_they_are_given(penstock: Penstock) -> None:
    shown = " ".join(penstock("cost", "--help").out.split())
    for default in ("1KB", "25ms", "3.6s", "3d"):
        assert f"[default: {default}]" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "Missing option '--messages-per-second'"),
        ("--messages-per-second nan", "messages_per_s must be a number, not negative"),
        ("--messages-per-second many", "'many' is not a valid float"),
        ("--messages-per-second 1 --linger 2h", "linger is too long"),
        ("--messages-per-second 1 --retention 0s", "retention is too short"),
        ("--messages-per-second 1 --retention forever", "'forever' is no duration"),
        ("--messages-per-second 1 --put-usd inf", "the price put_thousand must be a number, not negative"),
        ("--messages-per-second 1 --cells redis", "'redis' is not one of"),
    ],
)
def test_nonsense_is_refused(penstock: Penstock, words: str, told: str) -> None:
    assert told in penstock("cost", *words.split(), code=2).err
