"""The fixtures do what docs/guides/testing-your-code.md says: its examples run as tests of a project of their own."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest

from penstock.log import InvalidArgument
from penstock.testing import HandClock, s3_server
from tests.pages import blocks
from tests.tree import ROOT

pytest_plugins = ["pytester"]

OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist")
PAGE = ROOT / "docs" / "guides" / "testing-your-code.md"


@pytest.mark.s3
@pytest.mark.timeout(600)
def test_the_pages_examples_pass(pytester: pytest.Pytester) -> None:
    found = [block.code for block in blocks(PAGE) if block.language == "python"]
    pytester.makepyfile(**{f"test_example_{number}": code for number, code in enumerate(found)})
    result = pytester.runpytest_subprocess(*OPTIONS, timeout=500)
    result.assert_outcomes(passed=sum(code.count("\ndef test_") for code in found))


def test_without_moto_the_s3_lake_is_skipped_and_says_why(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moto.server", None)
    pytester.makepyfile("def test_s3(penstock_s3_lake): pass")
    result = pytester.runpytest_inprocess(*OPTIONS, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*pip install '.?testing?'*"])


def test_each_test_has_a_lake_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("again", [1, 2])
        @pytest.mark.parametrize("kind", ["memory", "local"])
        def test_empty(kind, again, request):
            lake = request.getfixturevalue(f"penstock_{kind}_lake")
            assert lake.topics() == {}
            lake.create_topic("orders")
        """
    )
    pytester.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=4)


def test_the_clock_moves_both_of_its_hands() -> None:
    clock = HandClock(datetime(2026, 1, 1, tzinfo=UTC))
    wall_ms, monotonic_s = clock.wall_ms(), clock.monotonic_s()
    assert clock.now() - datetime(2026, 1, 1, tzinfo=UTC) < timedelta(minutes=1)
    clock.advance(timedelta(days=4))
    assert clock.wall_ms() - wall_ms >= 4 * 86_400_000
    assert clock.monotonic_s() - monotonic_s >= 4 * 86_400


def test_the_clock_begins_at_the_present() -> None:
    assert abs(HandClock().now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_the_clock_refuses_what_makes_no_sense() -> None:
    with pytest.raises(InvalidArgument, match=r"too short.*operation: advance"):
        HandClock().advance(timedelta(seconds=-1))
    with pytest.raises(InvalidArgument, match="must have a zone"):
        HandClock(datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused


@pytest.mark.s3
def test_a_bucket_with_a_bad_name_is_refused() -> None:
    with s3_server() as server, pytest.raises(InvalidArgument, match=r"makes no such bucket.*3 to 63 small letters.*400"):
        server.make_bucket("b")
