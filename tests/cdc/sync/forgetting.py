"""A table whose log has only the commits of the last days."""

from __future__ import annotations

import json
import os
from pathlib import Path

from deltalake import DeltaTable

_MONTHS_S = 60 * 86_400


def forget_commits(path: Path) -> None:
    """Two months go by, in which others change properties, and the log is cleaned up."""
    table = DeltaTable(str(path))
    for number in range(3):
        table.alter.set_table_properties({"some.property": str(number)}, raise_if_not_exists=False)
    table.create_checkpoint()
    for entry in (path / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] -= _MONTHS_S * 1000
        entry.write_text("\n".join(map(json.dumps, actions)))
        then_s = entry.stat().st_mtime - _MONTHS_S
        os.utime(entry, (then_s, then_s))
    DeltaTable(str(path)).cleanup_metadata()
    assert not any("userMetadata" in entry.read_text() for entry in (path / "_delta_log").glob("*.json"))
