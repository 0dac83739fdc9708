"""The reference names what there is: every public error with its kind, every public name of the library,
every option of a command, every metric."""

from __future__ import annotations

import ast
import re
import runpy

import pytest

import penstock
from penstock.log.errors import PenstockError
from tests.tree import AREAS, DOOR, ROOT, dotted, modules

REFERENCE = ROOT / "docs" / "reference"

# Errors that no call of a user's raises, each with the reason.
INSIDE = {
    "CaptureRetry": "what a capture waits for: one of its kinds is told",
    "TableUnfollowed": "an event of a table that stands still",
    "CellChanged": "the reply of a table to a conditional write",
    "CellFull": "a queue's owner makes room",
    "Conflict": "a store's reply to a conditional write",
    "KeylessTable": "a row of a table that stands still",
    "NestedTooDeep": "an event that stops its table",
    "ObjectMissing": "a store's reply to a read",
    "PoisonEvent": "an event that stops its table",
    "SequencesTaken": "the writer of dead letters takes other sequences",
    "SettlingLost": "told as OwnershipLost",
    "ViewLost": "readers open themselves again",
}

# Public names that the pages of the reference have elsewhere.
ELSEWHERE = {"aio", "__version__"}


def errors() -> dict[str, str]:
    """The kind of every error by name, read without importing what defines it."""
    classes = {node.name: node for path, tree in modules(*AREAS, DOOR) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    kinds = {"PenstockError": PenstockError.kind}
    left = {name: {dotted(base).rpartition(".")[2] for base in node.bases} for name, node in classes.items()}
    while found := {name: bases & kinds.keys() for name, bases in left.items() if name not in kinds and bases & kinds.keys()}:
        for name, bases in found.items():
            kinds[name] = next((kind for step in classes[name].body if (kind := _kind(step))), kinds[min(bases)])
    return kinds


def _kind(step: ast.stmt) -> str | None:
    """The kind that a line of a class states."""
    match step:
        case ast.Assign([ast.Name("kind")], ast.Constant(str(kind))) | ast.AnnAssign(ast.Name("kind"), _, ast.Constant(str(kind))):
            return kind
    return None


def test_the_page_of_errors_names_all_of_them_by_kind() -> None:
    page = (REFERENCE / "errors.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE))
    told |= dict(re.findall(r"`(\w+)` \(`(\w+)`\)", page))
    found = errors()
    assert len(found) > len(INSIDE) + 50
    assert told | {"PenstockError": "penstock"} == {name: kind for name, kind in found.items() if name not in INSIDE}
    assert not INSIDE.keys() - found.keys()


def test_the_reference_has_every_public_name() -> None:
    described = set(re.findall(r"^::: penstock\.(\w+)$", (REFERENCE / "api.md").read_text(), re.MULTILINE))
    public = {name for name in vars(penstock)["__all__"] if not _is_error(name)}
    assert described == public - ELSEWHERE


def test_the_reference_has_every_public_name_for_asyncio_and_spark() -> None:
    import penstock.aio
    import penstock.spark
    import penstock.testing

    for page, module in (("aio.md", penstock.aio), ("api.md", penstock.spark), ("api.md", penstock.testing)):
        found = set(re.findall(rf"^::: {re.escape(module.__name__)}\.(\w+)$", (REFERENCE / page).read_text(), re.MULTILINE))
        assert found == set(module.__all__), module.__name__


@pytest.mark.parametrize("page", ["api.md", "aio.md"])
def test_the_index_of_the_reference_says_what_each_name_is(page: str) -> None:
    """`make reference` writes it anew."""
    script = ROOT / "infra" / "scripts" / "reference_index.py"
    indexed = runpy.run_path(str(script))["indexed"]
    text = (REFERENCE / page).read_text()
    assert indexed(text) == text


def test_the_page_of_commands_has_every_option_as_help_says_it() -> None:
    """`make reference` writes it anew."""
    script = runpy.run_path(str(ROOT / "infra" / "scripts" / "command_reference.py"))
    assert script["page"]() == (REFERENCE / "commands.md").read_text()


def test_the_reference_has_every_metric() -> None:
    from penstock.infra.deploy.grafana import sections

    page = (REFERENCE / "metrics.md").read_text()
    units = {"By": "bytes", "{message}": "message"}
    catalogue = [one for metrics in sections().values() for one in metrics]
    parts = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert parts == [*sections(), "Buckets"]
    named = [line for line in page.splitlines() if line.startswith(("| `rocketmq_", "| `penstock_", "| `kafka_"))]
    told = [
        f"| `{one.name}` | {one.kind} | {units.get(one.unit, one.unit)} | {', '.join(one.labels)} | {one.help} |"
        for one in catalogue
    ]
    bounds = [f"| `{one.name}` | {', '.join(f'{bound:,}' for bound in one.buckets)} |" for one in catalogue if one.buckets]
    assert named == told + bounds


def _is_error(name: str) -> bool:
    value = getattr(penstock, name)
    return isinstance(value, type) and issubclass(value, PenstockError)
