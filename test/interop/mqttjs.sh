#!/usr/bin/env bash
# test/interop/mqttjs.sh: the clients of mqtt.js (TCP, TLS, client certificate, pre-shared key, WebSocket) against a throwaway server.
#
# usage: test/interop/mqttjs.sh [FOLDER]
#
# FOLDER is where mqtt.js is installed (FOLDER/node_modules/mqtt); without it, npm fetches version 5.  Where there is no
# node, or npm's registry cannot be reached, a line that begins with "skipped" says so, and the exit code is 77.
# What is in the stream afterwards is compared with what was sent.

. "$(dirname "$0")/../../script/lib.sh"

COUNT=20
ROWS=54

skip()
{
    echo "skipped: $*"
    exit 77
}

command -v node >/dev/null || skip "node is not installed"
fl_prepare
fl_build
work=$(mktemp -d "$FL_WORK/mqttjs.XXXXXX")
if fl_is_root; then chown "$FL_USER": "$work"; fi
chmod 755 "$work"

clean()
{
    "$FL_TOP/script/cluster" down "$work/server" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean EXIT

folder=${1:-}
if [ -z "$folder" ]; then
    command -v npm >/dev/null || skip "npm is not installed"
    folder=$work/npm
    fl_as mkdir -p "$folder"
    fl_as timeout 120 npm install --prefix "$folder" --no-audit --no-fund --silent mqtt@5 >"$work.log" 2>&1 || { cat "$work.log"; rm -f "$work.log"; skip "npm's registry cannot be reached"; }
    rm -f "$work.log"
fi
[ -d "$folder/node_modules/mqtt" ] || fl_die "$folder has no node_modules/mqtt"

# A CA, the server's certificate, a client's.
issue()
{
    local name=$1 subject=$2

    fl_as openssl req -newkey rsa:2048 -nodes -subj "$subject" -addext 'subjectAltName=DNS:localhost' -keyout "$work/$name.key" -out "$work/$name.csr" 2>/dev/null
    fl_as openssl x509 -req -in "$work/$name.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" -CAcreateserial -copy_extensions copy -days 2 -out "$work/$name.crt" 2>/dev/null
}
fl_as openssl req -x509 -newkey rsa:2048 -nodes -subj "/CN=test CA" -days 2 -keyout "$work/ca.key" -out "$work/ca.crt" 2>/dev/null
issue server /CN=localhost
issue c1 "/CN=device one"

tls=$(fl_free_port); ws=$(fl_free_port); wss=$(fl_free_port)
uri=$("$FL_TOP/script/cluster" up --mqtt 0 --set "fleetlog.mqtts_listen=127.0.0.1:$tls" --set "fleetlog.ws_listen=127.0.0.1:$ws" \
    --set "fleetlog.wss_listen=127.0.0.1:$wss" --set "fleetlog.tls_cert_file=$work/server.crt" --set "fleetlog.tls_key_file=$work/server.key" \
    --set "fleetlog.tls_ca_file=$work/ca.crt" --set fleetlog.tls_psk=on "$work/server" | tail -n 1)
sql()
{
    fl_as "$FL_BIN/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d "$uri" -c "$1"
}
sql "SELECT fleetlog.create_stream('telemetry'); SELECT fleetlog.create_tenant('acme', 'acme/'); SELECT fleetlog.mount('acme/', 'telemetry');
     SELECT fleetlog.create_device('d1', 'acme', password => 'pw-d1'); SELECT fleetlog.create_device('c1', 'acme', certificate_subject => 'device one');
     SELECT fleetlog.create_device('p1', 'acme', psk => '\\x00112233445566778899aabbccddeeff')" >/dev/null
for port in "$tls" "$ws" "$wss"; do fl_wait 60 fl_accepts "$port" || fl_die "port $port does not accept"; done

status=0
fl_as env NODE_PATH="$folder/node_modules" node "$FL_SOURCE/test/interop/mqttjs.js" "$work" "$(cat "$work/server/mqtt"),$tls,$ws,$wss" || status=$?
stored=$(sql "SELECT count(*) FROM (SELECT key FROM telemetry WHERE key LIKE 'acme/%/mqttjs-%' GROUP BY key HAVING count(*) = $COUNT AND count(DISTINCT payload) = $COUNT) s")
[ "$stored" -eq $ROWS ] || { echo "not ok: $stored of $ROWS topics have their $COUNT records in the stream"; status=1; }
[ $status -ne 0 ] || echo "mqtt.js: $ROWS rows passed"
exit "$status"
