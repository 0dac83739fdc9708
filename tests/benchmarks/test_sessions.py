"""The processor time of Spark's benchmarks is that of all processes, also of those that ended on the way."""

from __future__ import annotations

import subprocess
import sys

from tests.benchmarks.sessions import cpu_s

_WORK_S = 0.5
_WORKER = f"import time\nwhile time.process_time() < {_WORK_S}: pass"
_MASTER = f"""
import subprocess, sys
for line in sys.stdin:
    subprocess.run([sys.executable, "-c", {_WORKER!r}], check=True)
    print("ended", flush=True)
"""


def test_the_time_of_processes_below_stays_once_they_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", _MASTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as master:
        assert master.stdin
        assert master.stdout
        before_s = cpu_s()
        print("work", file=master.stdin, flush=True)
        assert master.stdout.readline() == "ended\n"
        while_it_lives_s = cpu_s()
        master.stdin.close()
        master.wait()
        afterwards_s = cpu_s()
    assert while_it_lives_s - before_s >= _WORK_S
    assert while_it_lives_s <= afterwards_s < while_it_lives_s + _WORK_S, "no time is lost, and none is counted twice"
