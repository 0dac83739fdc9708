"""The names in the folder ``metadata/``, as in Iceberg's Hadoop tables.

Manifests and lists begin with their version, which orders them for the collector.
"""

from __future__ import annotations

import re

from ...format.stored_json import whole_number

METADATA = "metadata/"
HINT = METADATA + "version-hint.text"
VERSION, MANIFEST = ".metadata.json", ".avro"
_VERSION = re.compile(METADATA + r"v([0-9]{1,18})\.metadata\.json", re.ASCII)
_ATTEMPT = re.compile(METADATA + r"(?:snap-)?([0-9]{1,18})-[0-9a-f]{32}(?:-m[0-9]+)?\.avro", re.ASCII)


def metadata_path(version: int) -> str:
    return f"{METADATA}v{version}{VERSION}"


def metadata_version(path: str) -> int | None:
    found = _VERSION.fullmatch(path)
    return None if found is None else int(found[1])


def manifest_path(version: int, write_id: str, place: int) -> str:
    return f"{METADATA}{version:05d}-{write_id}-m{place}{MANIFEST}"


def list_path(version: int, write_id: str) -> str:
    return f"{METADATA}snap-{version:05d}-{write_id}{MANIFEST}"


def attempt_of(path: str) -> int | None:
    """The version that a manifest or a list was made for."""
    found = _ATTEMPT.fullmatch(path)
    return None if found is None else int(found[1])


def hint(version: int) -> bytes:
    return str(version).encode()


def parse_hint(data: bytes) -> int:
    """The version of a hint; 0: it was damaged."""
    return whole_number(data[:20].decode("ascii", "replace")) or 0
