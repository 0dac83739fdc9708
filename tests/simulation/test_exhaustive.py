"""Single faults at the calls of a small workload; `make exhaustive` plays every one of them."""

from __future__ import annotations

import pytest

from tests.simulation.campaign import exhaustive
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

EVERY = thoroughly(40, 331)


def test_single_faults_are_survived() -> None:
    runs = exhaustive(every=EVERY)
    assert len(runs) > thoroughly(25, 7)
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)
    faults = {what for run in runs for what in run.counts if what.startswith("fault: ")}
    assert len(faults) > thoroughly(10, 4)
