"""Two versions of Penstock in one lake: a short run of `make test-mixed`, and what an older version says of what it cannot read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.interpreters import OWN, interpreter
from tests.mixed import versions
from tests.mixed.play import SHORT, report, run
from tests.mixed.refusals import FEATURES, Feature, asked
from tests.mixed.versions import NoSuchVersion, current, former

SEED = 1


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_two_versions_in_one_lake_lose_double_and_invert_nothing(tmp_path: Path) -> None:
    print(f"replay: python -m tests.mixed.play --short --seed {SEED} --store local")
    found = run("local", tmp_path, (former(), current()), SHORT, SEED)
    report(found, print)
    assert not [problem for leg in found for problem in leg.problems]
    done = {deed for leg in found for deed in leg.done}
    assert done >= {"kill", "roll", "kill producer", "kill gateway", "kill sync", "kill maintain-0"}


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_an_older_version_refuses_by_name_what_it_cannot_read(feature: Feature, tmp_path: Path) -> None:
    url, older = str(tmp_path / "lake"), former(feature.before)
    feature.make(url)
    for words in feature.commands:
        assert asked(current(), url, words).returncode == 0, "there is something to be read"
        done = asked(older, url, words)
        assert done.returncode == 2, "the call is one for another version"
        assert "written by another version of Penstock" in done.stderr
        assert re.search(rf"observed: +{feature.observed}$", done.stderr, re.MULTILINE)
        assert "upgrade this process" in done.stderr
        assert "Traceback" not in done.stderr
    for words in feature.besides:
        done = asked(older, url, words)
        assert done.returncode == 0, f"what has nothing to do with it: {done.stderr}"


# --- What is mixed ----------------------------------------------------------------------------------------------------------------


def test_each_start_of_a_place_is_another_version_and_neighbours_differ() -> None:
    both = (("old",), ("new",))
    assert [interpreter(both, 0, start) for start in range(3)] == [["old"], ["new"], ["old"]]
    assert [interpreter(both, place, 0) for place in range(3)] == [["old"], ["new"], ["old"]]
    assert interpreter(OWN, 3, 2) == list(OWN[0])


@pytest.mark.parametrize(("depth", "said"), [("1", "git fetch --unshallow --tags"), ("", "name one with --former")])
def test_a_clone_without_the_history_says_what_to_do(
    depth: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True, capture_output=True, cwd=tmp_path)

    git("init", "whole")
    git("-C", "whole", "commit", "--allow-empty", "-m", "one")
    git("-C", "whole", "commit", "--allow-empty", "-m", "two")
    git("clone", *(["--depth", depth] if depth else []), f"file://{tmp_path}/whole", "clone")
    monkeypatch.setattr(versions, "ROOT", tmp_path / "clone")
    with pytest.raises(NoSuchVersion, match=said):
        former()
