"""The frame of the programs in Python: commands in, answers out, as commands.md beside this file says."""

import asyncio
import base64
import json
import os
import sys
import time


def as_bytes(text):
    return None if text is None else base64.b64decode(text)


def as_text(content):
    return None if content is None else base64.b64encode(content).decode()


def headers_of(record):
    """The headers of a command's record as most clients take them."""
    return [(one["name"], as_bytes(one["value"])) for one in record.get("headers", ())]


def seen(topic, partition, offset, key, value, headers, time_ms):
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "key": as_text(key),
        "value": as_text(value),
        "headers": [{"name": name, "value": as_text(content)} for name, content in headers or ()],
        "time_ms": time_ms,
    }


def compression_of(command):
    """The compression of a command; None is without."""
    compression = command.get("compression")
    return None if compression == "none" else compression


def end_of(command):
    """The time until which a command may wait, as of `time.monotonic`."""
    return time.monotonic() + command.get("timeout_s", 60)


async def answer(client, code_of, command):
    try:
        op = getattr(client, f"op_{command['op']}")
        done = await (op(command) if asyncio.iscoroutinefunction(op) else asyncio.to_thread(op, command))
    except Exception as error:
        refusal = {"type": type(error).__name__, "code": code_of(error), "text": str(error)}
        line = {"id": command["id"], "error": refusal}
    else:
        line = {"id": command["id"], "ok": done}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def run(client, code_of):
    running = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        one = asyncio.ensure_future(answer(client, code_of, json.loads(line)))
        running.add(one)
        one.add_done_callback(running.discard)
    os._exit(0)


def serve(client, code_of):
    """Carry out commands by the methods ``op_…`` of a client, until the input ends. `code_of` gives the number of an error, or None."""
    asyncio.run(run(client, code_of))
