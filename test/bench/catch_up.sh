# shellcheck shell=bash disable=SC2034,SC2154
# test/bench/catch_up.sh: scenarios of script/bench in which sessions come back that have missed much.  Sourced after scenarios.sh.

# The stream that they have missed.  It is not the one of the live load, so that its pages are counted alone.
make_past()
{
    [ "$(run_sql -c "SELECT to_regclass('past') IS NULL")" = t ] || return 0
    # Statistics would read it, too.
    run_sql -c "ALTER SYSTEM SET autovacuum = off" -c "SELECT pg_reload_conf()" -c "SELECT fleetlog.create_stream('past', shards => $shards)" \
        -c "SELECT fleetlog.mount('past/', 'past')" >/dev/null
}

past_pages()
{
    run_sql -c "SELECT coalesce(sum(pg_relation_size(relid)) / 8192, 0)::bigint FROM pg_partition_tree('past')"
}

# Pages of it that anybody has looked at, when all processes have told and nobody looks at more.
past_pages_read()
{
    local last=-1 now same=0

    while [ $same -lt 3 ]; do
        now=$(run_sql -c "SELECT coalesce(sum(heap_blks_read + heap_blks_hit), 0) FROM pg_statio_user_tables
                          WHERE relid IN (SELECT relid FROM pg_partition_tree('past') WHERE isleaf)")
        if [ "$now" = "$last" ]; then same=$((same + 1)); else same=0; fi
        last=$now
        sleep 1
    done
    echo "$now"
}

# Some of so many readings, three of all for each of so many sessions, evenly spread: rows of COPY.  Arguments: the first, the
# one behind the last, how many in all, shards, sessions, the tail of each shard before all of them.
past_rows()
{
    # shellcheck disable=SC2016
    perl -e '
        use POSIX qw(strftime);
        my ($first, $behind, $records, $shards, $sessions, @tail) = @ARGV;
        my $step = int($records / (3 * $sessions || 1)) || 1;
        my $now = int(time * 1e9);
        # Later than the subscriptions.
        my $ts = strftime("%Y-%m-%d %H:%M:%S+00", gmtime(time + 1));
        srand($first);
        for my $i ($first .. $behind - 1)
        {
            my $n = int($i / $step);
            my $topic = $i % $step == 0 && $n < 3 * $sessions ? "past/herd-" . $n % $sessions : "past/dev-" . $i % 1000 . "/telemetry";
            printf "%d\t%d\t%s\t%s\t{\"t\":%d,\"c\":%d,\"n\":%d,\"temperature\":%.2f,\"humidity\":%.2f,\"pressure\":%.2f,\"voltage\":%.2f,\"current\":%.2f,\"vibration\":%.2f,\"speed\":%.2f}\n",
                $i % $shards, $tail[$i % $shards] + int($i / $shards), $ts, $topic, $now, $i % 1000, int($i / 1000), 20 + rand(4), 45 + rand(9), 1013 + rand(7),
                230 + rand(3), 7 + rand(1.2), rand(0.6), 1480 + rand(20);
        }' "$@"
}

# Arguments: records, sessions that three each of them are for.
load_past()
{
    local tails from upto try

    tails=$(run_sql -c "SELECT fleetlog.tail('past', n) FROM generate_series(0, $shards - 1) n ORDER BY n")
    for ((from = 0; from < $1; from = upto)); do
        upto=$((from + 400000 < $1 ? from + 400000 : $1))
        for ((try = 0; try < 100; try++)); do
            # shellcheck disable=SC2086
            if past_rows $from $upto "$1" "$shards" "$2" $tails | run_sql -c 'SET fleetlog.shard_hold_timeout = 0' \
                -c 'COPY past (shard, log_offset, ts, key, payload) FROM STDIN' 2>"$dir/past.errors"; then break; fi
            # The keeper makes segments as the tail rises; COPY waits for none.
            sleep 0.5
        done
        [ $try -lt 100 ] || { cat "$dir/past.errors" >&2; fl_die "the history cannot be loaded"; }
    done
}

# Sessions that have a subscription each, and go.  Arguments: port, how many, what their client ids begin with, topic.
leave_sessions()
{
    fl_as "$tool/fl_load" -p "$1" --quiet -c "$2" --no-publish --persistent --client-id "$3-%d" --each-subscribes "$4" >/dev/null ||
        { fl_note "$3: the sessions cannot subscribe"; status=1; }
}

# They come back three seconds from now, while something else is measured.  Arguments: port, then like fl_load's.
start_return()
{
    local port=$1

    shift
    rm -f "$dir/job.pid" "$dir/job.log"
    # shellcheck disable=SC2016
    spawn "$dir/job.pid" "$dir/job.log" sh -c 'sleep 3; exec "$@"' sh "$tool/fl_load" -p "$port" --json --quiet --no-publish --persistent "$@"
}

# When all have got theirs; leaves its figures in a file.
finish_return()
{
    fl_wait 300 test -s "$dir/job.log" || { fl_note "$1: those who came back are not done"; status=1; }
    cp "$dir/job.log" "$2"
}

# Live load of 2,000 messages a second, all of them to two subscribers.  Arguments: scenario, seconds, party.
measure_live()
{
    measure "$1" "${3:-fleetlog}" -q 1 -c 50 -w 20 -r 2000 -d "$2" --subscribers 2 --filter 'bench/#' --sub-qos 1
}

# ---- a herd ----

# $1: scenario; the rest: how they come.
herd_comes_back()
{
    local name=$1 sessions=$herd d=$((seconds > 20 ? seconds : 20)) before after pages_before pages cpu burner file=$results/$1.fleetlog.json

    shift
    make_past
    leave_sessions "$fleetlog_port" "$sessions" herd 'past/herd-%d'
    pages_before=$(past_pages)
    load_past "$records" "$sessions"
    pages=$(($(past_pages) - pages_before))
    measure_live "$name-without" "$d"
    before=$(past_pages_read)
    cpu=$(cpu_of reader)
    start_return "$fleetlog_port" -c "$sessions" --client-id 'herd-%d' --idle 240 --await $((3 * sessions)) "$@"
    measure_live "$name-with" "$d"
    finish_return "$name" "$file"
    cpu=$(perl -e 'printf "%.2f", $ARGV[0] - $ARGV[1]' "$(cpu_of reader)" "$cpu")
    after=$(past_pages_read)
    perl "$table" add "$file" "herd_records=$records" "herd_pages=$pages" "herd_pages_read=$((after - before))"
    echo "    $sessions sessions, connected within $(number_of connect_seconds "$file") s, had $(number_of received "$file") records of $records after" \
        "$(number_of all_received_seconds "$file") s; pages read $((after - before)), the history has $pages; the reader took $cpu s of CPU"
    if [ "$(number_of received "$file")" != $((3 * sessions)) ]; then
        fl_note "$name: $((3 * sessions)) records should have come"
        status=1
    fi
    measure_live "$name-again" "$d"
    # What this machine makes of a process that takes as much, and has nothing to do with any of it.
    start_burning "$cpu"
    measure_live "$name-control" "$d"
    wait "$burner"
}

# Arguments: scenario; the rest: how they come.
herds()
{
    ! wants fleetlog || herd_comes_back "$@"
    ! wants mosquitto || herd_at_mosquitto "$@"
}

# Seconds of CPU that processes of a kind have had.
cpu_of()
{
    # shellcheck disable=SC2046
    perl "$table" cpu $(run_sql -c "SELECT pid FROM fleetlog.stat_worker WHERE kind = '$1' AND pid IS NOT NULL")
}

# Three seconds from now, a process that takes so many seconds of CPU, and ends.
start_burning()
{
    fl_as perl -e 'sleep 3; 1 while (times)[0] < $ARGV[0]' "$1" &
    burner=$!
}

# The same crowd at a broker that keeps what each session is to have in its memory: three messages each.
herd_at_mosquitto()
{
    local name=$1 sessions=$herd d=$((seconds > 20 ? seconds : 20)) file=$results/$1.mosquitto.json

    shift
    leave_sessions "$mosquitto_port" "$sessions" herd 'past/herd-%d'
    fl_as "$tool/fl_load" -p "$mosquitto_port" --quiet -q 1 -c "$sessions" -n $((3 * sessions)) -t 'past/herd-%d' >/dev/null ||
        { fl_note "$name: mosquitto does not take the messages"; status=1; }
    measure_live "$name-without" "$d" mosquitto
    start_return "$mosquitto_port" -c "$sessions" --client-id 'herd-%d' --idle 60 --await $((3 * sessions)) "$@"
    measure_live "$name-with" "$d" mosquitto
    finish_return "$name" "$file"
    echo "    $sessions sessions, connected within $(number_of connect_seconds "$file") s, had $(number_of received "$file") messages after" \
        "$(number_of all_received_seconds "$file") s"
    measure_live "$name-again" "$d" mosquitto
}

# ---- a disk that has everything, slowly ----

# Reads of the server from its disk, at most so many bytes a second.  False where this machine does not let us.
slow_down_reads()
{
    local group device pid
    device=$(stat -c '%Hd:%Ld' "$dir/server")

    if [ -d /sys/fs/cgroup/blkio ]; then group=/sys/fs/cgroup/blkio/fleetlog-bench; else group=/sys/fs/cgroup/fleetlog-bench; fi
    mkdir -p "$group" 2>/dev/null || return 1
    if [ -e "$group/io.max" ]; then
        echo "$device rbps=$1" >"$group/io.max" || return 1
    else
        echo "$device $1" >"$group/blkio.throttle.read_bps_device" || return 1
    fi 2>/dev/null
    for pid in $fleetlog_pid $(ps -o pid= --ppid "$fleetlog_pid"); do
        echo "$pid" >"$group/cgroup.procs" || return 1
    done 2>/dev/null
    slow_group=$group
}

slow_group=

end_slow_reads()
{
    local pid

    [ -n "$slow_group" ] || return 0
    for pid in $(cat "$slow_group/cgroup.procs"); do echo "$pid" >"${slow_group%/*}/cgroup.procs" 2>/dev/null || true; done
    rmdir "$slow_group" || true
    slow_group=
}

# Neither the server nor the system has any of it in memory.
forget_past()
{
    local file

    "$FL_TOP/script/cluster" down "$dir/server" >/dev/null
    sync
    bring_up_fleetlog
    for file in $(run_sql -c "SELECT pg_relation_filepath(relid) FROM pg_partition_tree('past') WHERE isleaf"); do
        for file in "$dir/server/data/$file" "$dir/server/data/$file".*; do
            [ ! -e "$file" ] || fl_as dd if="$file" iflag=nocache count=0 2>/dev/null
        done
    done
}

# Bytes that processes of a kind have had to fetch from the disk.
fetched_by()
{
    local pid sum=0

    for pid in $(run_sql -c "SELECT pid FROM fleetlog.stat_worker WHERE kind = '$1' AND pid IS NOT NULL"); do
        sum=$((sum + $(sed -n 's/^read_bytes: //p' "/proc/$pid/io")))
    done
    echo $sum
}

# One session that wants all of a history that is on the disk only, which reads 5 MB a second.
behind_on_a_slow_disk()
{
    local d=$((seconds > 20 ? seconds : 20)) wanted=$((records / 5)) file=$results/cold.fleetlog.json doors reader slow=5000000

    make_past
    leave_sessions "$fleetlog_port" 1 cold 'past/#'
    load_past $wanted 0
    forget_past
    if ! slow_down_reads $slow; then
        slow=0
        echo "    the disk is as fast as ever: this machine lets nobody slow it down"
    fi
    measure_live cold-without "$d"
    doors=$(fetched_by front_door); reader=$(fetched_by reader)
    start_return "$fleetlog_port" -c 1 --client-id 'cold-%d' --idle $((d - 4)) --await $wanted
    measure_live cold-with "$d"
    finish_return cold "$file"
    doors=$(($(fetched_by front_door) - doors)); reader=$(($(fetched_by reader) - reader))
    perl "$table" add "$file" "cold_bytes_a_second=$slow" "cold_doors_fetched=$doors" "cold_reader_fetched=$reader"
    echo "    $(number_of received "$file") of $wanted records came; front doors fetched $((doors / 1000)) kB from the disk, the reader $((reader / 1000)) kB"
    if [ $reader -eq 0 ]; then fl_note "cold: nothing was read from the disk"; status=1; fi
    end_slow_reads
    measure_live cold-again "$d"
}
