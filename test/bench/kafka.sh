# shellcheck shell=bash disable=SC2034,SC2154
# test/bench/kafka.sh: scenarios kafka-* of script/bench, beside Apache Kafka itself.  Sourced after catch_up.sh.
#
# One after the other on the same machine: our server; Kafka as it ships, which leaves flushing to the kernel; Kafka that
# flushes each append as we do.  Each has its topics fresh, one partition each (--shards), one replica, and the same client.

kafka_version=3.9.1
kafka_parties=(fleetlog kafka kafka-flush)
kafka_pid=

wants_kafka()
{
    runs kafka-100 kafka-1024
}

# The broker and what it needs, from Maven Central into a folder that stays.
get_kafka()
{
    local folder=$FL_WORK/kafka-$kafka_version

    kafka_libs=$folder/libs
    [ ! -e "$folder/done" ] || return 0
    fl_packages default-jre-headless maven >"$dir/kafka-packages.log" 2>&1 || return 1
    fl_own_folder "$folder"
    cat >"$folder/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>fleetlog</groupId><artifactId>bench</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka_version</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
XML
    if fl_is_root; then chown "$FL_USER": "$folder/pom.xml"; fi
    fl_as mvn -q -B -f "$folder/pom.xml" "-Dmaven.repo.local=$folder/repository" dependency:copy-dependencies \
        "-DoutputDirectory=$kafka_libs" >"$dir/maven.log" 2>&1 || return 1
    rm -rf "$folder/repository"
    touch "$folder/done"
}

kafka_java()
{
    fl_as java -cp "$kafka_libs/*" "$@"
}

# Argument: the party.
start_kafka()
{
    local folder=$dir/$1 control

    kafka_port=$(fl_free_port); control=$(fl_free_port)
    make_folder "$folder"
    cat >"$folder/properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$control
listeners=PLAINTEXT://127.0.0.1:$kafka_port,CONTROLLER://127.0.0.1:$control
controller.listener.names=CONTROLLER
log.dirs=$folder/data
num.partitions=$shards
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
CONF
    [ "$1" != kafka-flush ] || echo log.flush.interval.messages=1 >>"$folder/properties"
    kafka_java kafka.tools.StorageTool format -t "$(kafka_java kafka.tools.StorageTool random-uuid 2>/dev/null | tail -n 1)" \
        -c "$folder/properties" >"$folder/format.log" 2>&1 || { cat "$folder/format.log" >&2; fl_die "Kafka makes no storage"; }
    spawn "$folder/pid" "$folder/log" java -Xms1G -Xmx1G -cp "$kafka_libs/*" kafka.Kafka "$folder/properties"
    fl_wait 60 fl_accepts "$kafka_port" || { cat "$folder/log" >&2; fl_die "Kafka does not accept"; }
    kafka_pid=$(cat "$folder/pid")
}

kafka_is_gone()
{
    ! kill -0 "$kafka_pid" 2>/dev/null
}

stop_kafka()
{
    [ -n "$kafka_pid" ] || return 0
    kill "$kafka_pid" 2>/dev/null || true
    # It writes to its folder until it is gone.
    fl_wait 60 kafka_is_gone || { kill -9 "$kafka_pid" 2>/dev/null || true; fl_wait 10 kafka_is_gone || true; }
    kafka_pid=
    rm -rf "${dir:?}/$1"
}

# Arguments: scenario (the file's and the row's name), party, port, process, topic, options of fl_kafka_load.
load_kafka()
{
    local scenario=$1 party=$2 port=$3 pid=$4 topic=$5 file=$results/$1.$2.json before after ended=0 pairs=()

    shift 5
    before=$(perl "$table" cpu "$pid")
    fl_as "$tool/fl_kafka_load" --broker "127.0.0.1:$port" --topic "$topic" "$@" >"$file" 2>"$dir/load.errors" || ended=$?
    after=$(perl "$table" cpu "$pid")
    if [ ! -s "$file" ]; then
        rm -f "$file"
        fl_note "$scenario: $party gave no figures: $(head -n 3 "$dir/load.errors")"
        status=1
        return 0
    fi
    if [ $ended -ne 0 ] && [ "$party" = fleetlog ]; then
        fl_note "$scenario: something was lost: $(head -n 3 "$dir/load.errors")"
        status=1
    fi
    # With a hundred thousand records outstanding the time to the acknowledgement is the queue's length.
    [[ $scenario != *-produce ]] || pairs=(no_latency=1)
    perl "$table" row "$scenario" "$party" "$file" \
        "server_us_per_message=$(quotient "$(perl -e "print 1e6 * ($after - $before)")" "$(number_of acked "$file")")" ${pairs[@]+"${pairs[@]}"}
}

# Arguments: party, port, process, bytes of a record.
kafka_measurements()
{
    local party=$1 port=$2 pid=$3 size=$4 sent stored

    # What a JVM compiles it compiles before.
    fl_as "$tool/fl_kafka_load" --broker "127.0.0.1:$port" --topic "warm$size" --producers 4 --seconds 3 --size "$size" >/dev/null 2>&1 || true
    settle
    load_kafka "kafka-$size-produce" "$party" "$port" "$pid" "produce$size" --mode produce --producers 4 --seconds "$seconds" --size "$size"
    sent=$(number_of acked "$results/kafka-$size-produce.$party.json")
    if [ "$party" = fleetlog ]; then
        stored=$(run_sql -c "SELECT sum(fleetlog.tail('produce$size', n)) FROM generate_series(0, $shards - 1) n")
        [ "$stored" -ge "$sent" ] || { fl_note "kafka-$size-produce: $sent records were acknowledged and $stored are stored"; status=1; }
    fi
    settle
    load_kafka "kafka-$size-fetch" "$party" "$port" "$pid" "produce$size" --mode fetch --records "$sent" --size "$size"
    settle
    load_kafka "kafka-$size-unbatched" "$party" "$port" "$pid" "unbatched$size" --mode unbatched --producers 8 --seconds "$seconds" --size "$size"
    settle
    load_kafka "kafka-$size-latency" "$party" "$port" "$pid" "latency$size" --mode latency --rate 1000 --seconds "$seconds" --size "$size"
}

# All parties with records of this many bytes.
beside_kafka()
{
    local size=$1 party name

    for party in "${kafka_parties[@]}"; do
        wants "$party" || continue
        if [ "$party" = fleetlog ]; then
            set_budget fleetlog
            for name in warm produce unbatched latency; do
                run_sql -o /dev/null -c "SELECT fleetlog.create_stream('$name$size', shards => $shards)"
            done
            kafka_measurements fleetlog "$fleetlog_kafka_port" "$fleetlog_pid" "$size"
        elif get_kafka; then
            start_kafka "$party"
            for name in warm produce unbatched latency; do
                fl_as "$tool/fl_kafka_load" --broker "127.0.0.1:$kafka_port" --topic "$name$size" --mode create --producers "$shards" >/dev/null
            done
            kafka_measurements "$party" "$kafka_port" "$kafka_pid" "$size"
            stop_kafka "$party"
        else
            echo "$party is SKIPPED: Apache Kafka cannot be had here: $(tail -n 1 "$dir/maven.log" 2>/dev/null || tail -n 1 "$dir/kafka-packages.log")"
        fi
    done
}
