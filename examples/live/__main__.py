"""A real PostgreSQL captured live into Delta tables: tills, kills, a picture, and cuts that are proved against the source.

    make demo-live ARGS="--seconds 60 --lake ./live"

A shop's tills run transactions over six tables, while `penstock capture postgres` and `penstock sync --cuts` are killed and started again.
Each second the shop's books are checked twice: at the newest cut, and on the tables' newest versions. At the end every table is compared
with the source, and cuts with snapshots that the source exported meanwhile. It exits with 1 if a single row differs.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live

import penstock
from penstock.log.errors import install_hint

from .demo import Demo, Outcome, Plan
from .errors import DemoFailedError
from .lake import new_folder
from .picture import State, line, picture
from .processes import end_by_signals
from .report import document, look_further, report
from .source import Source

LINE_EVERY_S = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.live", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=45.0, help="how long the shop is open (default: 45)")
    parser.add_argument("--rate", type=float, default=12.0, help="transactions a second, of all tills together (default: 12)")
    parser.add_argument(
        "--kill-every", type=float, default=6.0, metavar="SECONDS", help="the time between kills (default: 6; 0: none)"
    )
    parser.add_argument("--seed", type=int, default=None, help="what the shop's chance begins with (default: any)")
    parser.add_argument("--lake", type=Path, metavar="FOLDER", help="a new folder for lake and tables, which stays")
    parser.add_argument("--keep", action="store_true", help="leave the temporary folder, if no other is given")
    parser.add_argument("--json", dest="as_json", action="store_true", help="only the result, as one JSON object")
    given = parser.parse_args()
    if given.seconds <= 0 or given.rate <= 0:
        parser.error("--seconds and --rate must be above 0")
    end_by_signals()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10_000)
    plan = Plan(given.seconds, given.rate, given.kill_every, seed)
    scratch = Path(tempfile.mkdtemp(prefix="penstock-live-"))
    try:
        folder = new_folder(given.lake) if given.lake is not None else scratch
        return play(plan, scratch, folder, stays=given.keep or given.lake is not None, as_json=given.as_json)
    except (DemoFailedError, penstock.PenstockError) as failed:
        print(f"✗ {failed}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; all processes are ended", file=sys.stderr)
        return 130
    finally:
        if given.keep and given.lake is None:
            shutil.rmtree(scratch / "database", ignore_errors=True)
        else:
            shutil.rmtree(scratch, ignore_errors=True)


def postgres(folder: Path) -> Source:
    """Raises `DemoFailedError`."""
    try:
        from .postgres import Postgres
    except ImportError as error:
        raise DemoFailedError(f"PostgreSQL is captured with psycopg, which is missing: {install_hint('postgres')}") from error
    return Postgres(folder)


def play(plan: Plan, scratch: Path, folder: Path, *, stays: bool, as_json: bool) -> int:
    """One run, told as it was asked for. Returns the exit code."""
    database = scratch / "database"
    database.mkdir()
    scratch.chmod(0o755)  # where root runs it, the database is another user's
    console = Console(quiet=as_json)
    with Live(console=console, auto_refresh=False, transient=False) as live:
        show: Callable[[State], None] = Lines(console)
        if console.is_terminal and not as_json:

            def show(state: State) -> None:
                live.update(picture(state), refresh=True)

        demo = Demo(
            source=postgres(database),
            lake_url=str(folder / "lake"),
            into=folder / "tables",
            scratch=scratch,
            plan=plan,
            show=show,
            say=lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True),
        )
        outcome = demo.run()
        show(demo.state())
    return told(outcome, plan, console, folder, stays=stays, as_json=as_json)


class Lines:
    """A line every few seconds, where a picture cannot be drawn."""

    def __init__(self, console: Console) -> None:
        self._console, self._told_s = console, 0.0

    def __call__(self, state: State) -> None:
        if state.now_s - self._told_s >= LINE_EVERY_S:
            self._told_s = state.now_s
            self._console.print(line(state), markup=False, highlight=False, soft_wrap=True)


def told(outcome: Outcome, plan: Plan, console: Console, folder: Path, *, stays: bool, as_json: bool) -> int:
    """Print the outcome. Returns the exit code."""
    if as_json:
        print(json.dumps(document(outcome, plan, str(folder / "lake") if stays else None)))
    else:
        report(console, outcome)
        look_further(console, str(folder), stays=stays, cut=outcome.proofs[-1].cut)
    return 0 if outcome.well else 1


if __name__ == "__main__":
    sys.exit(main())
