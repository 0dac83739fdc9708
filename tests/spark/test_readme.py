"""What the README says of Spark runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

import penstock
from tests.infra.demo.shop import lines
from tests.test_documents import readme

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.usefixtures("spark")
def test_the_readme_s_pipeline_runs(tmp_path: Path) -> None:
    (tmp_path / "payments.json").write_text('{"account": "a", "at": 2, "amount": 5}\n{"account": "a", "at": 1, "amount": 3}\n')
    with penstock.connect(str(tmp_path / "lake"), maintenance=False) as lake:
        lake.create_topic("payments", message_type="FIFO")
        lake.create_topic("shop", message_type="FIFO", queues=1)
        with lake.producer("shop") as producer:
            for line in lines()[:40]:
                producer.send(penstock.Message(line, message_group="shop"))
        readme(2, here=f"{tmp_path}/")
        assert [message.json()["amount"] for message in lake.reader("payments").messages()] == [3, 5]
    assert DeltaTable(str(tmp_path / "tables" / "customers")).to_pyarrow_table().num_rows > 0
