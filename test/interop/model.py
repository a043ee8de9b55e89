#!/usr/bin/python3
# model.py: a model that answers the requests of a decision loop, or of a shadow model, by a client that others wrote.
#
#   model.py kafka BROKER USER PASSWORD REQUESTS RESPONSES MARK     confluent-kafka
#   model.py mqtt HOST:PORT USER PASSWORD FILTER TOPIC MARK         paho; TOPIC "-": the response topic of each request
#
# It answers {"x": 2 * v, "by": MARK} to {"ask": {"v": v}}, tells "ready" when it listens, and then the correlation data of each
# request that it has answered.  It ends when its standard input does.
import json
import select
import sys


def answer(payload, mark):
    return json.dumps({'x': 2 * json.loads(payload)['ask']['v'], 'by': mark}).encode()


def say(what):
    print(what, flush=True)


def input_has_ended():
    return bool(select.select([sys.stdin], [], [], 0)[0]) and not sys.stdin.read(1)


def kafka(broker, user, password, requests, responses, mark):
    from confluent_kafka import Consumer, Producer
    conf = {'bootstrap.servers': broker, 'security.protocol': 'sasl_plaintext', 'sasl.mechanisms': 'SCRAM-SHA-256',
            'sasl.username': user, 'sasl.password': password}
    c = Consumer(dict(conf, **{'group.id': 'model-' + mark, 'auto.offset.reset': 'earliest'}))
    p = Producer(dict(conf, **{'partitioner': 'murmur2_random', 'linger.ms': 0}))
    c.subscribe([requests], on_assign=lambda consumer, partitions: say('ready'))
    while not input_has_ended():
        m = c.poll(0.1)
        p.poll(0)
        if m is None or m.error():
            continue
        which = dict(m.headers() or []).get('correlation-data')
        p.produce(responses, key=m.key(), value=answer(m.value(), mark), headers=[('correlation-data', which)],
                  on_delivery=lambda error, message, which=which: say(which.decode() if error is None else 'failed: %s' % error))
    p.flush(30)
    c.close()


def mqtt(where, user, password, topics, topic, mark):
    import paho.mqtt.client as paho
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties
    c = paho.Client(client_id='model-' + mark, protocol=paho.MQTTv5)
    c.username_pw_set(user, password)

    def on_message(client, ignored, m):
        properties = Properties(PacketTypes.PUBLISH)
        properties.CorrelationData = m.properties.CorrelationData
        client.publish(m.properties.ResponseTopic if topic == '-' else topic, answer(m.payload, mark), qos=1, properties=properties)
        say(m.properties.CorrelationData.decode())

    c.on_connect = lambda client, ignored, flags, reason, properties: client.subscribe(topics, qos=1)
    c.on_subscribe = lambda client, ignored, mid, reasons, properties: say('ready' if reasons[0].value < 128 else 'refused')
    c.on_message = on_message
    host, port = where.split(':')
    c.connect(host, int(port))
    while not input_has_ended():
        c.loop(0.1)
    c.disconnect()


if __name__ == '__main__':
    {'kafka': kafka, 'mqtt': mqtt}[sys.argv[1]](*sys.argv[2:])
