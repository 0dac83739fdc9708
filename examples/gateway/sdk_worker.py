"""A worker that consumes by RocketMQ's own SDK for Python. It prints the number of each message, and when it began and was done with it.

Arguments: the gateways (host:port;host:port), the topic, and the consumer group. It ends with its standard input.
"""

import os
import sys
import threading
import time

from rocketmq import ClientConfiguration, ConsumeResult, Credentials, FilterExpression, MessageListener, PushConsumer

_printing = threading.Lock()


class Worker(MessageListener):
    """What the SDK calls for each message, and for the next one of a message group when this one is done."""

    def consume(self, message):
        began_ns = time.monotonic_ns()
        number = message.properties["number"]
        time.sleep(0.002)  # the work
        with _printing:
            print(number, began_ns, time.monotonic_ns(), flush=True)
        return ConsumeResult.SUCCESS


def main(endpoints, topic, group):
    configuration = ClientConfiguration(endpoints, Credentials())
    PushConsumer(configuration, group, Worker(), {topic: FilterExpression()}).startup()
    print("at work", file=sys.stderr, flush=True)
    sys.stdin.read()
    os._exit(0)


main(*sys.argv[1:])
