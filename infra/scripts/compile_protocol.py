#!/usr/bin/env python3
"""Compiles the gateway's protocol, `make protocol`: a descriptor set, and a stub for type checkers.

infra/scripts/compile_protocol.py [--check]

``--check`` writes nothing and fails when a committed file differs.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import resources
from pathlib import Path

HERE = Path(__file__).parents[2] / "gateway" / "rocketmq" / "protocol"
DEFINITION = HERE / "rocketmq.proto"
DESCRIPTORS, STUB = HERE / "rocketmq.binpb", HERE / "rocketmq_pb2.pyi"


def compiled() -> dict[Path, bytes]:
    """The files that the definition gives."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        words = [
            "protoc",
            f"--proto_path={HERE}",
            f"--proto_path={resources.files('grpc_tools') / '_proto'}",
            f"--descriptor_set_out={folder}/rocketmq.binpb",
            f"--pyi_out={folder}",
            DEFINITION.name,
        ]
        if protoc.main(words):
            sys.exit(f"{DEFINITION} does not compile")
        return {path: (Path(folder) / path.name).read_bytes() for path in (DESCRIPTORS, STUB)}


def main(words: list[str]) -> None:
    files = compiled()
    if words == ["--check"]:
        stale = [path.name for path, content in files.items() if not path.exists() or path.read_bytes() != content]
        sys.exit(f"run `make protocol`: {', '.join(stale)}" if stale else 0)
    for path, content in files.items():
        path.write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1:])
