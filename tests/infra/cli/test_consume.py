"""`penstock consume`: prints, runs commands, calls functions; acknowledges what is done, and nothing else."""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock import Message, RetryPolicy, connect
from penstock.consumers.statistics import ConsumerStatistics, QueueStatistics
from penstock.infra.cli.consuming.consume_run import ConsumeRun
from penstock.infra.cli.consuming.message_limiter import MessageLimiter
from tests.infra.cli.conftest import Outcome, Penstock
from tests.lakes import send_all

IDLE = ("--until-idle", "0.5s")


@pytest.fixture
def sent(lake: Path) -> Path:
    """A topic of two queues with nine messages of three message groups."""
    with connect(lake) as opened:
        opened.create_topic("orders", message_type="FIFO", queues=2)
        send_all(
            opened,
            [Message.json({"n": n}, message_group=f"g{n % 3}", tag=("even", "odd")[n % 2], keys=[f"k {n}"]) for n in range(9)],
        )
    return lake


def numbers(outcome: Outcome) -> list[int]:
    return [json.loads(row["body"])["n"] for row in outcome.rows]


def floors(lake: Path, group: str = "g") -> int:
    """How many messages are settled, of all queues."""
    with connect(lake, read_only=True) as opened:
        return sum(one.committed_offset or 0 for one in opened.describe_group(group).queues)


def retrying_at_once(lake: Path, **settings: object) -> None:
    with connect(lake) as opened:
        opened.create_group("g", retry=RetryPolicy(interval=timedelta(milliseconds=1)), **settings)  # type: ignore[arg-type]


def test_messages_are_printed_in_order_and_acknowledged(penstock: Penstock, sent: Path) -> None:
    printed = penstock("consume", "orders", "--group", "g", *IDLE, "--json")
    for group in range(3):
        assert [n for n in numbers(printed) if n % 3 == group] == [group, group + 3, group + 6]
    assert {row["delivery_attempt"] for row in printed.rows} == {1}
    assert all(row["epoch"] >= 1 for row in printed.rows)
    assert floors(sent) == 9
    assert penstock("consume", "orders", "--group", "g", *IDLE, "--json").rows == []


def test_no_patience_at_all_takes_what_is_there(penstock: Penstock, lake: Path) -> None:
    with connect(lake) as opened:
        opened.create_topic("orders", queues=1)
        send_all(opened, [Message.json({"n": n}) for n in range(9)])
    assert numbers(penstock("consume", "orders", "--group", "g", "--until-idle", "0s", "--json")) == list(range(9))


@pytest.mark.parametrize(("lag", "idle"), [(9, False), (0, True)])
def test_without_patience_a_queue_with_work_is_not_idle_at_the_first_look(lag: int, idle: bool) -> None:
    one = QueueStatistics(topic="orders", queue=0, lag_messages=lag, inflight_messages=0, ready_messages=0)
    seen = ConsumerStatistics(group="g", queues=(one,))
    assert ConsumeRun()._is_idle([SimpleNamespace(statistics=lambda: seen)], 0.0) is idle  # type: ignore[list-item]


def test_text_has_one_heading_and_a_line_a_message(penstock: Penstock, sent: Path) -> None:
    lines = penstock("consume", "orders", "--group", "g", *IDLE).out.splitlines()
    assert lines[0].split() == ["queue", "offset", "time", "group", "tag", "keys", "body"]
    assert len(lines) == 10


def test_max_takes_just_so_many_and_gives_the_others_back_as_they_were(penstock: Penstock, sent: Path) -> None:
    first = penstock("consume", "orders", "--group", "g", "--max", "4", "--threads", "5", "--json")
    rest = penstock("consume", "orders", "--group", "g", *IDLE, "--json")
    assert len(first.rows) == 4
    assert sorted(numbers(first) + numbers(rest)) == list(range(9))
    assert {row["delivery_attempt"] for row in (*first.rows, *rest.rows)} == {1}


def test_filter_start_and_order_are_the_group_s(penstock: Penstock, sent: Path) -> None:
    printed = penstock(
        "consume", "orders", "--group", "g", "--filter", "odd", "--order", "concurrent", "--batch", "queue", *IDLE, "--json"
    )
    assert sorted(numbers(printed)) == [1, 3, 5, 7]
    assert floors(sent) == 9
    refused = penstock("consume", "orders", "--group", "g", "--order", "orderly", code=2)
    assert "another delivery order" in refused.err
    assert penstock("consume", "orders", "--group", "new", "--start", "latest", *IDLE, "--json").rows == []


def test_a_command_gets_body_and_facts_and_acknowledges_with_0(penstock: Penstock, sent: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f"""python3 -c 'import json, os, sys; print(json.dumps([sys.stdin.read(), dict(os.environ)]))' >> {out}"""
    penstock("consume", "orders", "--group", "g", "--threads", "1", "--exec", script, *IDLE)
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(json.loads(body)["n"] for body, _ in found) == list(range(9))
    facts = next(facts for body, facts in found if body == '{"n":4}')
    assert facts["PENSTOCK_TOPIC"] == "orders"
    assert facts["PENSTOCK_CONSUMER_GROUP"] == "g"
    assert facts["PENSTOCK_LAKE"] == str(sent)
    assert facts["PENSTOCK_MESSAGE_GROUP"] == "g1"
    assert facts["PENSTOCK_TAG"] == "even"
    assert json.loads(facts["PENSTOCK_KEYS"]) == ["k 4"]
    assert json.loads(facts["PENSTOCK_PROPERTIES"]) == {}
    assert facts["PENSTOCK_DELIVERY_ATTEMPT"] == "1"
    assert {"PENSTOCK_QUEUE", "PENSTOCK_OFFSET", "PENSTOCK_EPOCH", "PENSTOCK_MESSAGE_ID", "PENSTOCK_STORE_TIMESTAMP"} < set(facts)
    assert floors(sent) == 9


@pytest.mark.parametrize("code", [1, 75])
def test_a_command_that_fails_is_run_again_and_its_message_group_waits(
    penstock: Penstock, sent: Path, tmp_path: Path, code: int
) -> None:
    retrying_at_once(sent)
    out = tmp_path / "out"
    script = f"""n=$(cat); echo "$n $PENSTOCK_DELIVERY_ATTEMPT" >> {out}; case "$n$PENSTOCK_DELIVERY_ATTEMPT" in *'"n":3'*[12]) exit {code};; esac"""
    told = penstock("consume", "orders", "--group", "g", "--exec", script, *IDLE)
    lines = out.read_text().splitlines()
    assert [line for line in lines if any(f":{n}}}" in line for n in (0, 3, 6))] == [
        '{"n":0} 1',
        '{"n":3} 1',
        '{"n":3} 2',
        '{"n":3} 3',
        '{"n":6} 1',
    ]
    assert f"CommandFailed: exit code {code}" in told.err
    assert "attempt 2" in told.err


@pytest.mark.parametrize(("script", "said"), [("no-such-command-here", "not found"), ("/etc/passwd", "may not be executed")])
def test_a_command_that_cannot_be_run_ends_the_consumer_and_no_message_has_failed(
    penstock: Penstock, sent: Path, script: str, said: str
) -> None:
    retrying_at_once(sent, max_attempts=1)
    told = penstock("consume", "orders", "--group", "g", "--exec", script, *IDLE, code=2)
    assert said in told.err
    assert floors(sent) == 0
    assert "has no dead-letter queue" in penstock("dlq", "read", "g", code=2).err
    penstock("consume", "orders", "--group", "g", "--exec", "cat > /dev/null", *IDLE)
    assert floors(sent) == 9


def test_exit_code_65_gives_a_message_up_at_once(penstock: Penstock, sent: Path) -> None:
    penstock("consume", "orders", "--group", "g", "--exec", """grep -qv '"n":3' || exit 65""", *IDLE)
    (letter,) = penstock("dlq", "read", "g", "--json").rows
    assert (json.loads(letter["body"]), letter["origin"]["reconsume_times"]) == ({"n": 3}, 0)
    assert floors(sent) == 9


def test_a_batch_of_lines_that_fails_is_halved_until_the_message_is_found(penstock: Penstock, sent: Path, tmp_path: Path) -> None:
    retrying_at_once(sent, max_attempts=1)
    out = tmp_path / "out"
    script = f"""tee -a {out} | grep -v '"n\\\\":7' | [ $(wc -l) = $PENSTOCK_MESSAGES ]"""
    penstock("consume", "orders", "--group", "g", "--batch", "group", "--exec", script, *IDLE)
    (letter,) = penstock("dlq", "read", "g", "--json").rows
    assert json.loads(letter["body"]) == {"n": 7}
    seen = Counter(json.loads(json.loads(line)["body"])["n"] for line in out.read_text().splitlines())
    assert seen[0] == seen[3] == seen[2] == 1, "what is not of its message group ran once"


def test_a_command_that_takes_too_long_is_killed_with_its_children(penstock: Penstock, sent: Path, tmp_path: Path) -> None:
    retrying_at_once(sent, max_attempts=1)
    pid = tmp_path / "pid"
    script = f"""case "$PENSTOCK_KEYS" in *"k 5"*) sleep 600 & echo $! > {pid}; wait;; esac"""
    penstock("consume", "orders", "--group", "g", "--timeout", "0.5s", "--exec", script, "--until-idle", "1s")
    (letter,) = penstock("dlq", "read", "g", "--json").rows
    assert json.loads(letter["body"]) == {"n": 5}
    state = Path(f"/proc/{pid.read_text().strip()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z" or sys.platform != "linux"


FUNCTIONS = """
from penstock import BatchResult, ConsumeResult
seen = []

def listen(message):
    seen.append(message.json()["n"])
    return ConsumeResult.SUCCESS

async def listen_async(message):
    return listen(message)

def listen_to_many(messages):
    seen.extend(one.json()["n"] for one in messages)
    return BatchResult(len(messages))

number = 7
"""


@pytest.mark.parametrize(
    ("function", "how"), [("listen", ()), ("listen_async", ("--max", "9")), ("listen_to_many", ("--batch", "group"))]
)
def test_a_function_of_the_working_directory_is_called(
    penstock: Penstock, sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, how: tuple[str, ...]
) -> None:
    module = f"worker_{function}"
    (tmp_path / f"{module}.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    penstock("consume", "orders", "--group", "g", "--call", f"{module}:{function}", *how, *IDLE)
    assert sorted(sys.modules.pop(module).seen) == list(range(9))
    assert floors(sent) == 9


NO_ANSWER = """
def annotated(message) -> None: ...

def silent(message): ...
"""


def test_a_function_that_returns_none_is_refused_or_named(
    penstock: Penstock, sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no_answer.py").write_text(NO_ANSWER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    refused = penstock("consume", "orders", "--group", "g", "--call", "no_answer:annotated", *IDLE, code=2).err
    assert "annotated to return None" in refused
    assert "object:    annotated" in refused
    penstock("group", "create", "g", "--max-attempts", "1")
    assert (
        "the listener silent of group g returned None"
        in penstock("consume", "orders", "--group", "g", "--call", "no_answer:silent", *IDLE).err
    )
    del sys.modules["no_answer"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--call", "no_such_module:f"), "There is no module 'no_such_module'"),
        (("--call", "json:no_such"), "'json:no_such' is no function"),
        (("--call", "json"), "names no function; write module:function"),
        (("--call", "json:dumps", "--exec", "cat"), "Either --exec or --call"),
        (("--max", "3", "--batch", "queue"), "--max counts messages one by one"),
        (("--threads", "0"), "0 is not in the range"),
        (("--filter", "a||"), "bad tag filter"),
        (("--start", "soon"), "is no position"),
    ],
)
def test_calls_that_cannot_be(penstock: Penstock, sent: Path, args: tuple[str, ...], said: str) -> None:
    assert said in penstock("consume", "orders", "--group", "g", *args, code=2).err


def test_a_topic_that_is_not_there(penstock: Penstock, sent: Path) -> None:
    assert "no such topic" in penstock("consume", "nothing", "--group", "g", code=2).err


# --- The gate --------------------------------------------------------------------------------------------------------------------------


def test_a_gate_lets_in_as_many_as_may_be_done_and_another_for_each_that_failed() -> None:
    gate = MessageLimiter(2)
    answers = [gate.enter() for _ in range(4)]
    assert [one.done() for one in answers] == [True, True, False, False]
    gate.leave(done=False)
    assert [one.done() for one in answers] == [True, True, True, False]
    gate.leave(done=True)
    assert not gate.finished
    gate.leave(done=True)
    assert gate.finished
    assert not answers[3].done(), "who is left waits until it is closed"
    gate.close()
    assert [one.result() for one in answers] == [True, True, True, False]
    assert not gate.enter().result()
    assert gate.running == 0


def test_a_gate_without_a_limit_lets_all_in() -> None:
    gate = MessageLimiter(None)
    assert all(gate.enter().result() for _ in range(100))
    assert not gate.finished
