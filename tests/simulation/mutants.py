"""Every guard that can be removed, of all worlds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.simulation.classic.mutants import MUTANTS as OF_CLASSIC
from tests.simulation.consumers.mutants import MUTANTS as OF_CONSUMERS
from tests.simulation.gateways.mutants import MUTANTS as OF_GATEWAYS
from tests.simulation.leases.mutants import MUTANTS as OF_LEASES
from tests.simulation.letters.mutants import MUTANTS as OF_LETTERS
from tests.simulation.log.mutants import MUTANTS as OF_LOG
from tests.simulation.mutant import Mutant
from tests.simulation.receiving.mutants import MUTANTS as OF_RECEIVING
from tests.simulation.repeating.mutants import MUTANTS as OF_REPEATING
from tests.simulation.tables.mutants import MUTANTS as OF_TABLES
from tests.simulation.timers.mutants import MUTANTS as OF_TIMERS
from tests.simulation.transactions.mutants import MUTANTS as OF_TRANSACTIONS

MUTANTS: Mapping[str, Mutant] = {
    f"{world}:{name}": replace(mutant, world=world)
    for world, mutants in {
        "log": OF_LOG,
        "leases": OF_LEASES,
        "consumers": OF_CONSUMERS,
        "receiving": OF_RECEIVING,
        "repeating": OF_REPEATING,
        "gateways": OF_GATEWAYS,
        "classic": OF_CLASSIC,
        "letters": OF_LETTERS,
        "timers": OF_TIMERS,
        "transactions": OF_TRANSACTIONS,
        "tables": OF_TABLES,
    }.items()
    for name, mutant in mutants.items()
}
"""By world and name."""


def mutants_of(world: str) -> dict[str, Mutant]:
    """Those of one world, by name."""
    return {name.partition(":")[2]: mutant for name, mutant in MUTANTS.items() if mutant.world == world}
