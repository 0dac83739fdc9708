"""The same requests to a gateway and to a real Kafka, and what each of them answers.

    python -m tests.gateway.kafka.side_by_side             a gateway of its own, in memory
    python -m tests.gateway.kafka.side_by_side --kafka     a Kafka of its own, from Maven Central

`outcomes.json` keeps both; `docs/kafka-side-by-side.md` is made of it.
"""
