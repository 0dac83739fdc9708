"""The same program in another interpreter, where sets of names are in another order."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.tree import ROOT


def printed(code: str, *, hash_seed: int) -> str:
    """What ``code`` prints there."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
