"""What of Mosquitto's command line and configuration file is meant, in settings and SQL of fleetlog.

translate() never fails because of an option without a counterpart: it makes a note of it, which the launcher prints, and
the test shows whether it mattered.
"""
import base64
import hashlib
import os
import re
import secrets

# Options that mean a setting with the same value.
SETTINGS = {
    'max_inflight_messages': 'fleetlog.max_inflight',
    'max_packet_size': 'fleetlog.max_packet_size',
    'max_queued_messages': 'fleetlog.max_queued_messages',
    'max_queued_bytes': 'fleetlog.max_queued_size',
    'max_keepalive': 'fleetlog.max_keep_alive',
}
# Those that change nothing that a client could see, or that are handled together with others.
SILENT = {'per_listener_settings', 'log_type', 'sys_interval', 'psk_hint', 'persistence'}
# Who has a key is a device, and a device is confined to its tenant's topics: those of the one script that has keys.
TENANT = "SELECT fleetlog.create_tenant('keys', 'psk/'), fleetlog.allow('keys', 'publish', 'psk/#');"


class Wish:
    def __init__(self):
        self.settings = {}
        self.sql = []
        self.files = {}     # name in the data folder: what it is made of
        self.notes = []
        self.ports = []
        self.key = None     # the persistence file
        self.restart = False

    def copy_files(self, data):
        """Keys must be readable by the server's user only, which a checkout's are not."""
        for name, sources in self.files.items():
            with open(os.path.join(data, name), 'wb', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                for source in sources:
                    with open(source, 'rb') as part:
                        file.write(part.read())

    def file(self, name, *sources):
        present = [source for source in sources if source and os.path.exists(source)]
        self.files[name] = present
        self.notes += [f'no file {source}' for source in sources if source and source not in present]


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def words_of(script):
    """What a test's author may have taken for a password: the strings of the script."""
    try:
        with open(script, encoding='utf-8', errors='replace') as file:
            return {a or b for a, b in re.findall(r'"([^"\n]*)"|\'([^\'\n]*)\'', file.read())} | {''}
    except OSError:
        return set()


def password_of(verifier, words):
    """Which of the words a verifier of mosquitto_passwd was made from: a hash cannot be carried over, its word can."""
    parts = verifier.split('$')
    try:
        if parts[1] == '6':
            salt, digest = map(base64.b64decode, parts[2:4])
            return next((word for word in words if hashlib.sha512(word.encode() + salt).digest() == digest), None)
        if parts[1] == '7':
            salt, digest = map(base64.b64decode, parts[3:5])
            return next((word for word in words if hashlib.pbkdf2_hmac('sha512', word.encode(), salt, int(parts[2])) == digest), None)
    except (IndexError, ValueError):
        pass
    return None


def add_users(wish, path, words):
    """Users become roles that may do what users may there; one whose password is not among the words has one that nobody knows."""
    with open(path, encoding='utf-8', errors='replace') as file:
        lines = file.read().splitlines()
    for line in lines:
        name, colon, verifier = line.partition(':')
        if not name or not colon or line.startswith('#'):
            continue
        role = '"' + name.replace('"', '""') + '"'
        password = password_of(verifier, words) or secrets.token_hex()
        wish.sql.append(f'CREATE ROLE {role} LOGIN PASSWORD {quote(password)}; GRANT SELECT, INSERT ON telemetry TO {role};')


def add_keys(wish, path):
    """The tests' keys are shorter than create_device() allows, so they go past it."""
    with open(path, encoding='utf-8') as file:
        lines = [line.strip() for line in file if ':' in line]
    wish.sql.append(TENANT)
    for line in lines:
        name, key = line.split(':', 1)
        wish.sql.append(f"SELECT fleetlog.create_device({quote(name)}, 'keys', password => gen_random_uuid()::text);")
        wish.sql.append(f"INSERT INTO fleetlog.credential (tenant, device, kind, verifier) VALUES ('keys', {quote(name)}, 'psk', {quote(key)});")


def add_tls(wish, listener, folder):
    def path(name):
        return os.path.join(folder, listener[name])

    if 'certfile' in listener:
        # There the CAs' file is part of what the server shows.
        wish.file('server.crt', path('certfile'), path('cafile') if 'cafile' in listener else None)
        wish.file('server.key', path('keyfile'))
        wish.settings.update({'fleetlog.tls_cert_file': 'server.crt', 'fleetlog.tls_key_file': 'server.key'})
    if 'cafile' in listener and (listener.get('require_certificate') == 'true' or 'crlfile' in listener):
        wish.file('ca.crt', path('cafile'))
        wish.settings['fleetlog.tls_ca_file'] = 'ca.crt'
    if listener.get('require_certificate') == 'true':
        wish.settings['fleetlog.tls_require_certificate'] = 'on'
    if 'crlfile' in listener:
        wish.file('crl.pem', path('crlfile'))
        wish.settings['fleetlog.tls_crl_file'] = 'crl.pem'
    for name, identity in (('use_identity_as_username', 'cn'), ('use_subject_as_username', 'subject')):
        if listener.get(name) == 'true':
            wish.settings['fleetlog.tls_identity'] = identity
            # Every certificate is a user there.  Here one that no device has is anonymous, where that is allowed.
            if listener.get('require_certificate') == 'true':
                wish.settings['fleetlog.allow_anonymous'] = 'on'
    if 'psk_file' in listener or 'psk_hint' in listener:
        wish.settings['fleetlog.tls_psk'] = 'on'


TLS = {'cafile', 'certfile', 'keyfile', 'require_certificate', 'crlfile', 'use_identity_as_username', 'use_subject_as_username', 'psk_hint'}


def read(path):
    with open(path, encoding='utf-8') as file:
        for line in file.read().splitlines():
            name, _, value = line.strip().partition(' ')
            if name and not name.startswith('#'):
                yield name, value.strip()


def from_file(wish, path, folder):
    listeners, others = [], {}
    for name, value in read(path):
        if name in ('port', 'listener'):
            listeners.append({'port': int(value.split()[0])})
        elif name in TLS and listeners:
            listeners[-1][name] = value
        else:
            others[name] = value
    wish.settings['fleetlog.allow_anonymous'] = 'on' if others.pop('allow_anonymous', 'false') == 'true' else 'off'
    words = words_of(re.sub(r'\.conf$', '.py', path))
    for name, value in others.items():
        if name in SETTINGS:
            wish.settings[SETTINGS[name]] = value
        elif name == 'max_connections':
            wish.settings['fleetlog.max_connections'] = value
            wish.restart = True
        elif name == 'message_size_limit':
            wish.sql.append(f"SELECT fleetlog.alter_mount('', max_payload_bytes => {int(value)});")
        elif name == 'retain_available':
            if value == 'false':
                wish.sql.append("SELECT fleetlog.unmount(''); SELECT fleetlog.mount('', 'telemetry');")
        elif name == 'password_file':
            add_users(wish, os.path.join(folder, value), words)
        elif name == 'psk_file':
            add_keys(wish, os.path.join(folder, value))
        elif name == 'persistence_file':
            wish.key = os.path.join(folder, value)
        elif name not in SILENT:
            wish.notes.append(f'no counterpart of option {name} {value}')
    plain = [l for l in listeners if not ({'certfile', 'psk_hint'} & set(l))]
    secure = [l for l in listeners if {'certfile', 'psk_hint'} & set(l)]
    wish.settings['fleetlog.mqtt_listen'] = ','.join(str(l['port']) for l in plain)
    wish.settings['fleetlog.mqtts_listen'] = ','.join(str(l['port']) for l in secure)
    for listener in secure:
        add_tls(wish, listener, folder)
    wish.ports = [l['port'] for l in listeners]


def translate(arguments, folder):
    """-p PORT or -c FILE; -v is taken and means nothing."""
    wish = Wish()
    rest = iter(arguments)
    for argument in rest:
        if argument == '-p':
            wish.ports = [int(next(rest))]
            wish.settings.update({'fleetlog.mqtt_listen': wish.ports[0], 'fleetlog.allow_anonymous': 'on'})
        elif argument == '-c':
            from_file(wish, os.path.join(folder, next(rest)), folder)
        elif argument != '-v':
            wish.notes.append(f'no counterpart of {argument}')
    return wish
