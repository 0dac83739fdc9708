"""The places of target tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ...log.errors import InvalidArgument

_SCHEMES = "a folder, file://, s3://, gs:// or az://"
_KNOWN = {"s3": ("region", "endpoint"), "gs": (), "az": ("account",)}


@dataclass(frozen=True, slots=True)
class Location:
    """A folder of tables, or a table."""

    root: str
    """The URL or path without a slash at its end."""
    options: Mapping[str, str] = field(default_factory=dict)
    """deltalake's storage options, without credentials: these come from the environment or the machine's role."""

    @classmethod
    def of(cls, url: str) -> Location:
        """The location of a path, or of a URL like a lake's: ``s3://bucket/prefix?region=…&endpoint=…``. Raises `InvalidArgument`."""
        if "://" not in url:
            return cls(str(Path(url).expanduser().absolute()))
        parts = urlsplit(url)
        if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
            return cls(unquote(parts.path).rstrip("/"))
        given = dict(parse_qsl(parts.query))
        known = _KNOWN.get(parts.scheme)
        if known is None:
            raise InvalidArgument("tables cannot be there", object=url, expected=_SCHEMES, observed=f"{parts.scheme}://")
        if unknown := sorted(given.keys() - {*known}):
            raise InvalidArgument(
                f"{parts.scheme}:// has no such option", observed=", ".join(unknown), expected=", ".join(known) or "none"
            )
        root = f"{parts.scheme}://{parts.netloc}{unquote(parts.path).rstrip('/')}"
        return cls(root, _s3_options(given) if parts.scheme == "s3" else _azure_options(given))

    def inside(self, name: str) -> Location:
        return Location(f"{self.root}/{name}", self.options)


def _s3_options(given: Mapping[str, str]) -> dict[str, str]:
    environment = os.environ
    endpoint = given.get("endpoint") or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = given.get("region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    options = {"AWS_REGION": region}
    if endpoint:
        options |= {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
    return options


def _azure_options(given: Mapping[str, str]) -> dict[str, str]:
    return {"AZURE_STORAGE_ACCOUNT_NAME": given["account"]} if "account" in given else {}
