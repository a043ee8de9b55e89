#!/usr/bin/python3
"""A member of a consumer group, for tests.

	kafka_group_member.py LIBRARY ADDRESS GROUP TOPIC FILE [STRATEGY]

LIBRARY is confluent or kafka.  Appends "partition offset value" to FILE for each record, then commits, so that what is
committed was processed; prints a line when partitions are assigned.  Ends on SIGTERM, leaving the group.
"""
import os
import signal
import sys

library, address, group, topic, path = sys.argv[1:6]
strategy = sys.argv[6] if len(sys.argv) > 6 else "range"
out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
stopped = False


def stop(*_):
    global stopped
    stopped = True


signal.signal(signal.SIGTERM, stop)


def process(records):
    """In one write, so that a kill leaves all of it or nothing."""
    os.write(out, b"".join(b"%d %d %s\n" % r for r in records))


def tell(what, partitions):
    print(what, *sorted(partitions), flush=True)


def run_confluent():
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer({
        "bootstrap.servers": address, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000, "heartbeat.interval.ms": 300, "partition.assignment.strategy": strategy,
        "topic.metadata.refresh.interval.ms": 1000})
    consumer.subscribe([topic], on_assign=lambda _, ps: tell("assigned", [p.partition for p in ps]),
                       on_revoke=lambda _, ps: tell("revoked", [p.partition for p in ps]))
    while not stopped:
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        process([(message.partition(), message.offset(), message.value())])
        try:
            consumer.commit(message, asynchronous=False)
        except KafkaException as e:
            # The partition may be another's by now, who will process the record again.
            tell("commit " + e.args[0].name(), [])
    consumer.close()


def run_kafka():
    from kafka import KafkaConsumer
    from kafka.errors import CommitFailedError, KafkaError

    consumer = KafkaConsumer(
        topic, bootstrap_servers=address, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
        session_timeout_ms=6000, heartbeat_interval_ms=300, max_poll_interval_ms=60000, metadata_max_age_ms=1000)
    while not stopped:
        for partition, records in consumer.poll(timeout_ms=200, max_records=20).items():
            process([(r.partition, r.offset, r.value) for r in records])
            try:
                consumer.commit()
            except (CommitFailedError, KafkaError) as e:
                tell("commit " + type(e).__name__, [])
    consumer.close(autocommit=False)


run_confluent() if library == "confluent" else run_kafka()
