"""Durable sends on the S3 profile, alone and with many producers; requests per append."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.contention import Load, Outcome, percentile
from tests.benchmarks.contention import measure as run_load
from tests.benchmarks.figures import Figure, Options, by_verb

_TARGETS_MS = {1: (60.0, 130.0), 100: (260.0, 800.0)}
_REQUESTS = {1: 1.05, 100: 10.0}


def measure(options: Options) -> Iterator[Figure]:
    loads = [(1, 2.0, 300), (2, 2.0, 120), (4, 2.0, 60), (10, 2.0, 40), (30, 2.0, 20), (100, 2.0, 20), (1000, 0.2, 10)]
    if options.small:
        loads = [(1, 2.0, 5), (3, 2.0, 5)]
    for producers, sends_per_s, seconds in loads:
        repeats = 1 if producers >= 1000 else options.repeats
        load = Load(producers, sends_per_s, seconds)
        yield from _figures(load, [run_load(load, seed=seed) for seed in range(1, repeats + 1)])


def _figures(load: Load, runs: list[Outcome]) -> Iterator[Figure]:
    who = "alone" if load.producers == 1 else f"{load.producers} producers"
    p50, p99 = _TARGETS_MS.get(load.producers, (None, None))
    name = f"durable send, {who}, {load.sends_per_s:g}/s each"
    worst = max((run.worst() for run in runs), key=lambda pair: pair[1])
    yield Figure(name=f"{name}, p50", unit="ms", values=[percentile(run.all_ms, 0.5) for run in runs], target=p50)
    yield Figure(
        name=f"{name}, p99",
        unit="ms",
        values=[percentile(run.all_ms, 0.99) for run in runs],
        target=p99,
        note=f"worst producer's p99 {worst[1]:.0f} ms (producer {worst[0]}); {sum(run.failed for run in runs)} failed",
    )
    requests = runs[0].requests
    yield Figure(
        name=f"requests per append, {who}",
        unit="requests",
        values=[run.requests_per_append for run in runs],
        target=_REQUESTS.get(load.producers),
        requests=by_verb(requests, runs[0].appends),
        per="an append",
        note=f"{runs[0].entries / load.seconds:.1f} entries/s",
    )
