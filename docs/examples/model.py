#!/usr/bin/python3
"""A model outside the database, which answers the requests of a decision loop, or of a shadow model, over SQL.

It tells how likely it is that a pressure is too high, and is not deterministic on purpose: it answers the same question
differently each time, as large models do.  So what it said can only be known from where it was recorded.

It takes and answers in transactions of their own, and says nothing twice: whoever was slower than the lease is told that the
request has been answered.  Needs psql, SELECT on the stream of requests and INSERT on that of responses.
"""
import argparse
import json
import math
import random
import signal
import subprocess
import time


class Database:
    """One session of psql: a statement in, its rows as JSON out."""

    def __init__(self, psql, uri):
        self.psql = subprocess.Popen([psql, '-X', '-q', '-A', '-t', '-d', uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, bufsize=1)

    def rows(self, statement):
        self.psql.stdin.write(statement + ';\n\\echo end :SQLSTATE\n')
        self.psql.stdin.flush()
        said = []
        for line in self.psql.stdout:
            if line.startswith('end '):
                return line.split()[1], said
            said.append(line.rstrip('\n'))
        raise ConnectionError(' '.join(said) or 'psql has ended')


def quote(text):
    return "'" + text.replace("'", "''") + "'"


class Model:
    def __init__(self, o):
        self.o, self.database, self.stopping = o, Database(o.psql, o.database), False
        which = quote(o.loop) + (', ' + quote(o.shadow) if o.shadow else '')
        self.take = f'SELECT to_json(r) FROM fleetlog.next_{"shadow_" if o.shadow else ""}request({which}, 20) r'
        self.answer = f'fleetlog.answer_shadow({which}, ' if o.shadow else 'fleetlog.answer('

    def risk(self, ask):
        """The model itself: here yours begins."""
        if self.o.calls:
            with open(self.o.calls, 'a') as f:
                f.write(json.dumps(ask) + '\n')
        return round(1 / (1 + math.exp(self.o.threshold - ask['bar'] + random.gauss(0, self.o.noise))), 4)

    def answer_some(self):
        """Takes requests and answers them; returns how many there were."""
        state, rows = self.database.rows(self.take)
        if state != '00000':
            raise SystemExit('\n'.join(rows))
        for r in map(json.loads, rows):
            at = '({stream},{shard},{log_offset})'.format(**r['request'])
            response = json.dumps({'risk': self.risk(r['ask'])})
            state, said = self.database.rows(f"SELECT {self.answer}{quote(at)}, {r['lease']}, {quote(response)})")
            if state not in ('00000', 'LF601'):
                raise SystemExit('\n'.join(said))
            print(at, json.dumps(r['ask']), response, *([] if state == '00000' else ['was late']), flush=True)
        return len(rows)

    def stop(self, *ignored):
        self.stopping = True

    def run(self):
        while not self.stopping:
            if self.answer_some() == 0:
                if self.o.once:
                    break
                time.sleep(0.1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('loop', help='name of the decision loop')
    p.add_argument('-d', '--database', default='', metavar='URI', help='where the loop is, as psql takes it')
    p.add_argument('--psql', default='psql', metavar='PROGRAM')
    p.add_argument('--shadow', metavar='NAME', help='answer as this shadow model of the loop')
    p.add_argument('--threshold', type=float, default=6, metavar='BAR', help='pressure that it holds for even (6)')
    p.add_argument('--noise', type=float, default=0.5, help='how little it agrees with itself (0.5)')
    p.add_argument('--calls', metavar='FILE', help='a line is added to it each time that the model is asked')
    p.add_argument('--once', action='store_true', help='end when nothing is left to answer')
    o = p.parse_args()
    model = Model(o)
    signal.signal(signal.SIGTERM, model.stop)
    signal.signal(signal.SIGINT, model.stop)
    model.run()


if __name__ == '__main__':
    main()
