#!/usr/bin/python3
"""Byte sequences of a Mosquitto checkout (test/broker/data/*.json) against one broker: bytes that are sent, bytes that are
expected, and whether the connection is alive or closed at the end.

usage: sequences.py [--exact] [--only TEXT] PORT FOLDER

--exact compares every byte of an answer.  Without it an answer is read as a client would: where a DISCONNECT or a CONNACK
that refuses is expected, any of them will do, and so does a closed connection; a CONNACK that lets in may have other
properties; of acknowledgements identifier and success or failure count.  One line for each miss, the sum at the end.
"""
import argparse
import glob
import json
import os
import socket
import sys

CONNACK, PUBLISH, DISCONNECT = 2, 3, 14
ACKS = (4, 5, 6, 7)
WAIT = 5.0


class Miss(Exception):
    """What was seen instead of what was expected."""


def length(number):
    """A variable byte integer."""
    out = bytearray()
    while True:
        number, low = divmod(number, 128)
        out.append(low | (128 if number else 0))
        if not number:
            return bytes(out)


def text(value):
    raw = value.encode()
    return len(raw).to_bytes(2, 'big') + raw


def connect(client_id, version):
    body = text('MQIsdp' if version == 3 else 'MQTT') + bytes([version, 2, 0, 60])
    body += (b'\0' if version == 5 else b'') + text(client_id)
    return b'\x10' + length(len(body)) + body


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), timeout=WAIT)
        self.received = b''

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def fill(self):
        """More bytes; False: the other side has closed, which a reset says as well."""
        try:
            data = self.socket.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            data = b''
        except socket.timeout:
            raise Miss('nothing came') from None
        self.received += data
        return data != b''

    def take(self, count):
        while len(self.received) < count:
            if not self.fill():
                break
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def packet(self):
        """A whole packet; empty: closed."""
        head = self.take(1)
        if not head:
            return head
        size = shift = 0
        while True:
            byte = self.take(1)
            if not byte:
                return b''
            head += byte
            size |= (byte[0] & 127) << shift
            shift += 7
            if byte[0] < 128:
                break
        return head + self.take(size)

    def close(self):
        self.socket.close()


def body(packet):
    at = 1
    while packet[at] & 128:
        at += 1
    return packet[at + 1:]


def is_same(want, got):
    """Would a client take them for the same answer?"""
    kind = want[0] >> 4
    if want == got:
        return True
    if kind == DISCONNECT or (kind == CONNACK and body(want)[1] != 0):
        return not got or (got[0] >> 4 == kind and (kind == DISCONNECT or body(got)[1] != 0))
    if not got or got[0] != want[0]:
        return False
    want, got = body(want), body(got)
    if kind == CONNACK:
        return want[:2] == got[:2]
    if kind in ACKS:
        reasons = [packet[2] if len(packet) > 2 else 0 for packet in (want, got)]
        return want[:2] == got[:2] and (reasons[0] < 128) == (reasons[1] < 128)
    return False


def expect(client, want, exact):
    """True when the connection may be closed from here on without fault."""
    got = client.take(len(want)) if exact else client.packet()
    if got != want if exact else not is_same(want, got):
        raise Miss(f'wanted {want.hex()}, got {got.hex() or "a closed connection"}')
    return not got


def helper_publish(port, step):
    """Another client publishes a message, and waits until it is taken."""
    client = Client(port)
    try:
        client.send(connect('helper', 4))
        expect(client, bytes.fromhex('20020000'), True)
        qos, data = step['qos'], text(step['topic'])
        data += (b'\0\1' if qos else b'') + step['payload'].encode()
        client.send(bytes([0x30 | qos << 1]) + length(len(data)) + data)
        if qos:
            expect(client, bytes.fromhex('40020001' if qos == 1 else '50020001'), True)
        if qos == 2:
            client.send(bytes.fromhex('62020001'))
            expect(client, bytes.fromhex('70020001'), True)
    finally:
        client.close()


def run(test, name, port, exact):
    client = Client(port)
    gone = False
    try:
        if test.get('connect', True):
            version = test.get('ver', 4)
            client.send(connect(name, version))
            # Exactly what a Mosquitto of 2.0 lets clients know.
            expect(client, bytes.fromhex('2009000006' + '22000a' + '210014') if version == 5 else bytes.fromhex('20020000'), exact)
        for step in test['msgs']:
            data = bytes.fromhex(step.get('payload', '').replace(' ', '')) if step['type'] in ('send', 'recv') else b''
            if step['type'] == 'send':
                client.send(data)
            elif step['type'] == 'recv':
                gone = expect(client, data, exact) or gone
            elif step['type'] == 'publish':
                helper_publish(port, step)
            else:
                raise Miss(f'step "{step["type"]}" is not known')
        if test.get('expect_disconnect', True):
            last = b'' if gone else client.packet()
            # A word why may stand where the sequence says nothing but that it is the end.
            if last and (last[0] >> 4 != DISCONNECT or client.take(1)):
                raise Miss('still open')
        else:
            client.send(b'\xc0\0')
            if client.take(2) != b'\xd0\0':
                raise Miss('no answer to a ping')
    finally:
        client.close()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--exact', action='store_true')
    options.add_argument('--only', default='')
    options.add_argument('port', type=int)
    options.add_argument('folder')
    asked = options.parse_args()
    total = missed = 0
    for path in sorted(glob.glob(os.path.join(asked.folder, '*.json'))):
        with open(path, encoding='utf-8') as file:
            groups = json.load(file)
        for group in groups:
            if group.get('disable'):
                continue
            for test in group['tests']:
                name = f'{group["group"]} {test["name"]}'
                if asked.only not in name:
                    continue
                total += 1
                try:
                    run(test, name, asked.port, asked.exact)
                except (Miss, OSError) as problem:
                    missed += 1
                    print(f'miss {os.path.basename(path)} {name}: {problem}')
    print(f'{total - missed} of {total} sequences')
    return 1 if missed or not total else 0


if __name__ == '__main__':
    sys.exit(main())
