"""The demo's lake, as Penstock, Spark and deltalake name it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.log.errors import NotSupported
from penstock.log.paths import TopicPaths
from penstock.log.topic.settings import TopicRecord
from penstock.spark import S3

TARGETS = "tables"
"""The folder of a lake with the target tables, in a folder for each topic."""


@dataclass(frozen=True, slots=True)
class Place:
    """A lake on local files or on S3."""

    url: str
    """The URL as Penstock takes it."""
    root: str
    """The URL as Spark and deltalake take it, without a slash at its end."""
    s3: S3 | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    """deltalake's storage options."""

    @classmethod
    def of(cls, url: str) -> Place:
        """The place of a lake. Raises `NotSupported` for one that Spark, as the demo sets it up, cannot read."""
        if "://" not in url:
            path = str(Path(url).expanduser().resolve())
            return cls(path, path)
        parts = urlsplit(url)
        if parts.scheme == "file":
            path = unquote(parts.path).rstrip("/")
            return cls(path, path)
        if parts.scheme != "s3":
            raise NotSupported(
                "the demo's Spark job reads local files and S3 only", operation="demo", observed=f"{parts.scheme}://"
            )
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        endpoint = given.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        region = given.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        options = {"AWS_REGION": region}
        if endpoint:
            options |= {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
        root = f"s3://{parts.netloc}{unquote(parts.path).rstrip('/')}"
        return cls(url, root, S3(endpoint=endpoint, region=region), options)

    def topic_table(self, topic: str, record: TopicRecord) -> str:
        """The topic's Delta table."""
        return f"{self.root}/{TopicPaths.of(topic).table(record.table).rstrip('/')}"

    def targets(self, topic: str) -> str:
        """The folder of the tables that a topic's events are applied to."""
        return f"{self.root}/{TARGETS}/{topic}"
