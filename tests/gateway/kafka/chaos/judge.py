"""Whether a run kept what is promised: of acknowledged records none lost, none twice, none out of order; each given in order. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from math import inf

from tests.gateway.kafka.chaos.facts import UNKNOWN_OFFSET, Facts


def judge(facts: Facts) -> list[str]:
    """What is wrong."""
    return [*lost(facts), *twice(facts), *inversions(facts), *_deliveries(facts)]


def lost(facts: Facts) -> list[str]:
    """Records that were acknowledged, and stand not where they were said to be, or nowhere; and those that were never acknowledged."""
    stored = {value for values in facts.stored.values() for value in values}
    problems = []
    for name, count in facts.sent.items():
        told = facts.acknowledged.get(name, [])
        if missing := set(range(count)) - {one.number for one in told}:
            problems.append(f"{len(missing)} records of {name} were not acknowledged: {sorted(missing)[:5]}")
        for number, partition, offset in told:
            value = f"{name}:{number}"
            if value not in stored:
                problems.append(f"{value} was acknowledged at {partition} {offset}, and is not stored")
            elif offset != UNKNOWN_OFFSET and facts.stored.get(partition, [])[offset : offset + 1] != [value]:
                problems.append(f"{value} was acknowledged at {partition} {offset}, where another record stands, or none")
    return problems


def twice(facts: Facts) -> list[str]:
    copies = Counter(value for values in facts.stored.values() for value in values)
    return [f"{value} is stored {count} times" for value, count in copies.items() if count > 1]


def inversions(facts: Facts) -> list[str]:
    """Records of a producer that stand in a partition behind ones which it sent later."""
    problems = []
    for partition, values in facts.stored.items():
        last: defaultdict[str, int] = defaultdict(lambda: -1)
        for offset, value in enumerate(values):
            name, _, text = value.partition(":")
            number = int(text)
            if number < last[name]:
                problems.append(f"{value} stands at {partition} {offset}, behind {name}:{last[name]}")
            last[name] = max(number, last[name])
    return problems


def _deliveries(facts: Facts) -> Iterator[str]:
    """Each record was given at least once, and a member begins no later than where the group had come to before."""
    first_s: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for stretch in facts.stretches:
        seen = first_s[stretch.partition]
        for offset, at_s in enumerate(stretch.at_s, stretch.first):
            seen[offset] = min(at_s, seen.get(offset, inf))
    for partition, values in facts.stored.items():
        if missing := set(range(len(values))) - first_s[partition].keys():
            yield f"{len(missing)} records of {partition} were given to no member: {sorted(missing)[:5]}"
    for stretch in facts.stretches:
        where = f"{stretch.member} at {stretch.partition}"
        for came, due in stretch.jumps:
            yield f"{where} was given {came}, where {due} was due"
        if stretch.first > 0 and first_s[stretch.partition].get(stretch.first - 1, inf) > stretch.at_s[0]:
            yield f"{where} began at {stretch.first}, before the record ahead of it was given to anybody"
        if facts.stored.get(stretch.partition, [])[stretch.first : stretch.next] != stretch.values:
            yield f"{where} was given other values from {stretch.first} on than stand in the log"
