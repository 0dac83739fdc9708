"""The URI of a lake for Iceberg's engines, whose characters stand for themselves."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from ...errors import NotSupported

_OPERATION = "list the table for Iceberg"


def lake_location(url: str) -> str:
    """The URI for Iceberg's engines, without a final slash. Raises `NotSupported` for a place that no URI can name."""
    parts = urlsplit(url)
    path = unquote(parts.path).rstrip("/")
    if unfit := sorted({char for char in parts.netloc + path if char in "?#%"}):
        raise NotSupported(
            "the engines that read Iceberg cannot find files in this folder",
            operation=_OPERATION,
            object=f"{parts.scheme}://{parts.netloc}{path}",
            expected="a name without '?', '#' and '%'",
            observed=" ".join(unfit),
        )
    if parts.scheme != "az":
        return f"{parts.scheme}://{parts.netloc}{path}"
    account = parse_qs(parts.query).get("account")
    if account is None:
        raise NotSupported(
            "the lake's URL does not name its storage account, which Iceberg's paths contain",
            operation=_OPERATION,
            object=f"az://{parts.netloc}{path}",
            hint="open the lake as az://container/prefix?account=…",
        )
    return f"abfss://{parts.netloc}@{account[0]}.dfs.core.windows.net{path}"
