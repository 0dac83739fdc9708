"""The long runs of each world are reached from the command line, as `make sweep`, `teeth` and `exhaustive` do."""

from __future__ import annotations

import pytest

from tests.simulation import campaign
from tests.simulation.sweeping import WORLDS


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("command", ["sweep", "teeth", "exhaustive", "replay"])
def test_a_world_is_found_by_its_name(world: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        campaign.main([command, "--world", world, "--help"])
    assert ended.value.code == 0
    assert "--world" in capsys.readouterr().out
