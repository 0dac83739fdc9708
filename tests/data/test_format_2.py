"""The lake ``format-2.tgz`` is still read and written: it has a typed topic that evolved, and a message with a key, headers and no body, each
with rows in its table and behind it. A process that knows only the first format refuses it by name.
"""

from __future__ import annotations

import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.infra.cli import main
from penstock.log.format.entry import read_header
from penstock.log.format.stored_json import check_version
from tests.lakes import TIMEOUT_S

LAKE = Path(__file__).parent / "format-2.tgz"


def unpacked(into: Path) -> Path:
    with tarfile.open(LAKE) as packed:
        packed.extractall(into, filter="data")
    return into


def test_a_lake_of_the_second_format_is_read_and_goes_on(tmp_path: Path) -> None:
    lake_url = unpacked(tmp_path / "lake")
    nothing = {"tags": None, "place": {"x": None, "y": 2.0}}
    rows: list[dict[str, Any]] = [{"id": n, "total": None, "tags": ["a"], "place": {"x": 1.5, "y": None}} for n in range(3)]
    rows.append({"id": 9, "total": Decimal("5.00"), **nothing})
    with penstock.connect(lake_url, maintenance=False) as lake:
        assert [one.value for one in lake.reader("rows").messages()] == rows
        lake.alter_topic("rows", retention=None)  # else maintenance takes what is three days old, as this lake is by now
        with lake.producer("rows") as producer:
            producer.send_row({"id": 10, "amount": Decimal(1)}).result(TIMEOUT_S)  # by its former name
        (tombstone,) = [one for one in lake.reader("orders").messages() if one.body is None]
        assert (tombstone.key, tombstone.headers) == (b"\xff", (("h", b"1"), ("h", None)))
    ran = CliRunner().invoke(main, ["--lake", str(lake_url), "maintain", "--once"])
    assert ran.exit_code == 0, ran.output
    rows.append({"id": 10, "total": Decimal("1.00"), "tags": None, "place": None})
    with penstock.connect(lake_url, maintenance=False) as lake:
        assert [one.value for one in lake.reader("rows").messages()] == rows


def test_an_entry_states_the_lowest_format_that_reads_it(tmp_path: Path) -> None:
    files = unpacked(tmp_path / "lake").rglob("log/*.parquet")
    headers = [read_header(file.read_bytes(), where=str(file)) for file in files]
    assert {header.format for header in headers} == {1, 2}


def test_a_process_that_knows_only_the_first_format_says_so() -> None:
    with pytest.raises(penstock.log.NewerFormatError, match=r"expected: format 1; observed: format 2.*upgrade this process"):
        check_version(2, where="log/7", formats=(1,))
