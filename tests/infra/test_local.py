"""S3 and DynamoDB on this machine: what they print is enough to use both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

import penstock
from penstock.coordinator.tables import open_table
from penstock.infra.local import local_servers
from penstock.log import Runtime
from penstock.log.stores import MemoryStore


async def a_cell(url: str) -> bytes:
    table = open_table(url, store=MemoryStore(), runtime=Runtime())
    await table.put("groups/billing", b"record", expected=None)
    found = await table.get("groups/billing")
    await table.close()
    assert found is not None
    return found.data


@pytest.mark.s3
@pytest.mark.dynamodb
def test_the_environment_leads_to_a_bucket_and_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with local_servers() as environment:
        assert all(endpoint.startswith("http://127.0.0.1:") for endpoint in endpoints(environment))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with penstock.connect(environment["PENSTOCK_LAKE"]) as lake:
            lake.create_topic("orders", queues=1)
            with lake.producer("orders") as producer:
                producer.send(penstock.Message(b"paid"))
            assert [message.body for message in lake.reader("orders").messages()] == [b"paid"]
        assert asyncio.run(a_cell(environment["PENSTOCK_COORDINATION"])) == b"record"


def endpoints(environment: Mapping[str, str]) -> list[str]:
    found = [value for name, value in environment.items() if "ENDPOINT" in name]
    assert len(found) == 2
    return found
