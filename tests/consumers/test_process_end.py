"""A program that ends, by an error of its own say, with consumers open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lakes import TIMEOUT_S

_PROGRAM = """
import sys, threading
import penstock

lake = penstock.connect(sys.argv[1])
lake.create_topic("orders", message_type="FIFO", queues=1)
heard = threading.Event()
with lake.producer("orders") as producer:
    producer.send(penstock.Message(b"paid", message_group="a"))


def listen(message):
    heard.set()
    return penstock.ConsumeResult.SUCCESS


if sys.argv[2] == "push":
    consumer = lake.push_consumer("orders", group="billing", listener=listen)
    assert heard.wait(50)
else:
    consumer = lake.simple_consumer("orders", group="billing")
    assert consumer.receive()
raise SystemExit("a mistake of the program's own")
"""


@pytest.mark.parametrize("kind", ["push", "simple"])
def test_a_program_that_ends_without_closing_its_lake_says_what_it_has_to_say_and_no_more(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path), kind]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "a mistake of the program's own\n")
