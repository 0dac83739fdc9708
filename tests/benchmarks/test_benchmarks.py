"""Every benchmark runs at a tiny scale, and the report says what it should. No figure is judged: tests share their machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import BENCHMARKS, main
from tests.benchmarks.figures import Figure, Options, table

QUICKEST = "idle"
"""The one that `make test` runs, so that a change which breaks all of them is seen there."""


def marked(name: str) -> object:
    marks = [] if name == QUICKEST else [pytest.mark.thorough]
    if name.startswith("spark"):
        marks += [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [*map(marked, sorted(BENCHMARKS))])
def test_a_benchmark_runs(name: str, request: pytest.FixtureRequest) -> None:
    if name.startswith("spark"):
        request.getfixturevalue("spark")  # benchmarks take the session that runs
    figures = list(BENCHMARKS[name](Options(repeats=1, small=True)))
    assert figures
    assert all(figure.values for figure in figures)
    assert len({figure.name for figure in figures}) == len(figures), "names tell figures apart"


def test_the_readme_says_what_each_measures() -> None:
    readme = Path(__file__).with_name("README.md").read_text()
    assert [name for name in BENCHMARKS if f"| `{name}` |" not in readme] == []


def test_the_report_is_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    assert main(["--small", "--only", "idle", "--json", str(file)]) == 0
    assert "| idle topic, one reader following |" in capsys.readouterr().out
    report = json.loads(file.read_text())
    assert {figure["unit"] for figure in report["figures"]} == {"USD/month"}
    assert report["machine"]["cpus"] >= 1


def test_verdicts_follow_the_median_and_admit_what_only_the_best_run_reached() -> None:
    def verdict(*values: float, better: str = "higher") -> str:
        return Figure(name="x", unit="/s", values=values, better=better, target=10).verdict  # type: ignore[arg-type]

    assert verdict(9, 10, 11) == "met"
    assert verdict(8, 9, 11) == "best run only"
    assert verdict(7, 8, 9) == "missed"
    assert verdict(9, 11, 12, better="lower") == "best run only"
    assert "| ≥ 10 |" in table([Figure(name="x", unit="/s", values=[1], better="higher", target=10)])


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "speed"])
    assert "unknown: speed" in capsys.readouterr().err
