"""What the driver of a run did is in a file as it does it: a run whose driver ends, too, is judged by all that was done."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.processes.consuming.chaos import judged
from tests.processes.consuming.check import Reset, Skip
from tests.processes.consuming.disturbed import FENCED, FULL, KILL, STOP, Disturbed
from tests.processes.consuming.nemesis import SHORT, Chaos, Ground
from tests.processes.consuming.orders import NAME, Order, Orders, Run, read_orders
from tests.processes.consuming.places import Place
from tests.processes.consuming.records import What
from tests.processes.consuming.worker import MIRRORED, ORDERED
from tests.processes.worker import TOPIC

RUN = Run(
    workers=("worker-0",),
    producers=("loader-0",),
    groups=(ORDERED,),
    queues=1,
    lease_s=1.0,
    parks=False,
    killers=(),
    in_sqlite=True,
    throttled=False,
)


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    orders = Orders(tmp_path)
    orders.run(RUN)
    return orders


def test_all_that_is_done_to_a_process_is_read_back(tmp_path: Path, orders: Orders) -> None:
    place = Place("worker-0", lambda _: ["sleep", "60"], tmp_path / "errors", orders)
    place.start()
    place.stop()
    place.go_on()
    place.kill()
    place.start()
    place.take_name()
    place.end_former(10.0)
    place.end(10.0)
    place.destroy()
    course = read_orders(tmp_path)
    assert course.run == RUN
    assert course.starts == {"worker-0": 3}
    assert course.ended == {"worker-0": {-signal.SIGTERM}}
    assert [(one.kind, one.process) for one in course.disturbed] == [
        (STOP, "worker-0.0"),
        (KILL, "worker-0.0"),
        (FENCED, "worker-0.1"),
    ]
    assert all(0 < one.from_s <= one.until_s < math.inf for one in course.disturbed)
    assert not course.drained


def test_orders_are_read_back_and_count_from_when_they_were_given(tmp_path: Path, orders: Orders) -> None:
    orders.write(Order.RESET, ORDERED, 0, 7, 1.5)
    orders.write(Order.SKIPPING, ORDERED, 2.5)
    orders.write(Order.SKIPPED, ORDERED, 2.5, [(0, 3), (1, 4)])
    orders.write(Order.RELEASING, ORDERED, 3.5)
    orders.begun(FULL, "", 4.0)
    orders.over(Disturbed(FULL, "", 4.0, 5.0))
    orders.write(Order.DONE, "reset", 1)
    orders.write(Order.DONE, "reset", 1)
    orders.write(Order.DRAINED)
    course = read_orders(tmp_path)
    assert course.resets == [Reset(ORDERED, 0, 7, 1.5)]
    assert course.skips == [Skip(ORDERED, 0, 3, 2.5), Skip(ORDERED, 1, 4, 2.5)]
    assert (course.of_all, course.disturbed) == ([Disturbed(FULL, "", 4.0, 5.0)], [])
    assert course.done == {"reset": 2}
    assert course.drained


def test_what_had_no_end_when_the_driver_ended_lasts_but_for_a_kill_and_half_a_line_is_none(tmp_path: Path, orders: Orders) -> None:
    for kind, process in ((STOP, "worker-0.0"), (FENCED, "worker-0.1"), (KILL, "worker-0.2"), (FULL, "")):
        orders.begun(kind, process, 1.0)
    orders.write(Order.SKIPPING, ORDERED, 2.0)
    with (tmp_path / NAME).open("a") as file:
        file.write('["reset","ordered",0')
    course = read_orders(tmp_path)
    assert course.disturbed == [Disturbed(STOP, "worker-0.0", 1.0, math.inf), Disturbed(FENCED, "worker-0.1", 1.0, math.inf)]
    assert course.of_all == [Disturbed(FULL, "", 1.0, math.inf)]
    assert course.skips == [Skip(ORDERED, None, None, 2.0)]
    assert course.resets == []


def test_where_no_run_began_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="there is no run"):
        read_orders(tmp_path)


class Breaking:
    """A lake that ends the driver in whatever it is asked to change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.known: list[Any] = []

    def describe_group(self, group: str) -> Any:
        class Standing:
            queues = (type("Queue", (), {"queue": 2, "committed_offset": 50})(),)

        return Standing()

    def reset_offsets(self, group: str, topic: str, offset: int, *, queues: list[int]) -> None:
        self.known += read_orders(self._folder).resets
        raise KeyboardInterrupt

    def skip(self, group: str) -> None:
        self.known += read_orders(self._folder).skips
        raise KeyboardInterrupt


def test_an_order_is_in_the_file_before_it_is_given(tmp_path: Path) -> None:
    chaos, lake = Chaos(tmp_path, Ground(str(tmp_path / "lake"), {}), SHORT, 2), Breaking(tmp_path)
    for deed in ("reset", "skip"):
        with pytest.raises(KeyboardInterrupt):
            chaos._do(lake, deed)  # type: ignore[arg-type]
    reset, skip = lake.known
    assert (reset.group in (ORDERED, MIRRORED), reset.queue, reset.offset < 50) == (True, 2, True)
    assert (skip.group, skip.queue) == (ORDERED, None)
    course = read_orders(tmp_path)
    assert course.done == {"reset": 1, "skip": 1}
    assert (course.run.workers, course.run.producers) == (("worker-0", "worker-1", "worker-2"), ("loader-0", "loader-1"))
    assert course.run.parks


BODIES = [f"loader-0/{number}/1" for number in range(3)]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_run_whose_driver_was_ended_is_judged_from_its_files_alone(tmp_path: Path, orders: Orders, ordered: bool) -> None:
    with penstock.connect(str(tmp_path / "lake")) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=1)
        with lake.producer(TOPIC, name="loader-0") as producer:
            for body in BODIES:
                producer.send(penstock.Message(body.encode(), message_group="loader-0-1"))
    lines = [
        [what, at_s, at_s, ORDERED, TOPIC, 0, offset, 1, epoch, "loader-0-1", BODIES[offset]]
        for epoch, begin_s in ((1, 1.0), (1, 11.0))
        for offset in range(3)
        for what, at_s in ((What.START, begin_s + offset), (What.OK, begin_s + offset + 0.5))
    ]
    (tmp_path / "worker-0.0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "loader-0.journal").write_text("".join(f"S {body}\nA {body} 0 {offset}\n" for offset, body in enumerate(BODIES)))
    orders.write(Order.START, "worker-0")
    if ordered:
        orders.write(Order.RESET, ORDERED, 0, 0, 10.0)
    for _ in range(2):
        with penstock.connect(str(tmp_path / "lake"), read_only=True) as lake:
            outcome = judged(lake, tmp_path)
        assert (outcome.acknowledged, outcome.handled) == (3, 12)
        first, *problems = outcome.found.problems
        assert "its driver was ended" in first
        assert bool(problems) is not ordered, problems
