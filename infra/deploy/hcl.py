"""The policies as Terraform, rendered from the statements of `policies`. Pure, except for `files`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from importlib import resources

from .access import ProcessRole
from .policies import Applicability, PolicyStatement, ResourceNames, statements

GENERATED = "policies.tf"
_HEADER = """\
# Generated: change infra/deploy/access.py, then write this anew with `penstock infra terraform FOLDER`.
# One policy for each kind of process; a process that is two of them gets both.
"""
_NAMES = ResourceNames(
    bucket="${local.bucket}",
    objects="${local.lake}",
    prefix="${local.prefix}",
    table="${local.table}",
    cells="${local.cells}",
    key="${var.kms_key_arn}",
)
_CONDITIONS = {
    Applicability.STORE: 'var.table == ""',
    Applicability.DYNAMODB: 'var.table != ""',
    Applicability.KMS: 'var.kms_key_arn != ""',
}


def files() -> dict[str, str]:
    """All Terraform files by name, hand-written and generated."""
    folder = resources.files(__package__) / "terraform"
    written = {one.name: one.read_text() for one in folder.iterdir() if one.is_file()}
    return {**written, GENERATED: policies()}


def policies() -> str:
    """The file `GENERATED`: a document and a policy for each role, in the form of `terraform fmt`."""
    return "\n".join([_HEADER, *("\n".join(_policy(role)) + "\n" for role in ProcessRole)])


def _policy(role: ProcessRole) -> Iterator[str]:
    yield f'data "aws_iam_policy_document" "{role}" {{'
    for place, one in enumerate(statements(role, _NAMES)):
        if place:
            yield ""
        yield from _indented(_statement(one))
    yield "}"
    yield ""
    yield f'resource "aws_iam_policy" "{role}" {{'
    yield f'  name   = "${{var.name}}-{role}"'
    yield f"  policy = data.aws_iam_policy_document.{role}.json"
    yield "}"


def _statement(one: PolicyStatement) -> Iterator[str]:
    if one.when is Applicability.ALWAYS:
        yield "statement {"
        yield from _indented(_content(one))
    else:
        yield 'dynamic "statement" {'
        yield f"  for_each = {_CONDITIONS[one.when]} ? [1] : []"
        yield "  content {"
        yield from _indented(_indented(_content(one)))
        yield "  }"
    yield "}"


def _content(one: PolicyStatement) -> Iterator[str]:
    yield from _attributes({"sid": _quoted(one.sid), "actions": _list(one.actions), "resources": _list(one.resources)})
    if one.condition is not None:
        yield ""
        yield "condition {"
        facts = {"test": one.condition.test, "variable": one.condition.variable}
        yield from _indented(
            _attributes({**{name: _quoted(text) for name, text in facts.items()}, "values": _list(one.condition.values)})
        )
        yield "}"


def _attributes(values: dict[str, list[str]]) -> Iterator[str]:
    """Aligned as by `terraform fmt`: equals signs of neighbouring lines, except of values of many lines."""
    for many, run in itertools.groupby(values.items(), key=lambda pair: len(pair[1]) > 1):
        some = list(run)
        width = 0 if many else max(len(name) for name, _ in some)
        for name, (first, *rest) in some:
            yield f"{name:<{width}} = {first}"
            yield from rest


def _list(items: Sequence[str]) -> list[str]:
    texts = [_expression(item) for item in items]
    return [f"[{texts[0]}]"] if len(texts) == 1 else ["[", *(f"  {text}," for text in texts), "]"]


def _expression(text: str) -> str:
    reference = re.fullmatch(r"\$\{([a-z_.]+)\}", text)
    return f'"{text}"' if reference is None else reference[1]


def _quoted(text: str) -> list[str]:
    return [f'"{text}"']


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)
