"""The alerts, evaluated as Prometheus does over scrapes of real exporters and workers, on a lake in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.consumers.handlers.results import ConsumeResult
from penstock.coordinator import DeadLetterPolicy
from penstock.log import MessageView
from tests.infra.deploy.promql import Alert, Query, Storage, Unknown
from tests.infra.lake_views import Exporter, Shop, Worker, page, send
from tests.tree import ROOT

RULES = ROOT / "infra" / "deploy" / "prometheus" / "alerts.yaml"
SCRAPE_S = 30


def alerts(path: Path = RULES) -> list[Alert]:
    (group,) = yaml.safe_load(path.read_text())["groups"]
    return [Alert.of(rule) for rule in group["rules"]]


class Monitoring:
    """A Prometheus that scrapes workers and exporters every 30 s, and evaluates the rules."""

    def __init__(self, shop: Shop, exporters: int) -> None:
        self.shop = shop
        self.storage = Storage()
        self.now_s = 0.0
        self.exporters: list[Exporter] = [shop.exporter() for _ in range(exporters)]
        self.workers: dict[str, Worker] = {}
        self.alerts = alerts()
        self.firing: dict[tuple[str, str, str], float] = {}
        """The values of what fires, by alert, group (or other name) and topic."""

    async def round(self) -> None:
        await self.shop.pass_time(SCRAPE_S)
        self.now_s += SCRAPE_S
        for number, exporter in enumerate(self.exporters):
            await exporter.look()
            self.storage.scrape(self.now_s, f"maintain-{number}", exporter.text())
        for name, worker in self.workers.items():
            self.storage.scrape(self.now_s, name, page(worker.metrics) if worker.lives else "")
        self.firing = {}
        for alert in self.alerts:
            for labels, value in alert.evaluate(self.storage, self.now_s).items():
                found = dict(labels)
                self.firing[
                    alert.name,
                    found.get("consumer_group", found.get("name", "")),
                    found.get("topic", ""),
                ] = value

    async def until(
        self,
        so: Callable[[], bool],
        *,
        rounds: int,
        each: Callable[[], Awaitable[None]] | None = None,
    ) -> int:
        """Go on until it is so. Returns the rounds that it took."""
        for number in range(rounds):
            if so():
                return number
            if each is not None:
                await each()
            await self.round()
        raise AssertionError(f"nothing comes of it: {self.firing}")


def play(script: Callable[[Monitoring], Awaitable[None]], *, exporters: int = 1) -> None:
    shop = Shop()

    async def main() -> None:
        await script(Monitoring(shop, exporters))
        await shop.close()

    shop.kernel.run(main())


@pytest.mark.slow
def test_the_death_of_a_groups_last_worker_pages_while_another_group_lives() -> None:
    async def script(seen: Monitoring) -> None:
        lake = await seen.shop.operator("orders")

        async def sell() -> None:
            await send(lake, "orders", 2)

        for group in ("billing", "audit"):
            seen.workers[group] = await seen.shop.worker(group)
        for _ in range(4):
            await sell()
            await seen.round()
        assert not seen.firing
        seen.workers["billing"].crash()
        dead = ("PenstockNoConsumers", "billing", "orders")
        rounds = await seen.until(lambda: dead in seen.firing, rounds=14, each=sell)
        assert rounds * SCRAPE_S <= 6 * 60
        assert {name for name, *_ in seen.firing} <= {
            "PenstockNoConsumers",
            "PenstockConsumerLag",
        }
        assert {group for _, group, _ in seen.firing} == {"billing"}
        await seen.until(
            lambda: ("PenstockConsumerLag", "billing", "orders") in seen.firing,
            rounds=14,
            each=sell,
        )
        seen.workers["billing again"] = await seen.shop.worker("billing")
        await seen.until(lambda: not seen.firing, rounds=6, each=sell)
        for group in ("audit", "billing again"):
            await seen.workers[group].close()

    play(script, exporters=2)


def test_numbers_in_alerts_are_not_doubled_by_a_second_exporter() -> None:
    async def script(seen: Monitoring) -> None:
        lake = await seen.shop.operator("orders")
        await lake.create_group("billing", dead_letter_policy=DeadLetterPolicy.PARK, max_attempts=1)

        def answer(message: MessageView) -> ConsumeResult:
            return ConsumeResult.FAILURE if message.body else ConsumeResult.SUCCESS

        seen.workers["billing"] = await seen.shop.worker("billing", answer=answer)
        await send(lake, "orders", 5)
        parked = ("PenstockParkedMessageGroups", "billing", "orders")
        await seen.until(lambda: parked in seen.firing, rounds=4)
        assert seen.firing[parked] == 5
        for one in await lake.skip("billing"):
            assert one.topic == "orders"
        given_up = ("PenstockDeadLetters", "billing", "orders")
        await seen.until(lambda: given_up in seen.firing, rounds=4)
        await seen.round()
        assert 5 <= seen.firing[given_up] < 7  # as increase() reckons
        assert parked not in seen.firing
        await seen.until(lambda: given_up not in seen.firing, rounds=22)
        await seen.workers["billing"].close()

    play(script, exporters=2)


def test_an_exporter_that_is_gone_is_noticed() -> None:
    async def script(seen: Monitoring) -> None:
        await seen.shop.operator("orders")
        await seen.round()
        assert not seen.firing
        exporters, seen.exporters = seen.exporters, []
        seen.storage.scrape(seen.now_s + SCRAPE_S, "maintain-0", "")
        await seen.until(lambda: ("PenstockGroupsNotLookedAt", "", "") in seen.firing, rounds=12)
        seen.exporters = exporters
        await seen.round()
        assert not seen.firing

    play(script)


# --- The evaluator itself ---------------------------------------------------------------------------------------------------------


def filled() -> Storage:
    storage = Storage()
    for number in range(21):
        text = (
            f'penstock_takes{{topic="orders"}} {10 + 3 * number}\npenstock_takes{{topic="events"}} {number % 7}\n'
            f'penstock_late{{topic="orders"}} 4\n'
        )
        storage.scrape(30.0 * number, "a", text)
        storage.scrape(
            30.0 * number,
            "b",
            'penstock_late{topic="orders"} 6\n' if number < 20 else "",
        )
    return storage


def asked(expression: str, at_s: float = 600.0) -> dict[str, float] | float:
    found = Query(expression, filled(), at_s).value()
    if isinstance(found, float):
        return found
    return {",".join(f"{name}={value}" for name, value in sorted(labels)): value for labels, value in found.items()}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * 60 - 10 / 5", 118.0),
        (
            "max by (topic) (penstock_late)",
            {"topic=orders": 4.0},
        ),  # b was not in its last scrape
        ("sum(penstock_takes)", {"": 76.0}),
        (
            "count by (topic) (penstock_takes) == 1",
            {"topic=orders": 1.0, "topic=events": 1.0},
        ),
        (
            "sum by (topic) (penstock_takes) - max by (topic) (penstock_late) > 60",
            {"topic=orders": 66.0},
        ),
        (
            "sum by (topic) (penstock_takes) > 0 and max by (topic) (penstock_late) > 3",
            {"topic=orders": 70.0},
        ),
        ("absent(penstock_takes) or max(penstock_late) > 1", {"": 4.0}),
        ("absent(penstock_never)", {"": 1.0}),
        (
            "max by (topic) (increase(penstock_takes[5m]))",
            {"topic=orders": 30.0, "topic=events": 9.0},
        ),
        ("max by (topic) (rate(penstock_takes[5m])) > 0.05", {"topic=orders": 0.1}),
    ],
)
def test_expressions_mean_what_prometheus_says(expression: str, value: Any) -> None:
    assert asked(expression) == pytest.approx(value)


def test_series_are_there_for_five_minutes_and_until_a_scrape_without_them() -> None:
    expression = "max by (instance) (penstock_late)"
    assert asked(expression, 580.0) == {"instance=a": 4.0, "instance=b": 6.0}
    assert asked(expression, 600.0) == {"instance=a": 4.0}
    assert asked(expression, 899.0) == {"instance=a": 4.0}
    assert asked(expression, 900.0) == {}


@pytest.mark.parametrize(
    "expression",
    [
        'penstock_takes{topic="orders"}',
        "histogram_quantile(0.9, penstock_takes)",
        "avg by (topic) (penstock_takes)",
        "max without (topic) (penstock_takes)",
        "penstock_takes unless penstock_late",
        "penstock_takes offset 5m",
        "increase(penstock_takes)",
        "up",
        "penstock_takes > on (topic) penstock_late",
        "penstock_takes >",
        "(penstock_takes",
        "1 > 2",
        "penstock_takes[5m]",
    ],
)
def test_what_is_not_known_is_refused(expression: str) -> None:
    with pytest.raises(Unknown):
        asked(expression)


def test_an_alert_waits_for_its_time_and_begins_anew_after_a_gap() -> None:
    alert, storage = (
        Alert("Late", "max by (topic) (penstock_late) > 5", 60.0),
        Storage(),
    )
    fired = []
    for number, value in enumerate([6, 6, 6, 6, 1, 6, 6, 6, 6]):
        storage.scrape(30.0 * number, "a", f'penstock_late{{topic="orders"}} {value}\n')
        fired.append(bool(alert.evaluate(storage, 30.0 * number)))
    assert fired == [False, False, True, True, False, False, False, True, True]
