"""What commands write to standard output."""

from __future__ import annotations

import io
import os
import sys

import click
import pytest

from penstock.infra.terminal import output


def test_no_colours_go_into_a_pipe_where_python_has_no_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with PYTHONUNBUFFERED, which images for containers set."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as reader:
        with io.TextIOWrapper(io.FileIO(writing, "w"), write_through=True) as unbuffered:
            monkeypatch.setattr(sys, "stdout", unbuffered)
            output.say(click.style("all is well", bold=True))
            monkeypatch.undo()
        assert reader.read() == "all is well\n"
