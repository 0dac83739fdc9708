"""The official Python SDK, driven by lines of JSON: see commands.md beside this file. Arguments: the endpoints."""

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.client.connection import RpcClient

_printing = threading.Lock()
RESOLUTIONS = {
    "COMMIT": TransactionResolution.COMMIT,
    "ROLLBACK": TransactionResolution.ROLLBACK,
    "UNKNOWN": TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}


def say(line):
    with _printing:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def take_the_sdks_loop():
    """A thread without an event loop fails in the SDK where an answer is there at once: what follows it then runs in the caller's thread."""
    asyncio.set_event_loop(RpcClient.get_channel_io_loop())


def text_of(message):
    return message.body.decode() if len(message.body) <= 1_000 else f"{len(message.body)} bytes"


class Client:
    def __init__(self, endpoints):
        self.endpoints, self.opened, self.received, self.references = endpoints, {}, {}, 0
        self.lock = threading.Lock()

    def configuration(self, command):
        return ClientConfiguration(
            command.get("endpoints", self.endpoints),
            Credentials(command.get("access_key", ""), command.get("secret_key", "")),
            command.get("namespace", ""),
            command.get("timeout_s", 3),
        )

    def kept(self, message):
        """A message that later commands name."""
        with self.lock:
            self.references += 1
            reference = str(self.references)
            self.received[reference] = message
        return {"ref": reference, **self.seen(message)}

    @staticmethod
    def seen(message):
        return {
            "topic": message.topic,
            "body": text_of(message),
            "message_id": message.message_id,
            "tag": message.tag or None,
            "keys": list(message.keys or ()),
            "message_group": message.message_group or None,
            "properties": dict(message.properties or {}),
            "attempt": message.delivery_attempt,
            "born_ms": message.born_timestamp,
            "born_host": message.born_host,
            "delivery_ms": message.delivery_timestamp,
        }

    def op_producer(self, command):
        checker, checks, name = None, command.get("checks"), command["name"]
        if checks is not None:

            class Checker(TransactionChecker):
                def check(self, message):
                    body = text_of(message)
                    resolution = checks.get(body, "UNKNOWN")
                    say({"event": "check", "name": name, "body": body, "resolution": resolution})
                    return RESOLUTIONS[resolution]

            checker = Checker()
        producer = Producer(
            self.configuration(command), tuple(command.get("topics", ())), checker, tls_enable=command.get("ssl", False)
        )
        producer.startup()
        self.opened[name] = producer

    @staticmethod
    def message(command, body):
        message = Message()
        message.topic = command["topic"]
        message.body = b"x" * command["body_bytes"] if "body_bytes" in command else body.encode()
        if "tag" in command:
            message.tag = command["tag"]
        for key in command.get("keys", ()):
            message.keys = key
        if "message_group" in command:
            message.message_group = command["message_group"]
        if "delay_s" in command:
            message.delivery_timestamp = int(time.time() + command["delay_s"])
        for name, value in command.get("properties", {}).items():
            message.add_property(name, value)
        return message

    def op_send(self, command):
        producer, message = self.opened[command["name"]], self.message(command, command.get("body", ""))
        if "transaction" in command:
            transaction = producer.begin_transaction()
            receipt = producer.send(message, transaction)
            if command["transaction"] == "commit":
                transaction.commit()
            elif command["transaction"] == "rollback":
                transaction.rollback()
        else:
            receipt = producer.send(message)
        return {"message_id": receipt.message_id, "recall_handle": receipt.recall_handle}

    def op_load(self, command):
        producer, count = self.opened[command["name"]], command["count"]
        threads, groups = command.get("threads", 1), command.get("message_groups", 0)
        group, again, failed = command.get("message_group", "g"), command.get("again", False), Counter()

        def work(first):
            for i in range(command.get("first", 0) + first, count, threads):
                one = {**command, "message_group": f"{group}{i % groups}"} if groups else command
                sent = False
                while not sent:
                    try:
                        producer.send(self.message(one, f"{command.get('body', '')}{i}"))
                        sent = True
                    except Exception:
                        failed["sends"] += 1
                        sent = not again

        start = time.perf_counter()
        with ThreadPoolExecutor(threads, initializer=take_the_sdks_loop) as pool:
            list(pool.map(work, range(threads)))
        return {"failed": failed["sends"], "seconds": time.perf_counter() - start}

    def op_recall(self, command):
        return self.opened[command["name"]].recall_message(command["topic"], command["handle"])

    @staticmethod
    def subscriptions(command):
        return {
            topic: FilterExpression(one[4:], FilterType.SQL) if one.startswith("SQL:") else FilterExpression(one)
            for topic, one in command["subscriptions"].items()
        }

    def op_simple(self, command):
        consumer = SimpleConsumer(
            self.configuration(command),
            command["group"],
            self.subscriptions(command),
            command.get("await_s", 5),
            tls_enable=command.get("ssl", False),
        )
        consumer.startup()
        time.sleep(1)  # startup() does not wait for the settings, without which RocketMQ refuses a receive
        self.opened[command["name"]] = consumer

    def op_receive(self, command):
        messages = self.opened[command["name"]].receive(command.get("max", 32), command.get("invisible_s", 15))
        return [self.kept(message) for message in messages]

    def op_ack(self, command):
        self.opened[command["name"]].ack(self.received[command["message"]])

    def op_change(self, command):
        self.opened[command["name"]].change_invisible_duration(self.received[command["message"]], command["invisible_s"])

    def op_drain(self, command):
        consumer, count, done = self.opened[command["name"]], command["count"], Counter()
        threads = command.get("threads", 1)

        def work(_):
            while done["messages"] < count and (messages := consumer.receive(32, 30)):
                for message in messages:
                    consumer.ack(message)
                    with self.lock:
                        done["messages"] += 1

        start = time.perf_counter()
        with ThreadPoolExecutor(threads, initializer=take_the_sdks_loop) as pool:
            list(pool.map(work, range(threads)))
        return {"messages": done["messages"], "seconds": time.perf_counter() - start}

    def op_push(self, command):
        name, fails, runs, client = command["name"], command.get("fails", {}), Counter(), self

        class Listener(MessageListener):
            def consume(self, message):
                body = text_of(message)
                with client.lock:
                    runs[body] += 1
                    failed = runs[body] <= fails.get(body, 0)
                event = {"event": "message", "name": name, "message": client.seen(message), "failed": failed}
                say({**event, "at_ms": int(time.time() * 1000)})
                if "runs_s" in command:
                    time.sleep(command["runs_s"])
                return ConsumeResult.FAILURE if failed else ConsumeResult.SUCCESS

        consumer = PushConsumer(
            self.configuration(command),
            command["group"],
            Listener(),
            self.subscriptions(command),
            consumption_thread_count=command.get("threads", 4),
            tls_enable=command.get("ssl", False),
        )
        consumer.startup()
        self.opened[name] = consumer

    def op_close(self, command):
        self.opened.pop(command["name"]).shutdown()

    def answer(self, command):
        take_the_sdks_loop()
        try:
            done = getattr(self, f"op_{command['op']}")(command)
        except Exception as error:
            refusal = {"type": type(error).__name__, "text": str(error)}
            if getattr(error, "code", None) is not None:
                refusal["code"] = int(error.code)
            say({"id": command["id"], "error": refusal})
        else:
            say({"id": command["id"], "ok": done})


def main():
    RpcClient()  # the SDK's loop runs from its first client on
    client = Client(sys.argv[1])
    for line in sys.stdin:
        threading.Thread(target=client.answer, args=(json.loads(line),), daemon=True).start()
    os._exit(0)


main()
