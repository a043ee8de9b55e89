#!/bin/sh
# check.sh BUILD: fl_load against fl_null for a moment each.  Both count, and the counts must agree: what the tool says
# was acknowledged is what the server says it read, at every QoS, version, pacing and number of processes.
set -eu
build=${1:-build}
work=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || :; fi; rm -rf "$work"' EXIT

failed=0
port=

# Starts the server on a port of its own and waits until it listens.
start_server()
{
    port=${1:-$((20000 + ($$ * 31 + $(date +%N | sed 's/^0*//;s/^$/0/') / 1000) % 12000))}
    "$build/fl_null" -p "$port" >"$work/null" 2>"$work/null.errors" &
    server=$!
    turn=0
    until grep -q listening "$work/null"; do
        turn=$((turn + 1))
        [ "$turn" -lt 100 ] || { cat "$work/null.errors"; echo "fl_null does not start"; exit 1; }
        sleep 0.1
    done
}

check()
{
    name=$1; want=$2; shift 2
    start_server
    "$build/fl_load" -p "$port" --json "$@" >"$work/json" 2>"$work/errors" || :
    kill "$server"; wait "$server" || :
    server=
    acked=$(sed -n 's/.*"acked":\([0-9]*\).*/\1/p' "$work/json")
    read=$(sed -n 's/.*publishes \([0-9]*\) .*/\1/p' "$work/null")
    if [ -n "$acked" ] && [ "$acked" = "$read" ] && { [ "$want" = any ] || [ "$acked" = "$want" ]; }; then
        echo "ok - $name: $acked messages"
    else
        echo "not ok - $name: wanted $want, the tool counts ${acked:-nothing}, the server ${read:-nothing}"
        cat "$work/errors"
        failed=$((failed + 1))
    fi
}

check "QoS 0" 20003 -q 0 -c 7 -n 20003
check "QoS 1" 20003 -q 1 -c 7 -n 20003
check "QoS 2" 20003 -q 2 -c 7 -n 20003
check "QoS 1, MQTT 5, three processes" 20003 --mqtt 5 -c 7 -j 3 -n 20003
check "QoS 2, MQTT 5" 5000 --mqtt 5 -q 2 -c 3 -n 5000
check "window 1" 2000 -c 2 -w 1 -n 2000
check "paced" 1000 -c 7 -r 2000 -d 0.5
check "paced, two processes" 1000 -c 8 -j 2 -r 2000 -d 0.5
check "QoS 0 by the clock" any -q 0 -c 3 -d 0.3
check "large payloads" 300 -s 100000 -n 300
check "small payloads that are noise" 3000 -s 48 --payload random -n 3000

# The truth log of a server that dies and comes back: every message once, every line whole, though three processes write.
start_server
"$build/fl_load" -p "$port" -c 8 -j 3 -r 20000 -n 40000 --reconnect --quiet --truth "$work/truth" >"$work/out" 2>&1 &
load=$!
sleep 0.7
{ kill -9 "$server"; wait "$server"; } 2>/dev/null || :
start_server "$port"
if wait "$load"; then ended=well; else ended=badly; fi
broken=$(grep -vcE '^(A [0-9]+ [0-9]+ [0-9]+ [0-9]+|S [0-9]+ [0-9]+ [0-9]+ [-d] [0-9]+|E [0-9]+ [0-9]+)$' "$work/truth" || :)
once=$(grep '^A' "$work/truth" | cut -d ' ' -f 2,3 | sort -u | wc -l)
again=$(sed -n 's/.*sent again \([0-9]*\).*/\1/p' "$work/out")
lost=$(sed -n 's/^connect: .*, lost \([0-9]*\).*/\1/p' "$work/out")
if [ "$ended" = well ] && [ "$broken" = 0 ] && [ "$once" = 40000 ] && [ "${lost:-0}" -ge 1 ]; then
    echo "ok - truth log over a restart of the server: $once messages, ${lost} connections lost, ${again:-0} messages sent again"
else
    echo "not ok - truth log: ended $ended, $broken broken lines, $once of 40000 messages, ${lost:-no} connections lost"
    cat "$work/out"
    failed=$((failed + 1))
fi

# The checker of truth logs, on a stream made up of what was acknowledged, whole and then with each fault planted.
awk '$1 == "A" { printf "0\t%d\t%d\t{\"t\":1,\"c\":%d,\"n\":%d,\"x\":\"\"}\n", n, 1000 + n, $2, $3; n++ }' "$work/truth" >"$work/whole"
judge()
{
    name=$1; want=$2; shift 2
    "$@" "$work/whole" >"$work/stored"
    if said=$("$(dirname "$0")/check_truth.pl" --stored "$work/stored" "$work/truth"); then said="good $said"; else said="bad $said"; fi
    if echo "$said" | grep -Eq "$want"; then
        echo "ok - checker: $name"
    else
        echo "not ok - checker: $name: wanted $want, got $said"
        failed=$((failed + 1))
    fi
}
judge "a whole stream is good" '^good acknowledged=40000 stored=40000 lost=0 duplicates=0 ' cat
judge "an acknowledged message is missing" '^bad .* lost=1 .* holes=1 ' sed 1234d
judge "a copy that nobody sent" '^bad .* lost=0 duplicates=1 unexplained=1 ' awk -F '\t' -v OFS='\t' '{ $2 += more; print } NR == 77 { more = 1; $2++; print }'
judge "an offset is given twice" '^bad .* reused=1 ' awk -F '\t' -v OFS='\t' '{ print } NR == 77 { gsub("\"n\":[0-9]*", "\"n\":39999"); print }'
judge "two messages of one connection change places" '^bad .* lost=0 .* misordered=[1-9]' awk '{ split($0, f, "\t"); p = f[4] }
    !held && p ~ /"c":3,/ { held = 1; early = p; place = f[1] "\t" f[2] "\t" f[3]; next }
    held == 1 && p ~ /"c":3,/ { held = 2; print place "\t" p; print f[1] "\t" f[2] "\t" f[3] "\t" early; next } { print }'
judge "an offset is left out" '^bad .* lost=0 .* holes=3 ' awk -F '\t' -v OFS='\t' '$2 > 500 { $2 += 3 } { print }'
judge "the clock goes back" '^bad .* lost=0 .* time_back=1 ' awk -F '\t' -v OFS='\t' '$2 == 900 { $3 -= 50 } { print }'
judge "a message that was never sent" '^bad .* never_sent=1 ' sed '$s/"n":[0-9]*/"n":999999/'

[ "$failed" -eq 0 ] || { echo "$failed failed"; exit 1; }
