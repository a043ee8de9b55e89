#!/usr/bin/python3
"""An idempotent producer on librdkafka that goes on whatever becomes of the server.

usage: idempotent_producer.py SERVERS TOPIC NAME REPORT STOP [RECORDS-A-SECOND]

Sends records NAME:0, NAME:1, ... until the file STOP is there, waits for the rest to be delivered, and writes into REPORT
a line for each record: number, partition and offset as they were acknowledged, or an error.  The last line is "sent N".
"""
import os
import sys
import time

from confluent_kafka import Producer

servers, topic, name, report_path, stop = sys.argv[1:6]
rate = int(sys.argv[6]) if len(sys.argv) > 6 else 2000
report = open(report_path, 'w')


def told(number):
    def callback(error, message):
        if error is not None:
            report.write('%d failed %s\n' % (number, error.name()))
        else:
            # A duplicate of which the server knows no offset any more is one that was written.
            offset = message.offset()
            report.write('%d %d %d\n' % (number, message.partition(), -1 if offset is None else offset))
    return callback


def on_error(error):
    if error.fatal():
        report.write('fatal %s\n' % error.str())


producer = Producer({
    'bootstrap.servers': servers, 'enable.idempotence': True, 'acks': 'all', 'linger.ms': 3, 'batch.num.messages': 20,
    'retry.backoff.ms': 50, 'reconnect.backoff.ms': 50, 'reconnect.backoff.max.ms': 200, 'message.timeout.ms': 300000,
    'error_cb': on_error, 'partitioner': 'murmur2_random'})
begin = time.time()
number = 0
while not os.path.exists(stop):
    if number >= (time.time() - begin) * rate:
        producer.poll(0.002)
        continue
    try:
        producer.produce(topic, key='k%d' % (number % 11), value='%s:%d' % (name, number), on_delivery=told(number))
    except BufferError:
        producer.poll(0.1)
        continue
    number += 1
    if number % 50 == 0:
        producer.poll(0)
left = producer.flush(240)
report.write('sent %d\n' % (number if left == 0 else -left))
report.close()
