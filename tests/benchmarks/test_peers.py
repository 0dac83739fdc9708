"""The comparison with Kafka and RocketMQ: what fits in its time, and what it shows where something fails. No peer runs here."""

from __future__ import annotations

import io
import json
import socket
import sys
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from rich.console import Console

from tests.benchmarks.figures import Figure
from tests.benchmarks.peers import ours, servers
from tests.benchmarks.peers.__main__ import MINUTES, STEPS, main
from tests.benchmarks.peers.children import documents
from tests.benchmarks.peers.plan import Planned, Step, fit
from tests.benchmarks.peers.run import Doing, Event, OutOfTime, Report, StepFailed, run, shown, write
from tests.benchmarks.peers.screen import Screen


def step(name: str, *, start_s: float = 10, repeat_s: float = 10) -> Step:
    return Step(name=name, system=name, about=f"what {name} does", start_s=start_s, repeat_s=repeat_s)


A, B, C = step("a"), step("b"), step("c")


def repeats_of(budget_s: float | None, *steps: Step, repeats: int = 3) -> dict[str, int]:
    return {one.step.name: one.repeats for one in fit(steps, budget_s=budget_s, repeats=repeats).chosen}


def test_every_step_gets_one_repeat_before_any_gets_a_second() -> None:
    assert repeats_of(60, A, B, C) == {"a": 1, "b": 1, "c": 1}
    assert repeats_of(80, A, B, C) == {"a": 2, "b": 2, "c": 1}


def test_no_more_repeats_than_wanted() -> None:
    assert repeats_of(10_000, A, B, C) == repeats_of(None, A, B, C) == {"a": 3, "b": 3, "c": 3}


def test_a_step_that_does_not_fit_leaves_its_time_to_those_behind_it() -> None:
    plan = fit([A, step("long", start_s=100), C], budget_s=50, repeats=3)
    assert [(one.step.name, one.repeats) for one in plan.chosen] == [("a", 2), ("c", 1)]
    assert [one.name for one in plan.left_out] == ["long"]
    assert plan.takes_s == 50


@pytest.mark.parametrize("budget_s", [0.0, -1.0, 19.9])
def test_nothing_fits_in_no_time(budget_s: float) -> None:
    plan = fit([A, B], budget_s=budget_s, repeats=5)
    assert (plan.chosen, plan.left_out) == ((), (A, B))


def test_everything_fits_in_the_default_time() -> None:
    steps = [step for step in STEPS if not step.thorough]
    plan = fit(steps, budget_s=60 * MINUTES, repeats=5)
    assert (plan.left_out, [one.step for one in plan.chosen]) == ((), steps)
    assert plan.takes_s <= 60 * MINUTES < 600
    assert min(one.repeats for one in plan.chosen) >= 3, "a median of fewer says little"


def test_every_step_of_ours_measures_something_else() -> None:
    assert [f"ours: {part}" for part in ours.PARTS] == [one.name for one in STEPS if one.system == "ours"]
    shapes = [ours._shapes(batch) for batch in (None, "group", "queue")]
    assert [[one.name for one in of_part] for of_part in shapes] == [
        ["push ORDERLY, single messages, 10,000 groups"],
        ["push ORDERLY, lists of a group, 10,000 groups"],
        ["push ORDERLY, lists of a queue, 10,000 groups"],
    ]


class Clock:
    """A clock that goes on as the measurements say."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def figure(name: str, value: float) -> Figure:
    return Figure(name=name, unit="messages/s", better="higher", values=[value], load=0.0)


class Peers:
    """Measures as told: a step's error comes after its first figure."""

    def __init__(self, clock: Clock, errors: dict[str, BaseException], *, takes_s: float = 20) -> None:
        self._clock, self._errors, self._takes_s = clock, errors, takes_s
        self.closed: list[str] = []

    def measure(self, planned: Planned, _: float | None) -> Generator[Event]:
        name = planned.step.name
        try:
            for number in range(planned.repeats):
                yield Doing(f"repeat {number + 1}")
                self._clock.now_s += self._takes_s
                yield figure(f"{name}: produce", 1000.0 + number)
                if name in self._errors:
                    raise self._errors[name]
        finally:
            self.closed.append(name)


def measured(
    errors: dict[str, BaseException], path: Path, *, budget_s: float | None = None, takes_s: float = 20, repeats: int = 2
) -> tuple[Report, str]:
    clock, said = Clock(), io.StringIO()
    peers = Peers(clock, errors, takes_s=takes_s)
    report = run(
        [A, B, C],
        peers.measure,
        budget_s=budget_s,
        repeats=repeats,
        screen=Screen(Console(file=said, width=80)),
        monotonic_s=clock.monotonic_s,
        save=partial(write, path=path),
    )
    assert peers.closed == [one.name for one in report.results if one.outcome != "left out"]
    return report, said.getvalue()


def test_each_step_says_what_it_does_and_its_results(tmp_path: Path) -> None:
    report, said = measured({}, tmp_path / "peers.json")
    assert said.splitlines()[:6] == [
        "a: what a does; 2 repeats, about 30 s",
        "a: repeat 1",
        "✓  a: produce: 1,000 messages/s",
        "a: repeat 2",
        "✓  a: produce: 1,001 messages/s",
        "✓ a took 40 s",
    ]
    assert report.exit_code == 0
    assert [one.values for one in report.figures] == [(1000.0, 1001.0)] * 3


def test_when_a_peer_fails_the_others_go_on(tmp_path: Path) -> None:
    report, said = measured({"b": StepFailed("b did not start: port 1 of 127.0.0.1 is taken")}, tmp_path / "peers.json")
    assert "✗ b: failed after 20 s: b did not start: port 1 of 127.0.0.1 is taken" in said.splitlines()
    assert [one.outcome for one in report.results] == ["measured", "failed", "measured"]
    assert report.exit_code == 1
    table = shown(report)
    assert "| c: produce | 1,001 |" in table
    assert "b: failed: b did not start" in table
    document = json.loads((tmp_path / "peers.json").read_text())
    assert [one["outcome"] for one in document["steps"]] == ["measured", "failed", "measured"]
    assert [one["name"] for one in document["figures"]] == ["a: produce", "b: produce", "c: produce"]


@pytest.mark.parametrize("error", [CalledProcessError(1, ["mvn"]), KeyError("name"), FileNotFoundError("java")])
def test_any_error_of_a_peer_is_told_by_its_kind(error: Exception, tmp_path: Path) -> None:
    report, said = measured({"b": error}, tmp_path / "peers.json")
    assert f"✗ b: failed after 20 s: {type(error).__name__}: {error}" in said
    assert ([one.outcome for one in report.results], report.exit_code) == (["measured", "failed", "measured"], 1)


def test_a_result_of_many_repeats_is_shown_by_its_median() -> None:
    said = io.StringIO()
    Screen(Console(file=said)).measured(Figure(name="x", unit="ms", values=[1, 2, 9]))
    assert said.getvalue() == "✓  x: 2 ms\n"


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    report, said = measured({"b": KeyboardInterrupt()}, tmp_path / "peers.json")
    assert "interrupted; not measured: c" in said
    assert report.exit_code == 130
    document = json.loads((tmp_path / "peers.json").read_text())
    assert {one["name"]: one["values"] for one in document["figures"]} == {"a: produce": [1000, 1001], "b: produce": [1000]}
    assert list(tmp_path.iterdir()) == [tmp_path / "peers.json"]


def test_a_step_that_time_cuts_off_is_no_success(tmp_path: Path) -> None:
    report, said = measured({"c": OutOfTime()}, tmp_path / "peers.json")
    assert "✗ c: out of time after 20 s" in said
    assert report.exit_code == 1


def test_on_a_slower_machine_later_steps_get_what_time_is_left(tmp_path: Path) -> None:
    report, said = measured({}, tmp_path / "peers.json", budget_s=90, takes_s=40)
    assert [(one.outcome, one.repeats) for one in report.results] == [("measured", 2), ("left out", 0), ("left out", 0)]
    assert "b is left out: it needs about 20 s, which are not left" in said
    assert report.exit_code == 0
    assert "c: left out" in shown(report)


def test_a_step_that_takes_too_long_leaves_time_for_those_behind_it(tmp_path: Path) -> None:
    until: list[float | None] = []

    def measure(planned: Planned, ends_s: float | None) -> Generator[Event]:
        until.append(ends_s)
        yield figure(planned.step.name, 1)

    screen = Screen(Console(file=io.StringIO()))
    run(
        [A, B, C],
        measure,
        budget_s=100,
        repeats=1,
        screen=screen,
        monotonic_s=lambda: 1000.0,
        save=partial(write, path=tmp_path / "x.json"),
    )
    assert until == [1060.0, 1080.0, 1100.0]


def test_the_table_is_followed_by_the_first_and_last_line_of_an_error(tmp_path: Path) -> None:
    report, said = measured({"b": StepFailed("b did not start:\nlong\nstory\nport taken")}, tmp_path / "peers.json")
    assert shown(report).splitlines()[-1] == "b: failed: b did not start: … port taken"
    assert "story" in said


def test_a_peer_that_never_answers_is_ended_with_the_time(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        silent = child("import threading; print('booting', flush=True); threading.Event().wait()")
        started = servers._process("kafka", tmp_path, silent, unused.getsockname()[1], until_s=time.monotonic())
        with pytest.raises(RuntimeError, match="kafka did not start"), started:
            pytest.fail("it does not answer")


def child(script: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script]


def test_a_childs_lines_come_as_it_prints_them(tmp_path: Path) -> None:
    lines = documents(
        child("import sys; print('{\"doing\": \"x\"}', flush=True); sys.stdin.read(); print('noise'); print('{}')"),
        left_s=None,
        folder=tmp_path,
    )
    assert list(lines) == [{"doing": "x"}, {}]


def test_a_child_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    lines = documents(child("print('{}', flush=True); raise SystemExit('no broker')"), left_s=60, folder=tmp_path)
    assert next(lines) == {}
    with pytest.raises(StepFailed, match="ended with exit code 1:\nno broker"):
        next(lines)


def test_what_a_child_leaves_behind_lies_in_its_folder(tmp_path: Path) -> None:
    script = "import json, tempfile; print(json.dumps({'folder': tempfile.mkdtemp()}))"
    (line,) = documents(child(script), left_s=None, folder=tmp_path)
    assert Path(line["folder"]).parent == tmp_path


@pytest.mark.parametrize("left_s", [-1.0, 0.2])
def test_a_child_ends_with_the_time(left_s: float, tmp_path: Path) -> None:
    with pytest.raises(OutOfTime):
        list(documents(child("import threading; threading.Event().wait()"), left_s=left_s, folder=tmp_path))


def test_without_java_and_maven_the_peers_fail_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(servers, "missing_tools", lambda: ["java", "mvn"])
    file = tmp_path / "peers.json"
    assert main(["--only", "kafka,rocketmq", "--json", str(file)]) == 1
    shown_out, shown_err = capsys.readouterr()
    assert "kafka: failed: java and mvn not found; Kafka and RocketMQ need Java 17 and Maven on the path" in shown_out
    assert "rocketmq: failed after 0 s" in shown_err
    assert [one["outcome"] for one in json.loads(file.read_text())["steps"]] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "pulsar"], "unknown: pulsar"),
        (["--repeats", "0"], "must be above 0"),
        (["--minutes", "-1"], "must be above 0"),
        (["--minutes", "3", "--thorough"], "not allowed with argument"),
    ],
)
def test_bad_options_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err
