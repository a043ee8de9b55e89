# shellcheck shell=bash disable=SC2034,SC2154
# test/bench/parties.sh: the servers that script/bench loads: how each is started, and how one measurement of it is made.
#
# Sourced by script/bench, which sets dir, results, tool, table, settings, workers, shards, names and status.  Every
# start_* leaves a port and a process id; every measurement leaves FOLDER/SCENARIO.PARTY.json and prints a row.

# The users of scenarios "login" and "storm-password": dev-N with password secret-N, in both servers.
login_users=200
made_users=0
if runs login; then made_users=$login_users; fi
if runs storm-password; then made_users=$((crowd > login_users ? crowd : login_users)); fi

null_pid=; mosquitto_pid=; hub_pid=; bridge_pid=; nats_pid=

stop_parties()
{
    local pid

    for pid in $bridge_pid $null_pid $mosquitto_pid $hub_pid $nats_pid $kafka_pid; do kill "$pid" 2>/dev/null || true; done
    "$FL_TOP/script/cluster" down "$dir/server" >/dev/null 2>&1 || true
}

run_sql()
{
    fl_as "$FL_BIN/psql" -X -q -A -t -v ON_ERROR_STOP=1 -d "$uri" "$@"
}

make_folder()
{
    mkdir "$1"
    if fl_is_root; then chown "$FL_USER": "$1"; fi
}

# Runs a server in the background as FL_USER and leaves its own process id, not that of a runuser in between, in a file.
# Arguments: that file, its log, the command.
spawn()
{
    local pid_file=$1 log=$2

    shift 2
    fl_as sh -c "ulimit -n \$(ulimit -Hn); echo \$\$ >'$pid_file'; exec \"\$@\"" sh "$@" >"$log" 2>&1 &
}

# Also brings it up again.
bring_up_fleetlog()
{
    "$FL_TOP/script/cluster" up "$@" "$dir/server" >"$dir/up"
    uri=$(tail -n 1 "$dir/up")
    fleetlog_pid=$(sed -n 's/^postmaster //p' "$dir/up")
    fleetlog_port=$(sed -n 's/^mqtt .*:\([0-9]*\)$/\1/p' "$dir/up")
}

# Arguments: folder.  Of a kind that handshakes are cheap with, for everybody.
make_certificate()
{
    fl_as openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -keyout "$1/tls.key" -out "$1/tls.crt" 2>"$dir/openssl.log" || { cat "$dir/openssl.log" >&2; fl_die "openssl makes no certificate"; }
    fl_as chmod 600 "$1/tls.key"
}

# The bridge writes into this server, too, so it runs also when only the bridge is wanted.
start_fleetlog()
{
    make_folder "$dir/server"
    if runs idle-tls storm-tls; then
        make_certificate "$dir/server"
        fleetlog_tls_port=$(fl_free_port)
        settings+=(--set "fleetlog.mqtts_listen=127.0.0.1:$fleetlog_tls_port" --set "fleetlog.tls_cert_file=$dir/server/tls.crt"
                   --set "fleetlog.tls_key_file=$dir/server/tls.key")
    fi
    if wants_kafka; then
        fleetlog_kafka_port=$(fl_free_port)
        settings+=(--set "fleetlog.kafka_listen=127.0.0.1:$fleetlog_kafka_port")
    fi
    bring_up_fleetlog --workers "$workers" --set fleetlog.allow_anonymous=on --set shared_buffers=512MB \
        --set max_wal_size=4GB --set min_wal_size=2GB ${settings[@]+"${settings[@]}"}
    run_sql >/dev/null <<SQL
SELECT fleetlog.create_stream('bench', shards => $shards);
SELECT fleetlog.mount('bench/', 'bench');
SELECT fleetlog.create_stream('history', shards => $shards);
SELECT fleetlog.mount('history/', 'history');
SELECT fleetlog.create_tenant('bench', 'bench/');
SELECT fleetlog.create_stream('kept', shards => $shards);
SELECT fleetlog.create_state('kept_state');
SELECT fleetlog.mount('kept/', 'kept', state => 'kept_state');
CREATE TABLE unrelated (n int);
SQL
    fill_wal_pool
    if [ $made_users -gt 0 ]; then
        run_sql -o /dev/null -c "SELECT fleetlog.create_device('dev-' || n, 'bench', password => 'secret-' || n) FROM generate_series(0, $made_users - 1) n"
    fi
}

# A server that has run for a while renames old WAL segments; a fresh one fills each new one with zeroes and syncs it while
# every commit waits, some 30 ms.  This makes as many as min_wal_size keeps.
fill_wal_pool()
{
    run_sql -o /dev/null -c "SELECT pg_logical_emit_message(false, 'bench', 'x'), pg_switch_wal() FROM generate_series(1, 120)" -c CHECKPOINT -c CHECKPOINT
}

start_mosquitto()
{
    local n

    mosquitto_port=$(fl_free_port)
    mosquitto_login_port=$(fl_free_port)
    make_folder "$dir/mosquitto"
    for ((n = 0; n < made_users; n++)); do echo "bench/dev-$n:secret-$n"; done >"$dir/mosquitto/users"
    [ $made_users -eq 0 ] || mosquitto_passwd -U "$dir/mosquitto/users"
    cat >"$dir/mosquitto/conf" <<CONF
per_listener_settings true
persistence true
persistence_location $dir/mosquitto/
autosave_interval 10
set_tcp_nodelay true
log_dest none
listener $mosquitto_port 127.0.0.1
allow_anonymous true
listener $mosquitto_login_port 127.0.0.1
allow_anonymous false
password_file $dir/mosquitto/users
CONF
    if runs idle-tls storm-tls; then
        make_certificate "$dir/mosquitto"
        mosquitto_tls_port=$(fl_free_port)
        cat >>"$dir/mosquitto/conf" <<CONF
listener $mosquitto_tls_port 127.0.0.1
allow_anonymous true
certfile $dir/mosquitto/tls.crt
keyfile $dir/mosquitto/tls.key
CONF
    fi
    chmod 600 "$dir/mosquitto/users"
    if fl_is_root; then chown -R "$FL_USER": "$dir/mosquitto"; fi
    bring_up_mosquitto
}

bring_up_mosquitto()
{
    spawn "$dir/mosquitto/pid" "$dir/mosquitto/log" /usr/sbin/mosquitto -c "$dir/mosquitto/conf"
    fl_wait 20 fl_accepts "$mosquitto_port" || { cat "$dir/mosquitto/log" >&2; fl_die "mosquitto does not accept"; }
    mosquitto_pid=$(cat "$dir/mosquitto/pid")
}

# What a process once had it seldom gives back, so memory per connection can be told only by one that has had none yet.
fresh_servers()
{
    if wants fleetlog; then
        "$FL_TOP/script/cluster" down "$dir/server" >/dev/null
        bring_up_fleetlog
    fi
    if wants mosquitto; then
        kill "$mosquitto_pid"
        fl_wait 20 port_is_closed "$mosquitto_port" || fl_die "mosquitto does not end"
        bring_up_mosquitto
    fi
}

port_is_closed()
{
    ! fl_accepts "$1"
}

# The broker in front of the bridge: one of its own, whose queue has no end, since by default it would drop what the
# bridge cannot take at once.
start_hub()
{
    hub_port=$(fl_free_port)
    make_folder "$dir/hub"
    cat >"$dir/hub/conf" <<CONF
persistence true
persistence_location $dir/hub/
autosave_interval 10
set_tcp_nodelay true
max_queued_messages 0
max_inflight_messages 1000
log_dest none
listener $hub_port 127.0.0.1
allow_anonymous true
CONF
    spawn "$dir/hub/pid" "$dir/hub/log" /usr/sbin/mosquitto -c "$dir/hub/conf"
    fl_wait 20 fl_accepts "$hub_port" || { cat "$dir/hub/log" >&2; fl_die "the bridge's mosquitto does not accept"; }
    hub_pid=$(cat "$dir/hub/pid")
}

# JetStream on file storage, MQTT on.  A message is stored only where a session wants it, so one that is offline does.
start_nats()
{
    local native

    nats_port=$(fl_free_port)
    native=$(fl_free_port)
    make_folder "$dir/nats"
    cat >"$dir/nats/conf" <<CONF
server_name: bench
listen: 127.0.0.1:$native
max_payload: 8MB
jetstream { store_dir: "$dir/nats/store", max_mem: 64MB, max_file: 20GB }
mqtt { listen: "127.0.0.1:$nats_port" }
CONF
    spawn "$dir/nats/pid" "$dir/nats/log" nats-server -c "$dir/nats/conf"
    fl_wait 20 fl_accepts "$nats_port" || { cat "$dir/nats/log" >&2; fl_die "nats-server does not accept"; }
    nats_pid=$(cat "$dir/nats/pid")
}

# Where there are subscribers, the session that is offline would only take what they should get.
nats_session()
{
    local kept=-c

    [[ $1 != fan-* ]] || kept=
    mosquitto_sub -p "$nats_port" -i bench-offline $kept -q 1 -t 'bench/#' -E || fl_die "nats-server takes no subscription"
}

start_null()
{
    null_port=$(fl_free_port)
    spawn "$dir/null.pid" "$dir/null.log" "$tool/fl_null" -p "$null_port"
    fl_wait 20 fl_accepts "$null_port" || fl_die "fl_null does not accept"
    null_pid=$(cat "$dir/null.pid")
}

# One line: records in the stream, bytes of its tables, transaction ids, position in the WAL, batches.
fleetlog_state()
{
    run_sql -F ' ' -c "SELECT (SELECT sum(fleetlog.tail('$1', n)) FROM generate_series(0, $shards - 1) n),
                              (SELECT sum(pg_table_size(relid)) FROM pg_partition_tree('$1')),
                              (SELECT xids_used FROM fleetlog.stat_server),
                              pg_current_wal_insert_lsn() - '0/0',
                              (SELECT coalesce(sum(batches), 0) FROM fleetlog.stat_stream WHERE stream = '$1'::regclass)"
}

set_budget()
{
    if [ "$1" = fleetlog ]; then
        run_sql -c "ALTER SYSTEM SET fleetlog.max_xids_per_second = 0" -c "SELECT pg_reload_conf()" >/dev/null
    else
        run_sql -c "ALTER SYSTEM RESET fleetlog.max_xids_per_second" -c "SELECT pg_reload_conf()" >/dev/null
    fi
}

# Runs fl_load into a file.  What is not clean counts as a failure where the server is ours.
run_load()
{
    local what=$1 file=$2 ours=$3 ended=0

    shift 3
    fl_as "$tool/fl_load" --json --quiet "$@" >"$file" 2>"$dir/load.errors" || ended=$?
    if [ ! -s "$file" ]; then
        rm -f "$file"
        fl_note "$what gave no figures: $(head -n 3 "$dir/load.errors")"
        status=1
        return 1
    fi
    if [ $ended -ne 0 ] && [ "$ours" = yes ]; then
        fl_note "$what: something was lost, refused or left over"
        status=1
    fi
    return 0
}

number_of()
{
    sed -n "s/.*\"$1\":\\([0-9.]*\\).*/\\1/p" "$2"
}

# Where a scenario meets a party.
port_for()
{
    local port=$2_port

    case $1 in
        *-tls) port=$2_tls_port ;;
        login|storm-password) [ "$2" != mosquitto ] || port=mosquitto_login_port ;;
    esac
    echo "${!port}"
}

# Arguments: scenario, party, stream, options of fl_load.
load_fleetlog()
{
    local scenario=$1 party=$2 stream=$3 file=$results/$1.$2.json before=() after=() acked stored took

    shift 3
    set_budget "$party"
    # The first second makes segments and fills caches, and it is when the setting arrives.
    [ "$stream" = history ] || fl_as "$tool/fl_load" -p "$fleetlog_port" -t "$stream/warm-%d" -d 1 -c 10 --quiet >/dev/null || true
    read -r -a before < <(fleetlog_state "$stream")
    run_load "$scenario: $party" "$file" yes -p "$(port_for "$scenario" fleetlog)" --watch "$fleetlog_pid" "$@" || return 0
    read -r -a after < <(fleetlog_state "$stream")
    acked=$(number_of acked "$file")
    took=$(number_of publish_seconds "$file")
    stored=$((after[0] - before[0]))
    perl "$table" row "$scenario" "$party" "$file" "stored=$stored" \
        "xids_per_second=$(quotient $((after[2] - before[2])) "$took")" \
        "batches_per_second=$(quotient $((after[4] - before[4])) "$took")" \
        "records_per_batch=$(quotient $stored $((after[4] - before[4])))" \
        "wal_bytes_per_record=$(quotient $((after[3] - before[3])) $stored)" \
        "table_bytes_per_record=$(quotient $((after[1] - before[1])) $stored)"
    # QoS 0 promises nothing: a door may drop such a message after the ping that we count by was answered.
    if [[ $scenario == fan-*qos1 ]]; then check_deliveries "$scenario" "$file"; fi
    if [ "$stored" -lt "$acked" ] && [[ $scenario != *qos0* ]]; then
        fl_note "$scenario: $party acknowledged $acked messages and stored $stored"
        status=1
    elif [ "$stored" -lt "$acked" ]; then
        echo "    $((acked - stored)) of $acked messages of QoS 0 are not stored"
    fi
}

# At QoS 1 each subscriber gets everything that was acknowledged.
check_deliveries()
{
    local wanted=$(($(number_of acked "$2") * $(number_of subscribers "$2"))) came

    came=$(($(number_of received "$2") - $(number_of received_dup "$2")))
    if [ $came -lt $wanted ]; then
        fl_note "$1: $came of $wanted deliveries came"
        status=1
    fi
}

# Empty where the divisor is nothing: a figure that is not known.
quotient()
{
    perl -e 'print $ARGV[1] > 0 ? $ARGV[0] / $ARGV[1] : ""' -- "$1" "$2"
}

load_other()
{
    local scenario=$1 party=$2 port=$3 pid=$4 file=$results/$1.$2.json

    shift 4
    fl_as "$tool/fl_load" -p "$port" -d 1 -c 10 --quiet >/dev/null 2>&1 || true
    run_load "$scenario: $party" "$file" no -p "$port" --watch "$pid" "$@" || return 0
    perl "$table" row "$scenario" "$party" "$file"
}

bridge_figure()
{
    sed -n "s/.*$1 \\([0-9]*\\).*/\\1/p" "$dir/bridge.status" 2>/dev/null || true
}

# True when the bridge has committed all of so many messages, or has stood still for two seconds.
bridge_is_done()
{
    local committed

    committed=$(bridge_figure committed)
    [ "$committed" -lt "$1" ] || return 0
    if [ "$committed" != "$bridge_seen" ]; then bridge_seen=$committed; bridge_still=0; fi
    bridge_still=$((bridge_still + 1))
    [ $bridge_still -ge 20 ]
}

# Mosquitto, the bridge and a heap table of the stream's columns.  Its rate is that of rows committed, from the first
# message's arrival at the bridge to the last commit: what comes after the load has ended, when the bridge has a core of
# its own, counts too, in its favour.  The latency of its PUBACK is left out, since that promises nothing.
load_bridge()
{
    local scenario=$1 party=$2 file=$results/$1.$2.json batch=100 acked committed first last cpu_before cpu_after bytes wal_before wal_after

    shift 2
    [ "$party" = bridge ] || batch=${party#bridge-}
    run_sql -c 'SET client_min_messages = warning' -c 'DROP TABLE IF EXISTS bench_bridge' -c 'CREATE TABLE bench_bridge (LIKE bench)'
    rm -f "$dir/bridge.status"
    spawn "$dir/bridge.pid" "$dir/bridge.log" "$tool/fl_bridge" --uri "$uri" --port "$hub_port" --batch $batch --status "$dir/bridge.status"
    fl_wait 20 test -s "$dir/bridge.status" || { cat "$dir/bridge.log" >&2; fl_note "$scenario: the bridge does not start"; status=1; return 0; }
    bridge_pid=$(cat "$dir/bridge.pid")
    wal_before=$(run_sql -c "SELECT pg_current_wal_insert_lsn() - '0/0'")
    cpu_before=$(perl "$table" cpu "$hub_pid" "$bridge_pid" "$fleetlog_pid")
    run_load "$scenario: $party" "$file" no -p "$hub_port" "$@" || { kill "$bridge_pid"; bridge_pid=; return 0; }
    acked=$(number_of acked "$file")
    bridge_seen=-1; bridge_still=0
    fl_wait 300 bridge_is_done "$acked" || true
    cpu_after=$(perl "$table" cpu "$hub_pid" "$bridge_pid" "$fleetlog_pid")
    wal_after=$(run_sql -c "SELECT pg_current_wal_insert_lsn() - '0/0'")
    kill "$bridge_pid" 2>/dev/null || { cat "$dir/bridge.log" >&2; fl_note "$scenario: the bridge has ended early"; status=1; }
    bridge_pid=
    sleep 0.3
    committed=$(run_sql -c 'SELECT count(*) FROM bench_bridge')
    first=$(bridge_figure first); last=$(bridge_figure last)
    bytes=$(run_sql -c "SELECT pg_table_size('bench_bridge')")
    perl "$table" row "$scenario" "$party" "$file" "stored=$committed" "puback_rate=$(number_of rate "$file")" \
        "rate=$(quotient "$committed" "$(quotient $((last - first)) 1000000000)")" no_latency=1 \
        "server_us_per_message=$(quotient "$(perl -e "print 1e6 * ($cpu_after - $cpu_before)")" "$committed")" \
        "xids_per_second=$(quotient "$(bridge_figure commits)" "$(quotient $((last - first)) 1000000000)")" \
        "wal_bytes_per_record=$(quotient $((wal_after - wal_before)) "$committed")" \
        "table_bytes_per_record=$(quotient "$bytes" "$committed")"
    [ "$committed" -eq "$acked" ] || echo "    $((acked - committed)) of $acked acknowledged messages are not in the table"
}

# All parties of a scenario, one after the other.  First argument: the scenario; second: its parties.
# What a measurement has left to be written would be paid by the next one, whoever's it is.
settle()
{
    if [ -d "$dir/server" ]; then run_sql -c CHECKPOINT; fi
    sync
}

measure()
{
    local scenario=$1 parties=$2 party port

    shift 2
    for party in $parties; do
        wants "$party" || continue
        settle
        case $party in
            null) load_other "$scenario" null "$null_port" "$null_pid" "$@" ;;
            fleetlog|fleetlog-budget) load_fleetlog "$scenario" "$party" bench "$@" ;;
            bridge|bridge-*) load_bridge "$scenario" "$party" "$@" ;;
            nats) [ -z "$nats_pid" ] || { nats_session "$scenario"; load_other "$scenario" nats "$nats_port" "$nats_pid" "$@"; } ;;
            mosquitto)
                port=$(port_for "$scenario" mosquitto)
                load_other "$scenario" mosquitto "$port" "$mosquitto_pid" "$@" ;;
        esac
    done
}
