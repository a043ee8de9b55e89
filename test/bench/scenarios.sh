# shellcheck shell=bash disable=SC2034,SC2154
# test/bench/scenarios.sh: what each scenario of script/bench does.  Sourced after parties.sh.

run_scenario()
{
    local d=$seconds keep_alive=10

    # Idle connections are pinged at half of the keep-alive time, which should happen also in a short run.
    [ "$d" -gt 6 ] || keep_alive=4
    case $1 in
        qos1-50x20) measure "$1" "null fleetlog fleetlog-budget mosquitto nats bridge bridge-1000" -q 1 -c 50 -w 20 -d "$d" ;;
        qos1-50x1)  measure "$1" "null fleetlog fleetlog-budget mosquitto nats" -q 1 -c 50 -w 1 -d "$d" ;;
        qos1-1x20)  measure "$1" "null fleetlog fleetlog-budget mosquitto nats" -q 1 -c 1 -w 20 -d "$d" ;;
        qos0-50x20) measure "$1" "null fleetlog mosquitto" -q 0 -c 50 -w 20 -d "$d" --drain 30 ;;
        qos2-50x20) measure "$1" "null fleetlog fleetlog-budget mosquitto" -q 2 -c 50 -w 20 -d "$d" --persistent ;;
        paced-5000) measure "$1" "null fleetlog fleetlog-budget mosquitto nats" -q 1 -c 50 -w 20 -r 5000 -d "$d" ;;
        paced-1667) measure "$1" "fleetlog-budget mosquitto" -q 1 -c 50 -w 20 -r 1667 -d "${long_seconds:-$d}" ;;
        fan-out)    measure "$1" "fleetlog mosquitto" -q 1 -c 1 -r 50 --subscribers 100 --sub-qos 1 -d "$d" ;;
        fan-out-qos0) measure "$1" "fleetlog mosquitto nats" -q 0 -c 1 -w 20 --ahead 20 --subscribers 100 --sub-qos 0 -d "$d" --drain 30 ;;
        fan-out-qos1) measure "$1" "fleetlog mosquitto nats" -q 1 -c 1 -w 20 --ahead 20 --subscribers 100 --sub-qos 1 -d "$d" --drain 30 ;;
        fan-in-qos1)  measure "$1" "fleetlog mosquitto nats" -q 1 -c 100 -w 20 --subscribers 1 --sub-qos 1 -d "$d" --drain 30 ;;
        retained)   retained_to_one ;;
        filters)    rates_beside_filters ;;
        login)      measure "$1" "fleetlog mosquitto" -q 1 -c $login_users -w 1 -r 1000 -d "$d" --storm 1 --user 'bench/dev-%d' --password 'secret-%d' ;;
        idle)       fresh_servers; measure "$1" "fleetlog mosquitto" -c "$crowd" -j 2 --sources 8 --no-publish --keep-alive $keep_alive --idle "$d" ;;
        storm)      fresh_servers; measure "$1" "fleetlog mosquitto" -c "$crowd" -j 2 --sources 8 --no-publish --storm 3 ;;
        storm-sub)  fresh_servers; measure "$1" "fleetlog mosquitto" -c "$crowd" -j 2 --sources 8 --no-publish --storm 3 --each-subscribes 'bench/dev-%d/cmd/#' ;;
        idle-tls)   fresh_servers; measure "$1" "fleetlog mosquitto" --tls -c "$crowd" -j 2 --sources 8 --no-publish --keep-alive $keep_alive --idle "$d" ;;
        storm-tls)  fresh_servers; measure "$1" "fleetlog mosquitto" --tls -c "$crowd" -j 2 --sources 8 --no-publish --storm 3 ;;
        storm-password) fresh_servers; measure "$1" "fleetlog mosquitto" -c "$crowd" -j 2 --sources 8 --no-publish --storm 3 --user 'bench/dev-%d' --password 'secret-%d' ;;
        deaf)       beside_deaf_subscribers ;;
        load-10m)   ! wants fleetlog || load_history ;;
        burst)      with_disturbance burst "with 1 MB bursts" start_bursts stop_job ;;
        silent)     with_disturbance silent "with silent peers" start_stallers stop_job ;;
        herd)       herds herd --connect-rate $((herd / 10)) ;;
        herd-at-once) herds herd-at-once ;;
        cold)       ! wants fleetlog || behind_on_a_slow_disk ;;
        replay)     ! wants fleetlog || replay_rates ;;
        loop)       ! wants fleetlog || loop_rates ;;
        kafka-*)    beside_kafka "${1#kafka-}" ;;
        commands)   ! wants fleetlog || commands_to_fleet ;;
        snapshot)   ! wants fleetlog || rates_under_holders snapshot -q 1 -c 50 -w 20 ;;
        snapshot-qos2) ! wants fleetlog || rates_under_holders snapshot-qos2 -q 2 -c 50 -w 20 --persistent ;;
    esac
}

# ---- 10 million readings, beside a heap ----

# Largest number of pages that a seek by offset or by time touches, over 40 places, and what is allowed.  Reading one record
# means reading its whole batch, which at saturation spans many pages; those are no part of the seek, save the first.  How
# many they are shows when the batch is read together with the one before, less what that one alone takes.
seek_pages()
{
    run_sql -F ' ' <<SQL
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.pages_touched(query text) RETURNS int LANGUAGE plpgsql AS \$\$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, FORMAT json) ' || query INTO plan;
    RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END \$\$;
CREATE FUNCTION pg_temp.reading(shard int, o bigint, records bigint) RETURNS int LANGUAGE sql
    RETURN pg_temp.pages_touched(format('SELECT * FROM fleetlog.read(''history'', %s, %s, %s)', shard, o, records));
-- A batch and the one before it, at 40 places of each shard: records of one batch share their ts.
CREATE TEMP TABLE batch AS
    SELECT shard, ts, min(log_offset) AS o, count(*) AS n, row_number() OVER (PARTITION BY shard ORDER BY min(log_offset)) AS place
    FROM history GROUP BY shard, ts;
CREATE TEMP TABLE pair AS
    SELECT b.shard, b.ts, b.o, a.o AS before_o, a.n AS before_n
    FROM batch b JOIN batch a ON a.shard = b.shard AND a.place = b.place - 1
    JOIN (SELECT shard, max(place) AS places FROM batch GROUP BY shard) c ON c.shard = b.shard
    WHERE b.place % greatest(places / 40, 1) = 0;
-- The session's caches first.
SELECT count(*) AS n, fleetlog.offset_for_time('history', 0, '2000-01-01') FROM fleetlog.read('history', 0, 1, 1) \gset
SELECT (SELECT max(pg_temp.reading(shard, o, 1) - (pg_temp.reading(shard, before_o, before_n + 1) - pg_temp.reading(shard, before_o, 1)) + 1) FROM pair),
       (SELECT max(pg_temp.pages_touched(format('SELECT fleetlog.offset_for_time(''history'', %s, %L)', shard, ts))) FROM pair),
       (SELECT floor(log(2, max(pg_relation_size(relid) / 8192)))::int + 3 FROM pg_partition_tree('history') WHERE isleaf AND pg_relation_size(relid) > 0),
       (SELECT max(pg_temp.reading(shard, o, 1)) FROM pair);
SQL
}

# Best of three, in seconds, once everything has been read.
count_seconds()
{
    run_sql -c "SET max_parallel_workers_per_gather = $2" -c "SELECT count(*) FROM $1" -c '\timing on' \
        -c "SELECT count(*) FROM $1" -c "SELECT count(*) FROM $1" -c "SELECT count(*) FROM $1" |
        sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | sort -n | head -n 1 | perl -ne 'print $_ / 1000'
}

# How many batches have 2^n records or more: a batch's records share their ts, which two batches do not.
batch_histogram()
{
    run_sql -c "SELECT string_agg(n || '+: ' || batches || ' (' || round(100.0 * records / total, 1) || ' %)', ', ' ORDER BY n)
                FROM (SELECT (2 ^ floor(log(2, size)))::int AS n, count(*) AS batches, sum(size) AS records, sum(sum(size)) OVER () AS total
                      FROM (SELECT count(*) AS size FROM history GROUP BY shard, ts) batch GROUP BY 1) h"
}

# Loads up to a tenth of a tenth, a tenth, and all of the records, so that seeks can be counted at each size; the last load is
# the one whose figures stand.
load_history()
{
    local file=$results/load-10m.fleetlog.json part before now pages=() pairs=() table_bytes heap_bytes rows

    for part in 100 10 1; do
        before=$(run_sql -c "SELECT coalesce(sum(fleetlog.tail('history', n)), 0) FROM generate_series(0, $shards - 1) n")
        now=$((records / part - before))
        [ $now -gt 0 ] || continue
        load_fleetlog load-10m fleetlog history -q 1 -c 1000 -w 20 -n $now --seed $part -t 'history/dev-%d/telemetry' --drain 60
        [ -s "$file" ] || return 0
        read -r -a pages < <(seek_pages)
        rows=$((before + now))
        echo "    at $rows records a seek touches ${pages[0]} pages by offset (${pages[3]} with those of the batch) and ${pages[1]} by time; allowed ${pages[2]}"
        pairs+=("seek_pages_$part=$((pages[0] > pages[1] ? pages[0] : pages[1]))" "seek_allowed_$part=${pages[2]}" "seek_records_$part=$rows")
    done
    run_sql -c 'CREATE TABLE history_heap (LIKE history)' -c 'INSERT INTO history_heap SELECT * FROM history' -c 'VACUUM ANALYZE history_heap' -c CHECKPOINT
    table_bytes=$(run_sql -c "SELECT sum(pg_table_size(relid)) FROM pg_partition_tree('history')")
    heap_bytes=$(run_sql -c "SELECT pg_table_size('history_heap')")
    rows=$(run_sql -c 'SELECT count(*) FROM history_heap')
    pairs+=("history_records=$rows" "history_bytes=$table_bytes" "heap_bytes=$heap_bytes"
            "count_seconds=$(count_seconds history 0)" "heap_count_seconds=$(count_seconds history_heap 0)"
            "parallel_count_seconds=$(count_seconds history 2)" "parallel_heap_count_seconds=$(count_seconds history_heap 2)"
            "batches=$(batch_histogram)")
    run_sql -c 'DROP TABLE history_heap'
    perl "$table" history "$file" "${pairs[@]}"
}

# ---- replay of decisions ----

# Prints the rates; a decision that comes out otherwise fails the run.
replay_rates()
{
    local n=$((records / 10)) line

    run_sql -v n=$n -f "$FL_SOURCE/test/bench/replay_setup.sql" >/dev/null
    while IFS= read -r line; do
        echo "    $line"
        [[ $line != *WRONG* ]] || status=1
    done < <(run_sql -v n=$n -f "$FL_SOURCE/test/bench/replay.sql")
}

# Prints the rates; a reading that was not decided fails the run.
loop_rates()
{
    local line

    while IFS= read -r line; do
        echo "    $line"
        [[ $line != *WRONG* ]] || status=1
    done < <(run_sql -v n=$((records / 100)) -f "$FL_SOURCE/test/bench/loop.sql")
}

# ---- retained messages ----

# Stores so many, each under its own topic, and then has one subscriber ask for all of them at QoS 1; the figures of the
# second are kept.  What is stored goes to the state table of its own mount.
retained_to_one()
{
    local party port pid file

    for party in fleetlog mosquitto; do
        wants $party || continue
        port=${party}_port; port=${!port}; pid=${party}_pid; pid=${!pid}; file=$results/retained.$party.json
        [ $party != fleetlog ] || set_budget fleetlog
        run_load "retained-store: $party" "$results/retained-store.$party.json" "$([ $party = fleetlog ] && echo yes || echo no)" -p "$port" --watch "$pid" \
            -q 1 -c 10 -w 20 -n $retained --retain -t 'kept/dev-%d/%m' --drain 60 || continue
        perl "$table" row retained-store $party "$results/retained-store.$party.json"
        settle
        run_load "retained: $party" "$file" no -p "$port" --watch "$pid" -c 1 --no-publish --subscribers 1 --filter 'kept/#' \
            --idle 60 --await $retained || continue
        perl "$table" row retained $party "$file"
        if [ $party = fleetlog ] && [ "$(number_of received "$file")" != $retained ]; then
            fl_note "retained: of $retained messages $(number_of received "$file") came"
            status=1
        fi
    done
}

# ---- subscriptions that others have ----

# The rate of qos1-50x20 alone and beside a hundred thousand exact subscriptions and a thousand with a wildcard, below the
# very topics that are published to; none of them matches.
rates_beside_filters()
{
    local party port

    for party in fleetlog mosquitto; do
        wants $party || continue
        port=${party}_port; port=${!port}
        measure filters-without $party -q 1 -c 50 -w 20 -d "$seconds"
        start_subscribers "$port"
        measure filters-with $party -q 1 -c 50 -w 20 -d "$seconds"
        stop_job "filters: $party"
        measure filters-again $party -q 1 -c 50 -w 20 -d "$seconds"
    done
}

# Subscribers that stay; the job's log tells when all are there.
start_subscribers()
{
    rm -f "$dir/job.pid"
    spawn "$dir/job.pid" "$dir/job.log" "$tool/fl_load" -p "$1" -c 1 --no-publish --client-id 'filters-%d' --subscribers 1010 \
        --filter 'bench/dev-%d/f%m' --filters 99 --filter 'bench/dev-%d/+/x' --idle 100000 --keep-alive 30 --say-ready
    fl_wait 120 test -s "$dir/job.log" || { fl_note "filters: the subscribers do not come up"; status=1; }
}

# ---- what one peer does to the others ----

# Paced load without and with a disturbance, for each party.  Arguments: scenario, what it is called, functions to start and
# to stop it; the first gets the port.
with_disturbance()
{
    local scenario=$1 called=$2 start=$3 stop=$4 party port name

    for party in fleetlog mosquitto; do
        wants $party || continue
        port=${party}_port; port=${!port}
        for name in "$scenario-without" "$scenario-with"; do
            [ "$name" = "$scenario-without" ] || $start "$port"
            measure "$name" $party -q 1 -c 50 -w 20 -r 2000 -d "$seconds"
            [ "$name" = "$scenario-without" ] || $stop "$scenario: $party $called"
        done
    done
}

# A megabyte at once from one connection, again and again; the topic is in the mount like any other.
start_bursts()
{
    rm -f "$dir/job.pid"
    # shellcheck disable=SC2016
    spawn "$dir/job.pid" "$dir/job.log" sh -c 'while :; do "$@" >/dev/null 2>&1 && echo burst; sleep 0.5; done' sh \
        "$tool/fl_load" -p "$1" -q 1 -c 1 -n 5000 -w 5000 --client-id burst -t bench/burst --quiet
}

# Peers that only are there (stall.pl says how).
start_stallers()
{
    rm -f "$dir/job.pid"
    spawn "$dir/job.pid" "$dir/job.log" perl "$FL_SOURCE/test/bench/stall.pl" "$1"
}

# Publishers' rate, and the time that a message takes to five subscribers who read, without and with two subscribers who
# do not, each twice, in turns: what the machine does meanwhile falls on both.
beside_deaf_subscribers()
{
    local party port pair name

    for party in fleetlog mosquitto; do
        wants $party || continue
        port=${party}_port; port=${!port}
        for pair in 1 2; do
            for name in without with; do
                [ $name = without ] || start_deaf "$port"
                measure "deaf-rate-$name-$pair" $party -q 1 -c 50 -w 20 -d "$seconds"
                measure "deaf-paced-$name-$pair" $party -q 1 -c 10 -w 20 -r 2000 --subscribers 5 --sub-qos 1 -d "$seconds" --drain 30
                [ $name = without ] || stop_job "deaf: $party"
            done
        done
    done
}

start_deaf()
{
    rm -f "$dir/job.pid"
    spawn "$dir/job.pid" "$dir/job.log" perl "$FL_SOURCE/test/bench/deaf.pl" "$1" 'bench/#'
    fl_wait 20 test -s "$dir/job.log" || { cat "$dir/job.log" >&2; fl_note "deaf: the subscribers do not come up"; status=1; }
}

# Ends the disturbance and sees that there was one.
stop_job()
{
    kill "$(cat "$dir/job.pid")" 2>/dev/null || true
    if [ ! -s "$dir/job.log" ]; then fl_note "$1: there was no disturbance"; status=1; fi
}

# ---- snapshots and transactions held open ----

holders=

# Opens a session of that name that holds what the statement takes, and waits until it has it.
start_holder()
{
    fl_as "$FL_BIN/psql" -X -q -d "$uri&application_name=$1" -c "$2" -c "SELECT pg_sleep(100000)" >/dev/null 2>"$dir/$1.log" &
    holders="$holders $!"
    fl_wait 20 holder_is_there "$1" || { cat "$dir/$1.log" >&2; fl_note "snapshot: the holder does not come up"; status=1; }
}

holder_is_there()
{
    [ "$(run_sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$1' AND backend_xmin IS NOT NULL AND query ~ 'pg_sleep'")" = 1 ]
}

stop_holder()
{
    run_sql -o /dev/null -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$1'"
}

# $1: what the measurements' names begin with; the rest: the load.  With --long both are held while 5,000 messages a second
# come in for ten minutes, and the rate is that after them: ten minutes at saturation would be a quarter of a billion records.
rates_under_holders()
{
    local name=$1; shift
    measure "$name-without" fleetlog "$@" -d "$seconds"
    start_holder bench-snapshot "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM unrelated"
    start_holder bench-writer "BEGIN; INSERT INTO unrelated VALUES (1)"
    [ -z "$long_seconds" ] || measure "$name-meanwhile" fleetlog "$@" -r 5000 -d "$long_seconds"
    measure "$name-held" fleetlog "$@" -d "$seconds"
    stop_holder bench-snapshot
    measure "$name-writer" fleetlog "$@" -d "$seconds"
    stop_holder bench-writer
    # shellcheck disable=SC2086
    wait $holders 2>/dev/null || true
    holders=
    # Once more without, since a machine's speed changes while the others run.
    measure "$name-again" fleetlog "$@" -d "$seconds"
}
