"""The table is put back to how it was before a transaction was committed: what it made visible stays."""

from __future__ import annotations

import pytest

from penstock.coordinator.transactions.members.state import Decider, Decision
from tests.coordinator.transactions.stage import Stage


@pytest.mark.parametrize("by", [Decider.AGE, Decider.OPERATOR])
def test_what_is_visible_is_not_deleted_when_the_row_is_open_again_and_rolled_back(
    by: Decider, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage()

    async def script() -> None:
        sender, other = stage.member("sender"), stage.member("other")
        transaction = await sender.sent(b"x", topics=("paid", "booked"))
        assert transaction.id is not None
        backup = dict(stage.table.memory._cells)
        await sender.run(transaction.commit())
        sender.process.crash()
        stage.table.memory._cells = backup
        if by is Decider.AGE:
            await stage.let_pass(5 * 3_600)
            await other.run(other.finisher().once("pay"))
        else:
            await other.run(other.transactions.decide(transaction.id, Decision.ROLLED_BACK, by))
            await other.run(other.transactions.finish(transaction.id))
        assert await stage.bodies("paid") == await stage.bodies("booked") == [b"x"]

    stage.play(script)
    assert "the coordination table was put back" in caplog.text
