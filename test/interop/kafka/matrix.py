#!/usr/bin/python3
# matrix.py: what a Kafka client of others has to do against a server, compared with the stream by SQL (README.md).
#
# usage: matrix.py BROKER USER PASSWORD PSQL-COMMAND NAME -- PROGRAM...
#
# PSQL-COMMAND is one word, split at blanks, that answers a statement on its standard input.  Each step prints a line,
# "ok NAME/step", "FAILED NAME/step: why" or "skipped NAME/step: why"; the exit code is that of the worst.
import json
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time

TIMEOUT = 120
TEXT = b'text that repeats, and repeats, and repeats ' * 20


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Matrix:
    def __init__(self, broker, user, password, psql, name, program):
        self.broker, self.name, self.psql, self.program = broker, name, shlex.split(psql), program
        self.login = [broker, user, password]
        self.about = json.loads(self.run(['about'])[0])
        self.failed = False

    def run(self, args, given=''):
        p = subprocess.run(self.program + args, input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
        if p.returncode != 0:
            raise Failed('%s: %s' % (args[0], (p.stderr or p.stdout)[-400:]))
        return p.stdout.splitlines()

    def sql(self, text):
        p = subprocess.run(self.psql, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
        if p.returncode != 0:
            raise Failed(p.stderr)
        return p.stdout.rstrip('\n')

    def create(self, topic):
        self.sql('SELECT fleetlog.create_stream(\'%s\', shards => 4, timestamp_type => \'create\'); GRANT SELECT, INSERT ON "%s" TO "%s";' %
                 (topic, topic, self.login[1]))

    def produce(self, topic, records, codec='none', idempotent=False):
        lines = ''.join(json.dumps(r) + '\n' for r in records)
        return [json.loads(x) for x in self.run(['produce', *self.login, topic, codec, 'yes' if idempotent else 'no'], lines)]

    # Records as SQL has them, as far as clients can tell them.
    def stored(self, topic):
        rows = self.sql('''SELECT json_build_object('partition', shard, 'offset', log_offset,
            'key', encode(coalesce(key_bytes, convert_to(key, 'UTF8')), 'hex'), 'value', encode(payload, 'hex'),
            'time', floor(extract(epoch FROM coalesce(created, ts)) * 1000)::bigint,
            'headers', coalesce((SELECT json_agg(json_build_array(h.name, encode(h.value, 'hex')) ORDER BY h.ordinal)
                                 FROM fleetlog.headers_array(headers) h), '[]'))
            FROM "%s" ORDER BY shard, log_offset;''' % topic)
        return [json.loads(x) for x in rows.splitlines()]

    def records(self):
        records = [{'key': 'fffec3', 'value': '00ff00', 'headers': [['a', 'fe'], ['b', '']], 'time': 1700000000123},
                   {'key': '6b31', 'value': None, 'headers': [], 'time': 1700000000124},
                   {'key': None, 'value': '6e6f206b6579', 'headers': [], 'partition': 1, 'time': 1700000000125},
                   {'key': '6b32', 'value': '', 'headers': [['fl.tenant', '78']], 'time': 1700000000126}]
        if self.about.get('repeated_header', True):
            records[0]['headers'].insert(1, ['a', '32'])
        if self.about['null_header']:
            records[0]['headers'].append(['n', None])
        return records + [{'key': ('key%d' % i).encode().hex(), 'value': TEXT.hex(), 'headers': [], 'time': 1700000001000 + i} for i in range(40)]

    def same(self, got, expected, what, names=('key', 'value', 'headers', 'time')):
        def lines(records):
            return sorted(json.dumps([r.get(n) for n in names]) for r in records)
        a, b = lines(got), lines(expected)
        if a != b:
            only = ['got %s' % x for x in a if x not in b][:3] + ['expected %s' % x for x in b if x not in a][:3]
            raise Failed('%s: %d records instead of %d; %s' % (what, len(a), len(b), '; '.join(only)))

    # ---- steps ----

    def compression(self, codec):
        if codec not in self.about['codecs']:
            raise Skipped('the client has none')
        topic = '%s-%s' % (self.name, codec)
        self.create(topic)
        sent = self.records()
        self.produce(topic, sent, codec)
        stored = self.stored(topic)
        self.same(stored, sent, 'SQL')
        if self.sql("SELECT sum(off_key_records) FROM fleetlog.stat_stream WHERE stream = '\"%s\"'::regclass;" % topic) != '0':
            raise Failed('records are off the shard of their key')
        got = [json.loads(x) for x in self.run(['consume', *self.login, topic, 'all-' + topic, str(len(sent))])]
        self.same([r for r in got if 'offset' in r], stored, 'read back', ('partition', 'offset', 'key', 'value', 'headers', 'time'))
        if self.sql("SELECT sum(log_offset) FROM fleetlog.consumer_position WHERE consumer = 'all-%s';" % topic) != str(len(sent)):
            raise Failed('what is committed is not what was read: %s' % self.sql("SELECT string_agg(shard || ':' || log_offset, ' ') FROM fleetlog.consumer_position WHERE consumer = 'all-%s';" % topic))

    # Two members share the partitions, one is killed, the other takes over; nothing is left out.
    def group(self):
        topic, group = self.name + '-group', 'team-' + self.name
        self.create(topic)
        members = [Member(self, topic, group)]
        try:
            members[0].wait_for([0, 1, 2, 3])
            self.produce(topic, self.records())
            members.append(Member(self, topic, group))
            members[1].wait_until(lambda: len(members[0].mine) == len(members[1].mine) == 2 and
                                  sorted(members[0].mine + members[1].mine) == [0, 1, 2, 3], 'each to have two')
            self.produce(topic, self.records())
            members[0].process.kill()
            members[1].wait_for([0, 1, 2, 3])
            self.produce(topic, self.records())
            n = int(self.sql('SELECT count(*) FROM "%s";' % topic))
            members[1].wait_until(lambda: len(members[0].seen | members[1].seen) == n, 'all records to be read')
        finally:
            for m in members:
                m.process.kill()

    def admin(self):
        topic = self.name + '-admin'
        did = json.loads(self.run(['admin', *self.login, topic])[-1])
        if 'team-' + self.name not in did.pop('groups'):
            raise Failed('the group is not listed')
        if did != {'partitions': 3, 'retention': ['3600000', '7200000'], 'gone': True}:
            raise Failed(str(did))
        if self.sql("SELECT count(*) FROM fleetlog.stream WHERE name = '%s';" % topic) != '0':
            raise Failed('the topic is still there')

    def idempotent(self):
        if not serves(self.broker, 22):
            raise Skipped('InitProducerId is not served')
        topic = self.name + '-once'
        self.create(topic)
        sent = self.records()
        self.produce(topic, sent, 'none', True)
        self.same(self.stored(topic), sent, 'SQL')

    def step(self, name, function, *args):
        try:
            function(*args)
            print('ok %s/%s' % (self.name, name), flush=True)
        except Skipped as e:
            print('skipped %s/%s: %s' % (self.name, name, e), flush=True)
        except (Failed, subprocess.TimeoutExpired) as e:
            self.failed = True
            print('FAILED %s/%s: %s' % (self.name, name, ' '.join(str(e).split())), flush=True)


# A consumer that goes on until it is killed.
class Member:
    def __init__(self, matrix, topic, group):
        self.mine, self.seen = [], set()
        self.process = subprocess.Popen(matrix.program + ['consume', *matrix.login, topic, group, '0'], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                what = json.loads(line)
            except ValueError:
                continue
            if 'offset' in what:
                self.seen.add((what['partition'], what['offset']))
            elif 'assigned' in what:
                # Cooperative clients tell what is new.
                self.mine = sorted(set(self.mine) | set(what['assigned'])) if what.get('more') else what['assigned']
            elif 'revoked' in what:
                self.mine = [p for p in self.mine if p not in what['revoked']]

    def wait_until(self, condition, what):
        end = time.monotonic() + TIMEOUT
        while not condition():
            if self.process.poll() is not None:
                raise Failed('a consumer has ended')
            if time.monotonic() > end:
                raise Failed('gave up waiting for %s; it has %s' % (what, self.mine))
            time.sleep(0.05)

    def wait_for(self, partitions):
        self.wait_until(lambda: self.mine == partitions, 'a consumer to have %s' % partitions)


# Does the broker announce this request?  ApiVersions of version 0, which needs no login.
def serves(broker, key):
    host, port = broker.rsplit(':', 1)
    with socket.create_connection((host, int(port)), 10) as s:
        body = struct.pack('>hhih', 18, 0, 1, -1)
        s.sendall(struct.pack('>i', len(body)) + body)
        f = s.makefile('rb')
        answer = f.read(struct.unpack('>i', f.read(4))[0])
    n = struct.unpack('>i', answer[6:10])[0]
    return key in [struct.unpack('>h', answer[10 + 6 * i:12 + 6 * i])[0] for i in range(n)]


def main():
    broker, user, password, psql, name, dashes, *program = sys.argv[1:]
    assert dashes == '--'
    m = Matrix(broker, user, password, psql, name, program)
    print('version %s: %s' % (name, m.about['version']), flush=True)
    for codec in ('none', 'gzip', 'snappy', 'lz4', 'zstd'):
        m.step(codec, m.compression, codec)
    m.step('group', m.group)
    m.step('admin', m.admin)
    m.step('idempotent', m.idempotent)
    sys.exit(1 if m.failed else 0)


main()
