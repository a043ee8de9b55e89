#!/bin/sh
# check.sh BUILD: a fleet against fl_null, which dies and comes back.  Judged are counts only: every device is back, the
# pauses obey the law of full jitter, nothing is sent or acknowledged that does not add up with what the server read.
set -eu
build=${1:-build}
work=$(mktemp -d)
server=; fleet=
finish()
{
    for pid in $fleet $server; do kill "$pid" 2>/dev/null || :; done
    rm -rf "$work"
}
trap finish EXIT
failed=0
port=$((20000 + ($$ * 37 + $(date +%N | sed 's/^0*//;s/^$/0/') / 1000) % 12000))

ok()
{
    what=$1; shift
    if "$@"; then echo "ok - $what"; else echo "not ok - $what: $*"; failed=$((failed + 1)); fi
}

# A number of the last line that has it and begins with the given text.
value()
{
    grep "^{\"$1" "$work/out" | tail -n 1 | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p"
}

# A number of the last regular line since a command was carried out; an older one would speak of a time before it.
now()
{
    awk '/^\{"done"/ { line = "" } /^\{"t"/ { line = $0 } END { print line }' "$work/out" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}

wait_for()
{
    what=$1; shift
    turn=0
    until "$@"; do
        turn=$((turn + 1))
        [ "$turn" -lt 600 ] || { echo "not ok - gave up waiting for $what"; tail -n 3 "$work/out"; cat "$work/errors"; exit 1; }
        sleep 0.05
    done
}

start_server()
{
    "$build/fl_null" -p "$port" >"$work/null$1" 2>"$work/null.errors" &
    server=$!
    wait_for "the server" grep -q listening "$work/null$1"
}

stop_server()
{
    kill "$server"; wait "$server" || :
    server=
}

are() { [ "$(now "$1")" = "$2" ]; }
waited() { pauses=$(now pauses); [ "${pauses:-0}" -ge "$1" ]; }
done_with() { grep -q "^{\"done\":\"$1\"" "$work/out"; }
say() { echo "$*" >"$work/control"; }

mkfifo "$work/control"
start_server 1
"$build/fl_fleet" -p "$port" -c 300 -j 2 --boot 0.5 --base-pause 0.1 --cap 2 --stable 0.2 --interval 0.5 --mix 60,30,10 --binary 50 \
    --mqtt311 30 --keep-alive 10 --every 0.1 --seed 42 --truth "$work/truth" --control "$work/control" >"$work/out" 2>"$work/errors" &
fleet=$!
wait_for "300 devices" are connected 300
say "bring flowers"
wait_for "an answer to nonsense" grep -q '^{"error"' "$work/out"
say "drop 30%"; wait_for "drop" done_with drop
ok "drop 30% concerns 90 of 300 devices" [ "$(value 'done":"drop' devices)" = 90 ]
wait_for "the dropped devices" are connected 300
stop_server
wait_for "the loss of all" are connected 0
wait_for "1,200 failed attempts" waited 1200
start_server 2
wait_for "all to be back" are connected 300
say "reboot all"; wait_for "reboot" done_with reboot
ok "reboot all concerns all" [ "$(value 'done":"reboot' devices)" = 300 ]
wait_for "the rebooted devices" are connected 300
say "silence 10%"; wait_for "silence" done_with silence
ok "silence 10% concerns 30" [ "$(value 'done":"silence' silent)" = 30 ]
say "stop reading 20%"; wait_for "deafness" done_with "stop reading"
ok "and of the other 270, 54 stop reading" [ "$(value 'done":"stop reading' deaf)" = 54 ]
say "resume"; wait_for "resume" done_with resume
ok "resume ends both" [ "$(value 'done":"resume' silent)$(value 'done":"resume' deaf)" = 00 ]
say "burst 10 50%"; wait_for "burst" done_with burst
say "quit"
status=0; wait "$fleet" || status=$?
fleet=
stop_server

ok "it ends well" [ "$status" = 0 ]
summary=summary
ok "nothing is left unacknowledged" [ "$(value $summary pending)" = 0 ]
ok "no packet was out of place" [ "$(value $summary protocol_errors)" = 0 ]
ok "no attempt without a boot or a pause before it" \
    [ "$(value $summary attempts)" -le $(($(value $summary boots) + $(value $summary pauses))) ]
ok "each QoS 1 message is acknowledged once" [ "$(value $summary acked)" = "$(grep -c '^A' "$work/truth")" ]
ok "and no two are the same" [ "$(value $summary acked)" = "$(grep '^A' "$work/truth" | cut -d ' ' -f 2,3 | sort -u | wc -l)" ]
sent=$(($(value $summary sent) + $(value $summary resent) + $(value $summary telemetry)))
read=$(sed -n 's/.*publishes \([0-9]*\) .*/\1/p' "$work/null1" "$work/null2" | paste -s -d + | xargs -I{} sh -c 'echo $(({}))')
# What was on its way when the server died it may never have read.
ok "the server has read what was sent: $read of $sent" [ "$read" -le "$sent" -a $((sent - read)) -le 300 ]
ok "the truth log has whole lines only" \
    [ "$(grep -vcE '^(A [0-9]+ [0-9]+ [0-9]+ [0-9]+|S [0-9]+ [0-9]+ [0-9]+ [-d] [0-9]+|E [0-9]+ [0-9]+)$' "$work/truth")" = 0 ]
if "$(dirname "$0")/check_backoff.pl" --devices 300 "$work/out"; then :; else failed=$((failed + 1)); fi

# The judge of pauses, on a summary made up by the law, and with each fault that a device could have.
even='"tenths":[30,30,30,30,30,30,30,30,30,30]'
judge()
{
    what=$1; want=$2; outages=$3; shift 3
    printf '{"summary":true,"devices":300,"lost":300,"boots":0,"backoff":[%s]}\n' "$*" >"$work/made-up"
    if "$(dirname "$0")/check_backoff.pl" --outages "$outages" "$work/made-up" >"$work/judged"; then said=good; else said=bad; fi
    ok "judge: $what" [ $said = "$want" ] || cat "$work/judged"
}
row() { echo "{\"failures\":$1,\"window_ms\":$2,\"count\":$3,$4}"; }
judge "full jitter is good" good 1 "$(row 0 100 300 "$even"),$(row 1 200 300 "$even"),$(row 2 300 300 "$even")"
judge "a pause without jitter" bad 1 "$(row 0 100 300 '"tenths":[0,0,0,0,0,0,0,0,0,300]'),$(row 1 200 300 "$even"),$(row 2 300 300 "$even")"
judge "half of the window is never used" bad 1 "$(row 0 100 300 '"tenths":[0,0,0,0,0,60,60,60,60,60]'),$(row 1 200 300 "$even")"
judge "a window that does not double" bad 1 "$(row 0 100 300 "$even"),$(row 1 100 300 "$even"),$(row 2 200 300 "$even")"
judge "failures that are skipped" bad 1 "$(row 0 100 300 "$even"),$(row 2 400 300 "$even")"
judge "a count that is reset without a connection that lived" bad 1 "$(row 0 100 900 "$even"),$(row 1 200 300 "$even")"
judge "more attempts later than before" bad 1 "$(row 0 100 300 "$even"),$(row 1 200 600 "$even")"
[ "$failed" -eq 0 ] || { echo "$failed failed"; tail -n 1 "$work/out"; exit 1; }
