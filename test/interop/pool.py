#!/usr/bin/python3
"""Servers in stock for tests that start a broker each time and wait two seconds for it.

usage: pool.py BIN TEMPLATE SOCKET PORTS

BIN has PostgreSQL's programs, TEMPLATE is the folder of a server by script/cluster that was stopped, with stream, mount and
the profile's settings in it.  Copies of it are started in advance.  The launcher (mosquitto in this folder) connects to
SOCKET for each broker that is wanted, sends its command line as JSON, and is told when the port is open; "hup" reloads,
"stop" or the end of the connection stops the server.  A server whose tests wanted persistence is started again at once, so
that it is in stock, with its data, when they come back for it.

PORTS is the folder in which the scripts of this project reserve ports (fl_free_port in script/lib.sh).

options.py says which settings are made of which options.
"""
import json
import os
import queue
import random
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time

import options

STOCK = 2
PATIENCE = 120  # seconds; machines may be busy
DULL = re.compile(r'listens (for|on)|can hold|limit of open files|sessions are known|session journal|launcher|parameter|resource manager|Unix socket')


def reserve(folder, port):
    """For the next two minutes."""
    with open(os.path.join(folder, str(port)), 'w', encoding='utf-8'):
        pass


def free_port(folder):
    """As fl_free_port does it."""
    for _ in range(1000):
        port = random.randrange(20000, 32000)
        path = os.path.join(folder, str(port))
        try:
            if time.time() - os.stat(path).st_mtime > 120:
                os.unlink(path)
        except FileNotFoundError:
            pass
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            with socket.socket() as s:
                s.bind(('127.0.0.1', port))
                s.listen(1)
                return port
        except OSError:
            pass
    raise RuntimeError('found no free port')


def accepts(port):
    with socket.socket() as s:
        return s.connect_ex(('127.0.0.1', port)) == 0


def wait_until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f'waited in vain for {what}')
        time.sleep(0.01)


class Server:
    number = 0
    living = set()

    def __init__(self, bindir, template, ports):
        Server.number += 1
        self.ports = ports
        self.bin, self.dir = bindir, os.path.join(os.path.dirname(template), f'broker{Server.number}')
        self.data, self.log = os.path.join(self.dir, 'data'), os.path.join(self.dir, 'log')
        os.mkdir(self.dir)
        subprocess.run(['cp', '-a', '--reflink=auto', os.path.join(template, 'data'), self.data], check=True)
        with open(os.path.join(self.data, 'postgresql.conf'), 'a', encoding='utf-8') as file:
            file.write("include 'broker.conf'\n")
        self.process = None
        self.parked = 0
        self.start()

    def write_settings(self, settings):
        lines = [f"unix_socket_directories = '{self.dir}'\n"]
        lines += [f"{name} = '{value}'\n" for name, value in settings.items()]
        with open(os.path.join(self.data, 'broker.conf'), 'w', encoding='utf-8') as file:
            file.writelines(lines)

    def start(self):
        """Up and warm, on a port that nobody knows; its end will tell that new settings are in force."""
        self.parked = free_port(self.ports)
        self.write_settings({'fleetlog.mqtt_listen': self.parked})
        self.run()
        wait_until('the front door', lambda: accepts(self.parked))

    def run(self):
        with open(self.log, 'a', encoding='utf-8') as log:
            self.process = subprocess.Popen([os.path.join(self.bin, 'postgres'), '-D', self.data], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        Server.living.add(self)

    def sql(self, statements):
        with open(os.path.join(self.data, 'postmaster.pid'), encoding='utf-8') as file:
            port = file.read().splitlines()[3]
        subprocess.run([os.path.join(self.bin, 'psql'), '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-h', self.dir, '-p', port, '-U', 'postgres',
                        '-d', 'fleetlog', '-f', '-'], input=statements, text=True, check=True, stdout=subprocess.DEVNULL)

    def configure(self, wish):
        wish.copy_files(self.data)
        if wish.sql:
            self.sql('\n'.join(wish.sql))
        self.write_settings(wish.settings)
        if wish.restart:
            self.stop()
            self.run()
        else:
            self.process.send_signal(signal.SIGHUP)
            wait_until('the reload', lambda: not accepts(self.parked))
        wait_until('the ports', lambda: all(accepts(port) for port in wish.ports))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait()
        Server.living.discard(self)

    def problems(self):
        """What no test should ever make a server say."""
        with open(self.log, encoding='utf-8', errors='replace') as file:
            return [line for line in file if 'PANIC' in line or 'TRAP' in line or 'was terminated by signal' in line]

    def tail(self):
        """What it said to its clients, without what each start and end says."""
        with open(self.log, encoding='utf-8', errors='replace') as file:
            return ''.join(line for line in file if 'fleetlog' in line and not DULL.search(line))[-8000:]

    def remove(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class Pool:
    def __init__(self, bindir, template, ports):
        self.bin, self.template, self.ports = bindir, template, ports
        self.stock = queue.Queue(STOCK)
        self.filled = threading.Event()
        self.kept = {}
        threading.Thread(target=self.fill, daemon=True).start()

    def fill(self):
        while True:
            server = Server(self.bin, self.template, self.ports)
            self.stock.put(server)

    def take(self, key):
        """The server that was kept for that file if the file is still there, else a new one."""
        kept = self.kept.pop(key, None) if key else None
        if kept and os.path.exists(key):
            return kept
        if kept:
            kept.remove()
        return self.stock.get()

    def give_back(self, server, key):
        if key:
            server.stop()
            server.start()
            self.kept[key] = server
            with open(key, 'w', encoding='utf-8') as file:
                file.write('kept in a database\n')
        else:
            server.remove()

    def wait_for_stock(self):
        wait_until('a server in stock', lambda: not self.stock.empty())


class Session(socketserver.StreamRequestHandler):
    """One broker from its start to its end."""

    def say(self, **message):
        self.wfile.write(json.dumps(message).encode() + b'\n')

    def handle(self):
        pool = self.server.pool
        asked = json.loads(self.rfile.readline())
        wish = options.translate(asked['arguments'], asked['folder'])
        server = pool.take(wish.key)
        try:
            server.configure(wish)
            for port in wish.ports:
                reserve(server.ports, port)
            self.say(ready=True, notes=wish.notes)
            while True:
                word = self.rfile.readline().strip()
                if word == b'hup':
                    server.process.send_signal(signal.SIGHUP)
                else:
                    break
        except Exception as problem:
            self.say(failed=str(problem), log=server.tail())
            server.remove()
            raise
        status = 1 if server.process.poll() is not None else 0
        # The script may come back for them.
        for port in wish.ports:
            reserve(server.ports, port)
        server.stop()
        problems = server.problems()
        log = server.tail()
        pool.give_back(server, wish.key)
        pool.wait_for_stock()
        if problems:
            print('\n'.join(problems), file=sys.stderr, flush=True)
        try:
            self.say(stopped=True, status=1 if problems else status, log=log)
        except BrokenPipeError:
            pass


class Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def main():
    bindir, template, path, ports = sys.argv[1:5]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Listener(path, Session) as listener:
        listener.pool = Pool(bindir, template, ports)
        try:
            listener.pool.wait_for_stock()
            print(f'ready {os.getpid()}', flush=True)
            listener.serve_forever()
        finally:
            for server in list(Server.living):
                server.process.send_signal(signal.SIGQUIT)


if __name__ == '__main__':
    main()
