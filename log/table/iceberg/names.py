"""The names of the objects in the folder ``metadata/`` of a table, as Iceberg's Hadoop tables have them.

The name of a manifest and of a list begins with the version that it was made for, so that the collector knows what came before what.
"""

from __future__ import annotations

import re

from ...format.stored_json import whole_number

METADATA = "metadata/"
HINT = METADATA + "version-hint.text"
VERSION, MANIFEST = ".metadata.json", ".avro"
"""The endings of versions, and of manifests and their lists."""
_VERSION = re.compile(METADATA + r"v([0-9]{1,18})\.metadata\.json", re.ASCII)
_ATTEMPT = re.compile(METADATA + r"(?:snap-)?([0-9]{1,18})-[0-9a-f]{32}(?:-m[0-9]+)?\.avro", re.ASCII)


def metadata_path(version: int) -> str:
    return f"{METADATA}v{version}{VERSION}"


def metadata_version(path: str) -> int | None:
    """The version in the name of a metadata object, or None for another object."""
    found = _VERSION.fullmatch(path)
    return None if found is None else int(found[1])


def manifest_path(version: int, write_id: str, place: int) -> str:
    return f"{METADATA}{version:05d}-{write_id}-m{place}{MANIFEST}"


def list_path(version: int, write_id: str) -> str:
    return f"{METADATA}snap-{version:05d}-{write_id}{MANIFEST}"


def attempt_of(path: str) -> int | None:
    """The version that a manifest or a list was made for, or None for another object."""
    found = _ATTEMPT.fullmatch(path)
    return None if found is None else int(found[1])


def hint(version: int) -> bytes:
    return str(version).encode()


def parse_hint(data: bytes) -> int:
    """The version that a hint names; 0: none, as it was damaged."""
    return whole_number(data[:20].decode("ascii", "replace")) or 0
