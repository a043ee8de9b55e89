#!/usr/bin/env bash
# tools.sh: the console tools of Apache Kafka against a server: topics, configurations, producers, consumers, groups.
#
# usage: tools.sh JARS BROKER USER PASSWORD PSQL-COMMAND
#
# Prints "ok STEP" or "FAILED STEP: what it printed" for each; PSQL-COMMAND answers SQL on its standard input.

jars=$1; broker=$2; user=$3; password=$4; psql=$5; topic=tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/conf" <<CONF
bootstrap.servers=$broker
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="$user" password="$password";
CONF

tool() { local class=$1; shift; timeout 120 java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$jars/*" "org.apache.kafka.tools.$class" "$@" 2>&1; }
sql() { $psql <<<"$1"; }

# step NAME PATTERN COMMAND...: what the command prints has to match.
step()
{
    local name=$1 pattern=$2 out
    shift 2
    out=$("$@")
    if grep -qE "$pattern" <<<"$out"; then echo "ok $name"; else echo "FAILED $name: $(tail -c 600 <<<"$out" | tr '\n' ' ')"; fi
}

topics() { tool TopicCommand --bootstrap-server "$broker" --command-config "$work/conf" "$@"; }
configs() { timeout 120 java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$jars/*" kafka.admin.ConfigCommand --bootstrap-server "$broker" --command-config "$work/conf" "$@" 2>&1; }
groups() { tool consumer.group.ConsumerGroupCommand --bootstrap-server "$broker" --command-config "$work/conf" "$@"; }
records() { sql "SELECT 'records ' || count(*) FROM $topic"; }
produce_lines() { seq 1 200 | sed 's/.*/key&:line &/' | tool ConsoleProducer --bootstrap-server "$broker" --producer.config "$work/conf" --topic $topic --property parse.key=true --property key.separator=: "$@"; }
consume() { tool consumer.ConsoleConsumer --bootstrap-server "$broker" --consumer.config "$work/conf" --topic $topic --from-beginning --timeout-ms 30000 "$@"; }

step topics-create "Created topic $topic" topics --create --topic $topic --partitions 3 --replication-factor 1 --config retention.ms=3600000
step topics-describe "PartitionCount: 3" topics --describe --topic $topic
step topics-alter "^$" topics --alter --topic $topic --partitions 4
step topics-list "^$topic$" topics --list
step configs-describe "retention.ms=3600000" configs --describe --entity-type topics --entity-name $topic
step configs-alter "Completed updating" configs --alter --entity-type topics --entity-name $topic --add-config retention.ms=7200000
step configs-described "retention.ms=7200000" configs --describe --entity-type topics --entity-name $topic
step console-producer "^>*$" produce_lines
step console-producer-wrote "records 200" records
step console-producer-zstd "^>*$" produce_lines --compression-codec zstd
step console-producer-wrote-zstd "records 400" records
step console-consumer "Processed a total of 400 messages" consume --max-messages 400 --group tools-readers
step groups-list "tools-readers" groups --list
step groups-describe "tools-readers +$topic +[0-9]+ +[0-9]+ +[0-9]+ +0 " groups --describe --group tools-readers
step groups-reset "tools-readers +$topic" groups --reset-offsets --group tools-readers --topic $topic --to-earliest --execute
step groups-reset-described "tools-readers +$topic +[0-9]+ +0 " groups --describe --group tools-readers
step verifiable-producer '"acked":1000|"acked": ?1000' tool VerifiableProducer --bootstrap-server "$broker" --topic $topic --max-messages 1000 --producer.config "$work/conf"
step verifiable-producer-wrote "records 1400" records
step verifiable-consumer '"name":"offsets_committed"' tool VerifiableConsumer --bootstrap-server "$broker" --topic $topic --group-id verifiable --max-messages 1400 --reset-policy earliest --consumer.config "$work/conf"
step verifiable-consumer-read "^1400$" sql "SELECT sum(log_offset) FROM fleetlog.consumer_position WHERE consumer = 'verifiable'"
step groups-delete "successful" groups --delete --group tools-readers
step get-offsets "^$topic:[0-9]:[0-9]+" tool GetOffsetShell --bootstrap-server "$broker" --command-config "$work/conf" --topic $topic
printf '{"partitions":[{"topic":"%s","partition":0,"offset":-1}],"version":1}' $topic >"$work/cut"
step delete-records "partition: $topic-0.*low_watermark: [1-9]" tool DeleteRecordsCommand --bootstrap-server "$broker" --command-config "$work/conf" --offset-json-file "$work/cut"
step topics-delete "^$" topics --delete --topic $topic
step topics-gone "^0$" sql "SELECT count(*) FROM fleetlog.stream WHERE name = '$topic'"
