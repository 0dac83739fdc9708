"""What tests found out and people want to read: a test records it under `FIGURES`, and it stands at the end of the run."""

from __future__ import annotations

import pytest

FIGURES = "figures"


class Figures:
    """Gathers what tests recorded; with xdist, the process that prints the summary hears of every worker's reports."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._texts += [str(text) for name, text in report.user_properties if name == FIGURES]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for text in self._texts:
            title, _, lines = text.partition("\n")
            terminalreporter.section(title)
            terminalreporter.write_line(lines)
