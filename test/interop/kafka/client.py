#!/usr/bin/python3
# client.py: the Kafka clients of Python, as README.md has it: confluent (librdkafka), kafka-python, aiokafka.
import json
import sys

TIMEOUT = 60
CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd']


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def tohex(value):
    return None if value is None else bytes(value).hex()


def say(**what):
    print(json.dumps(what, sort_keys=True), flush=True)


def input_records():
    for line in sys.stdin:
        r = json.loads(line)
        yield r, unhex(r['key']), unhex(r['value']), [(name, unhex(value)) for name, value in r.get('headers', [])]


def say_record(partition, offset, key, value, headers, ms):
    say(partition=partition, offset=offset, key=tohex(key), value=tohex(value), time=ms,
        headers=[[name, tohex(v)] for name, v in headers or []])


class Confluent:
    def __init__(self, broker, user, password):
        self.conf = {'bootstrap.servers': broker}
        if user:
            self.conf.update({'security.protocol': 'sasl_plaintext', 'sasl.mechanisms': 'SCRAM-SHA-256',
                              'sasl.username': user, 'sasl.password': password})

    @staticmethod
    def about():
        import confluent_kafka
        version = getattr(confluent_kafka, '__version__', None) or confluent_kafka.version()[0]
        # The old ones lose count of their references to None when a header is NULL, and crash.
        return {'version': '%s with librdkafka %s' % (version, confluent_kafka.libversion()[0]), 'codecs': CODECS,
                'null_header': not version.startswith('1.')}

    def produce(self, topic, codec, idempotent):
        from confluent_kafka import Producer
        failed = []

        def done(error, message):
            if error is None:
                say(partition=message.partition(), offset=message.offset())
            else:
                failed.append(error)

        p = Producer(dict(self.conf, **{'compression.type': codec, 'linger.ms': 50, 'partitioner': 'murmur2_random',
                                        'enable.idempotence': idempotent}))
        for r, key, value, headers in input_records():
            where = {}
            if 'partition' in r:
                where['partition'] = r['partition']
            if 'time' in r:
                where['timestamp'] = r['time']
            p.produce(topic, value=value, key=key, headers=headers, on_delivery=done, **where)
            p.poll(0)
        if p.flush(TIMEOUT) or failed:
            sys.exit('not delivered: %s' % failed)

    def consume(self, topic, group, count):
        from confluent_kafka import Consumer
        c = Consumer(dict(self.conf, **{'group.id': group, 'auto.offset.reset': 'earliest', 'session.timeout.ms': 10000,
                                        'heartbeat.interval.ms': 500, 'enable.auto.commit': False,
                                        'enable.auto.offset.store': True}))
        c.subscribe([topic], on_assign=lambda c, p: say(assigned=sorted(x.partition for x in p)),
                    on_revoke=lambda c, p: say(revoked=sorted(x.partition for x in p)))
        n = 0
        while count == 0 or n < count:
            m = c.poll(1)
            if m is None:
                continue
            if m.error():
                sys.exit('consuming: %s' % m.error())
            n += 1
            say_record(m.partition(), m.offset(), m.key(), m.value(), m.headers(), m.timestamp()[1])
            if count == 0 or n == count:
                c.commit(asynchronous=False)
        c.close()

    def admin(self, topic):
        from confluent_kafka.admin import AdminClient, NewTopic, NewPartitions, ConfigResource
        a = AdminClient(self.conf)

        def all_of(futures):
            return [f.result(TIMEOUT) for f in futures.values()]

        all_of(a.create_topics([NewTopic(topic, 2, 1, config={'retention.ms': '3600000'})]))
        all_of(a.create_partitions([NewPartitions(topic, 3)]))
        m = a.list_topics(topic, timeout=TIMEOUT)
        configs = all_of(a.describe_configs([ConfigResource('topic', topic)]))[0]
        first = (len(m.topics[topic].partitions), configs['retention.ms'].value)
        all_of(a.alter_configs([ConfigResource('topic', topic, set_config={'retention.ms': '7200000'})]))
        configs = all_of(a.describe_configs([ConfigResource('topic', topic)]))[0]
        groups = sorted(g.id for g in a.list_groups(timeout=TIMEOUT))
        all_of(a.delete_topics([topic]))
        gone = topic not in a.list_topics(timeout=TIMEOUT).topics
        say(partitions=first[0], retention=[first[1], configs['retention.ms'].value], groups=groups, gone=gone)


class KafkaPython:
    def __init__(self, broker, user, password):
        self.conf = {'bootstrap_servers': broker}
        if user:
            self.conf.update(security_protocol='SASL_PLAINTEXT', sasl_mechanism='SCRAM-SHA-256',
                             sasl_plain_username=user, sasl_plain_password=password)

    @staticmethod
    def about():
        import kafka
        from kafka import codec
        # Each codec needs a library, which may be missing.
        return {'version': kafka.__version__, 'codecs': ['none'] + [c for c in CODECS[1:] if getattr(codec, 'has_' + c)()],
                'null_header': False}

    def produce(self, topic, codec, idempotent):
        from kafka import KafkaProducer
        more = {'enable_idempotence': idempotent} if 'enable_idempotence' in KafkaProducer.DEFAULT_CONFIG else {}
        p = KafkaProducer(acks='all', compression_type=None if codec == 'none' else codec, linger_ms=50, **more, **self.conf)
        sent = [p.send(topic, value=value, key=key, headers=headers, partition=r.get('partition'), timestamp_ms=r.get('time'))
                for r, key, value, headers in input_records()]
        for future in sent:
            m = future.get(TIMEOUT)
            say(partition=m.partition, offset=m.offset)
        p.close()

    def consume(self, topic, group, count):
        from kafka import KafkaConsumer, ConsumerRebalanceListener

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked):
                say(revoked=sorted(p.partition for p in revoked))

            def on_partitions_assigned(self, assigned):
                say(assigned=sorted(p.partition for p in assigned))

        c = KafkaConsumer(group_id=group, auto_offset_reset='earliest', enable_auto_commit=False, session_timeout_ms=10000,
                          heartbeat_interval_ms=500, **self.conf)
        c.subscribe([topic], listener=Listener())
        n = 0
        while count == 0 or n < count:
            for records in c.poll(timeout_ms=500).values():
                for m in records:
                    n += 1
                    say_record(m.partition, m.offset, m.key, m.value, m.headers, m.timestamp)
                if count == 0 or n >= count:
                    c.commit()
        c.close()

    def admin(self, topic):
        from kafka.admin import KafkaAdminClient, NewTopic, NewPartitions, ConfigResource, ConfigResourceType
        a = KafkaAdminClient(**self.conf)

        def retention():
            answer = a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            if isinstance(answer, list):
                answer = [(c[0], c[1]) for r in answer for c in r.resources[0][4]]
                return dict(answer)['retention.ms']
            # From 3 on a dictionary of dictionaries.
            def find(where):
                for name, value in where.items():
                    if name == 'retention.ms':
                        return value['value'] if isinstance(value, dict) else getattr(value, 'value', value)
                    if isinstance(value, dict):
                        found = find(value)
                        if found is not None:
                            return found
            return find(answer)

        def topics():
            return {t['topic'] if 'topic' in t else t['name']: t for t in a.describe_topics()}

        a.create_topics([NewTopic(topic, 2, 1, topic_configs={'retention.ms': '3600000'})])
        a.create_partitions({topic: NewPartitions(3)})
        first = (len(topics()[topic]['partitions']), retention())
        a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={'retention.ms': '7200000'})])
        second = retention()
        groups = sorted(g[0] if isinstance(g, tuple) else g['group_id'] for g in
                        (a.list_consumer_groups() if hasattr(a, 'list_consumer_groups') else a.list_groups()))
        a.delete_topics([topic])
        say(partitions=first[0], retention=[first[1], second], groups=groups, gone=topic not in a.list_topics())
        a.close()


class AioKafka(KafkaPython):
    @staticmethod
    def about():
        import aiokafka
        return {'version': aiokafka.__version__, 'codecs': CODECS, 'null_header': True}

    def produce(self, topic, codec, idempotent):
        import asyncio

        async def run():
            from aiokafka import AIOKafkaProducer
            p = AIOKafkaProducer(acks='all', compression_type=None if codec == 'none' else codec, linger_ms=50,
                                 enable_idempotence=idempotent, **self.conf)
            await p.start()
            try:
                sent = [await p.send(topic, value=value, key=key, headers=headers, partition=r.get('partition'),
                                     timestamp_ms=r.get('time')) for r, key, value, headers in input_records()]
                for future in sent:
                    m = await future
                    say(partition=m.partition, offset=m.offset)
            finally:
                await p.stop()
        asyncio.run(run())

    def consume(self, topic, group, count):
        import asyncio

        async def run():
            from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

            class Listener(ConsumerRebalanceListener):
                async def on_partitions_revoked(self, revoked):
                    say(revoked=sorted(p.partition for p in revoked))

                async def on_partitions_assigned(self, assigned):
                    say(assigned=sorted(p.partition for p in assigned))

            c = AIOKafkaConsumer(group_id=group, auto_offset_reset='earliest', enable_auto_commit=False,
                                 session_timeout_ms=10000, heartbeat_interval_ms=500, **self.conf)
            c.subscribe([topic], listener=Listener())
            await c.start()
            n = 0
            try:
                while count == 0 or n < count:
                    for records in (await c.getmany(timeout_ms=500)).values():
                        for m in records:
                            n += 1
                            say_record(m.partition, m.offset, m.key, m.value, m.headers, m.timestamp)
                        if count == 0 or n >= count:
                            await c.commit()
            finally:
                await c.stop()
        asyncio.run(run())

    def admin(self, topic):
        import asyncio

        async def run():
            from aiokafka.admin import AIOKafkaAdminClient, NewTopic, NewPartitions
            from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
            a = AIOKafkaAdminClient(**self.conf)
            await a.start()

            async def retention():
                answer = await a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
                return {c[0]: c[1] for r in answer for c in r.resources[0][4]}['retention.ms']

            await a.create_topics([NewTopic(topic, 2, 1, topic_configs={'retention.ms': '3600000'})])
            await a.create_partitions({topic: NewPartitions(3)})
            first = (len((await a.describe_topics([topic]))[0]['partitions']), await retention())
            await a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={'retention.ms': '7200000'})])
            second = await retention()
            groups = sorted(g[0] for g in await a.list_consumer_groups())
            await a.delete_topics([topic])
            gone = topic not in await a.list_topics()
            await a.close()
            say(partitions=first[0], retention=[first[1], second], groups=groups, gone=gone)
        asyncio.run(run())


CLIENTS = {'confluent': Confluent, 'kafka-python': KafkaPython, 'aiokafka': AioKafka}


def main(name, what, *args):
    if what == 'about':
        say(**CLIENTS[name].about())
        return
    client = CLIENTS[name](*args[:3])
    rest = args[3:]
    if what == 'produce':
        client.produce(rest[0], rest[1], rest[2] == 'yes')
    elif what == 'consume':
        client.consume(rest[0], rest[1], int(rest[2]))
    else:
        client.admin(rest[0])


if __name__ == '__main__':
    main(*sys.argv[1:])
