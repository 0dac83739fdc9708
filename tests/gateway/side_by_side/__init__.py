"""The same programs of RocketMQ's SDKs against a gateway and against a real RocketMQ, and what each of them saw.

    python -m tests.gateway.side_by_side                                          a gateway of its own, on a folder
    python -m tests.gateway.side_by_side --endpoint 127.0.0.1:8081 \\
        --admin "xargs -L 1 sh bin/mqadmin" --admin-options "-n 127.0.0.1:9876"   a RocketMQ 5

`outcomes.json` keeps both; `docs/rocketmq-side-by-side.md` is made of it.
"""
