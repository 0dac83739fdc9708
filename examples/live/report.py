"""What a person reads at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from .demo import Outcome, Plan
from .proof import Proof, Seen

SHOWN = 6
EXAMPLES = 5


def document(outcome: Outcome, plan: Plan, lake: str | None) -> dict[str, object]:
    """The outcome as JSON has it. ``lake``: where the lake stays, if it does."""
    told = {**asdict(outcome), "equal": outcome.well, "seed": plan.seed, "seconds": plan.seconds, "lake": lake}
    told["proofs"] = [_document(proof) for proof in outcome.proofs]
    return told


def _document(proof: Proof) -> dict[str, object]:
    tables = {name: {**asdict(one), "total": str(one.total)} for name, one in proof.tables.items()}
    snapshot = None if proof.snapshot is None else proof.snapshot.place_text
    return {**asdict(proof), "tables": tables, "snapshot": snapshot, "holds": proof.holds, "proved": proof.is_proved}


def report(console: Console, outcome: Outcome) -> None:
    """The tables beside their source, the cuts beside its snapshots."""
    console.print()
    different = sum(map(len, outcome.differences.values()))
    rows = sum(outcome.rows.values())
    killed = ", ".join(f"{name} {count}" for name, count in outcome.kills.items())
    console.print(f"{outcome.transactions:,} transactions, {outcome.events:,} events. kill -9: {killed}.")
    if different:
        console.print(f"[bold red]✗[/] {different:,} rows differ from the source:")
        for told in [one for lines in outcome.differences.values() for one in lines][:EXAMPLES]:
            console.print(f"  {told}", markup=False)
    else:
        console.print(f"[green]✓[/] All {rows:,} rows of {len(outcome.rows)} tables equal the source, compared row by row.")
    _mark(
        console,
        not outcome.broken_at_cuts,
        f"The books at the newest cut: broken in {outcome.broken_at_cuts} of {outcome.looks} looks.",
    )
    console.print(f"  The same, read from the newest versions without a cut: broken in {outcome.broken_without}.")
    console.print()
    _tell_proofs(console, outcome)


def _tell_proofs(console: Console, outcome: Outcome) -> None:
    proved = [proof for proof in outcome.proofs if proof.is_proved]
    failed = [proof for proof in outcome.proofs if not proof.holds]
    told = len(outcome.proofs)
    _mark(console, not failed, f"{told} of {outcome.cuts} cuts read again: {told - len(failed)} keep the books, and lie where they")
    console.print(f"  say among {outcome.snapshots} snapshots that the source gave meanwhile.")
    for proof in failed[:EXAMPLES]:
        console.print(f"  cut {proof.cut} at {proof.place}: {'; '.join(_why(proof))}", markup=False)
    _mark(console, bool(proved), f"{len(proved)} of them are at the place of a snapshot, and equal to it in every row:")
    console.print()
    console.print(_list(spread(proved, SHOWN)))
    if proved:
        one = proved[-2] if len(proved) > 1 else proved[-1]  # the last one is of when the shop was closed
        assert one.snapshot is not None, "it is proved by one"
        console.print()
        console.print(f"Cut {one.cut}, log at {one.place}, beside the source's own snapshot at {one.snapshot.place_text}:")
        console.print()
        console.print(_beside(one, one.snapshot))


def _why(proof: Proof) -> list[str]:
    at = "" if proof.snapshot is None else proof.snapshot.place_text
    why = [*proof.broken, *(f"{name} differs from the snapshot at {at}" for name in proof.unequal)]
    return [*why, "its transactions are not those up to its place"] if proof.misplaced else why


def _mark(console: Console, well: bool, text: str) -> None:
    console.print(f"{'[green]✓[/]' if well else '[bold red]✗[/]'} {text}")


def _list(proofs: Sequence[Proof]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("cut", "log at", "snapshot at"):
        table.add_column(title, no_wrap=True)
    for title in ("rows", "orders.amount"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in proofs:
        rows = sum(found.rows for found in one.tables.values())
        place = "" if one.snapshot is None else one.snapshot.place_text
        table.add_row(str(one.cut), one.place, place, f"{rows:,}", f"{one.tables['orders'].total:,}")
    return table


def _beside(proof: Proof, snapshot: Seen) -> Table:
    """The cut's tables and the source's, with what of both is compared: rows, a sum, and the SHA-256 of all rows."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("table", no_wrap=True)
    for title in ("rows", "source", "sum", "source"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("sha256", "source", ""):
        table.add_column(title, no_wrap=True)
    for name, ours in proof.tables.items():
        theirs = snapshot.tables[name]
        rows, sums = (f"{ours.rows:,}", f"{theirs.rows:,}"), (f"{ours.total:,}", f"{theirs.total:,}")
        checksums = (ours.checksum[:SHOWN], theirs.checksum[:SHOWN])
        table.add_row(name, *rows, *sums, *checksums, "equal" if ours == theirs else "[bold red]differs[/]")
    return table


def spread(proofs: Sequence[Proof], count: int) -> list[Proof]:
    """So many of them, from the first one to the last."""
    if len(proofs) <= count:
        return [*proofs]
    return [proofs[round(number * (len(proofs) - 1) / (count - 1))] for number in range(count)]


def look_further(console: Console, folder: str, *, stays: bool, cut: int) -> None:
    """What may be tried next."""
    into = f"{folder}/tables"
    console.print()
    if stays:
        console.print(f"The lake is {folder}/lake, its tables {into}. Look further:", markup=False, soft_wrap=True)
    else:
        console.print('The lake is removed now. ARGS="--lake ./live" leaves it, to look further:', markup=False, soft_wrap=True)
        into = "./live/tables"
    for command in (
        f"penstock cuts list {into}",
        f"penstock cuts show {into} {cut}",
        f"""python -c 'import penstock; print(penstock.at_cut("{into}", {cut})["orders"])'""",
    ):
        console.print(f"  {command}", markup=False, soft_wrap=True, highlight=False)
