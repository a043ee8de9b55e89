#!/usr/bin/python3
"""The reference device, short: the habits and rules of device.c on Paho for Python (Debian: python3-paho-mqtt).

It waits at random after power on, connects with a session, listens to its commands, reports at a phase of its own, backs
off with full jitter, keeps the time to live of commands by its own clock, and does no command twice.
"""
import argparse
import json
import os
import random
import signal
import time
from datetime import datetime

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

MEMORY = 256  # commands that are remembered
SESSION_EXPIRY = 3600
BUSY = {0x88, 0x89, 0x8B, 0x96, 0x97, 0x9C, 0x9D, 0x9F}  # of 3.1.1: 3
DENIED = {0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x8E}  # of 3.1.1: 1, 2, 4, 5


class Seen:
    """Which commands were begun, and their answers: on disk before anything is done, bounded without a hole.

    A command is forgotten only after its expiry, and the latest expiry that was forgotten is the horizon: what expires at
    or before it is refused by its time, whatever the clock says.
    """

    def __init__(self, path):
        self.path, self.horizon, self.commands = path, 0.0, {}
        if os.path.exists(path):
            with open(path) as f:
                self.horizon, self.commands = json.load(f)

    def save(self):
        with open(self.path + '.new', 'w') as f:
            json.dump([self.horizon, self.commands], f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(self.path + '.new', self.path)
        folder = os.open(os.path.dirname(os.path.abspath(self.path)), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def begin(self, id, expires_at, safe_before):
        if len(self.commands) >= MEMORY:
            first = min(self.commands, key=lambda i: self.commands[i][0])
            if self.commands[first][0] >= safe_before:
                return False
            self.horizon = max(self.horizon, self.commands.pop(first)[0])
        self.commands[id] = [expires_at, None]
        self.save()
        return True

    def finish(self, id, answer):
        self.commands[id][1] = answer
        self.save()


def parse_time(text):
    time = datetime.fromisoformat(text.replace('Z', '+00:00'))
    if time.tzinfo is None:
        raise ValueError('a time without a zone')
    return time.timestamp()


class Device:
    def __init__(self, o):
        self.o = o
        self.tenant, _, self.id = o.user.rpartition('/')
        self.prefix = o.prefix if o.prefix is not None else self.tenant + '/' if self.tenant else ''
        self.v5 = not o.mqtt311
        self.seen = Seen(o.memory or self.id + '.seen')
        self.interval = o.interval
        self.stopping = self.ready = False
        self.cause = 'broken'
        if self.v5:
            self.client = mqtt.Client(o.client_id or self.id, protocol=mqtt.MQTTv5)
        else:
            self.client = mqtt.Client(o.client_id or self.id, clean_session=False)
        self.client.username_pw_set(o.user, open(o.password_file).readline().rstrip('\r\n') if o.password_file else None)
        if o.ca_file:
            self.client.tls_set(o.ca_file)
        self.client.on_connect, self.client.on_disconnect = self.on_connect, self.on_disconnect
        self.client.on_subscribe, self.client.on_message = self.on_subscribe, self.on_message

    # ---- What this device can do: here yours begins; an exception is a failure ----

    def act(self, name, payload):
        if name == 'ping':
            return {'pong': self.id}
        if name == 'set-interval':
            seconds = payload.get('seconds') if isinstance(payload, dict) else None
            if type(seconds) not in (int, float) or not 1 <= seconds <= 86400:
                raise ValueError('seconds must be a number from 1 to 86400')
            self.interval = seconds
            return {'seconds': seconds}
        raise ValueError('unknown command')

    # ---- What every device has to do ----

    def topic(self, *parts):
        return self.prefix + '/'.join(('cmd', self.id) + parts)

    def answer(self, kind, id, message, text=''):
        properties = None
        if self.v5:
            properties = Properties(PacketTypes.PUBLISH)
            properties.ContentType = 'application/json'
            if hasattr(message.properties, 'CorrelationData'):
                properties.CorrelationData = message.properties.CorrelationData
        self.client.publish(self.topic(kind, id), text, qos=1, properties=properties)

    def read_command(self, message):
        name = message.topic[len(self.topic('req', '')):]
        if self.v5:
            said = dict(reversed(getattr(message.properties, 'UserProperty', [])))
            try:
                payload = json.loads(message.payload) if message.payload else None
            except ValueError:
                payload = None
            return said['fl-id'], name, parse_time(said['fl-issued-at']), parse_time(said['fl-expires-at']), payload
        said = json.loads(message.payload)
        if said['name'] != name:
            raise ValueError('the envelope has another name')
        return said['id'], name, parse_time(said['issued_at']), parse_time(said['expires_at']), said.get('payload')

    def refuse(self, id, message, status, why):
        print(id, status, why, flush=True)
        self.answer('res', id, message, json.dumps({'status': status, 'detail': why}))

    def on_message(self, client, userdata, message):
        try:
            id, name, issued_at, expires_at, payload = self.read_command(message)
            if not id or len(id) > 64 or not id.replace('-', '').replace('_', '').isalnum() or not id.isascii():
                raise ValueError('id')
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            print(message.topic, 'no command:', repr(e), flush=True)
            return
        now, tolerance = time.time() + self.o.clock_offset, self.o.tolerance
        if id in self.seen.commands:  # done once, not again: it gets its old answer, if there is one
            print(id, 'refused: it was begun before', flush=True)
            self.answer('ack', id, message)
            if self.seen.commands[id][1] is not None:
                self.answer('res', id, message, self.seen.commands[id][1])
        elif expires_at + tolerance < now or expires_at <= self.seen.horizon:
            self.refuse(id, message, 'expired', 'expired by the clock of the device')
        elif issued_at > now + tolerance:
            self.refuse(id, message, 'failed', 'the clock of the device is behind: the command is of the future')
        elif not self.seen.begin(id, expires_at, now - tolerance):
            self.refuse(id, message, 'failed', 'no room to remember the command')
        else:
            self.answer('ack', id, message)
            try:
                said = {'status': 'succeeded', 'result': self.act(name, payload)}
            except Exception as e:
                said = {'status': 'failed', 'detail': str(e)}
            text = json.dumps(said)
            print(id, name, text, flush=True)
            self.seen.finish(id, text)
            self.answer('res', id, message, text)

    # ---- Connection ----

    def end_for(self, code):
        """What a code of CONNACK or DISCONNECT means for coming back."""
        if self.v5:
            self.cause = 'busy' if code in BUSY else 'denied' if code in DENIED else 'broken'
        else:
            self.cause = 'busy' if code == 3 else 'denied' if code in (1, 2, 4, 5) else 'broken'
        self.over = True

    def on_connect(self, client, userdata, flags, code, properties=None):
        code = getattr(code, 'value', code)
        if code != 0:
            print('refused: code', code, flush=True)
            self.end_for(code)
        else:
            client.subscribe(self.topic('req', '+'), qos=1)

    def on_subscribe(self, client, userdata, mid, granted, properties=None):
        self.ready = [getattr(code, 'value', code) for code in granted] == [1]
        if self.ready:
            print('ready', flush=True)
        else:
            self.cause, self.over = 'denied', True

    def on_disconnect(self, client, userdata, code, properties=None):
        if not self.over:
            self.end_for(getattr(code, 'value', code) if self.v5 and not isinstance(code, int) else -1)

    def report(self):
        if time.monotonic() < self.next_report:
            return
        self.next_report += ((time.monotonic() - self.next_report) // self.interval + 1) * self.interval
        if self.ready:
            self.client.publish(f'{self.prefix}{self.id}/status', json.dumps({'up': int(time.monotonic())}))

    def live(self):
        """One connection, or an attempt at one, until it ends; returns how long it has lived."""
        self.ready = self.over = False
        self.cause, began, ready_since = 'broken', time.monotonic(), None
        try:
            if self.v5:
                properties = Properties(PacketTypes.CONNECT)
                properties.SessionExpiryInterval = SESSION_EXPIRY
                self.client.connect(self.o.host, self.o.port, self.o.keep_alive, clean_start=False, properties=properties)
            else:
                self.client.connect(self.o.host, self.o.port, self.o.keep_alive)
            while not (self.over or self.stopping):
                if self.client.loop(max(0.0, min(1.0, self.next_report - time.monotonic()))) != mqtt.MQTT_ERR_SUCCESS:
                    break
                self.report()
                if self.ready and ready_since is None:
                    ready_since = time.monotonic()
                if not self.ready and time.monotonic() - began > 30:
                    break
        except OSError as e:
            print('connection ended:', e, flush=True)
        self.client.disconnect()
        return time.monotonic() - ready_since if ready_since is not None else 0.0

    def sleep(self, seconds):
        end = time.monotonic() + seconds
        while not self.stopping and time.monotonic() < end:
            time.sleep(min(0.2, max(0.0, end - time.monotonic())))

    def stop(self, *ignored):
        self.stopping = True

    def run(self):
        o, failures = self.o, 0
        # When power comes back to all of them, neither connections nor reports must come at once.
        boot, phase = random.uniform(0, o.boot), random.uniform(0, self.interval)
        print(f'boot: {boot:.6f} s of at most {o.boot:.6f} s, first report {phase:.6f} s later, every {self.interval:.6f} s', flush=True)
        self.sleep(boot)
        self.next_report = time.monotonic() + phase
        while not self.stopping:
            if self.live() >= o.stable:
                failures = 0
            if self.stopping:
                break
            if self.cause == 'denied':  # does not heal by itself
                low, window = o.long_pause / 2, o.long_pause
            else:
                low, window = 0, min(o.cap, o.base_pause * 2 ** failures) * (4 if self.cause == 'busy' else 1)
            failures = min(failures + 1, 30)
            pause = random.uniform(low, window)
            print(f'pause {pause:.6f} s of at most {window:.6f} s', flush=True)
            self.sleep(pause)


def main(kind=Device):
    p = argparse.ArgumentParser()
    p.add_argument('--host', default='localhost')
    p.add_argument('-p', '--port', type=int, default=1883)
    p.add_argument('-u', '--user', required=True, metavar='TENANT/DEVICE')
    p.add_argument('--password-file', metavar='FILE', help='its first line is the password')
    p.add_argument('--ca-file', metavar='FILE', help='TLS: certificates that vouch for the server')
    p.add_argument('--prefix', help="prefix of the tenant's topics (TENANT/)")
    p.add_argument('--client-id', metavar='ID')
    p.add_argument('--mqtt311', action='store_true', help='speak MQTT 3.1.1 instead of 5')
    p.add_argument('--memory', metavar='FILE', help='which commands were begun (DEVICE.seen)')
    for name, default, text in (('tolerance', 5, "the device's clock may be wrong by so much"), ('boot', 10, 'wait at random up to so long'),
                                ('interval', 60, 'between reports'), ('base-pause', 1, 'first window of back-off'), ('cap', 60, 'largest window'),
                                ('stable', 30, 'a connection that lived so long makes up for failures'),
                                ('long-pause', 600, 'after a refusal that does not heal by itself'), ('clock-offset', 0, 'for tests: the clock is wrong by so much')):
        p.add_argument('--' + name, type=float, default=default, metavar='SECONDS', help=f'{text} ({default})')
    p.add_argument('--keep-alive', type=int, default=60, metavar='SECONDS')
    p.add_argument('--seed', type=int, help='for tests: of all that is random')
    o = p.parse_args()
    random.seed(o.seed)
    device = kind(o)
    signal.signal(signal.SIGTERM, device.stop)
    signal.signal(signal.SIGINT, device.stop)
    device.run()


if __name__ == '__main__':
    main()
