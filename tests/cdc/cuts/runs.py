"""A capture and a sync beside it that records cuts, both killed again and again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from penstock.cdc.cuts.cut import NoCut
from penstock.cdc.cuts.cut_history import kept_cuts
from tests.cdc.killing import PATIENCE_S, CaptureRun, child_process
from tests.waiting import wait_until

POINTS_OF_SYNC = tuple(
    f"{moment} {step}"
    for step, moments in {
        "read": ("before", "after"),
        "fold": ("after",),
        "create": ("after",),
        "merge": ("before", "in", "after"),
        "progress": ("before", "in", "after"),
        "cut": ("before", "after"),
    }.items()
    for moment in moments
)


class CutRun(CaptureRun):
    """One database, one topic and one folder of targets."""

    @property
    def into(self) -> Path:
        return self.folder / "into"

    def sync(self, fatal: str = "never", *once: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        events_max = str(self.chance.choice((100, 1000)))
        return child_process(self.folder, {}, "tests.cdc.cuts.driver", self.lake, str(self.into), fatal, events_max, *once)

    def newest(self) -> int:
        """The number of the newest cut; 0: there is none."""
        try:
            return kept_cuts(str(self.into), latest_only=True).cuts[-1].number
        except NoCut:
            return 0

    def round(self, points: Sequence[str], cuts: int) -> None:
        """Both run until there are so many more cuts, or one of them dies at a point; whoever lives is killed then."""
        before = self.newest()
        fatal = f"{self.chance.choice(points)}:{self.chance.randint(1, 6)}" if self.chance.random() < 0.5 else "never"
        step = f"{self.chance.choice(POINTS_OF_SYNC)}:{self.chance.randint(1, 8)}" if self.chance.random() < 0.5 else "never"
        with self.process(fatal) as capture, self.sync(step) as sync:

            def is_over() -> bool:
                return capture.poll() is not None or sync.poll() is not None or self.newest() >= before + cuts

            wait_until(is_over, f"{cuts} more cuts: {self.said()}", timeout_s=PATIENCE_S)
            for name, process, point in (("capture", capture, fatal), ("sync", sync, step)):
                code = process.poll()
                assert code in (None, -signal.SIGKILL), (code, self.said())
                if code is None:
                    process.send_signal(signal.SIGKILL)
                self.killed[name, "any moment" if code is None else point.partition(":")[0]] += 1

    def finish(self) -> None:
        """Let the targets be what the source is."""
        super().finish()
        with self.sync("never", "once") as process:
            assert process.wait(PATIENCE_S) == 0, self.said()
