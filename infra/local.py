"""S3 and DynamoDB on this machine, by moto; their content is gone with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from ..coordinator.tables import create_table
from ..testing import s3_server

BUCKET = TABLE = "penstock"


@contextmanager
def local_servers(*, port: int = 0) -> Iterator[dict[str, str]]:
    """Serve on ``127.0.0.1:port`` (0: any free port) inside the block, with an empty bucket and a table for cells.

    Yields the environment for Penstock and other clients of AWS. Raises `MissingDependency` without moto, and `InvalidArgument` when the port is
    taken.
    """
    with s3_server(port=port) as server:
        server.make_bucket(BUCKET)
        environment = server.environment
        names = {name.lower().removeprefix("aws_"): value for name, value in environment.items()}
        secrets = {name: names[name] for name in ("access_key_id", "secret_access_key")}
        place = f"dynamodb://{TABLE}?{urlencode({'region': names['region'], 'endpoint': server.endpoint})}"
        asyncio.run(create_table(place, options=secrets))
        yield {
            **environment,
            "AWS_ENDPOINT_URL_DYNAMODB": server.endpoint,
            "PENSTOCK_LAKE": f"s3://{BUCKET}/lake",
            "PENSTOCK_COORDINATION": f"dynamodb://{TABLE}",
        }
